"""What the collector's log says of the steady state of a trial, with the figures of ``leadline gc``."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from leadline.gcanalysis.summary import GcSummary, summary
from leadline.model.errors import LeadlineError
from leadline.observe.gclog.files import parse
from leadline.report import words
from leadline.report.files import TrialFiles

_MIB = 1 << 20
_FEW = 5  # seconds with pauses, and without, below which their latencies are not compared


def steady(files: TrialFiles) -> GcSummary | None:
    """Figures of the trial's ``raw/gc.log`` within the steady state, findings of all of it; None without a log that can
    be read.
    """
    directory, phases = files.trial.directory, files.phases
    if directory is None or phases is None or phases.steady_until <= phases.steady_from:
        return None
    path = directory / "raw" / "gc.log"
    try:
        state = path.stat()
        return _summary(path, (state.st_mtime_ns, state.st_size), phases.steady_from, phases.steady_until)
    except OSError:
        return None


@functools.lru_cache(maxsize=256)
def _summary(path: Path, _state: tuple[int, int], begin: float, end: float) -> GcSummary | None:
    """Of a log as it is at that time and size: several parts of the report ask for the same one."""
    try:
        log = parse(path)
        return replace(summary(log, (begin, end)), findings=summary(log).findings) if log.jvms else None
    except (OSError, LeadlineError, ValueError):  # a log without wall-clock times has no steady state
        return None


def sentence(files: TrialFiles) -> str:
    """Empty without a log."""
    summary_ = steady(files)
    if summary_ is None:
        return ""
    sentences = [_pauses(summary_)]
    if summary_.intervals and summary_.share_cycle is not None:
        both = f"{_percent(summary_.share_cycle)} of the time as pause / (interval + pause)"
        if summary_.share_interval is not None:
            both += f", {_percent(summary_.share_interval)} as pause / interval"
        sentences.append(f"{words.number(summary_.intervals.mean_s)} s between them on average: {both}.")
    worst = [
        utilisation
        for utilisation in summary_.mmu
        if utilisation.window_ms in (100.0, 1000.0) and utilisation.share is not None
    ]
    if summary_.pauses.count and worst:
        shares = ", ".join(
            f"{_percent(utilisation.share or 0.0)} of a window of {utilisation.window_ms:g} ms" for utilisation in worst
        )
        sentences.append(f"Left to the application at worst: {shares}.")
    if summary_.stalls.count:
        sentences.append(
            f"Threads waited {words.number(summary_.stalls.sum_ms)} ms in all for memory outside of pauses "
            f"({words.plural(summary_.stalls.count, 'stall')})."
        )
    sentences += [*_heap(summary_), *_beside_latency(files)]
    if summary_.leak.verdict in ("leak", "full", "growing"):
        sentences.append(f"Leak test: {summary_.leak.sentence}.")
    sentences += [f"By the whole log: {finding.name}, {finding.sentence}." for finding in summary_.findings]
    sentences += [f"Warning: {text}." for text in summary_.warnings]
    return " ".join(sentences)


def _pauses(found: GcSummary) -> str:
    pauses = found.pauses
    text = f"{words.plural(pauses.count, 'pause')} in the steady state"
    if pauses.count:
        text += f", p99 {words.number(pauses.percentiles['p99'])} ms, {words.number(pauses.max_ms)} ms the longest"
    return f"{text}, {100 * (found.share or 0.0):.2f} % of the time."


def _heap(found: GcSummary) -> list[str]:
    heap = []
    if found.working_set:
        bound = "at most " if found.working_set.at_most else ""
        size = words.number(found.working_set.size / _MIB)
        heap.append(f"Working set {bound}{size} MiB {found.working_set.basis}.")
    if found.allocation_rate is not None:
        promoted = ""
        if found.promotion_rate is not None:
            promoted = f", {words.number(found.promotion_rate / _MIB)} MiB/s promoted"
        heap.append(f"{words.number(found.allocation_rate / _MIB)} MiB/s allocated{promoted}.")
    return heap


@dataclass(frozen=True)
class Beside:
    """The 99th percentile of the response time, ms, in the median second with a pause and in that without."""

    with_ms: float
    with_count: int
    without_ms: float
    without_count: int


def beside(files: TrialFiles) -> Beside | None:
    """None where there are too few seconds of either kind."""
    pauses, table, phases = files.steady("gc", "gc.pause"), files.seconds, files.phases
    if pauses is None or table is None or phases is None:
        return None
    begin, end = int(phases.steady_from * 1e9), int(phases.steady_until * 1e9)
    rows = (
        table.filter(pl.col("time_ns").is_between(begin, end - 1_000_000_000) & pl.col("response_p99_ms").is_not_null())
        .group_by("time_ns")
        .agg(pl.col("response_p99_ms").max())
    )
    ends = pauses["time_ns"].to_list()
    spans = [(at - int(ms * 1e6), at) for at, ms in zip(ends, pauses["value"].to_list(), strict=True)]
    with_pause: list[float] = []
    without: list[float] = []
    for at, worst in rows.iter_rows():
        inside = any(start < at + 1_000_000_000 and stop > at for start, stop in spans)
        (with_pause if inside else without).append(float(worst))
    if min(len(with_pause), len(without)) < _FEW:
        return None
    middle = [sorted(values)[(len(values) - 1) // 2] for values in (with_pause, without)]
    return Beside(middle[0], len(with_pause), middle[1], len(without))


def _beside_latency(files: TrialFiles) -> list[str]:
    latency = beside(files)
    if latency is None:
        return []
    return [
        f"The 99th percentile of the response time was {words.number(latency.with_ms)} ms in the median second with a "
        f"pause ({latency.with_count} s) and {words.number(latency.without_ms)} ms without ({latency.without_count} s)."
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
