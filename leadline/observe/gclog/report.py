"""What ``leadline gc`` says of logs: a mapping for machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from leadline.gcanalysis.events import GcLog
from leadline.gcanalysis.sizes import HeapLine, heap_line
from leadline.gcanalysis.summary import GcSummary, summary
from leadline.model.errors import UsageError
from leadline.observe.gclog.files import LogFiles, logs_of, parse_files
from leadline.observe.gclog.text import render

__all__ = ["figures_of", "read", "render", "report", "sizes"]

FORMAT = "leadline-gc/1"


def read(log: LogFiles, reader: Callable[[LogFiles], GcLog] = parse_files) -> GcLog:
    """Its events. Raises UsageError for a file that cannot be read or is no GC log."""
    try:
        return reader(log)
    except OSError as error:
        raise UsageError(f"{log.name}: {error.strerror or error}") from error


def figures_of(log: GcLog) -> tuple[GcSummary, list[GcSummary]]:
    """Of the whole log, and of each JVM where there are several."""
    several = len(log.jvms) > 1 and not log.alternating
    parts = [summary(log.of(number)) for number in range(len(log.jvms))] if several else []
    return summary(log), parts


def report(paths: Sequence[Path], reader: Callable[[LogFiles], GcLog] = parse_files) -> dict[str, Any]:
    """JSON-able, explained in docs/reference/json.md: one entry per log in ``files``; for a single log its
    keys at the top too.

    Raises UsageError for a file that is missing or no GC log.
    """
    files: list[dict[str, Any]] = []
    figures: list[GcSummary] = []
    for log in logs_of(paths):
        whole, parts = figures_of(read(log, reader))
        figures.append(whole)
        entry = {"file": str(log.name), "files_read": [str(part) for part in log.parts], **as_mapping(whole)}
        files.append({**entry, "per_jvm": [as_mapping(part) for part in parts]})
    line = sizes(figures)
    document: dict[str, Any] = {"format": FORMAT, "files": files, "heap_line": asdict(line) if line else None}
    return {**document, **files[0]} if len(files) == 1 else document


def sizes(figures: Sequence[GcSummary]) -> HeapLine | None:
    """The line through logs of different heaps; None for fewer than three of them."""
    pairs = [(figure.heap_max, figure.interval_s) for figure in figures if figure.heap_max and figure.interval_s]
    return heap_line([float(heap) for heap, _ in pairs], [interval for _, interval in pairs])


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
