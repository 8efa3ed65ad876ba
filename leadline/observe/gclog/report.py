"""What ``leadline gc`` says of a log: a mapping for machines, plain text for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from leadline.model.errors import UsageError
from leadline.observe.gclog.parser import parse
from leadline.observe.gclog.summary import Durations, GcSummary, summary

MIB = 1 << 20


def report(paths: Sequence[Path]) -> dict[str, Any]:
    """JSON-able: ``{"files": [...]}`` with one entry per log, and for a single log its keys at the top as well.

    An entry has ``file``, ``collector``, ``version``, ``span_s``, ``pauses`` (``count``, ``sum_ms``, ``max_ms``,
    ``mean_ms``, ``percentiles``, ``by_kind``, ``by_cause``), ``interval_s``, ``share``, ``share_cycle``,
    ``share_interval``, ``heap_after`` (bytes), ``allocation_rate`` (bytes/s), ``full``, ``degenerated``, ``cycles``,
    ``stalls``, ``safepoints``, ``cpu_s``, ``starved``, ``unknown``, ``truncated``, ``jvms``, ``warnings``.
    Raises UsageError for a file that is missing or no unified log.
    """
    files: list[dict[str, Any]] = []
    for path in paths:
        try:
            log = parse(path)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from error
        files.append({"file": str(path), **as_mapping(summary(log))})
    return {**files[0], "files": files} if len(files) == 1 else {"files": files}


def as_mapping(figures: GcSummary) -> dict[str, Any]:
    """The summary with the breakdowns inside ``pauses`` and ``stalls``."""
    mapping = asdict(figures)
    mapping["pauses"]["by_kind"] = mapping.pop("by_kind")
    mapping["pauses"]["by_cause"] = mapping.pop("by_cause")
    mapping["stalls"]["by_kind"] = mapping.pop("stalls_by_kind")
    for name in ("unknown", "warnings"):
        mapping[name] = list(mapping[name])
    return mapping


def render(figures: GcSummary) -> str:
    """A page of plain text, one figure a line, the breakdowns as tables."""
    who = f"{figures.collector or 'unknown collector'}, JDK {figures.version or '?'}"
    lines = [f"{who}, {figures.span_s:.1f} s of log"]
    lines += [f"warning: {text}" for text in figures.warnings]
    pauses = figures.pauses
    lines += ["", f"pauses        {pauses.count}, {pauses.sum_ms:.1f} ms in all, longest {pauses.max_ms:.2f} ms"]
    if pauses.count:
        lines.append(
            "percentiles   " + "  ".join(f"{name} {ms:.2f}" for name, ms in pauses.percentiles.items()) + " ms"
        )
    if figures.share is not None:
        lines.append(f"time paused   {100 * figures.share:.2f} % of the log")
    if figures.interval_s is not None and figures.share_cycle is not None:
        lines.append(f"interval      {figures.interval_s:.3f} s from a pause's end to the next one's beginning")
        both = f"{100 * figures.share_cycle:.2f} % = pause / (interval + pause)"
        if figures.share_interval is not None:
            both += f", {100 * figures.share_interval:.2f} % = pause / interval"
        lines.append(f"collecting    {both}")
    if figures.full or figures.degenerated:
        lines.append(f"full          {figures.full} full, {figures.degenerated} degenerated collections")
    if figures.stalls.count:
        stalls = figures.stalls
        lines.append(f"stalls        {stalls.count}, {stalls.sum_ms:.1f} thread-ms, longest {stalls.max_ms:.2f} ms")
    if figures.cycles:
        lines.append("cycles        " + ", ".join(f"{count} {kind}" for kind, count in figures.cycles.items()))
    if figures.heap_after:
        heap = figures.heap_after
        lines.append(
            f"heap after    last {heap.last / MIB:.0f} MiB, least {heap.least / MIB:.0f}, most {heap.most / MIB:.0f}, "
            f"mean {heap.mean / MIB:.0f}"
        )
    if figures.allocation_rate is not None:
        lines.append(f"allocation    {figures.allocation_rate / MIB:.1f} MiB/s")
    if figures.cpu_s is not None:
        starved = f", {figures.starved} pauses waited for a CPU" if figures.starved else ""
        lines.append(f"collector CPU {figures.cpu_s:.2f} s in pauses{starved}")
    if figures.safepoints.count:
        points = figures.safepoints
        lines.append(f"safepoints    {points.count}, {points.sum_ms:.1f} ms in all, longest {points.max_ms:.2f} ms")
    for title, table in (("by kind", figures.by_kind), ("by cause", figures.by_cause)):
        if table:
            lines += ["", f"{'count':>7} {'sum ms':>10} {'p50':>8} {'p99':>8} {'max':>8}  {title}"]
            lines += [_row(name, values) for name, values in table.items()]
    if figures.unknown:
        lines += ["", "not understood:", *figures.unknown]
    return "\n".join(lines) + "\n"


def _row(name: str, values: Durations) -> str:
    p50, p99 = values.percentiles["p50"], values.percentiles["p99"]
    return f"{values.count:>7} {values.sum_ms:>10.2f} {p50:>8.2f} {p99:>8.2f} {values.max_ms:>8.2f}  {name}"
