"""The panel of sizes: diminishing returns of factors with ordered levels, and what the collector did at each heap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadline.analysis.returns import Returns, Step, diminishing_returns
from leadline.conclude.loads import load_of
from leadline.gcanalysis.live import HeapLine, heap_line
from leadline.gcanalysis.summary import GcSummary
from leadline.model.knob import Level
from leadline.model.record import StudyRecord, TrialState
from leadline.report import collector, words
from leadline.report.files import TrialFiles

HEAP = "jvm.heap"
_MIB = 1 << 20


@dataclass(frozen=True)
class HeapRow:
    """Means over the trials of one heap under the same levels of the other factors, in words of a table."""

    others: str
    heap: str
    trials: int
    interval_s: float | None
    pause_ms: float | None
    share_cycle: float | None  # pause / (interval + pause)
    share_interval: float | None  # pause / interval
    live: float | None  # bytes
    allocation: float | None  # bytes/s


@dataclass(frozen=True)
class HeapTable:
    """Heaps ascending within each of the other factors' levels; ``lines`` by these."""

    rows: tuple[HeapRow, ...]
    lines: tuple[tuple[str, HeapLine], ...]

    def sentences(self) -> list[str]:
        """The line through the sizes: live set and allocation rate from the intervals alone."""
        return [
            f"{f'{others}: ' if others else ''}heap = {words.number(line.live / _MIB)} MiB + "
            f"{words.number(line.allocation / _MIB)} MiB/s x interval (r² {line.r_squared:.4f}): the live set and the "
            "allocation rate as the sizes tell them."
            for others, line in self.lines
        ]


@dataclass(frozen=True)
class Sizes:
    returns: tuple[Returns, ...]
    heaps: HeapTable | None


def sizes(record: StudyRecord, files: Sequence[TrialFiles]) -> Sizes | None:
    """None for a study without a factor of three or more sizes; its load is none.

    A study that was looked at more than once has no panel: intervals for one look would be too narrow.
    """
    if record.study.design.looked_at:
        return None

    def describe(factor: str, level: Level) -> str:
        return words.level_text(record.study, factor, level)

    study, load = record.study, load_of(record)
    tables = tuple(
        one
        for response in study.responses
        for one in diminishing_returns(
            record.plan_that_ran,
            record.observations(),
            response,
            describe=describe,
            margin=100 * study.equivalence,
        )
        if one.factor != load
    )
    heaps = _heaps(record, files)
    return Sizes(tables, heaps) if tables or heaps else None


def _heaps(record: StudyRecord, files: Sequence[TrialFiles]) -> HeapTable | None:
    factor = next((factor for factor in record.plan.factors if factor.name == HEAP), None)
    if factor is None or len(factor.levels) < 2:
        return None
    groups: dict[tuple[str, int], list[GcSummary]] = {}
    for file in files:
        collection = collector.steady(file) if file.trial.state == TrialState.DONE else None
        if collection is None or file.trial.planned.slots:
            continue
        levels = file.trial.planned.treatment.as_dict()
        heap = levels.pop(HEAP)
        others = ", ".join(
            words.setting(record.study, each.name, levels[each.name])
            for each in record.plan.factors
            if each.name in levels and not each.pseudo
        )
        groups.setdefault((others, int(heap)), []).append(collection)
    rows, by_others = [], dict[str, list[tuple[int, float]]]()
    for (others, heap), found_here in sorted(groups.items()):
        row = _row(record, others, heap, found_here)
        rows.append(row)
        if row.interval_s is not None:
            by_others.setdefault(others, []).append((heap, row.interval_s))
    lines = [
        (others, line)
        for others, points in by_others.items()
        if (line := heap_line([float(heap) for heap, _ in points], [interval for _, interval in points])) is not None
    ]
    return HeapTable(tuple(rows), tuple(lines)) if rows else None


def _row(record: StudyRecord, others: str, heap: int, found: Sequence[GcSummary]) -> HeapRow:
    def mean(values: Sequence[float | None]) -> float | None:
        finite = [value for value in values if value is not None]
        return sum(finite) / len(finite) if finite else None

    return HeapRow(
        others,
        words.level_text(record.study, HEAP, heap),
        len(found),
        mean([collection.interval_s for collection in found]),
        mean([collection.pauses.mean_ms if collection.pauses.count else None for collection in found]),
        mean([collection.share_cycle for collection in found]),
        mean([collection.share_interval for collection in found]),
        mean([float(collection.working_set.size) if collection.working_set else None for collection in found]),
        mean([collection.allocation_rate for collection in found]),
    )


def change_text(step: Step) -> str:
    """``+4.1 a doubling``, or of the whole step from nothing."""
    if step.change is None:
        return "–"
    return words.signed(step.change) if step.doublings is not None else f"{words.signed(step.change)} (whole step)"
