"""What each layer did in the steady state of a trial: figures for the table and sentences for the panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadline.advice.facts import Pool
from leadline.observe.window import services_among
from leadline.report import collector, words
from leadline.report.files import TrialFiles
from leadline.report.observed import mean, pools, values_of


def pool_sentence(pool: Pool) -> str:
    """How busy it was, and who waited for it."""
    name = f"Pool {pool.subject}"
    if pool.limit is None:
        return f"{name}: {words.number(pool.in_use_max)} connections in use at most; size not recorded."
    of = f"{words.number(pool.limit)}"
    waits = "" if pool.wait_ms is None else f"; the mean wait for a connection was {words.number(pool.wait_ms)} ms"
    if pool.starved:
        every = "the only connection was" if pool.limit == 1 else f"all {of} connections were"
        return (
            f"{name} was starved: {every} in use in {words.share(pool.full_share)} of the samples of the steady state "
            f"and {words.number(pool.waiting_mean)} callers waited on average "
            f"({words.number(pool.waiting_max)} at most){waits}."
        )
    if pool.waiting_max is None:
        queue = "waiting callers were not recorded"
    elif not pool.waiting_max:
        queue = "nobody waited"
    else:
        most = words.number(pool.waiting_max)
        queue = f"{words.number(pool.waiting_mean)} callers waited on average ({most} at most)"
    return (
        f"{name}: {words.number(pool.in_use_mean)} of {of} connections in use on average, "
        f"{words.number(pool.in_use_max)} at most; {queue}{waits if pool.waiting_max else ''}."
    )


def pauses(files: TrialFiles) -> tuple[int, float, float] | None:
    """Collection pauses of the steady state: count, largest in ms, share of the time. None when not recorded."""
    if "gc" not in files.series:
        return None
    rows = files.steady("gc", "gc.pause")
    values = [] if rows is None else values_of(rows)
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
        sentences_["pool"] = " ".join(map(pool_sentence, uses))
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
