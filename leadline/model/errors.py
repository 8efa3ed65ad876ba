"""Errors that people see, and the failure classes of a trial."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_WANTED = {
    "too_short": "it is empty",
    "too_long": "it has too many items",
    "string_too_short": "it is empty",
    "string_too_long": "it is too long a text",
    "finite_number": "a finite number is wanted",
    "list_type": "write a list, such as [1, 2]",
    "tuple_type": "write a list, such as [1, 2]",
    "dict_type": "write keys with values, such as { key: value }",
    "dataclass_type": "write keys with values, such as { key: value }",
    "model_type": "write keys with values, such as { key: value }",
    "int_type": "a whole number is wanted",
    "int_parsing": "a whole number is wanted",
    "int_from_float": "a whole number is wanted",
    "int_parsing_size": "it is too large",
    "float_type": "a number is wanted",
    "float_parsing": "a number is wanted",
    "bool_type": "true or false is wanted",
    "bool_parsing": "true or false is wanted",
    "string_type": "a text is wanted; write it in quotes",
}
LONGEST_LINE = 900  # characters of a message
MOST_LINES = 30


class LeadlineError(Exception):
    """A message for the user; the command ends with ``exit_code``. What it quotes of an input or of another program may
    be of any length and hold any characters: what is too long is cut in the middle of its line.
    """

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(_bounded(message))


class UsageError(LeadlineError):
    """Bad input: says where, what is wrong and the nearest valid choice; a line for each problem."""

    exit_code = 2


class KeyedError(ValueError):
    """A value that contradicts another; ``path`` is the key to blame, below the one that is checked."""

    def __init__(self, path: Sequence[str | int], message: str) -> None:
        super().__init__(message)
        self.path = tuple(path)


class RestoreError(LeadlineError):
    """A host could not be put back."""

    exit_code = 3


class NotInPlay(LookupError):
    """A knob of a part that these levels leave out: there is nothing to read back. Says which part."""


class FailureClass(StrEnum):
    """Why a trial has no responses.

    ``configuration``: the treatment itself broke the stack; evidence, never retried blindly.
    ``workload``: errors or a failed audit.
    ``infrastructure``: a host, disk or network failed; retried, bounded.
    ``interrupted``: leadline or its user ended the trial.
    ``disturbed``: other programs used more than the study's rule allows; measured again, bounded.
    ``bottleneck``: the driver was the limit, so the figures are not the server's.
    """

    CONFIGURATION = "configuration"
    WORKLOAD = "workload"
    INFRASTRUCTURE = "infrastructure"
    INTERRUPTED = "interrupted"
    DISTURBED = "disturbed"
    BOTTLENECK = "bottleneck"


# What a treatment can be blamed for; a lost network, a slow driver or Ctrl-C says nothing about it.
BLAMED = (FailureClass.CONFIGURATION, FailureClass.WORKLOAD)


@dataclass(eq=False)
class TrialFailure(LeadlineError):
    """Ends a trial with its class, one sentence, and the evidence (a server's own words). ``event``: what was seen, by
    the words of ``leadline.model.blame``, where that is told.
    """

    failure_class: FailureClass
    message: str
    evidence: str = ""
    event: str = ""

    def __post_init__(self) -> None:
        super().__init__(self.message)
        self.message = str(self.args[0])

    def __str__(self) -> str:
        return self.message


def _bounded(message: str) -> str:
    lines = message.split("\n")
    more = [f"and {len(lines) - MOST_LINES:,} more lines"] if len(lines) > MOST_LINES else []
    return "\n".join([*map(_bounded_line, lines[:MOST_LINES]), *more])


def _bounded_line(line: str) -> str:
    cut = line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE // 2]} ... {line[-LONGEST_LINE // 3 :]}"
    return printable(cut)


def printable(text: str) -> str:
    """``text`` with a question mark for every character that does not print."""
    return "".join(each if each.isprintable() else "?" for each in text)


def shortened(text: str, longest: int = 60) -> str:
    """``text`` for a message: cut where it is long, without characters that do not print."""
    cut = text if len(text) <= longest else text[: longest - 3] + "..."
    return printable(cut)


def quoted(value: object, longest: int = 60) -> str:
    """A value for a message, shortened: a text in single quotes, anything else as JSON and YAML write it."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**40:
        return "a number of more than 40 digits"  # Python refuses to write the longest
    if isinstance(value, str):
        return repr(shortened(value, longest))
    try:
        return shortened(json.dumps(value, default=str, ensure_ascii=False), longest)
    except (RecursionError, ValueError):  # nested too deeply, or in itself
        return "something nested"


def wanted(problem: Mapping[str, Any]) -> str:
    """What a value should be, of an error of pydantic: in plain words, without a name of Python's."""
    message = problem["msg"].removeprefix("Value error, ")
    return _WANTED.get(problem["type"], f"{message[:1].lower()}{message[1:]}")


def nearest(word: str, choices: list[str]) -> str | None:
    """The only choice that begins with ``word``, else the one most like it, or None when nothing is close (difflib
    ratio < 0.6).
    """
    import difflib

    begun = [choice for choice in choices if choice.startswith(word)] if len(word) >= 3 else []
    if len(begun) == 1:
        return begun[0]
    close_matches = difflib.get_close_matches(word[:200], choices, n=1)
    return close_matches[0] if close_matches else None


def did_you_mean(word: str, choices: list[str]) -> str:
    """A hint at the choice most like ``word``; empty when nothing is close."""
    near = nearest(word, choices)
    return f"did you mean {near}?" if near else ""
