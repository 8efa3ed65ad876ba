"""Whose fault a failure is: from evidence to a class of failure, by one table that every path asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from leadline.model.errors import FailureClass, TrialFailure

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
