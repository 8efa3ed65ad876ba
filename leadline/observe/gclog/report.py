"""What ``leadline gc`` says of logs: for people, for machines, and as events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from leadline.gcanalysis.against import Difference, LogBlocks, blocks_of, differences, which_differ
from leadline.gcanalysis.events import GcLog, Safepoint
from leadline.gcanalysis.live import HeapLine, heap_line
from leadline.gcanalysis.summary import GcSummary, summary
from leadline.model.errors import UsageError
from leadline.observe.gclog.files import LogFiles, logs_of, parse_files
from leadline.observe.gclog.text import against_table, difference_text, render, table

__all__ = ["COLUMNS", "LogFigures", "Logs", "events_of", "figures_of", "read", "render", "report", "sizes"]

FORMAT = "leadline-gc/1"
COLUMNS = (
    *("log", "jvm", "event", "at_s", "unix_s", "kind", "cause", "ms", "reaching_ms"),
    *("heap_before", "heap_after", "heap_total", "promoted"),
)


@dataclass(frozen=True)
class LogFigures:
    """Figures of a log: of all of it, and of each JVM where there are several. ``side``: "A" or "B"."""

    files: LogFiles
    side: str
    whole: GcSummary
    parts: list[GcSummary]
    blocks: LogBlocks | None

    @property
    def name(self) -> str:
        return str(self.files.name)

    @property
    def jvms(self) -> list[tuple[str, GcSummary]]:
        """The figures of each JVM, with its name."""
        parts = [(f"{self.name}, JVM {number + 1}", part) for number, part in enumerate(self.parts)]
        return parts or [(self.name, self.whole)]


@dataclass
class Logs:
    """Figures of logs, read one after the other: those of a service, or A with the logs B that it is compared with."""

    logs: list[LogFigures] = field(default_factory=list)

    def add(self, files: LogFiles, log: GcLog, side: str = "A") -> LogFigures:
        whole, parts = figures_of(log)
        self.logs.append(LogFigures(files, side, whole, parts, blocks_of(str(files.name), log)))
        return self.logs[-1]

    def _blocks(self, side: str) -> list[LogBlocks]:
        return [log.blocks for log in self.logs if log.blocks and log.side == side]

    @property
    def compared(self) -> list[Difference]:
        """Of B from A; empty without logs on both sides."""
        a, b = self._blocks("A"), self._blocks("B")
        return differences(a, b) if a and b else []

    @property
    def differing(self) -> dict[str, list[Difference]]:
        """Of logs of one service those that differ from the others."""
        return which_differ(self._blocks("A")) if all(log.side == "A" for log in self.logs) else {}

    @property
    def silent(self) -> bool:
        """Whether one says nothing of pauses."""
        return any("pauses" in log.whole.reasons for log in self.logs)

    def text(self) -> str:
        """For people: each log, then several side by side; of two sides only what differs."""
        texts = []
        for log in () if self._blocks("B") else self.logs:
            texts += [f"{log.name}:"] if len(self.logs) > 1 else []
            texts.append(render(log.whole))
            for number, part in enumerate(log.parts):
                texts += [f"JVM {number + 1} of {len(log.parts)}:", render(part)]
        if len(self.logs) > 1:
            names, figures = [log.name for log in self.logs], [log.whole for log in self.logs]
            texts += ["side by side:", table(names, figures, sizes(figures))]
        return "\n".join([*texts, *self.apart()])

    def apart(self) -> list[str]:
        """How B differs from A, or a log from the others, in lines."""
        lines = [
            f"{name} differs from the others together: {', '.join(map(difference_text, apart))}"
            for name, apart in self.differing.items()
        ]
        return [*lines, against_table(self.compared)] if self.compared else lines

    def document(self) -> dict[str, Any]:
        """JSON-able, explained in docs/reference/json.md: one entry per log in ``files``; for a single log its keys at
        the top too.
        """
        files: list[dict[str, Any]] = []
        for log in self.logs:
            names = {"file": log.name, "files_read": [str(part) for part in log.files.parts], "side": log.side}
            files.append({**names, **as_mapping(log.whole), "per_jvm": [as_mapping(part) for part in log.parts]})
        line = sizes([log.whole for log in self.logs])
        document: dict[str, Any] = {
            "format": FORMAT,
            "files": files,
            "heap_line": asdict(line) if line else None,
            "against": [as_difference(difference) for difference in self.compared],
            "differing": {name: [as_difference(one) for one in apart] for name, apart in self.differing.items()},
        }
        return {**document, **files[0]} if len(files) == 1 else document


def read(log: LogFiles) -> GcLog:
    """Its events. Raises UsageError for a file that cannot be read or is no GC log."""
    try:
        return parse_files(log)
    except OSError as error:
        raise UsageError(f"{log.name}: {error.strerror or error}") from error


def figures_of(log: GcLog) -> tuple[GcSummary, list[GcSummary]]:
    """Of the whole log, and of each JVM where there are several."""
    several = len(log.jvms) > 1 and not log.alternating
    parts = [summary(log.of(number)) for number in range(len(log.jvms))] if several else []
    return summary(log), parts


def report(paths: Sequence[Path]) -> dict[str, Any]:
    """``Logs.document`` of the logs at ``paths``. Raises UsageError for a file that is missing or no GC log."""
    logs = Logs()
    for log in logs_of(paths):
        logs.add(log, read(log))
    return logs.document()


def events_of(name: str, log: GcLog) -> Iterator[tuple[Any, ...]]:
    """Rows of ``COLUMNS``, in the order of time; empty cells are None."""
    events = [(event.jvm, event.at, kind, event) for kind, events in _EVENTS.items() for event in getattr(log, events)]
    for jvm, at, kind, event in sorted(events, key=lambda row: row[:2]):
        heap, stop = getattr(event, "heap", None), isinstance(event, Safepoint)
        yield (
            *(name, jvm + 1, kind, round(at, 6), event.unix, event.operation if stop else event.kind),
            getattr(event, "cause", None) or None,
            *((event.total_ms, event.reaching_ms) if stop else (event.ms, None)),
            *((heap.before, heap.after, heap.total) if heap else (None, None, None)),
            getattr(event, "promoted", None),
        )


_EVENTS = {"pause": "pauses", "cycle": "cycles", "phase": "phases", "stall": "stalls", "safepoint": "safepoints"}


def sizes(figures: Sequence[GcSummary]) -> HeapLine | None:
    """The line through logs of different heaps; None for fewer than three of them."""
    pairs = [(figure.heap_max, figure.interval_s) for figure in figures if figure.heap_max and figure.interval_s]
    return heap_line([float(heap) for heap, _ in pairs], [interval for _, interval in pairs])


def as_difference(difference: Difference) -> dict[str, Any]:
    return {**asdict(difference), "verdict": difference.verdict}


def as_mapping(figures: GcSummary) -> dict[str, Any]:
    """The summary with the breakdowns inside ``pauses`` and ``stalls``."""
    mapping = asdict(figures)
    if "pauses" in figures.reasons:  # the log does not tell: null, not none
        mapping["pauses"] = {**dict.fromkeys(mapping["pauses"]), "percentiles": {}}
        mapping["full"] = mapping["degenerated"] = None
    mapping["pauses"]["by_kind"] = mapping.pop("by_kind")
    mapping["pauses"]["by_cause"] = mapping.pop("by_cause")
    mapping["stalls"]["by_kind"] = mapping.pop("stalls_by_kind")
    for finding, entry in zip(figures.findings, mapping["findings"], strict=True):
        entry["study"] = finding.study
    for name in ("unknown", "warnings", "mmu"):
        mapping[name] = list(mapping[name])
    return mapping
