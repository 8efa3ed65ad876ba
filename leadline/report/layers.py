"""What each layer did in the steady state of a trial: figures for the table and sentences for the panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from leadline.observe.window import services_among
from leadline.report import collector, words
from leadline.report.files import TrialFiles

FULL = 0.5  # share of samples with every connection in use, and waiting callers, from which a pool is called starved


@dataclass(frozen=True)
class PoolUse:
    """A pool in the steady state of one trial. Shares of samples, counts, ms."""

    subject: str
    limit: float | None  # connections it may hold
    in_use_mean: float
    in_use_max: float
    full_share: float | None
    waiting_mean: float | None
    waiting_max: float | None
    wait_ms: float | None

    @property
    def starved(self) -> bool:
        return (self.full_share or 0) >= FULL and (self.waiting_mean or 0) >= FULL

    def sentence(self) -> str:
        if self.limit is None:
            return (
                f"Pool {self.subject}: {words.number(self.in_use_max)} connections in use at most; size not recorded."
            )
        of = f"{words.number(self.limit)}"
        waits = "" if self.wait_ms is None else f"; the mean wait for a connection was {words.number(self.wait_ms)} ms"
        if self.starved:
            every = "the only connection was" if self.limit == 1 else f"all {of} connections were"
            return (
                f"Pool {self.subject} was starved: {every} in use in {words.share(self.full_share)} of the samples of "
                f"the steady state and {words.number(self.waiting_mean)} callers waited on average "
                f"({words.number(self.waiting_max)} at most){waits}."
            )
        if self.waiting_max is None:
            queue = "waiting callers were not recorded"
        elif not self.waiting_max:
            queue = "nobody waited"
        else:
            most = words.number(self.waiting_max)
            queue = f"{words.number(self.waiting_mean)} callers waited on average ({most} at most)"
        return (
            f"Pool {self.subject}: {words.number(self.in_use_mean)} of {of} connections in use on average, "
            f"{words.number(self.in_use_max)} at most; {queue}{waits if self.waiting_max else ''}."
        )


def pools(files: TrialFiles) -> list[PoolUse]:
    """Every pool with its use; empty when none was recorded."""
    used = files.steady("pools", "pool.in_use")
    if used is None:
        return []
    result = []
    for subject in used["subject"].unique(maintain_order=True).to_list():
        of = used.filter(pl.col("subject") == subject)
        values = _values(of)
        limit = _limit(files, subject)
        waiting = _of(files, "pool.waiting", subject)
        waits = _of(files, "pool.wait_ms_mean", subject)
        result.append(
            PoolUse(
                subject,
                limit,
                _mean(values) or 0.0,
                max(values),
                None if not limit else sum(v >= limit for v in values) / len(values),
                _mean(waiting),
                max(waiting, default=None),
                _mean(waits),
            )
        )
    return result


def _limit(files: TrialFiles, subject: str) -> float | None:
    for metric in ("pool.max", "pool.size"):
        values = _of(files, metric, subject)
        if values and max(values) > 0:
            return max(values)
    free, used = _of(files, "pool.free", subject), _of(files, "pool.in_use", subject)
    return max((a + b for a, b in zip(free, used, strict=False)), default=None)


def _of(files: TrialFiles, metric: str, subject: str) -> list[float]:
    rows = files.steady("pools", metric)
    return [] if rows is None else _values(rows.filter(pl.col("subject") == subject))


def _values(rows: pl.DataFrame) -> list[float]:
    return [float(value) for value in rows["value"].to_list()]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def mean(files: TrialFiles, observer: str, metric: str, subject: str) -> float | None:
    """Mean of a metric over the steady state."""
    rows = files.steady(observer, metric)
    return None if rows is None else _mean(_values(rows.filter(pl.col("subject") == subject)))


def pauses(files: TrialFiles) -> tuple[int, float, float] | None:
    """Collection pauses of the steady state: count, largest in ms, share of the time. None when not recorded."""
    if "gc" not in files.series:
        return None
    rows = files.steady("gc", "gc.pause")
    values = [] if rows is None else _values(rows)
    phases = files.phases
    duration = (phases.steady_until - phases.steady_from) * 1000 if phases else 0.0
    return len(values), max(values, default=0.0), sum(values) / duration if duration > 0 else 0.0


def _database(files: TrialFiles) -> dict[str, str]:
    def rate(*metrics: str) -> float | None:
        means = (mean(files, "database", f"{metric}.per_s", "database") for metric in metrics)
        return next((value for value in means if value is not None), None)

    parts = []
    commits, read = rate("xact_commit", "Com_commit"), rate("blks_read", "Innodb_buffer_pool_reads")
    if commits is not None:
        parts.append(f"{words.number(commits)} commits a second")
    if read is not None:
        parts.append(f"{words.number(read)} blocks a second read into its cache")
    return {"database": f"Steady state: {', '.join(parts)}."} if parts else {}


_CPU = ("user", "nice", "system", "irq", "softirq", "iowait", "steal", "idle")
_ALWAYS = ("user", "system", "iowait", "idle")  # also where there is none


def sentences(files: TrialFiles) -> dict[str, str]:
    """One sentence a panel where there is something to say; keys are the panels' names."""
    sentences_: dict[str, str] = {}
    uses = pools(files)
    if uses:
        sentences_["pool"] = " ".join(use.sentence() for use in uses)
    stopped = pauses(files)
    sentence = collector.sentence(files)
    if sentence:
        sentences_["gc"] = sentence
    elif stopped:
        count, longest, part = stopped
        sentences_["gc"] = (
            f"{words.plural(count, 'pause')} in the steady state, {words.number(longest)} ms the longest, "
            f"{100 * part:.2f} % of the time."
        )
    shares = {kind: mean(files, "host", f"cpu.{kind}", "host") for kind in _CPU}
    if shares["idle"] is not None:
        used = [f"{k} {100 * v:.0f} %" for k, v in shares.items() if v is not None and (v >= 0.005 or k in _ALWAYS)]
        sentences_["cpu"] = f"Steady state: {', '.join(used)}."
    beside = services_among(_roles(files))
    cpus = {who: _cpus(files, who) for who in ("server", "database", "web", *beside, "driver")}
    values = [
        f"{'web server' if who == 'web' else who} {value:.2f}" for who, value in cpus.items() if value is not None
    ]
    if values:
        sentences_["processes"] = f"CPUs kept busy in the steady state: {', '.join(values)}."
    sentences_ |= _database(files)
    steady = files.trial.steady
    if steady:
        sentences_["throughput"] = steady.sentence if steady.sentence.endswith(".") else f"{steady.sentence}."
    return sentences_


@dataclass(frozen=True)
class Cell:
    """Mean over the trials with the smallest and largest."""

    text: str
    low: str = ""
    high: str = ""
    mark: bool = False


COLUMNS: tuple[tuple[str, str], ...] = (
    ("server CPU", "CPUs"),
    ("database CPU", "CPUs"),
    ("driver CPU", "CPUs"),
    ("host idle", "%"),
    ("host iowait", "%"),
    ("pauses", "% of time"),
    ("pool in use", "of max"),
    ("pool full", "% of samples"),
    ("waiting", "callers"),
    ("wait", "ms"),
)


_CPU_OF = " CPU"  # after the name of a column's role
_BESIDE = {  # by role
    "web": ("web server CPU", "CPUs"),
    "supplier": ("supplier CPU", "CPUs"),
    "caller": ("remote caller CPU", "CPUs"),
}


def columns(trials: Sequence[TrialFiles]) -> tuple[tuple[str, str], ...]:
    """``COLUMNS``, with those of a web server, of the application's companions and of a stack file's services where one
    of the trials had one.
    """
    roles = {role for trial in trials for role in _roles(trial)}
    there = [column for role, column in _BESIDE.items() if role in roles]
    services = [(f"{role}{_CPU_OF}", "CPUs") for role in services_among(roles)]
    return (*COLUMNS[:2], *there, *services, *COLUMNS[2:])


def _roles(trial: TrialFiles) -> list[str]:
    """Of the processes whose CPU was recorded."""
    rows = trial.steady("processes", "cpu")
    return [] if rows is None else rows["subject"].unique().to_list()


def cells(trials: Sequence[TrialFiles], columns: Sequence[tuple[str, str]] = COLUMNS) -> list[Cell]:
    """One cell for each column over the trials of a treatment."""
    role_of = {column: role for role, column in _BESIDE.items()}
    roles = [role_of.get(of, of[0].removesuffix(_CPU_OF)) for of in columns if of[0].endswith(_CPU_OF)]
    uses = [max(use_, key=lambda use: use.waiting_mean or 0) for use_ in map(pools, trials) if use_]
    starved = bool(uses) and sum(use.starved for use in uses) * 2 > len(uses)
    limit = words.number(max((use.limit or 0 for use in uses), default=0))
    stopped = [pause for pause in map(pauses, trials) if pause]
    return [
        *(_cell([_cpus(t, who) for t in trials], 2) for who in roles),
        _cell([_hundred(mean(t, "host", "cpu.idle", "host")) for t in trials], 1),
        _cell([_hundred(mean(t, "host", "cpu.iowait", "host")) for t in trials], 1),
        _cell([100 * part for _, _, part in stopped], 2),
        _cell([use.in_use_mean for use in uses], 1, suffix=f" / {limit}" if uses else ""),
        _cell([_hundred(use.full_share) for use in uses], 0, mark=starved),
        _cell([use.waiting_mean for use in uses], 1, mark=starved),
        _cell([use.wait_ms for use in uses], 1, mark=starved),
    ]


def _cpus(files: TrialFiles, who: str) -> float | None:
    """CPUs kept busy in the steady state; of the driver, which is not sampled everywhere, by its own account."""
    mean_ = mean(files, "processes", "cpu", who)
    return files.figure("driver", "cpu_share") if mean_ is None and who == "driver" else mean_


def _hundred(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _cell(found: Sequence[float | None], decimals: int, *, suffix: str = "", mark: bool = False) -> Cell:
    values = [value for value in found if value is not None]
    if not values:
        return Cell(words.NOT_RECORDED)
    write = f"{{:,.{decimals}f}}".format
    return Cell(write(sum(values) / len(values)) + suffix, write(min(values)), write(max(values)), mark)
