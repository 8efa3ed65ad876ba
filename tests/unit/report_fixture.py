"""A made-up study on disk. Every figure in it is fake: drawn from a seeded generator, nothing was measured.

Planted: a pool of one connection halves the throughput, a heap that the server refuses fails every trial,
one trial lost its files, and strings from outside try to break the page.
"""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from hdrh.histogram import HdrHistogram

from leadline.conclude.explanation import explain
from leadline.experiments.results import profiles_of
from leadline.model.errors import FailureClass
from leadline.model.judgement import Judgement
from leadline.model.knob import Level
from leadline.model.naming import describing
from leadline.model.plan import Factor, Plan, PlannedTrial, Role, Treatment
from leadline.model.record import AuditRecord, Phases, Reading, Step, StudyRecord, TrialRecord
from leadline.model.result import Drift, Effect, Interval, Luck, ResponseAnalysis, SteadyState, StudyAnalysis, Verdict
from leadline.model.study import Study

NASTY = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>]]>{{ 7*7 }} [bold]</pre>"
POOL, CACHE, DIRTY, HEAP = (
    "server.datasource.max_connections",
    "server.datasource.statement_cache",
    "vm.dirty_expire_centisecs",
    "jvm.heap",
)
T0 = 1_750_000_000.0
RAMP, STEADY, DOWN = 8, 30, 2
_SERVED = "java.lang.Thread.run;io.serve.Worker.run;app.Orders"
STACKS = {  # execution samples a second under load
    f"{_SERVED}.place;org.postgresql.core.v3.QueryExecutorImpl.execute": 12,
    f"{_SERVED}.place;java.util.HashMap.get": 4,
    f"{_SERVED}.list;java.util.HashMap.get": 3,
    f"{_SERVED}.{NASTY.replace(';', '')}": 1,
}
# transaction: share, service ms
MIX = {
    "quote": (0.40, 4.0),
    "home": (0.20, 7.0),
    "portfolio": (0.12, 9.0),
    "account": (0.10, 5.0),
    "login": (0.06, 12.0),
    "buy": (0.04, 16.0),
    "sell": (0.04, 18.0),
    "profile": (0.04, 8.0),
}
FACTORS = (
    Factor(POOL, (10, 1, 2, 40), 10),
    Factor(CACHE, (60, 0), 60),
    Factor(DIRTY, (3000, 500), 3000),
    Factor(HEAP, (512 * 2**20, 8 * 2**20), 512 * 2**20),
)
# (factor, level) -> change in percent of throughput, of latency
PLANTED: dict[tuple[str, Level], tuple[float, float]] = {
    (POOL, 1): (-52.0, 900.0),
    (POOL, 2): (-8.0, 60.0),
    (POOL, 40): (0.4, -1.0),
    (CACHE, 0): (-4.5, 9.0),
    (DIRTY, 500): (0.2, 1.0),
}
RESPONSES = {
    "throughput": (212.0, 1, 1.5),
    "p50": (6.1, 0, 2.0),
    "p90": (14.2, 0, 3.0),
    "p99": (31.0, 0, 6.0),
    "cpu_per_transaction": (6.8, 2, 1.2),
}


def fake_study(lab: Path, replicates: int = 4, profiled: bool = True) -> tuple[StudyRecord, StudyAnalysis]:
    """A record whose trials have files below ``lab``, and an analysis that fits it."""
    rng = np.random.default_rng(11)
    plan = _plan(replicates, rng)
    study = Study.model_validate(
        {
            "study": "pools-fake",
            "question": "Do larger pools pay on two cores, and what does a starved one cost? " + NASTY,
            "factors": {POOL: [10, 1, 2, 40], CACHE: [60, 0], DIRTY: [3000, 500], HEAP: ["512m", "8m"]},
            "workload": {"users": 40, "ramp_up": RAMP, "steady": STEADY, "ramp_down": DOWN},
            "design": {"replicates": replicates, "seed": 7},
            "profile": "light" if profiled else "off",
        }
    )
    trials = []
    for planned in plan.trials:
        trials.append(_trial(lab, planned, plan, rng))
    record = StudyRecord(
        id=3,
        study=study,
        document=f"study: pools-fake\nquestion: Do larger pools pay?\n# {NASTY}\n",
        plan=plan,
        created=T0 - 60,
        environment={
            "leadline": "0.1.0",
            "java": 'openjdk 21.0.4 "fake"',
            "server": "liberty 26.0.0.1 sha256:" + "ab" * 32,
            "kernel": "6.1.0-fake",
            "cpus": "2",
            "note": NASTY,
        },
        trials=tuple(trials),
        skipped=("vm.nr_hugepages is left out: needs root",),
    )
    recorded = profiles_of(record)
    profile = explain(
        plan, record.observations(), recorded.profiles, describing(study), 0.0 if recorded.cpu_time else None
    )
    return record, replace(_analysis(record), profile=profile)


def _plan(replicates: int, rng: np.random.Generator) -> Plan:
    baseline = {factor.name: factor.baseline for factor in FACTORS}
    rows: list[PlannedTrial] = []

    def add(block: int, role: Role, levels: dict[str, Level]) -> None:
        seed = int(rng.integers(1, 2**31))
        rows.append(PlannedTrial(len(rows), block, block, role, Treatment.of(levels), seed))

    for block in range(replicates):
        todo = [(Role.BASELINE, baseline)]
        for factor in FACTORS:
            for level in factor.levels:
                if level != factor.baseline and not (factor.name == HEAP and block > 1):
                    todo.append((Role.TREATMENT, {**baseline, factor.name: level}))
        for position, at in enumerate(rng.permutation(len(todo))):
            if position == 4:
                add(block, Role.SENTINEL, baseline)
            add(block, *todo[at])
    return Plan("one-at-a-time", 7, FACTORS, tuple(rows), ("randomised within blocks by replicate",))


def _changes(planned: PlannedTrial) -> tuple[float, float]:
    throughput = latency = 0.0
    for factor in FACTORS:
        change = PLANTED.get((factor.name, planned.treatment[factor.name]))
        if change:
            throughput, latency = throughput + change[0], latency + change[1]
    return throughput, latency


def _trial(lab: Path, planned: PlannedTrial, plan: Plan, rng: np.random.Generator) -> TrialRecord:
    identity = planned.position + 101
    started = T0 + planned.position * 75
    directory = lab / "trials" / str(identity) / "attempt-1"
    readings = _readings(planned)
    if planned.treatment[HEAP] == 8 * 2**20:
        directory.mkdir(parents=True)
        return TrialRecord(
            identity,
            planned,
            "failed",
            1,
            started,
            started + 9,
            FailureClass.CONFIGURATION,
            "the server ended with code 1 before it was ready",
            "Error occurred during initialization of VM\nToo small maximum heap\n" + NASTY,
            readings=readings,
            directory=directory,
        )
    throughput, latency = _changes(planned)
    drift = 1 - 0.004 * planned.position / len(plan.trials)
    responses = {}
    for name, (mean, which, noise) in RESPONSES.items():
        change = (latency if which == 0 else throughput if which == 1 else 0.5) / 100
        responses[name] = mean * (1 + change) * drift * float(rng.normal(1, noise / 100))
    responses["server_cpu_per_transaction"] = responses["cpu_per_transaction"]
    begin = started + 15
    phases = Phases(begin, begin + RAMP + 4, begin + RAMP + STEADY, begin + RAMP + STEADY + DOWN)
    lost = planned.position == 5
    if not lost:
        _files(directory, planned, responses, phases, rng)
    audits = tuple(
        AuditRecord(name, True, "0 rows differ") for name in ("ledger sums to zero", "holdings = buys - sells", "mix")
    )
    return TrialRecord(
        identity,
        planned,
        "done",
        1,
        started,
        phases.load_ended + 6,
        responses=responses,
        audits=audits,
        readings=readings,
        steps=(Step("apply", started, started + 1), Step("load", begin, phases.load_ended)),
        steady=SteadyState("steady", RAMP + 4.0, "steady from second 12"),
        phases=phases,
        directory=directory,
    )


def _readings(planned: PlannedTrial) -> tuple[Reading, ...]:
    level = str(planned.treatment[DIRTY])
    pool = str(planned.treatment[POOL])
    return (
        Reading(DIRTY, "original", None, "3000", True),
        Reading(DIRTY, "before", level, level, True),
        Reading(POOL, "before", pool, pool, True),
        Reading(DIRTY, "after", level, level, True),
        Reading(DIRTY, "undone", "3000", "3000", True),
    )


def _files(
    directory: Path, planned: PlannedTrial, responses: dict[str, float], phases: Phases, rng: np.random.Generator
) -> None:
    for name in ("driver", "series"):
        (directory / name).mkdir(parents=True)
    slow = 1 + _changes(planned)[1] / 100
    wait = (slow - 1) * 6.0
    transactions, rows = {}, ["time_ns,second,phase,transaction,ok,failed,response_mean_ms,response_p50_ms,"]
    rows[0] += "response_p99_ms,service_mean_ms,in_flight,skipped"
    stamps = [f"#[{what}: {phases.load_started:.3f} (seconds since epoch)]" for what in ("StartTime", "BaseTime")]
    logs = {"response": list(stamps), "service": list(stamps)}
    for name, (part, service) in MIX.items():
        count = max(1, int(responses["throughput"] * part * STEADY))
        served = service * rng.lognormal(0, 0.45, count) + wait
        waited = served + rng.exponential(0.25 * slow, count)
        transactions[name] = {
            "ok": count,
            "failed": 0,
            "per_second": count / STEADY,
            "response_ms": _percentiles(waited),
            "service_ms": _percentiles(served),
        }
        for kind, values in (("response", waited), ("service", served)):
            histogram = HdrHistogram(1, 60_000_000_000, 3)
            for value in values:
                histogram.record_value(int(value * 1e6))
            logs[kind].append(f"Tag={name},{RAMP + 6:.3f},1.000,{max(values):.3f},{histogram.encode().decode()}")
    # as the driver writes them: a row a transaction, then one over all; in_flight is the whole driver's
    for second in range(RAMP + STEADY + DOWN):
        phase = "ramp_up" if second < RAMP else "steady" if second < RAMP + STEADY else "ramp_down"
        level = min(1.0, (second + 1) / RAMP) if phase != "ramp_down" else 0.4
        warm = 1 + 1.5 * math.exp(-second / 3)
        stamp = int((phases.load_started + second) * 1e9)
        flying = int(level * 9 * slow**0.4)
        total, spent = 0, 0.0
        for name, (part, service) in MIX.items():
            mean = (service + wait) * warm
            ok = int(rng.poisson(responses["throughput"] * part * level / warm**0.2))
            total, spent = total + ok, spent + ok * mean
            figures = f"{mean:.3f},{mean * 0.9:.3f},{mean * 4:.3f},{mean * 0.96:.3f}"
            rows.append(f"{stamp},{second},{phase},{name},{ok},0,{figures},{flying},0")
        mean = spent / max(1, total)
        figures = f"{mean:.3f},{mean * 0.9:.3f},{mean * 4:.3f},{mean * 0.96:.3f}"
        rows.append(f"{stamp},{second},{phase},all,{total},0,{figures},{flying},0")
    summary = {
        "steady": {
            "duration_s": STEADY,
            "transactions": transactions,
            "all": {"ok": 6000, "failed": 0, "per_second": responses["throughput"]},
        },
        "errors": {},
        "driver": {"cpu_share": 0.12, "lag_ms": {"p99": 0.4}, "limit": False, "evidence": []},
        "littles_law": {"concurrency_observed": 8.1, "concurrency_expected": 8.0, "relative_error": 0.012},
        "arrivals_planned": 6000,
        "arrivals_actual": 5991,
        "dropped": 0,
    }
    (directory / "driver" / "summary.json").write_text(json.dumps(summary))
    (directory / "driver" / "seconds.csv").write_text("\n".join(rows) + "\n")
    for kind, lines in logs.items():
        (directory / "driver" / f"{kind}.hlog").write_text("\n".join(lines) + "\n")
    _series(directory / "series", planned, phases, wait, rng)


def _percentiles(values: np.ndarray) -> dict[str, float]:
    names = {"p50": 50, "p90": 90, "p95": 95, "p99": 99, "p999": 99.9, "max": 100}
    return {"mean": float(values.mean()), **{k: float(np.percentile(values, q)) for k, q in names.items()}}


def _series(folder: Path, planned: PlannedTrial, phases: Phases, wait: float, rng: np.random.Generator) -> None:
    size = int(planned.treatment[POOL])
    starved = size == 1
    tables: dict[str, list[tuple[int, str, str, float]]] = {
        "host": [],
        "processes": [],
        "gc": [],
        "pools": [],
        "profile": [],
    }

    def put(observer: str, at: float, metric: str, subject: str, value: float) -> None:
        tables[observer].append((int(at * 1e9), metric, subject, float(value)))

    ticks = np.arange(phases.load_started - 5, phases.load_ended + 3, 1.0)
    heap = 120.0
    for at in ticks:
        busy = phases.load_started < at < phases.load_ended
        load = (0.35 if starved else 0.7) * (1 if busy else 0.03)
        user = max(0, load * 0.75 + rng.normal(0, 0.02))
        system = max(0, load * 0.2 + rng.normal(0, 0.01))
        iowait = max(0, rng.normal(0.02, 0.01))
        shares = {"user": user, "system": system, "iowait": iowait, "steal": 0.002}
        for kind, value in {**shares, "idle": max(0, 1 - sum(shares.values()))}.items():
            put("host", at, f"cpu.{kind}", "host", value)
        put("host", at, "runqueue", "host", rng.poisson(4 * load))
        put("host", at, "context_switches", "host", 9000 * load + rng.normal(0, 200))
        put("host", at, "memory.available", "host", 5.2e9)
        put("host", at, "memory.dirty", "host", 3e6 + 4e6 * ((at - ticks[0]) % 12) / 12)
        put("host", at, "memory.writeback", "host", 1e6 if int(at) % 12 == 0 else 0)
        put("host", at, "disk.write_bytes", "vda", 2e6 * load + (2e7 if int(at) % 12 == 0 else 0))
        put("host", at, "disk.read_bytes", "vda", 0)
        put("host", at, "net.rx_bytes", "lo", 1.1e6 * load)
        put("host", at, "psi.cpu.some", "host", 0.1 * load)
        put("processes", at, "cpu", "server", load * 1.2 + rng.normal(0, 0.03))
        put("processes", at, "cpu", "database", load * 0.5 + rng.normal(0, 0.02))
        put("processes", at, "cpu", "driver", 0.12 if busy else 0)
        put("processes", at, "rss", "server", 4.1e8)
        used = min(size, rng.poisson(3)) if not starved else 1
        put("pools", at, "pool.in_use", "jdbc/brokerage", used if busy else 0)
        put("pools", at, "pool.free", "jdbc/brokerage", size - (used if busy else 0))
        put("pools", at, "pool.max", "jdbc/brokerage", size)
        put("pools", at, "pool.waiting", "jdbc/brokerage", rng.poisson(14) if starved and busy else 0)
        put("pools", at, "pool.wait_ms_mean", "jdbc/brokerage", (wait + rng.normal(0, 4)) if starved and busy else 0.1)
        put("pools", at, "threads.active", "executor", 12 * load)
        put("pools", at, "threads.size", "executor", 16)
        for stack, samples in STACKS.items():
            if busy and not (starved and stack.endswith("QueryExecutorImpl.execute")):
                put("profile", at, "profile.samples", stack, samples)
        if busy:
            heap += 40
            if heap > 300:
                put("gc", at + 0.3, "gc.pause", "Pause Young", rng.gamma(4, 1.5))
                heap = 110 + rng.normal(0, 5)
                put("gc", at + 0.3, "heap.after", "heap", heap * 2**20)
    for name, values in tables.items():
        if name == "processes" and planned.position == 7:
            continue  # an observer that was not there
        frame = pl.DataFrame(values, schema=["time_ns", "metric", "subject", "value"], orient="row")
        frame.write_parquet(folder / f"{name}.parquet")


def _judgement(record: StudyRecord) -> Judgement:
    planned = len(record.plan.trials)
    done = sum(trial.state == "done" for trial in record.trials)
    lost = {"configuration": planned - done}
    return Judgement(asked=planned, measured=done, lost=lost, trials=planned, done=planned, limits=("Trials failed.",))


def _analysis(record: StudyRecord) -> StudyAnalysis:
    responses = []
    for name, (_, which, noise) in RESPONSES.items():
        effects = []
        for factor in FACTORS:
            for level in factor.levels:
                if level == factor.baseline:
                    continue
                of = [t for t in record.trials if t.planned.treatment[factor.name] == level]
                failures = sum(t.state == "failed" for t in of)
                if failures == len(of):
                    effects.append(
                        Effect(
                            factor.name,
                            level,
                            factor.baseline,
                            name,
                            Verdict.FAILED,
                            0,
                            failures,
                            reason="every trial failed (configuration)",
                        )
                    )
                    continue
                base = [t.responses[name] for t in record.trials if t.planned.role is not Role.TREATMENT]
                percent = 100 * (np.mean([t.responses[name] for t in of if t.responses]) / np.mean(base) - 1)
                half = noise * max(1, 1 + percent / 100) * 1.3
                wide = half * 1.45
                clear = abs(percent) > wide
                better = (percent > 0) == (which == 1)
                verdict = (Verdict.BETTER if better else Verdict.WORSE) if clear else Verdict.UNDETERMINED
                effects.append(
                    Effect(
                        factor.name,
                        level,
                        factor.baseline,
                        name,
                        verdict,
                        len(of) - failures,
                        failures,
                        float(percent),
                        Interval(float(percent - half), float(percent + half)),
                        Interval(float(percent - wide), float(percent + wide)),
                        0.01,
                        0.03,
                    )
                )
        sign = -1 if which == 1 else 1
        effects.sort(key=lambda e: math.inf if e.percent is None else sign * e.percent)
        mean = float(np.mean(base))
        responses.append(
            ResponseAnalysis(
                name,
                mean,
                Interval(mean * (1 - noise / 150), mean * (1 + noise / 150)),
                len(base),
                tuple(effects),
                Luck(5, 0.6 * noise, 1.2 * noise),
                Drift(-0.4, 0.9, Interval(-1.2, 0.4), 0.3, False, "No drift seen: -0.4 % in 54 min [-1.2, +0.4]."),
                (("baseline", f"{POOL}=40", f"{DIRTY}=500"),),
                noise,
                noise * 1.9,
            )
        )
    return StudyAnalysis(
        tuple(responses),
        len(record.trials),
        {"configuration": sum(t.state == "failed" for t in record.trials)},
        "A pool of one connection halves the throughput (−52 % [−54, −50], 4 trials); larger pools than 10 "
        "are not distinguishable from the baseline.",
        warnings=("The best of 5 comparisons is reported: confirm it by fresh trials.",),
        judgement=_judgement(record),
    )
