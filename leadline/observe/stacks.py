"""Recordings of a user's own: what they hold by stack, from flight recordings (JFR), pprof or folded stacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from leadline.host.received import lines_of, opened, read
from leadline.model.errors import LeadlineError, UsageError, quoted
from leadline.model.received import ReceivedError
from leadline.observe import pprof
from leadline.observe.profile import events_of

MOST_FILES = 200  # of both sides together
_MOST_STACKS = 100_000  # of a file of folded stacks
_MOST_FRAMES = 20_000_000  # of its stacks together
_LARGEST = 1e15  # samples of a line
_JFR, _GZIP = b"FLR\0", b"\x1f\x8b"  # how recordings and pprof's profiles begin


class Kind(StrEnum):
    """What a recording is read for."""

    CPU = "cpu"
    ALLOCATION = "allocation"
    WAIT = "wait"


@dataclass(frozen=True)
class Stacks:
    """A recording: ``event`` names what was recorded, ``ns`` is the CPU time that a sample stands for, 0 if unknown.

    ``samples`` by stack: CPU samples, bytes allocated, or microseconds of waiting; the outermost method first.
    """

    event: str
    ns: int
    samples: Mapping[str, float]


def stacks_of(files: Sequence[Path], kind: Kind) -> list[Stacks]:
    """What each of the files holds. Raises UsageError for a file that is none of the three, LeadlineError."""
    if len(files) > MOST_FILES:
        raise UsageError(f"{len(files)} recordings; at most {MOST_FILES} can be compared at once")
    begins = {file: _begin(file) for file in files}
    flights = [file for file, begin in begins.items() if begin == _JFR]
    by_file = dict(zip(flights, _flights(flights, kind), strict=True)) if flights else {}
    by_file |= {file: _profile(file, kind) for file, begin in begins.items() if begin.startswith(_GZIP)}
    recordings = [by_file.get(file) or Stacks("folded stacks", 0, _folded(file)) for file in files]
    events = {recording.event: file for recording, file in zip(recordings, files, strict=True)}
    if len(events) > 1:
        what = ", ".join(f"{file} {event}" for event, file in events.items())
        raise UsageError(f"recordings of one event can be compared; these have: {what}")
    return recordings


def _begin(file: Path) -> bytes:
    try:
        with opened(file) as stream:
            return stream.read(4)
    except (FileNotFoundError, ReceivedError) as error:
        raise UsageError(f"{file}: {getattr(error, 'why', 'there is no such file')}") from error


def _profile(file: Path, kind: Kind) -> Stacks:
    try:
        event, ns, values = pprof.decode(read(file, pprof.MOST_BYTES), _TYPES[kind], str(file))
    except ReceivedError as error:
        raise UsageError(f"{file} cannot be read as a profile of pprof: {error.why}") from error
    unit = 1e-3 if event.endswith("/nanoseconds") else 1.0
    if kind is Kind.CPU and event.endswith("/nanoseconds"):
        ns = ns or 10_000_000
        unit = 1 / ns
    return Stacks(event, ns, {stack: value * unit for stack, value in values.items()})


# Of the samples of pprof's profiles, the first that there is.
_TYPES = {
    Kind.CPU: ("samples", "cpu"),
    Kind.ALLOCATION: ("alloc_space", "alloc"),
    Kind.WAIT: ("delay", "lock"),
}


def _flights(files: Sequence[Path], kind: Kind) -> Iterator[Stacks]:
    heads: list[tuple[str, int]] = []
    samples: list[dict[str, float]] = []
    try:
        lines = events_of(kind.value, files)
    except TimeoutError as error:
        raise LeadlineError(f"the recordings cannot be read: {error}") from error
    for line in lines:
        number, value, stack = line.split("\t", 2)
        if number == "#":
            if not value:
                raise UsageError(f"{files[len(heads)]} has no events of kind {kind}: {_EVENTS[kind]}")
            heads.append((value, int(stack.split("\t")[1])))
            samples.append({})
        else:
            samples[int(number)][stack] = float(value)
    return (Stacks(*head, stacks) for head, stacks in zip(heads, samples, strict=True))


_EVENTS = {
    Kind.CPU: "jdk.CPUTimeSample (JDK 25) or jdk.ExecutionSample",
    Kind.ALLOCATION: "jdk.ObjectAllocationSample",
    Kind.WAIT: "jdk.JavaMonitorEnter or jdk.ThreadPark",
}


def _folded(file: Path) -> dict[str, float]:
    """Raises UsageError for a line that is not frames with semicolons between, a space and a number."""
    samples: dict[str, float] = {}
    frames = 0
    for number, line in enumerate(lines_of(file), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        stack, _, count = text.rpartition(" ")
        try:
            value = float(count)
        except ValueError:
            value = -1.0
        if not stack or not 0 <= value <= _LARGEST:
            raise UsageError(f"{file} line {number}: {quoted(text)} is no folded stack; write: main;a;b 12")
        if stack not in samples:
            frames += stack.count(";") + 1
        if len(samples) >= _MOST_STACKS or frames > _MOST_FRAMES:
            raise UsageError(f"{file} line {number}: more than {_MOST_STACKS:,} stacks, or {_MOST_FRAMES:,} frames")
        samples[stack] = samples.get(stack, 0.0) + value
    if not any(samples.values()):
        raise UsageError(f"{file} has no sample")
    return samples
