"""What ``leadline gc`` says of logs: as plain text for people, for machines, and as events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from leadline.gcanalysis.against import UNITS, Difference, LogBlocks, blocks_of, differences, which_differ
from leadline.gcanalysis.events import GcLog, Safepoint
from leadline.gcanalysis.findings import Finding
from leadline.gcanalysis.live import HeapLine, heap_line
from leadline.gcanalysis.summary import Durations, GcSummary, summary
from leadline.model.errors import UsageError
from leadline.model.units import rounded
from leadline.observe.gclog.files import LogFiles, logs_of, parse_files

MIB = 1 << 20
_MANY_PERCENT = 200.0  # from which a change is told as so many times


def render(figures: GcSummary) -> str:
    """A page of plain text, one figure a line, the breakdowns as tables."""
    who = f"{figures.collector or 'unknown collector'}, JVM {figures.version or '?'}"
    lines = [f"{who}, {figures.span_s:.1f} s of log"]
    if figures.format:
        share = f", {100 * figures.understood:.1f} % of its lines understood" if figures.understood is not None else ""
        lines.append(f"{figures.format}{share}")
    lines += [f"warning: {text}" for text in figures.warnings]
    lines += [line for finding in figures.findings for line in _finding(finding, figures.jvms > 1)]
    lines += ["", *(f"{name:<13} {text}" for name, text in figure_rows(figures))]
    for title, table in (("by kind", figures.by_kind), ("by cause", figures.by_cause)):
        if table:
            lines += ["", f"{'count':>7} {'sum ms':>10} {'p50':>8} {'p99':>8} {'max':>8}  {title}"]
            lines += [
                "{:>7} {:>10} {:>8} {:>8} {:>8}  {}".format(*cells(values), name) for name, values in table.items()
            ]
    if figures.unknown:
        lines += ["", "not understood:", *figures.unknown]
    return "\n".join(lines) + "\n"


def _finding(finding: Finding, several: bool) -> list[str]:
    """What happened, what it means, and the levels that would test it."""
    where = (
        f" (line{'s' if len(finding.lines) > 1 else ''} {', '.join(map(str, finding.lines))})" if finding.lines else ""
    )
    who = f"JVM {finding.jvm + 1}: " if several else ""
    lines = ["", f"{finding.name}: {who}{finding.sentence}{where}", f"  {finding.meaning}"]
    levels = [f"{name} {', '.join(map(str, values))}" for name, values in finding.factors.items()]
    return lines + ([f"  To test: {'; '.join(levels)} (--study {finding.name})"] if levels else [])


def figure_rows(figures: GcSummary) -> Iterator[tuple[str, str]]:
    """Name and text of every figure that is one line."""
    yield from _pauses(figures)
    yield from _heap(figures)
    yield from _rest(figures)


def _pauses(figures: GcSummary) -> Iterator[tuple[str, str]]:
    pauses, silent = figures.pauses, figures.reasons.get("pauses")
    if silent:
        yield "pauses", f"not known: {silent}"
    else:
        yield "pauses", f"{pauses.count}, {pauses.sum_ms:.1f} ms in all, longest {pauses.max_ms:.2f} ms"
    if pauses.count:
        yield ("percentiles", "  ".join(f"{name} {ms:.2f}" for name, ms in pauses.percentiles.items()) + " ms")
    if figures.share is not None:
        yield "time paused", f"{100 * figures.share:.2f} % of the log"
    if figures.intervals is not None:
        between = figures.intervals
        yield (
            "interval",
            f"{between.mean_s:.3f} s from a pause's end to the next one's beginning "
            f"(median {between.median_s:.3f}, {between.least_s:.3f} to {between.most_s:.3f})",
        )
    if figures.share_cycle is not None:
        both = f"{100 * figures.share_cycle:.2f} % = pause / (interval + pause)"
        if figures.share_interval is not None and figures.share_interval <= 1:
            both += f", {100 * figures.share_interval:.2f} % = pause / interval"
        yield "collecting", both
    shares = [
        f"{_window(utilisation.window_ms)} {100 * utilisation.share:.1f} %"
        for utilisation in figures.mmu
        if utilisation.share is not None
    ]
    if shares:
        yield "MMU", f"{', '.join(shares)} (minimum mutator utilisation)"
    if figures.full or figures.degenerated:
        yield "full", f"{figures.full} full, {figures.degenerated} degenerated collections"
    if figures.stalls.count:
        stalls = figures.stalls
        yield "stalls", f"{stalls.count}, {stalls.sum_ms:.1f} thread-ms, longest {stalls.max_ms:.2f} ms"
    if figures.cycles:
        yield "cycles", ", ".join(f"{count} {kind}" for kind, count in figures.cycles.items())


def _heap(figures: GcSummary) -> Iterator[tuple[str, str]]:
    if figures.heap_after:
        heap = figures.heap_after
        most = f" of {figures.heap_max / MIB:.0f}" if figures.heap_max else ""
        yield (
            "heap after",
            f"last {heap.last / MIB:.0f} MiB{most}, least {heap.least / MIB:.0f}, "
            f"most {heap.most / MIB:.0f}, mean {heap.mean / MIB:.0f}",
        )
    if figures.working_set:
        working = figures.working_set
        bound = "at most " if working.at_most else ""
        yield "working set", f"{bound}{working.size / MIB:.0f} MiB, {working.basis}"
    if figures.jvms == 1:
        yield "leak test", f"{figures.leak.verdict}: {figures.leak.sentence}"
    for name, rate in (("allocation", figures.allocation_rate), ("promotion", figures.promotion_rate)):
        if rate is not None:
            over = f" ({figures.allocation_leaves_out})" if name == "allocation" else ""
            yield name, f"{rate / MIB:.1f} MiB/s{over}"
        else:
            yield name, f"not known: {figures.reasons[f'{name}_rate']}"


def _rest(figures: GcSummary) -> Iterator[tuple[str, str]]:
    if figures.cpu_s is not None:
        starved = f", {figures.starved} pauses waited for a CPU" if figures.starved else ""
        yield "collector CPU", f"{figures.cpu_s:.2f} s in pauses{starved}"
    if figures.safepoints.count:
        points = figures.safepoints
        yield "safepoints", f"{points.count}, {points.sum_ms:.1f} ms in all, longest {points.max_ms:.2f} ms"


def _window(ms: float) -> str:
    return f"{ms:g} ms" if ms < 1000 else f"{ms / 1e3:g} s"


def cells(values: Durations) -> list[str]:
    """Number, sum, p50, p99 and the longest, ms."""
    ms = (values.sum_ms, values.percentiles["p50"], values.percentiles["p99"], values.max_ms)
    return [str(values.count), *(f"{one:.2f}" for one in ms)]


def table(names: Sequence[str], figures: Sequence[GcSummary], line: HeapLine | None) -> str:
    """Several logs side by side, smallest heap first where all say their heap."""
    rows = list(zip(names, figures, strict=True))
    if all(figure.heap_max for figure in figures):
        rows.sort(key=lambda row: row[1].heap_max or 0)
    head = ("heap MiB", "interval s", "pause ms", "longest", "p/(i+p) %", "p/i %", "paused %", "alloc MiB/s")
    lines = ["  ".join(f"{word:>11}" for word in head) + "  log"]
    for name, figures_ in rows:
        cells = (
            _cell(figures_.heap_max, 1 / MIB, 0),
            _cell(figures_.interval_s, 1, 3),
            _cell(figures_.pauses.mean_ms if figures_.pauses.count else None, 1, 2),
            _cell(figures_.pauses.max_ms if figures_.pauses.count else None, 1, 2),
            _cell(figures_.share_cycle, 100, 2),
            _cell(figures_.share_interval, 100, 2),
            _cell(figures_.share, 100, 2),
            _cell(figures_.allocation_rate, 1 / MIB, 1),
        )
        lines.append("  ".join(f"{cell:>11}" for cell in cells) + f"  {name}")
    if line:
        lines.append(
            f"heap = {line.live / MIB:.1f} MiB + {line.allocation / MIB:.1f} MiB/s x interval "
            f"(r2 {line.r_squared:.5f}): live set and allocation rate by the sizes"
        )
    return "\n".join(lines) + "\n"


def change_text(difference: Difference) -> str:
    """``+40 % (+20 to +63 %)``, or ``12 times (8 to 19 times)``; empty without a ratio."""
    ends = [difference.percent, difference.low, difference.high]
    if ends[0] is None:
        return ""
    many = ends[0] > _MANY_PERCENT
    texts = ["" if end is None else rounded(1 + end / 100, 3) if many else f"{end:+.1f}" for end in ends]
    unit = "times" if many else "%"
    return f"{texts[0]} {unit}" + (f" ({texts[1]} to {texts[2]} {unit})" if texts[1] else "")


def difference_text(difference: Difference) -> str:
    """``pause p99 +40 % (+20 to +63 %)``."""
    return f"{difference.figure} {change_text(difference)}".strip()


def against_table(differences: Sequence[Difference]) -> str:
    """Of B from A, a figure a line."""
    lines = [f"{'A':>11}  {'B':>11}  change from A to B, with intervals of 95 % that hold for all figures together"]
    for difference in differences:
        a, b = (f"{rounded(value, 4):>11}" for value in (difference.a, difference.b))
        name = f"{difference.figure}, {UNITS[difference.figure]}"
        lines.append(f"{a}  {b}  {name:<20} {change_text(difference) or '-'}: {verdict_text(difference)}")
    return "\n".join(lines) + "\n"


def verdict_text(difference: Difference) -> str:
    return difference.verdict or ("too little to tell" if difference.low is None else "no difference shown")


def _cell(value: float | None, scale: float, decimals: int) -> str:
    return "-" if value is None else f"{value * scale:.{decimals}f}"


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
