"""What a lab's ``lab.yaml`` names: the PostgreSQL database of its rows, else they are in ``lab.sqlite``; and where the
files of its trials are kept, else they are in its directory alone.

The labs inside a lab (``WITHIN``) are in the same database, each in a schema of its own, and their files in a folder of
their own. ``?schema=NAME`` keeps several labs in one database.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from leadline.host.paths import cache_dir
from leadline.host.received import sqlite_rows
from leadline.host.textfile import expanded, read_text, write_private
from leadline.model.errors import UsageError, did_you_mean, quoted
from leadline.model.yamltext import Places, load_yaml, plain


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


FILE, SQLITE = "lab.yaml", "lab.sqlite"
SIMULATED, SOAKS = WITHIN = ("simulated", "soaks")  # labs inside a lab: none of their studies is among the real ones
TLS_MODES = ("prefer", "disable", "require", "verify-full")  # as PostgreSQL's sslmode
EXAMPLE = "postgresql://anna@db.example:5432/team"
BUCKET = "s3://bucket/prefix"
_KEY, _ARTEFACTS, _SERVICES = "database", "artefacts", "services"
_BUCKET = re.compile("[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


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


@dataclass(frozen=True)
class ArtefactPlace:
    """Where files are kept: ``prefix`` in the ``bucket`` of an S3-compatible server, else ``folder``. ``endpoint`` and
    ``region``: the server's, empty for those that the environment names; ``source``: as ``Address.source``.
    """

    folder: Path = Path()
    bucket: str = ""
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    source: str = field(default="", compare=False)

    def __str__(self) -> str:
        if not self.bucket:
            return str(self.folder)
        return "/".join(filter(None, (f"s3://{self.bucket}", self.prefix)))

    def within(self, name: str) -> ArtefactPlace:
        """A folder of it, for a lab inside the lab."""
        if not self.bucket:
            return replace(self, folder=self.folder / name)
        return replace(self, prefix="/".join(filter(None, (self.prefix, name))))


def is_lab(directory: Path) -> bool:
    """Whether a lab is there, in whatever state."""
    if any((directory / name).exists() for name in (SQLITE, FILE)):
        return True
    return directory.is_dir() and _outer(directory) is not None


def address_of(directory: Path) -> Address | None:
    """The database of a lab, None where its rows are in its directory. Raises UsageError with file and line."""
    address_ = _read(directory / FILE)[0] if (directory / FILE).exists() else None
    if (directory / SQLITE).exists():
        if address_ is not None:
            raise UsageError(
                f"{directory} has {SQLITE}, and its {FILE} names a database: move away the one whose studies are not"
                " meant"
            )
        return None
    outer = _outer(directory)
    if address_ is not None or outer is None:
        return address_
    address = _read(outer)[0]
    return address and replace(address, schema="_".join(filter(None, (address.schema, directory.name))))


def artefacts_of(directory: Path) -> ArtefactPlace | None:
    """Where the files of a lab's trials are kept, None for its directory alone. Raises UsageError with file and
    line.
    """
    if (directory / FILE).exists():
        return _read(directory / FILE)[1]
    outer = _outer(directory)
    place = None if outer is None else _read(outer)[1]
    return place and place.within(directory.name)


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


def write(directory: Path, url: str | None, artefacts: str | None = None) -> None:
    """Name the database of a lab and the place of its files; nobody else may read the file where the URL has a
    password. Raises OSError.
    """
    path = directory / FILE
    document = {_KEY: url, _ARTEFACTS: artefacts}
    text = "".join(f"{key}: {_scalar(value)}\n" for key, value in document.items() if value is not None)
    if url is None or parse_url(url, "").password is None:
        path.write_text(text, encoding="utf-8")
    else:
        write_private(path, text)


def _scalar(text: str) -> str:
    """A string of YAML, in quotes where it needs them."""
    return text if re.fullmatch(r"[\w/~.][\w/:@?=&%+.~-]*[\w/]", text) else json.dumps(text)


def named(directory: Path) -> tuple[str | None, str | None]:
    """What the lab's file says of its database and of the place of its files, as they are written."""
    if not (directory / FILE).exists():
        return None, None
    document, _ = _tree(directory / FILE)
    return document.get(_KEY), document.get(_ARTEFACTS)


def _tree(path: Path) -> tuple[dict[str, str], Places]:
    tree = load_yaml(read_text(path), str(path))
    places = Places(str(path), tree)
    document = plain(tree, places)
    if not isinstance(document, dict) or not document:
        raise UsageError(f"{path}:1: names no database; write `{_KEY}: {EXAMPLE}`")
    examples = {_KEY: f"a URL such as {EXAMPLE}", _ARTEFACTS: f"a directory or a bucket such as {BUCKET}"}
    for key, value in document.items():
        if key not in examples:
            hint = did_you_mean(key, list(examples)) or f"the keys are {' and '.join(examples)}"
            raise UsageError(f"{places.where((key,))}: unknown key {quoted(key)}; {hint}")
        if not isinstance(value, str):
            raise UsageError(f"{places.where((key,))}: {key} is {quoted(value)}, not {examples[key]}")
    return document, places


def _read(path: Path) -> tuple[Address | None, ArtefactPlace | None]:
    document, places = _tree(path)
    address = parse_url(document[_KEY], places.where((_KEY,))) if _KEY in document else None
    if _ARTEFACTS not in document:
        return address, None
    place = parse_artefacts(document[_ARTEFACTS], path.parent, places.where((_ARTEFACTS,)))
    refuse_own(path.parent, place)
    return address, place


def _absolute(path: Path) -> Path:
    return Path(os.path.normpath(path.absolute()))


def refuse_own(directory: Path, place: ArtefactPlace) -> None:
    """Raises UsageError where a lab would keep its files in its own directory, which it does anyway."""
    if not place.bucket and place.folder == _absolute(directory):
        raise UsageError(f"{place.source}: {directory} is the lab's own directory: name one beside it, or {BUCKET}")


def parse_artefacts(text: str, base: Path, source: str) -> ArtefactPlace:
    """``s3://BUCKET/PREFIX``, then ``?endpoint=URL`` and ``&region=NAME``; or a path, a relative one from ``base``.
    Raises UsageError that begins with ``source`` and shows no credentials.
    """

    def refused(why: str) -> UsageError:
        return UsageError(f"{source}: {why}; write a directory, or a bucket as {BUCKET}")

    if "://" not in text:
        if not text.strip():
            raise refused("the place of the files is empty")
        if re.match("[A-Za-z][A-Za-z0-9]*:", text):
            raise refused(f"{quoted(text)} is neither a bucket nor a directory")
        return ArtefactPlace(folder=_absolute(base / expanded(text)), source=source)
    try:
        parts = urlsplit(text)
        credentials = "@" in parts.netloc
        host = parts.netloc.rpartition("@")[2]
    except ValueError as error:
        raise refused(f"the URL of the files cannot be read: {error}") from None
    if credentials:
        raise refused("credentials do not belong there, they are the environment's (AWS_ACCESS_KEY_ID)")
    if parts.scheme != "s3":
        raise refused(f"the URL of the files begins with {quoted(parts.scheme)}, not with s3://")
    if not _BUCKET.fullmatch(host) or parts.fragment:
        raise refused(f"{quoted(host)} is no name of a bucket" if host else "the URL of the files names no bucket")
    options = _options(parts.query, {"endpoint": "", "region": ""}, lambda why: refused(f"the URL of the files {why}"))
    server = urlsplit(options["endpoint"])
    if options["endpoint"] and (server.scheme not in ("http", "https") or not server.hostname or "@" in server.netloc):
        raise refused("the endpoint is not a URL such as https://s3.example:9000 without credentials")
    prefix = unquote(parts.path).strip("/")
    return ArtefactPlace(Path(), host, prefix, options["endpoint"], options["region"], source)


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
    defaults = {"sslmode": TLS_MODES[0], "schema": ""}
    options = _options(parts.query, defaults, lambda why: refused(f"the database's URL {why}"))
    if options["sslmode"] not in TLS_MODES:
        raise refused(f"sslmode is {quoted(options['sslmode'])}, not one of {', '.join(TLS_MODES)}")
    if options["schema"] and not re.fullmatch("[a-z_][a-z0-9_]{0,49}", options["schema"]):
        raise refused(f"schema is {quoted(options['schema'])}, not at most 50 small letters, digits and underlines")
    user = unquote(parts.username) if parts.username else _me()
    password = None if parts.password is None else unquote(parts.password)
    host, tls, schema = parts.hostname, options["sslmode"], options["schema"]
    return Address(user, host, port or 5432, name, password, tls, schema, source)


def _options(query: str, defaults: Mapping[str, str], refused: Callable[[str], UsageError]) -> dict[str, str]:
    """What follows ``?`` in a URL, over the defaults. Raises ``refused`` for an option that is not among them."""
    options = dict(defaults)
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in options:
            hint = did_you_mean(key, list(options)) or f"there are {' and '.join(options)}"
            raise refused(f"has the option {quoted(key)}: {hint}")
        options[key] = value
    return options


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
        if len(fields) == len(wanted) and all(
            pattern in ("*", want) for pattern, want in zip(fields, wanted, strict=True)
        ):
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
