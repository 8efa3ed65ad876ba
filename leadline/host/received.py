"""Files and archives that another host or program made: regular files below one directory, no links, within bounds.

Names are followed one by one from the directory's handle, so nothing that is written there meanwhile leads out of it.
"""

from __future__ import annotations

import io
import os
import stat
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from leadline.model import received
from leadline.model.errors import quoted
from leadline.model.received import MOST_BYTES, ReceivedError

if TYPE_CHECKING:
    import zipfile

    import polars as pl

_BLOCK = 512
_CHUNK = 1 << 20
_LONGEST_NAME, _LONGEST_PART = 1024, 255  # bytes
_LONGEST_HEADER = 1 << 16  # of a name or of attributes that lie before a file
_MOST_TABLE = 1 << 30  # bytes
_PADDING = 1 << 20  # after the last file
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_STEPS = 10_000  # of a million instructions of SQLite's each, of one query
_STANDARD_ERROR = threading.Lock()
_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class Bounds:
    """Of what one archive or directory holds."""

    files: int = 200_000
    bytes: int = 64 << 30
    depth: int = 16


BOUNDS = Bounds()


# files -------------------------------------------------------------------------------------------------------------


def read(path: Path, most: int = MOST_BYTES) -> bytes:
    """A regular file of at most so many bytes. Raises FileNotFoundError, ReceivedError."""
    with opened(path) as file:
        is_larger = os.fstat(file.fileno()).st_size > most
        data = b"" if is_larger else file.read(most + 1)
    if is_larger or len(data) > most:
        raise ReceivedError(str(path), f"it has more than {most:,} bytes")
    return data


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A regular file, open for reading. Raises FileNotFoundError, ReceivedError for a link or anything else."""
    try:
        handle = os.open(path, _OLD)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise ReceivedError(str(path), getattr(error, "strerror", None) or str(error)) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ReceivedError(str(path), "it is no regular file")
    with os.fdopen(handle, "rb") as file:
        yield file


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """As ``read``; what is no UTF-8 becomes replacement characters."""
    return read(path, most).decode("utf-8", errors="replace")


def json_file(path: Path, most: int = MOST_BYTES) -> Any:
    """A JSON document (``leadline.model.received.json_value``)."""
    return received.json_value(read(path, most), str(path), most)


def json_object_file(path: Path, most: int = MOST_BYTES) -> dict[str, Any]:
    return received.json_object(read(path, most), str(path), most)


def json_file_as(kind: type[_Kind], path: Path, most: int = MOST_BYTES) -> _Kind:
    """A JSON document as a value of a kind."""
    return received.json_as(kind, read(path, most), str(path), most)


def table_file(path: Path, columns: Sequence[str] = (), most: int = received.MOST_ROWS) -> Iterator[dict[str, str]]:
    """Rows of a CSV file (``leadline.model.received.table``)."""
    with _as_text(path) as text:
        yield from received.table(_lines(text), str(path), columns, most)


def lines_of(path: Path) -> Iterator[str]:
    """Lines of a text file with their ends, what is no UTF-8 replaced. Raises FileNotFoundError, ReceivedError, also
    for a line that is too long.
    """
    with _as_text(path) as text:
        for line in _lines(text):
            if len(line) > received.LONGEST_FIELD:
                raise ReceivedError(str(path), f"a line has more than {received.LONGEST_FIELD:,} characters")
            yield line


def end_of(path: Path, most: int = MOST_BYTES) -> str:
    """The last bytes of a file as text. Raises FileNotFoundError, ReceivedError."""
    with opened(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read(most).decode("utf-8", errors="replace")


@contextmanager
def _as_text(path: Path) -> Iterator[io.TextIOWrapper]:
    with opened(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="") as text:
        yield text


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(received.LONGEST_FIELD + 1):
        yield line


def sqlite_rows(path: Path, query: str, width: int) -> Iterator[Sequence[object]]:
    """Rows of so many columns that a query gives in an SQLite file. Raises FileNotFoundError, ReceivedError."""
    import sqlite3

    with opened(path):
        pass  # a regular file
    rows = 0
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, received.LONGEST_FIELD)
            connection.execute("PRAGMA trusted_schema = OFF")
            steps = iter(range(_STEPS))
            connection.set_progress_handler(lambda: next(steps, None) is None, 1_000_000)
            for row in connection.execute(query):
                if (rows := rows + 1) > received.MOST_ROWS or len(row) != width:
                    raise ReceivedError(str(path), f"it has more than {received.MOST_ROWS:,} rows")
                yield row
    except (sqlite3.Error, ValueError) as error:
        raise ReceivedError(str(path), str(error)) from error


@contextmanager
def zipped(file: Path | IO[bytes], what: str) -> Iterator[zipfile.ZipFile]:
    """A zip archive whose damage, also met in the body, is a ReceivedError. Raises FileNotFoundError."""
    import lzma
    import zipfile

    damage = (zipfile.BadZipFile, EOFError, RuntimeError, lzma.LZMAError)  # a RuntimeError: it needs a password
    try:
        with received.reading(what), zipfile.ZipFile(file) as archive:
            yield archive
    except damage as error:
        raise ReceivedError(what, str(error)) from error


def member(archive: zipfile.ZipFile, name: str, most: int = MOST_BYTES) -> bytes:
    """A file in a zip archive. Raises KeyError, ValueError for more bytes."""
    with archive.open(name) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{quoted(name)} in it has more than {most:,} bytes")
    return data


def parquet_file(path: Path, schema: Mapping[str, Any] | None, *where: pl.Expr) -> pl.DataFrame:
    """Columns of a Parquet file by their types (None: all of them), of the rows for which all of ``where`` hold. Raises
    FileNotFoundError, ReceivedError.
    """
    import polars as pl

    data = read(path, _MOST_TABLE)
    with _polars(path):
        rows = pl.scan_parquet(io.BytesIO(data))
        if (count := rows.select(pl.len()).collect().item()) > received.MOST_ROWS:
            raise ValueError(f"it has {count:,} rows; {received.MOST_ROWS:,} are read")
        columns = pl.all() if schema is None else [pl.col(name).cast(kind) for name, kind in schema.items()]
        return rows.filter(*where).select(columns).collect()


def csv_file(path: Path, schema: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """Whole lines of a CSV file with a head, by the types of its columns (None: texts). Raises FileNotFoundError,
    ReceivedError.
    """
    import polars as pl

    data = read(path, _MOST_TABLE)
    with _polars(path):
        whole = data[: data.rfind(b"\n") + 1]
        if whole.count(b"\n") <= 1 and schema is not None:
            return pl.DataFrame(schema=schema)
        frame = pl.read_csv(whole, schema=schema, infer_schema=schema is not None)
        numbers = frame.select(pl.selectors.float()) if schema is not None else pl.DataFrame()
        if not all(column.is_finite().all() for column in numbers):
            raise ValueError("a number is not finite")
        return frame


@contextmanager
def _polars(path: Path) -> Iterator[None]:
    """What a damaged table raises, its library's own faults too, as ReceivedError. The words of such a fault, which go
    to standard error by themselves, are left out; what others write there meanwhile comes after the body.
    """
    import polars as pl

    with _STANDARD_ERROR, open(os.memfd_create("stderr"), "rb") as words:  # noqa: PTH123 - a file that is open already
        before = os.dup(2)
        os.dup2(words.fileno(), 2)
        is_fault = False
        try:
            yield
        except (ValueError, TypeError, MemoryError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            is_fault = isinstance(error, pl.exceptions.PanicException)
            raise ReceivedError(str(path), "it is no table" if is_fault else str(error)) from error
        finally:
            os.dup2(before, 2)
            os.close(before)
            words.seek(0)
            if not is_fault and (others := words.read()):
                os.write(2, others)


# directories -------------------------------------------------------------------------------------------------------


def parts_of(name: str, depth: int = BOUNDS.depth) -> tuple[str, ...]:
    """The words of a relative path that leads out of nothing. Raises ValueError."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if name.startswith("/") or ".." in parts or not name.isprintable() or "\\" in name:
        raise ValueError(f"{quoted(name)} is no path below a directory")
    if len(parts) > depth or len(name.encode()) > _LONGEST_NAME or any(len(p.encode()) > _LONGEST_PART for p in parts):
        raise ValueError(f"the path {quoted(name)} is too long")
    return parts


@contextmanager
def beneath(directory: Path, name: str, make: bool = False) -> Iterator[IO[bytes]]:
    """A regular file below a directory, no link on the way: open for reading, or a new one for writing, its
    directories made. Raises OSError, ValueError.
    """
    *folders, last = parts_of(name) or ("",)
    handle = _entered(directory, folders, make)
    try:
        file = os.open(last, _NEW if make else _OLD, 0o600, dir_fd=handle)
    finally:
        os.close(handle)
    with os.fdopen(file, "wb" if make else "rb") as stream:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError(f"{quoted(name)} is no regular file")
        yield stream


def _entered(directory: Path, folders: Sequence[str], make: bool) -> int:
    """The handle of a folder below a directory."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for folder in folders:
        try:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(folder, 0o700, dir_fd=handle)
            inner = os.open(folder, _DIRECTORY, dir_fd=handle)
        finally:
            os.close(handle)
        handle = inner
    return handle


# archives ----------------------------------------------------------------------------------------------------------


def packed(files: Mapping[str, Path]) -> bytes:
    """A tar archive of files by their names in it."""
    target = io.BytesIO()
    pack(files, target)
    return target.getvalue()


def pack(files: Mapping[str, Path], target: IO[bytes]) -> None:
    """Write a tar archive of regular files by their names in it."""
    import tarfile

    with tarfile.open(fileobj=target, mode="w|") as archive:
        for name, path in files.items():
            archive.add(path, arcname=name, recursive=False)


def below(directory: Path, links: bool = False) -> dict[str, Path]:
    """The directories and regular files below a directory by their names there, for an archive. ``links``: symbolic
    ones, too, which whoever unpacks it has to trust.
    """
    every = sorted(directory.rglob("*"))
    paths = (path for path in every if (links if path.is_symlink() else path.is_dir() or path.is_file()))
    return {str(path.relative_to(directory)): path for path in paths}


def unpack(stream: IO[bytes], into: Path, what: str, bounds: Bounds = BOUNDS, *, passes_over: bool = False) -> None:
    """Write the files of a tar archive below a directory, as this user's and nobody else's to read. Links and devices
    are refused; where it ``passes_over`` them they are left out. Raises ReceivedError, OSError of the disk here.
    """
    into.mkdir(parents=True, exist_ok=True)
    archive = _Archive(stream, bounds)
    while True:
        with received.reading(what):
            member = archive.next()
        if member is None:
            return
        name, size, kind = member
        with received.reading(what):
            parts = parts_of(name, bounds.depth)
            if kind not in "05" and not passes_over:
                raise ValueError(f"{quoted(name)} is a link or a device")
        if kind == "5":
            os.close(_entered(into, parts, make=True))
        elif kind == "0" and parts:
            try:
                with beneath(into, name, make=True) as file, received.reading(what):
                    for chunk in archive.content(size):
                        file.write(chunk)
            except (FileExistsError, NotADirectoryError):
                raise ReceivedError(what, f"{quoted(name)} is there twice") from None
            continue
        with received.reading(what):
            for _ in archive.content(size):
                pass


class _Archive:
    """A tar archive read member by member, pax(1) and GNU's long names understood; an empty stream has none. Its
    methods raise ValueError.
    """

    def __init__(self, stream: IO[bytes], bounds: Bounds) -> None:
        self._stream = stream
        self._bounds = bounds
        self._begun = False
        self._members = self._bytes = 0

    def next(self) -> tuple[str, int, str] | None:
        """Name, bytes and kind (0 a file, 5 a directory) of the next member; None at the end."""
        long_name = long_size = None
        for _ in range(4):  # a global header, attributes, a long name, the member
            header = self._read(_BLOCK, or_nothing=not self._begun)
            self._begun = True
            if not any(header):
                self._to_the_end()
                return None
            size, kind = self._checked(header)
            if kind == "L":
                long_name = _text(self._small(size).partition(b"\0")[0])
            elif kind in "xg":
                attributes = dict(_attributes(self._small(size)))
                if kind == "x":
                    long_name, long_size = attributes.get("path", long_name), attributes.get("size")
            else:
                self._members += 1
                if self._members > self._bounds.files:
                    raise ValueError(f"it has more than {self._bounds.files:,} files")
                name = _text(header[:100].partition(b"\0")[0])
                prefix = _text(header[345:500].partition(b"\0")[0]) if header[257:263] == b"ustar\0" else ""
                whole = f"{prefix}/{name}" if prefix else name
                return long_name or whole, size if long_size is None else int(long_size[:20]), kind
        raise ValueError("a file has too many headers")

    def content(self, size: int) -> Iterator[bytes]:
        """The bytes of the member that came last."""
        self._bytes += size
        if size < 0 or self._bytes > self._bounds.bytes:
            raise ValueError(f"it has more than {self._bounds.bytes:,} bytes")
        remaining = size
        while remaining:
            chunk = self._read(min(remaining, _CHUNK))
            remaining -= len(chunk)
            yield chunk
        self._read(-size % _BLOCK)

    def _checked(self, header: bytes) -> tuple[int, str]:
        total = sum(header) - sum(header[148:156]) + 8 * ord(" ")
        if _octal(header[148:156]) != total:
            raise ValueError("a header has another checksum than it says")
        return _octal(header[124:136]), header[156:157].decode("latin-1").replace("\0", "0").replace("7", "0")

    def _small(self, size: int) -> bytes:
        if not 0 <= size <= _LONGEST_HEADER:
            raise ValueError(f"a header has {size:,} bytes")
        return b"".join(self.content(size))

    def _read(self, size: int, or_nothing: bool = False) -> bytes:
        parts, remaining = [], size
        while remaining and (part := self._stream.read(remaining)):
            parts.append(part)
            remaining -= len(part)
        if remaining and (parts or not or_nothing):
            raise ValueError("it ends early")
        return b"".join(parts)

    def _to_the_end(self) -> None:
        """What pads an archive is read, so that its writer ends in order."""
        remaining = _PADDING
        while part := self._stream.read(_BLOCK):
            remaining -= len(part)
            if remaining < 0:
                raise ValueError("it does not end after its end")


def _octal(field: bytes) -> int:
    digits = field.strip(b" \0")
    if not digits.isdigit():
        raise ValueError("a header has no number where one belongs")
    return int(digits, 8)


def _text(name: bytes) -> str:
    return name.decode("utf-8")


def _attributes(data: bytes) -> Iterator[tuple[str, str]]:
    """Records ``LENGTH KEY=VALUE`` of pax(1)."""
    at = 0
    while at < len(data):
        length = data[at : at + 8].partition(b" ")[0]
        if not length.isdigit() or not 5 <= int(length) <= len(data) - at:
            raise ValueError("attributes of a file have a wrong length")
        key, _, value = data[at + len(length) + 1 : at + int(length) - 1].partition(b"=")
        if key.startswith(b"GNU.sparse"):
            raise ValueError("a sparse file is not read")
        if key in (b"path", b"size"):
            yield key.decode(), value.decode("utf-8")
        at += int(length)
