"""Mutations of seed files: of their lines, values and brackets, and now and then of their bytes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

VALUES = (
    *("-1", "0", "1", "2", "-0", "1e12", "1e308", "1e999", "-.inf", ".inf", ".nan", "nan", "inf", "null", "~", "true"),
    *("[]", "{}", "[", "{", "]", "}", "[[]]", "{a: 1}", "[1, a]", "''", '""', '"', "'", "''''", "|", ">", "- ", "? "),
    *("9" * 20, "9" * 400, "9" * 5000, "0x" + "f" * 5000, "1_000", "0o17", "1:30:00", "2026-99-99", "2026-01-01"),
    *("-30s", "0s", "1ns", "30", "1e9s", "9999d", "10m10m", "1h30m", "1.5.5s", "5 parsecs", "." * 50 + "s", "1" * 70),
    *("-512m", "0", "1k", "64t", "9999999t", "0.5g", "512m", "0.0000001g", "100%", "101%", "-1%", "%", "0.1%"),
    *("99", "0-1", "1-0", "0,0", "0-99999999", "a-b", "0,,1", ",", "-", "65536", "4294967296", "18446744073709551616"),
    *("/etc/passwd", "/dev/zero", "/proc/self/mem", "/", ".", "..", "~nobody-here", "~", "x" * 300, "x" * 20_000),
    *("*a", "&a 1", "&a [*a]", "<<: *self", "!!python/object:os.system x", "!foo 1", "!!set {a}", "%TAG", "---", "..."),
    *("a x b", "${units}", "${", "$$", "%s", "{0}", "\\x00", "\\u2028", "é", "\U0001f600", "\u202e", "evil", "local"),
    *("poisson", "replay", "closed", "http", "1.1", "2", "throughput", "p50", "[throughput, throughput]", "liberty"),
)
BYTES = (b"\0", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\t", b"\x1b[2J", b"\xc0\x80", b"\xed\xa0\x80")
SCALAR = re.compile(r"[A-Za-z0-9_.%/+-]+")


def mutated(seeds: Sequence[bytes], rng: random.Random, binary: bool = False) -> bytes:
    """One seed with one to four changes; a binary one keeps its length."""
    data = rng.choice(seeds)
    if binary:
        changed = bytearray(data)
        for _ in range(rng.choice((1, 2, 8, 40))):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        return bytes(changed)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if rng.random() < 0.12:
            data = _bytes(data, rng)
        else:
            text = data.decode("utf-8", errors="surrogateescape")
            data = rng.choice(_CHANGES)(text, rng, seeds).encode("utf-8", errors="surrogateescape")
    return data


def _bytes(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    if rng.random() < 0.2:
        return data[:at]
    if rng.random() < 0.5 and data:
        at = rng.randrange(len(data))
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    return data[:at] + rng.choice(BYTES) * rng.choice((1, 1, 3)) + data[at:]


def _value(text: str, rng: random.Random, _seeds: Sequence[bytes]) -> str:
    """A word or number replaced by one that is hard to read."""
    found = list(SCALAR.finditer(text))
    if not found:
        return text + rng.choice(VALUES)
    one = rng.choice(found)
    return text[: one.start()] + rng.choice(VALUES) + text[one.end() :]


def _swap(text: str, rng: random.Random, _seeds: Sequence[bytes]) -> str:
    found = list(SCALAR.finditer(text))
    if len(found) < 2:
        return text
    one, other = sorted(rng.sample(found, 2), key=lambda each: each.start())
    return text[: one.start()] + other[0] + text[one.end() : other.start()] + one[0] + text[other.end() :]


def _line(text: str, rng: random.Random, seeds: Sequence[bytes]) -> str:
    """A line left out, doubled, moved in, taken from another seed, or a new one."""
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    others = rng.choice(seeds).decode("utf-8", errors="replace").split("\n")
    new = f"{' ' * rng.choice((0, 2, 4))}{rng.choice(VALUES)}: {rng.choice(VALUES)}"
    changed: Callable[[], list[str]] = rng.choice(
        (
            lambda: [],
            lambda: [lines[at], lines[at]],
            lambda: [" " * rng.choice((1, 2, 8)) + lines[at]],
            lambda: [lines[at].lstrip()],
            lambda: [lines[at], rng.choice(others)],
            lambda: [lines[at], new],
            lambda: ["\t" + lines[at]],
        )
    )
    return "\n".join([*lines[:at], *changed(), *lines[at + 1 :]])


def _bracket(text: str, rng: random.Random, _seeds: Sequence[bytes]) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice("[]{}:,-?&*!|>'\"%@`#") * rng.choice((1, 1, 2, 60, 600)) + text[at:]


def _long(text: str, rng: random.Random, _seeds: Sequence[bytes]) -> str:
    at = rng.randrange(len(text) + 1)
    return (
        text[:at]
        + rng.choice(("a", " ", "1", "a: ", "a, ", "[a], ", "\n", "é")) * rng.choice((100, 5_000, 30_000))
        + text[at:]
    )


def _anchor(text: str, rng: random.Random, _seeds: Sequence[bytes]) -> str:
    bomb = "a0: &a0 [1, 1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 25))
    itself = "self: &self\n  <<: *self\n"
    merged = "one: &one { users: 3 }\nworkload: { <<: *one, <<: *one }\n"
    return rng.choice((bomb, itself, merged)) + text


_CHANGES = (_value, _value, _value, _value, _swap, _line, _line, _bracket, _long, _anchor)
