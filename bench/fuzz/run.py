"""Runs a target on mutated inputs, each in a fresh folder and with a limit on the CPU it may take."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import random
import re
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from bench.fuzz.targets import Disagreement, Target
from leadline.model.errors import LeadlineError, shortened

MOST_LINES = 40
LONGEST_LINE = 1_000


class TooLong(BaseException):
    """The limit on CPU has passed; no handler of errors catches it."""


@dataclass
class Outcome:
    """Inputs by what became of them, and the faults: a line that tells them apart -> input and what was said."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    slowest: float = 0.0  # seconds of CPU

    def add(self, kind: str, where: str, data: bytes, told: str) -> None:
        self.counts[kind] += 1
        self.faults.setdefault(f"{kind}: {where}", (data, told))


# Words of the library that checks files, which no user wrote.
_INNER = re.compile(r"\b(?:function-(?:before|after|wrap|plain)|literal|lax-or-strict|tagged-union)\[|pydantic")


@contextlib.contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    def passed(_number: int, _frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, passed)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def try_one(target: Target, data: bytes, folder: Path, outcome: Outcome, limit: float) -> None:
    """Read one input; what is neither read nor refused in order is a fault."""
    begun, hangs = _cpu(), outcome.counts["hang"]
    try:
        with cpu_limit(limit), contextlib.redirect_stdout(io.StringIO()):
            target.read(data, folder)
        outcome.counts["accepted"] += 1
    except Disagreement as error:
        outcome.add("accepted, then refused", str(error).rpartition(": ")[2], data, str(error))
    except LeadlineError as error:
        lines = str(error).split("\n")
        if (
            not str(error).strip()
            or len(lines) > MOST_LINES
            or max(map(len, lines)) > LONGEST_LINE
            or _INNER.search(str(error))
        ):
            outcome.add("bad message", f"{len(lines)} lines: {shortened(lines[0], 80)}", data, str(error))
        else:
            outcome.counts["refused"] += 1
    except TooLong:
        outcome.add("hang", _where(), data, traceback.format_exc())
    except Exception as error:
        outcome.add("traceback", f"{type(error).__name__} {_where()}", data, traceback.format_exc())
    taken = _cpu() - begun
    outcome.slowest = max(outcome.slowest, taken)
    if taken > limit and outcome.counts["hang"] == hangs:
        outcome.add("hang", "in leadline-load", data, f"{taken:.2f} s of CPU")


def _cpu() -> float:
    """Seconds of this process and of those that it waited for, as leadline-load reading a scenario."""
    return sum(os.times()[:4])


def _where() -> str:
    """The innermost line of leadline in the traceback."""
    lines = [line.strip() for line in traceback.format_exc().splitlines() if "/leadline/" in line]
    return lines[-1].rpartition("/leadline/")[2] if lines else "?"


def fuzz(target: Target, *, count: int | None, until: float | None, seed: int, limit: float = 1.0) -> Outcome:
    """So many inputs, or as many as fit until ``time.monotonic()`` is ``until``."""
    rng, outcome, done = random.Random(seed), Outcome(), 0
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # no disk is waited for
    while (count is None or done < count) and (until is None or time.monotonic() < until):
        data = target.input(done, rng)
        folder = Path(tempfile.mkdtemp(prefix="leadline-fuzz-", dir=memory))
        try:
            try_one(target, data, folder, outcome, limit)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        done += 1
    return outcome


def keep(outcome: Outcome, folder: Path, name: str) -> None:
    """Inputs of faults, for a test each."""
    folder.mkdir(parents=True, exist_ok=True)
    for where, (data, told) in outcome.faults.items():
        stem = f"{name}-{hashlib.sha256(where.encode()).hexdigest()[:10]}"
        (folder / stem).write_bytes(data)
        (folder / f"{stem}.txt").write_text(f"{where}\n\n{told}", encoding="utf-8", errors="replace")
