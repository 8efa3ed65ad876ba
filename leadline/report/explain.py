"""Which frames carry the difference between two kinds of recordings of a user's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leadline.analysis.frames import Recording, frame_effects
from leadline.conclude.frames import Unit, sentence
from leadline.model.errors import UsageError
from leadline.model.frames import FrameEffects
from leadline.observe import stacks
from leadline.observe.stacks import Kind, Stacks, stacks_of
from leadline.report import frames_text
from leadline.report.ci import escaped, markdown_table


@dataclass(frozen=True)
class Explanation:
    """The effects with their unit, and the recordings that they rest on."""

    effects: FrameEffects
    unit: Unit
    recordings: Sequence[Recording]

    @property
    def answer(self) -> str:
        return sentence(self.effects, self.unit)

    def lines(self) -> list[str]:
        """Table and notes."""
        return frames_text.lines(self.effects, self.unit)

    def markdown(self) -> str:
        """The sentence, the table and the notes."""
        head = ("change", "95 % interval", "before", f"frame ({self.unit.name})")
        table = markdown_table(head, frames_text.rows(self.effects, self.unit), "rlrl")
        return "\n".join(
            [f"**{escaped(self.answer)}**", "", table, "", *frames_text.notes(self.effects, self.unit), ""]
        )

    def document(self) -> dict[str, Any]:
        """The JSON document ``leadline-explain/1``."""
        return frames_text.document(self.effects, self.unit)

    def folded(self) -> str:
        """Folded stacks with samples before and after."""
        rows = frames_text.difference(self.recordings).items()
        return "".join(f"{stack} {before} {after}\n" for stack, (before, after) in rows)

    def pprof(self) -> bytes:
        """The same for pprof, with the change."""
        rows = frames_text.difference(self.recordings).items()
        types = [(name, "count") for name in ("before", "after", "change")]
        return stacks.encode({stack: (before, after, after - before) for stack, (before, after) in rows}, types)


def explain(
    before: Sequence[Path], after: Sequence[Path], kind: Kind, counts: Sequence[int] = (), paired: bool = False
) -> Explanation:
    """``counts``: requests of every recording, one for all or one each, ``before`` first; none compares shares.

    ``paired``: the n-th of one kind is compared with the n-th of the other. Raises UsageError, LeadlineError.
    """
    if not before or not after:
        raise UsageError("two kinds of recordings are compared: leadline explain before-*.jfr -- after-*.jfr")
    files = [*before, *after]
    twice = sorted({str(file) for file in files if files.count(file) > 1})
    if twice:
        raise UsageError(f"{twice[0]} is given twice: a recording counts once")
    if len(counts) not in (0, 1, len(files)):
        raise UsageError(f"--count is given {len(counts)} times; once for all, or once for each of {len(files)} files")
    if paired and len(before) != len(after):
        raise UsageError(f"--paired: {len(before)} recordings cannot be paired with {len(after)}")
    recordings = stacks_of(files, kind)
    sizes = [float(count) for count in counts] * (len(files) if len(counts) == 1 else 1)
    sizes = sizes or [sum(recording.samples.values()) / 100 for recording in recordings]
    compared = [
        Recording(recording.samples, at >= len(before), size, at % len(before) if paired else None)
        for at, (recording, size) in enumerate(zip(recordings, sizes, strict=True))
    ]
    return Explanation(frame_effects(compared), _unit(recordings, kind, by_request=bool(counts)), compared)


def _unit(recordings: Sequence[Stacks], kind: Kind, *, by_request: bool) -> Unit:
    what = {Kind.CPU: "CPU", Kind.ALLOCATION: "Allocation", Kind.WAIT: "Waiting for locks and parked"}[kind]
    if not by_request:
        return Unit(f"{what}, shares", "points of all samples", shares=True)
    period = recordings[0].ns
    if kind is Kind.CPU and (not period or {recording.ns for recording in recordings} != {period}):
        return Unit("CPU per request", "samples per 1,000 requests", 1000.0)
    units = {Kind.CPU: ("ms per request", period / 1e6), Kind.ALLOCATION: ("bytes per request", 1.0)}
    return Unit(f"{what} per request", *units.get(kind, ("µs per request", 1.0)))
