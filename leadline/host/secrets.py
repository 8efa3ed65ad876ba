"""Secrets that this process knows: whatever it stores, logs or prints has asterisks in their place."""

from __future__ import annotations

import json
import os
import re
from html import escape
from pathlib import Path
from urllib.parse import quote, quote_plus

SHORTEST = 4  # characters: a shorter word would be found everywhere
_CHUNK = 1 << 22  # bytes of a file at a time
_known: set[str] = set()


def hide(secret: str) -> None:
    """From now on, also as JSON, addresses and markup write it."""
    if len(secret) >= SHORTEST:
        in_json = (json.dumps(secret, ensure_ascii=ascii_)[1:-1] for ascii_ in (True, False))
        _known.update((secret, *in_json, quote(secret, safe=""), quote_plus(secret), escape(secret)))


def redacted(text: str) -> str:
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, "*" * len(secret))
    return text


def redact_file(path: Path) -> None:
    """In its place, bytes for bytes: what another program wrote stays readable to it. Raises OSError."""
    if not _known:
        return
    pattern = re.compile(b"|".join(re.escape(encoding) for encoding in sorted(_encodings(), key=len, reverse=True)))
    longest = max(map(len, _encodings()))
    with os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "r+b") as file:
        at = 0
        while part := os.pread(file.fileno(), _CHUNK + longest, at):
            for match in pattern.finditer(part):
                os.pwrite(file.fileno(), b"*" * len(match[0]), at + match.start())
            at += _CHUNK


def _encodings() -> set[bytes]:
    """Also as a JVM's recording has a text of its own."""
    return {secret.encode(encoding) for secret in _known for encoding in ("utf-8", "utf-16-le", "utf-16-be")}
