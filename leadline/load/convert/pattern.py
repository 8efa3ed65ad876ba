"""Texts that match a regular expression, as templates that draw digits anew each time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby, islice, product
from typing import Any

from leadline.load.convert.write import literal

_LONGEST = 2_000  # characters of a pattern
_MOST = 10_000  # characters of a text
_MOST_STEPS = 100_000
_EXTRA = (*range(65), 128, 256, 512, 1024, 2048, 4096)  # rounds beyond the least of each repetition
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ORDER = _LETTERS + _LETTERS.upper() + "0123456789 -_.,:;/@#%&+*=!?()[]{}<>|~^$'\"`\\\t"
_CATEGORIES = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}


class _UnknownError(ValueError):
    """What is not followed: what stands around (``(?=``), references to groups, more than is made."""


def matching(pattern: str, low: int, high: int) -> str | None:
    """A template of a text of ``low`` to ``high`` characters that matches; None where none is found. Nothing is matched
    against the pattern, which may take for ever.
    """
    if len(pattern) > _LONGEST:
        return None
    try:
        tree = import_module("re._parser").parse(re.sub(r"\(\?<(?![=!])", "(?P<", pattern), re.ASCII)
        steps = iter(range(_MOST_STEPS))
        for least, extra in product((max(low, min(8, high)), max(low, 1)), _EXTRA):
            pieces = list(islice(_pieces(tree, extra, steps), min(_MOST, high) + 1))
            if least <= len(pieces) <= high:
                return _template(pieces)
    except (re.error, _UnknownError, RecursionError, OverflowError):
        pass
    return None


def _pieces(tree: Any, extra: int, steps: Iterator[int]) -> Iterator[str]:
    """Its characters in turn; ``digits`` and ``hex`` are drawn."""
    for operation, argument in tree:
        match str(operation):
            case "LITERAL":
                yield chr(argument)
            case "ANY":
                yield "a"
            case "NOT_LITERAL":
                yield _chosen([chr(argument)], negated=True)
            case "IN":
                yield _of_set(argument)
            case "BRANCH":
                yield from _pieces(argument[1][0], extra, steps)
            case "SUBPATTERN":
                yield from _pieces(argument[-1], extra, steps)
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, inner = argument
                for _ in range(min(int(most), int(least) + extra)):
                    if next(steps, None) is None:
                        raise _UnknownError
                    yield from _pieces(inner, extra, steps)
            case "AT" if str(argument) in ("AT_BEGINNING", "AT_BEGINNING_STRING", "AT_END", "AT_END_STRING"):
                pass
            case _:
                raise _UnknownError


def _of_set(items: Any) -> str:
    sets = []
    for operation, argument in items:
        match str(operation):
            case "LITERAL":
                sets.append(re.escape(chr(argument)))
            case "RANGE":
                sets.append(f"{re.escape(chr(argument[0]))}-{re.escape(chr(argument[1]))}")
            case "CATEGORY":
                name = str(argument).removeprefix("CATEGORY_")
                word = _CATEGORIES[name.removeprefix("NOT_")]
                sets.append(word.upper() if name.startswith("NOT_") else word)
    return _chosen(sets, negated=str(items[0][0]) == "NEGATE")


def _chosen(sets: list[str], negated: bool) -> str:
    members: list[str] = re.findall(f"[{'^' if negated else ''}{''.join(sets)}]", _ORDER, re.ASCII)
    if set("0123456789abcdef") <= set(members):
        return "hex"
    if members and set(members) <= set("0123456789"):
        return "digits" if len(members) == 10 else members[0]
    if members:
        return members[0]
    if negated or not (inside := re.match(r"\\?(.)", sets[0], re.DOTALL)):
        raise _UnknownError
    return str(inside[1])


def _template(pieces: list[str]) -> str:
    return "".join(
        f"${{{piece}:{len(run)}}}" if len(piece) > 1 else literal(piece) * len(run)
        for piece, run in ((piece, list(group)) for piece, group in groupby(pieces))
    )
