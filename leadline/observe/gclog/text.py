"""The figures of GC logs as plain text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leadline.gcanalysis.against import UNITS, Difference
from leadline.gcanalysis.findings import Finding
from leadline.gcanalysis.live import HeapLine
from leadline.gcanalysis.summary import Durations, GcSummary
from leadline.model.units import rounded

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
