"""Where the rows of a lab are: in its ``lab.sqlite``, or in the PostgreSQL database that its ``lab.yaml`` names.

The labs inside a lab (``WITHIN``) are in the same database, each in a schema of its own. ``?schema=NAME`` keeps several
labs in one database.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from leadline.host.paths import cache_dir
from leadline.host.textfile import read_text, write_private
from leadline.lab.yamltree import Places, plain
from leadline.model.errors import UsageError, nearest, quoted
from leadline.model.yamltext import load_yaml

FILE, SQLITE = "lab.yaml", "lab.sqlite"
SIMULATED, SOAKS = WITHIN = ("simulated", "soaks")  # labs inside a lab: none of their studies is among the real ones
TLS_MODES = ("prefer", "disable", "require", "verify-full")  # as PostgreSQL's sslmode
EXAMPLE = "postgresql://anna@db.example:5432/team"
_KEY, _SERVICES = "database", "services"


@dataclass(frozen=True)
class Address:
    """Of a lab's database. ``password``: the URL's, or None; ``schema``: of its tables, empty for the user's own;
    ``source``: what named it, such as ``/srv/labs/team/lab.yaml:1``.
    """

    user: str
    host: str
    port: int
    database: str
    password: str | None = field(default=None, repr=False)
    tls: str = TLS_MODES[0]
    schema: str = ""
    source: str = field(default="", compare=False)

    def __str__(self) -> str:
        """Without the password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        schema = f"?schema={self.schema}" if self.schema else ""
        return f"postgresql://{self.user}@{host}:{self.port}/{self.database}{schema}"

    def secret(self) -> str | None:
        """The password: the URL's, else ``PGPASSWORD``, else that of the file ``PGPASSFILE`` or ``~/.pgpass``; None for
        none. Raises UsageError for a file that others may read.
        """
        return self.password or os.environ.get("PGPASSWORD") or _from_file(self)


def is_lab(directory: Path) -> bool:
    """Whether a lab is there, in whatever state."""
    if any((directory / name).exists() for name in (SQLITE, FILE)):
        return True
    return directory.is_dir() and _outer(directory) is not None


def address_of(directory: Path) -> Address | None:
    """The database of a lab, None where its rows are in its directory. Raises UsageError with file and line."""
    if (directory / SQLITE).exists():
        if (directory / FILE).exists():
            raise UsageError(f"{directory} has both {SQLITE} and {FILE}: move away the one whose studies are not meant")
        return None
    if (directory / FILE).exists():
        return _read(directory / FILE)
    outer = _outer(directory)
    if outer is None:
        return None
    address = _read(outer)
    return replace(address, schema="_".join(filter(None, (address.schema, directory.name))))


def services_of(directory: Path) -> Path:
    """Where a lab's servers and databases are installed: in the lab; if machines share it, in the cache of each, as two
    would start the same server on the same files, and data belong on a disk of the machine.
    """
    directory = directory.absolute()
    address = address_of(directory)
    if address is None:
        return directory / _SERVICES
    return cache_dir() / _SERVICES / hashlib.sha256(f"{address} {directory}".encode()).hexdigest()[:12]


def _outer(directory: Path) -> Path | None:
    """The file of the lab that ``directory`` is a lab inside of."""
    file = directory.parent / FILE
    return file if directory.name in WITHIN and file.exists() else None


def write(directory: Path, url: str) -> None:
    """Name the database of a lab; nobody else may read the file where the URL has a password. Raises OSError."""
    path, text = directory / FILE, f"{_KEY}: {url}\n"
    if parse_url(url, "").password is None:
        path.write_text(text, encoding="utf-8")
    else:
        write_private(path, text)


def _read(path: Path) -> Address:
    tree = load_yaml(read_text(path), str(path))
    places = Places(str(path), tree)
    told = plain(tree, places)
    if not isinstance(told, dict) or not told:
        raise UsageError(f"{path}:1: names no database; write `{_KEY}: {EXAMPLE}`")
    for key in told:
        if key != _KEY:
            hint = f"did you mean {_KEY}?" if nearest(key, [_KEY]) else f"the only key is {_KEY}"
            raise UsageError(f"{places.where((key,))}: unknown key {quoted(key)}; {hint}")
    place = places.where((_KEY,))
    if not isinstance(told[_KEY], str):
        raise UsageError(f"{place}: {_KEY} is {quoted(told[_KEY])}, not a URL such as {EXAMPLE}")
    return parse_url(told[_KEY], place)


def parse_url(url: str, source: str) -> Address:
    """``postgresql://USER@HOST:PORT/NAME``, then ``?sslmode=`` of ``TLS_MODES`` and ``&schema=``. User: that of this
    process, port: 5432 where they are absent. Raises UsageError that begins with ``source`` and shows no password.
    """

    def refused(why: str) -> UsageError:
        return UsageError(f"{source}: {why}; write it as {EXAMPLE}")

    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise refused(f"the database's URL cannot be read: {str(error).split(' as ')[0]}") from None
    if parts.scheme not in ("postgresql", "postgres"):
        kind = quoted(parts.scheme) if "://" in url else "nothing"
        raise refused(f"the database's URL begins with {kind}, not with postgresql://")
    name = unquote(parts.path.removeprefix("/"))
    if not parts.hostname or not name or "/" in name or parts.fragment:
        raise refused(f"the database's URL has no {'host' if not parts.hostname else 'name of one database'}")
    given = {"sslmode": TLS_MODES[0], "schema": ""}
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key not in given:
            near = nearest(key, list(given))
            hint = f"did you mean {near}?" if near else f"there are {' and '.join(given)}"
            raise refused(f"the database's URL has the option {quoted(key)}: {hint}")
        given[key] = value
    if given["sslmode"] not in TLS_MODES:
        raise refused(f"sslmode is {quoted(given['sslmode'])}, not one of {', '.join(TLS_MODES)}")
    if given["schema"] and not re.fullmatch("[a-z_][a-z0-9_]{0,49}", given["schema"]):
        raise refused(f"schema is {quoted(given['schema'])}, not at most 50 small letters, digits and underlines")
    user = unquote(parts.username) if parts.username else _me()
    password = None if parts.password is None else unquote(parts.password)
    host, tls, schema = parts.hostname, given["sslmode"], given["schema"]
    return Address(user, host, port or 5432, name, password, tls, schema, source)


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no name for this number
        return "postgres"


def _from_file(address: Address) -> str | None:
    """As PostgreSQL's own programs read it: the first line that fits."""
    path = Path(os.environ.get("PGPASSFILE") or Path.home() / ".pgpass")
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise UsageError(f"{path} may be read by others, so it is not used: chmod 600 {path}")
    except OSError:
        return None
    wanted = (address.host, str(address.port), address.database, address.user)
    for line in read_text(path).splitlines():
        *fields, password = [*_fields(line), ""][:5] if not line.startswith("#") else [""]
        if len(fields) == len(wanted) and all(told in ("*", want) for told, want in zip(fields, wanted, strict=True)):
            return password
    return None


def _fields(line: str) -> Iterator[str]:
    """Between colons; a backslash makes what follows a part of the field."""
    current, escaped = "", False
    for letter in line:
        if escaped or letter not in "\\:":
            current, escaped = current + letter, False
        elif letter == "\\":
            escaped = True
        else:
            yield current
            current = ""
    yield current
