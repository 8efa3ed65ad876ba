"""What each layer did in the steady state of a trial: facts that advice is given on, figures for the table, sentences
for the panels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from leadline.advice.facts import Collection, HostUse, Load, Pool, Statements, StudyLimits, Threads, TrialFacts
from leadline.model.disturbance import disturbed
from leadline.model.knob import Knob, Level
from leadline.model.record import StudyRecord, TrialState
from leadline.observe.window import services_among
from leadline.report import collector, words
from leadline.report.files import TrialFiles


def observed(record: StudyRecord, files: Sequence[TrialFiles], knobs: Mapping[str, Knob]) -> list[TrialFacts]:
    """Facts of the trials that are done, in the order of the plan. ``knobs``: what the stack and the host have."""
    facts_ = [facts(record, file, knobs) for file in files if file.trial.state == TrialState.DONE]
    shares = {
        trial_facts.trial: trial_facts.host.others for trial_facts in facts_ if trial_facts.host.others is not None
    }
    bad = set(disturbed(shares))
    return [replace(trial_facts, disturbed=trial_facts.trial in bad) for trial_facts in facts_]


def facts(record: StudyRecord, files: TrialFiles, knobs: Mapping[str, Knob]) -> TrialFacts:
    """Facts of one trial. A trial with slots is taken as a whole, under the levels it began with."""
    limits, host = record.study.limits, _host(files)
    return TrialFacts(
        trial=files.trial.id,
        treatment=words.trial_text(record.study, record.plan, files.trial.planned),
        samples=_samples(files),
        levels=levels(record, files, knobs),
        pools=tuple(pools(files)),
        threads=tuple(threads(files)),
        statements=tuple(statements(files)),
        collection=_collection(files),
        host=host,
        load=_load(record, files),
        database=_database(files),
        limits=StudyLimits(limits.errors, limits.p90, limits.p99),
        disturbed=host.others is not None and bool(disturbed({files.trial.id: host.others})),
    )


def levels(record: StudyRecord, files: TrialFiles, knobs: Mapping[str, Knob]) -> dict[str, Level]:
    """Every knob whose level is known: defaults, the host's as it was found, settings, the treatment."""
    levels_: dict[str, Level] = {name: knob.default for name, knob in knobs.items() if knob.default is not None}
    for source in (record.environment, record.study.settings):
        for name, raw in source.items():
            if name in knobs:
                try:
                    levels_[name] = knobs[name].parse(raw)
                except ValueError:
                    levels_.pop(name, None)
    return {**levels_, **files.trial.planned.treatment.as_dict()}


def _samples(files: TrialFiles) -> int:
    counts = [
        rows.group_by("subject").len()["len"].max()
        for metric in ("pool.in_use", "threads.active")
        if (rows := files.steady("pools", metric)) is not None
    ]
    return max((int(count) for count in counts if isinstance(count, int)), default=0)


def _rows(files: TrialFiles, metric: str, subject: str) -> pl.DataFrame | None:
    rows = files.steady("pools", metric)
    rows = None if rows is None else rows.filter(pl.col("subject") == subject)
    return rows if rows is not None and rows.height else None


def _values(files: TrialFiles, metric: str, subject: str) -> list[float]:
    rows = _rows(files, metric, subject)
    return [] if rows is None else values_of(rows)


def values_of(rows: pl.DataFrame) -> list[float]:
    return [float(value) for value in rows["value"].to_list()]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def mean(files: TrialFiles, observer: str, metric: str, subject: str) -> float | None:
    """Mean of a metric over the steady state."""
    rows = files.steady(observer, metric)
    return None if rows is None else _mean(values_of(rows.filter(pl.col("subject") == subject)))


def rate(files: TrialFiles, metric: str, subject: str) -> float | None:
    """Growth a second of a counter from the first to the last sample of the steady state."""
    rows = _rows(files, metric, subject)
    if rows is None or rows.height < 2:
        return None
    times, values = rows["time_ns"].to_list(), rows["value"].to_list()
    seconds = (times[-1] - times[0]) / 1e9
    grown = float(values[-1] - values[0])
    return grown / seconds if seconds > 0 and grown >= 0 else None


def pools(files: TrialFiles) -> list[Pool]:
    """Every connection pool that was recorded."""
    pools_ = []
    for subject in _subjects(files, "pool.in_use"):
        used = _values(files, "pool.in_use", subject)
        limit = _limit(files, subject, used)
        waiting = _values(files, "pool.waiting", subject)
        pools_.append(
            Pool(
                subject,
                limit,
                _mean(used) or 0.0,
                max(used),
                None if not limit else sum(count >= limit for count in used) / len(used),
                _mean(waiting),
                max(waiting, default=None),
                _mean(_values(files, "pool.wait_ms_mean", subject)),
                rate(files, "pool.created", subject),
                rate(files, "pool.requests", subject),
            )
        )
    return pools_


def _limit(files: TrialFiles, subject: str, used: Sequence[float]) -> float | None:
    for metric in ("pool.max", "pool.size"):
        values = _values(files, metric, subject)
        if values and max(values) > 0:
            return max(values)
    free = _values(files, "pool.free", subject)
    return max((a + b for a, b in zip(free, used, strict=False)), default=None)


def threads(files: TrialFiles) -> list[Threads]:
    """Every executor that was recorded."""
    threads_ = []
    for subject in _subjects(files, "threads.active"):
        active = _values(files, "threads.active", subject)
        size, limits = _values(files, "threads.size", subject), _values(files, "threads.max", subject)
        limit = max(limits, default=None)
        bounds = limits if limit else size
        busy = [count >= bound > 0 for count, bound in zip(active, bounds, strict=False)]
        threads_.append(
            Threads(
                subject,
                _mean(active) or 0.0,
                max(active),
                _mean(size),
                limit or None,
                sum(busy) / len(busy) if busy else None,
                _mean(_values(files, "threads.queue", subject)),
            )
        )
    return threads_


def statements(files: TrialFiles) -> list[Statements]:
    """Every statement cache that was recorded."""
    return [
        Statements(
            subject,
            rate(files, "statements.uses", subject),
            rate(files, "statements.prepared", subject),
            rate(files, "statements.discarded", subject),
            next(iter(reversed(_values(files, "statements.kept", subject))), None),
        )
        for subject in dict.fromkeys(
            [*_subjects(files, "statements.discarded"), *_subjects(files, "statements.prepared")]
        )
    ]


def _subjects(files: TrialFiles, metric: str) -> list[str]:
    rows = files.steady("pools", metric)
    return [] if rows is None else rows["subject"].unique(maintain_order=True).to_list()


def _collection(files: TrialFiles) -> Collection | None:
    steady = collector.steady(files)
    if steady is None:
        return None
    beside = collector.beside(files)
    return Collection(
        collector=steady.collector,
        span_s=steady.span_s,
        share=steady.share,
        pauses=steady.pauses.count,
        mean_ms=steady.pauses.mean_ms,
        max_ms=steady.pauses.max_ms,
        interval_s=steady.interval_s,
        full=steady.full,
        degenerated=steady.degenerated,
        stall_share=steady.stalls.sum_ms / 1e3 / steady.span_s if steady.span_s > 0 else 0.0,
        heap_max=steady.heap_max,
        live=steady.working_set.size if steady.working_set else None,
        leak=steady.leak.verdict,
        leak_sentence=steady.leak.sentence,
        p99_with_ms=beside.with_ms if beside else None,
        p99_without_ms=beside.without_ms if beside else None,
    )


def _host(files: TrialFiles) -> HostUse:
    def of_host(metric: str) -> float | None:
        return mean(files, "host", metric, "host")

    swapped = [of_host("swap.in"), of_host("swap.out")]
    available = files.steady("host", "memory.available")
    return HostUse(
        idle=of_host("cpu.idle"),
        iowait=of_host("cpu.iowait"),
        steal=of_host("cpu.steal"),
        swapped_per_s=None if None in swapped else sum(value or 0.0 for value in swapped),
        direct_reclaims_per_s=of_host("allocstall"),
        listen_overflows_per_s=of_host("tcp.listen_overflows"),
        io_stalled=of_host("psi.io.some"),
        memory_available=None if available is None else min(available["value"].to_list()),
        memory_total=of_host("memory.total"),
        others=None if files.trial.machine is None else files.trial.machine.taken,
    )


def _load(record: StudyRecord, files: TrialFiles) -> Load:
    responses = files.trial.responses
    flying = None
    if files.seconds is not None and files.phases is not None:
        inside = files.under_load(files.seconds)["in_flight"].drop_nulls()
        flying = _mean(inside.to_list())
    per_s, requests = responses.get("throughput"), files.figure("requests", "count")
    arrivals, connects = files.figure("arrivals_actual"), files.figure("requests", "connects")
    ok, failed = files.figure("steady", "all", "ok"), files.figure("steady", "all", "failed")
    driver = files.summary.get("driver")
    driver = driver if isinstance(driver, Mapping) else {}
    evidence = [str(line) for line in driver.get("evidence", []) if not str(line).startswith("fine:")]
    limit = record.study.workload.requests_per_connection
    p90, p99, dropped = responses.get("p90"), responses.get("p99"), files.figure("dropped")
    return Load(
        in_flight_mean=flying,
        per_s=per_s,
        requests_per_s=per_s * requests / arrivals if per_s and requests and arrivals else None,
        connects=connects / requests if connects is not None and requests and limit is None else None,
        errors=failed / (ok + failed) if ok is not None and failed is not None and ok + failed else None,
        p90_s=None if p90 is None else p90 / 1000,
        p99_s=None if p99 is None else p99 / 1000,
        limit=driver.get("limit") if isinstance(driver.get("limit"), bool) else None,
        evidence="; ".join(evidence),
        cpu_share=files.figure("driver", "cpu_share"),
        dropped=None if dropped is None else int(dropped),
    )


def _database(files: TrialFiles) -> dict[str, float]:
    table = files.series.get("database")
    if table is None:
        return {}
    database = {}
    for metric in table["metric"].unique().to_list():
        if metric.endswith(".per_s") and (rows := files.steady("database", metric)) is not None:
            value = _mean(rows["value"].to_list())
            if value is not None:
                database[metric.removesuffix(".per_s")] = value
    return database


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


def _database_words(files: TrialFiles) -> dict[str, str]:
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
    sentences_ |= _database_words(files)
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
