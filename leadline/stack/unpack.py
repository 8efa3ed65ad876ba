"""Unpacking archives with their run bits, refusing entries that leave the directory."""

from __future__ import annotations

import lzma
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path


class UnpackError(Exception):
    """The archive is damaged or unsafe."""


def unpack_zip(archive: Path, target: Path) -> None:
    """Unpack into ``target`` with the permissions recorded by Unix zip programs; ``bin/*.sh`` always runs.

    Raises UnpackError for damage or an entry outside ``target``, OSError when it cannot be written.
    """
    try:
        with zipfile.ZipFile(archive) as source:
            for entry in source.infolist():
                _inside(target, entry.filename)
                path = Path(source.extract(entry, target))
                mode = stat.S_IMODE(entry.external_attr >> 16)
                if path.is_file():
                    script = path.parent.name == "bin" and path.suffix == ".sh"
                    path.chmod((mode | 0o600 if mode else 0o644) | (0o111 if script else 0))
    except (zipfile.BadZipFile, EOFError, lzma.LZMAError, zlib.error) as error:
        raise UnpackError(str(error)) from error


def unpack_txz_in_jar(archive: Path, target: Path) -> None:
    """Unpack the one ``.txz`` inside a jar into ``target``.

    Raises UnpackError for damage, no or several ``.txz``, OSError when it cannot be written.
    """
    try:
        with zipfile.ZipFile(archive) as jar:
            names = [name for name in jar.namelist() if name.endswith(".txz")]
            if len(names) != 1:
                raise UnpackError(f"{archive.name} holds {len(names)} .txz archives, expected one")
            with jar.open(names[0]) as stream, tarfile.open(fileobj=stream, mode="r|xz") as tar:
                if hasattr(tarfile, "data_filter"):  # absent before Python 3.11.4
                    tar.extraction_filter = tarfile.data_filter
                tar.extractall(target)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise UnpackError(str(error)) from error


def _inside(target: Path, name: str) -> None:
    if not (target / name).resolve().is_relative_to(target.resolve()):
        raise UnpackError(f"entry {name} leaves the directory")
