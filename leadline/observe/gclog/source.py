"""Lines of a file that may be compressed, none longer than a bound."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO, cast

from leadline.model.errors import UsageError

STANDARD_INPUT = Path("-")
LONGEST = 1 << 15  # characters of a line; one of the collector's has some hundreds
_OVERLONG = "(a line that is too long)\n"
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


def lines_of(path: Path, broken: list[str]) -> Iterator[str]:
    """Lines with their ends; what cannot be decoded becomes U+FFFD, a line over ``LONGEST`` a few words.

    ``broken`` is told of these and of a compressed file that ends early or is damaged. Raises UsageError when nothing
    of the file can be read.
    """
    with nullcontext(sys.stdin.buffer) if path == STANDARD_INPUT else path.open("rb") as file:
        plain = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))
        begins = plain.peek(8)[:8]
        source, kind = _unpacked(plain, begins, path)
        wide = begins[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        encoding = "utf-16" if wide else "utf-8-sig" if begins[:3] == codecs.BOM_UTF8 else "utf-8"
        reader = io.TextIOWrapper(source, encoding=encoding, errors="replace", newline="\n")
        number = overlong = 0
        try:
            while text := reader.readline(LONGEST):
                number += 1
                if len(text) < LONGEST or text[-1] == "\n":
                    yield text
                    continue
                while (text := reader.readline(LONGEST)) and text[-1] != "\n":
                    pass
                overlong += 1
                yield _OVERLONG
        except (*_DAMAGE, OSError) as error:
            if not kind or (isinstance(error, OSError) and error.errno):
                raise
            if not number:
                raise UsageError(f"{path}: damaged {kind} file: {error}") from error
            how = "is cut" if isinstance(error, EOFError) else f"is damaged ({error})"
            broken.append(f"{path.name}: the compressed file {how}; what comes before was read")
        if overlong:
            lines = "1 line has" if overlong == 1 else f"{overlong} lines have"
            broken.append(f"{path.name}: {lines} more than {LONGEST} characters and counted as not understood")


def _unpacked(plain: io.BufferedReader, begins: bytes, path: Path) -> tuple[BinaryIO, str]:
    """The bytes inside, and the kind of compression or nothing."""
    if begins.startswith(b"\x1f\x8b"):
        return cast(BinaryIO, gzip.GzipFile(fileobj=plain)), "gzip"
    if begins.startswith(b"BZh"):
        return cast(BinaryIO, bz2.BZ2File(plain)), "bzip2"
    if begins.startswith(b"\xfd7zXZ"):
        return cast(BinaryIO, lzma.LZMAFile(plain)), "xz"
    if begins.startswith(_ZSTANDARD):
        raise UsageError(f"{path}: zstd is not unpacked here: zstd -dc {path} | leadline gc -")
    return plain, ""
