"""What makes an empty MariaDB: the system tables of its distribution, one user with a password, one database."""

from __future__ import annotations

from pathlib import Path

USER = "leadline"
DATABASE = "leadline"
_TABLES = ("mariadb_system_tables.sql", "mariadb_performance_tables.sql", "mariadb_system_tables_data.sql")
_ALL_PRIVILEGES = 2**64 - 1


def script(share: Path, password: str) -> str:
    """Statements for ``mariadbd --bootstrap``, as its own ``mariadb-install-db`` gives them, each on one line.

    Text compares byte by byte, as PostgreSQL's does in the locale ``C``. No other user can log in.
    ``password`` is safe for a URL (no quotes).
    """
    login = (
        f"JSON_OBJECT('access', {_ALL_PRIVILEGES}, 'plugin', 'mysql_native_password',"
        f" 'authentication_string', PASSWORD('{password}'))"
    )
    return "\n".join(
        [
            "CREATE DATABASE mysql;",
            "USE mysql;",
            "SET @auth_root_socket = NULL;",
            *((share / name).read_text() for name in _TABLES),
            "DELETE FROM global_priv WHERE User <> 'mariadb.sys';",
            "DELETE FROM proxies_priv;",
            f"INSERT INTO global_priv VALUES ('127.0.0.1', '{USER}', {login});",
            f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;",
            "",
        ]
    )
