"""Modules of a kernel: plain files with their dependencies, in the order in which they are to be loaded.

What a module needs stands in itself (``.modinfo``, kernel/module): ``depends`` and ``softdep``. So no depmod is needed.
"""

from __future__ import annotations

import gzip
import lzma
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from leadline.host import here
from leadline.model.errors import LeadlineError, UsageError

_LIMIT = 300.0  # seconds for one module
_FIELD = re.compile(rb"(?:^|(?<=\0))(depends|softdep|alias)=([^\0]*)(?=\0)")


def unpack_modules(modules: Path) -> None:
    """Unpack ``.ko.xz``, ``.ko.gz`` and ``.ko.zst`` in place and write ``modules.dep`` and ``modules.softdep``
    (modules.dep(5)).

    Raises LeadlineError for one that is damaged or cannot be unpacked here, OSError.
    """
    packed = [path for path in modules.rglob("*.ko.*") if path.suffix in _UNPACKERS]
    with ThreadPoolExecutor(here.cpu_count()) as pool:
        list(pool.map(_unpack, packed))
    files = _files(modules)
    fields = {name: _FIELD.findall(path.read_bytes()) for name, path in files.items()}
    aliases: dict[str, str] = {}
    for name, rows in fields.items():
        for key, value in rows:
            if key == b"alias" and "generic" in name:  # others may want a processor that the guest has not
                aliases[value.decode()] = name
    lines, softly = [], []
    hard = {
        name: [_plain(word) for word in _value(rows, b"depends").split(",") if word] for name, rows in fields.items()
    }
    for name, path in files.items():
        order = [files[needed] for needed in _order([name], hard) if needed in files and needed != name]
        lines.append(
            f"{path.relative_to(modules)}:{''.join(f' {one.relative_to(modules)}' for one in reversed(order))}\n"
        )
        words = _value(fields[name], b"softdep").partition("pre:")[2].partition("post:")[0].split()
        before = [aliases.get(word, _plain(word)) for word in words]
        if before := [needed for needed in before if needed in files]:
            softly.append(f"softdep {name} pre: {' '.join(before)}\n")
    (modules / "modules.dep").write_text("".join(lines))
    (modules / "modules.softdep").write_text("".join(softly))


def load_order(modules: Path, names: Iterable[str]) -> list[Path]:
    """Files to load one after the other so that ``names`` are there, their dependencies first; what is built in is left
    out. Raises UsageError for a module that this kernel does not have.
    """
    files = _files(modules)
    built_in = {_plain(Path(line).stem) for line in _lines(modules / "modules.builtin")}
    needs: dict[str, list[str]] = {}
    for line in _lines(modules / "modules.dep"):
        file, _, rest = line.partition(":")
        needs[_plain(Path(file).stem)] = [_plain(Path(needed).stem) for needed in reversed(rest.split())]
    for line in _lines(modules / "modules.softdep"):
        _, name, _, *before = line.split()
        needs[name] = [*needs[name], *before]
    wanted = [_plain(name) for name in names]
    for name in wanted:
        if name not in files and name not in built_in:
            raise UsageError(f"kernel {modules.name} has no driver {name}, neither as a module nor built in")
    return [files[name] for name in _order(wanted, needs) if name in files]


def _files(modules: Path) -> dict[str, Path]:
    return {_plain(path.stem): path for path in sorted(modules.rglob("*.ko"))}


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _plain(name: str) -> str:
    """As the kernel calls a module."""
    return name.strip().replace("-", "_")


def _value(rows: Iterable[tuple[bytes, bytes]], key: bytes) -> str:
    return " ".join(value.decode() for name, value in rows if name == key)


def _order(names: Iterable[str], needs: Mapping[str, Iterable[str]]) -> list[str]:
    """Depth first, each once."""
    done: dict[str, None] = {}

    def visit(name: str, above: frozenset[str]) -> None:
        if name in done or name in above:
            return
        for needed in needs.get(name, ()):
            visit(needed, above | {name})
        done[name] = None

    for name in names:
        visit(name, frozenset())
    return list(done)


def _zstd(data: bytes) -> bytes:
    if shutil.which("zstd") is None:
        raise LeadlineError("this kernel's modules are packed with zstd, which is not on this machine: install zstd")
    done = here.exchange(["zstd", "-dcq"], data, timeout=_LIMIT)
    if done.returncode:
        raise ValueError(done.stderr.decode(errors="replace").strip())
    return done.stdout


_UNPACKERS: Mapping[str, Callable[[bytes], bytes]] = {".xz": lzma.decompress, ".gz": gzip.decompress, ".zst": _zstd}


def _unpack(path: Path) -> None:
    try:
        path.with_suffix("").write_bytes(_UNPACKERS[path.suffix](path.read_bytes()))
    except (lzma.LZMAError, EOFError, ValueError, gzip.BadGzipFile, zlib.error) as error:
        raise LeadlineError(f"{path.name} is damaged: {error}") from error
    path.unlink()
