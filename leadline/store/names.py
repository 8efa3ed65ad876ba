"""Names of a lab's studies for completion, read without the libraries of the lab, which take seconds to load."""

from __future__ import annotations

from pathlib import Path

from leadline.host.received import sqlite_rows
from leadline.store.labfile import FILE, SQLITE, address_of


def names_in(lab: Path) -> list[str]:
    """Of a lab's studies, newest last; none without a lab. Raises ReceivedError, UsageError, what pg8000 raises."""
    if (lab / SQLITE).is_file():
        rows = sqlite_rows(lab / SQLITE, "SELECT name FROM studies ORDER BY id", 1)
        return list(dict.fromkeys(str(name) for (name,) in rows))
    return _names_on_server(lab) if (lab / FILE).is_file() else []


def _names_on_server(lab: Path) -> list[str]:
    """Of a lab whose rows are in PostgreSQL, newest last. Raises UsageError, what pg8000 raises."""
    from pg8000.native import Connection

    address = address_of(lab)
    if address is None:
        return []
    connection = Connection(
        address.user,
        address.host,
        address.database,
        address.port,
        address.secret() or "",
        timeout=2,
        startup_params={"search_path": address.schema} if address.schema else {},
    )
    try:
        rows = connection.run("SELECT name FROM studies ORDER BY id")
    finally:
        connection.close()
    return list(dict.fromkeys(str(name) for (name,) in rows or ()))
