"""Errors that people see, and failure classes of a trial: from evidence to class by one table that every path asks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
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
    """Ends a trial with its class, one sentence, and the evidence (a server's own words). ``event``: what was seen,
    one of the constants of this module, where that is told.
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


# Of Linux (signal(7)). A process gets the first for what it does itself; all others come from outside.
_OF_CRASHES = {4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 11: "SIGSEGV", 31: "SIGSYS"}
_FROM_OUTSIDE = {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 9: "SIGKILL", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM"}
SIGKILL = 9
_TOLD_BY_CODE = (1, 2, 9, 15)  # as exit code 128 + signal (shells, JVMs)


class Event(StrEnum):
    """What was seen."""

    ENDED = "ended"  # a process is gone
    STOPPED = "stopped"  # a process is there, and a signal keeps it from running
    LATE = "late"  # something was not done within its time limit
    REFUSED = "refused"  # a level, or what follows from it, in the plain words of the one that refuses it
    WRONG = "wrong"  # responses or data are not what they should be


class Part(StrEnum):
    """Where it was seen."""

    SERVICE = "service"  # a server, a database, a web server, the command of a study: its first process
    MEMBER = "member"  # another process of a service: a database's backend, a web server's worker
    LOAD = "load"  # the driver, an agent, a supplier: what measures
    KERNEL = "kernel"  # of a guest


class Memory(StrEnum):
    """Whether the kernel killed for want of memory, and whose memory it was."""

    NOT_SHORT = "not short"
    LIMIT = "limit"  # at the limit that the study gives the service
    OWN = "own"  # the machine had none left, and the killed process had most of it; or that is not known
    OTHERS = "others"  # the machine had none left, and others had most of it


@dataclass(frozen=True)
class Evidence:
    """What is known of a failure. ``exit_code``: minus the signal's number if one ended the process; ``ready``: it had
    answered before; ``asked``: its own last words tell that it was asked to end; ``sender``: of the signal that did it,
    empty where that is not known.
    """

    event: Event
    part: Part = Part.SERVICE
    exit_code: int | None = None
    ready: bool = False
    asked: bool = False
    memory: Memory = Memory.NOT_SHORT
    sender: str = ""

    @property
    def signal(self) -> int | None:
        """That ended the process, as far as its exit code tells."""
        code = self.exit_code or 0
        return -code if code < 0 else code - 128 if code - 128 in _TOLD_BY_CODE else None

    @property
    def before_ready(self) -> str:
        """Of a process that ended while it started, after its name."""
        plain = self.how.startswith("exit code")
        return f"ended with {self.how} before it was ready" if plain else f"ended before it was ready: {self.how}"

    @property
    def how(self) -> str:
        """In words."""
        if self.memory is not Memory.NOT_SHORT:
            whose = " that other programs had" if self.memory is Memory.OTHERS else ""
            return f"the kernel killed it for want of memory{whose}"
        by = f", sent by {self.sender}" if self.sender else ""
        if self.event is Event.STOPPED:
            return f"stopped from outside (SIGSTOP){by}"
        number = self.signal
        if number is not None and number not in _OF_CRASHES:
            return f"ended from outside by signal {number}{_name(number)}{by}"
        if self.asked:
            exit_text = "" if self.exit_code is None else f" (exit code {self.exit_code})"
            return f"asked from outside to end{exit_text}{by}"
        if self.ready and self.exit_code == 0:
            return f"ended in order, which leadline did not ask for (exit code 0){by}"
        return f"exit code {self.exit_code}"


_Rule = tuple[Callable[[Evidence], bool], FailureClass]

# The first that holds decides.
RULES: tuple[_Rule, ...] = (
    # What measures is no part of what is measured.
    (lambda e: e.part is Part.LOAD, FailureClass.INFRASTRUCTURE),
    # The kernel tells whose memory it was.
    (lambda e: e.memory in (Memory.LIMIT, Memory.OWN), FailureClass.CONFIGURATION),
    (lambda e: e.memory is Memory.OTHERS, FailureClass.INFRASTRUCTURE),
    # No level sends a signal, or asks a service to end in order.
    (lambda e: e.event is Event.STOPPED, FailureClass.INFRASTRUCTURE),
    (lambda e: e.signal is not None and e.signal not in _OF_CRASHES, FailureClass.INFRASTRUCTURE),
    (lambda e: e.event is Event.ENDED and (e.asked or (e.ready and e.exit_code == 0)), FailureClass.INFRASTRUCTURE),
    # A time limit is leadline's: slow is not broken.
    (lambda e: e.event is Event.LATE, FailureClass.INFRASTRUCTURE),
    # What is left of them ended, crashed or refused by its own doing.
    (lambda e: e.event in (Event.ENDED, Event.REFUSED), FailureClass.CONFIGURATION),
    (lambda e: e.event is Event.WRONG, FailureClass.WORKLOAD),
)


def failure_class(evidence: Evidence) -> FailureClass:
    """The class of the first rule that holds."""
    return next(kind for holds, kind in RULES if holds(evidence))


def blamed(evidence: Evidence, message: str, words: str = "") -> TrialFailure:
    """The failure to raise; ``words``: what a service said."""
    return TrialFailure(failure_class(evidence), message, words, evidence.event)


def unanswered(error: BaseException) -> Event:
    """Of an error of one that asked: LATE where it, or what caused it, is a time limit, else REFUSED."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TimeoutError):
            return Event.LATE
        cause = cause.__cause__ or cause.__context__
    return Event.REFUSED


def _name(number: int) -> str:
    return f" ({_FROM_OUTSIDE[number]})" if number in _FROM_OUTSIDE else ""
