"""A lab of many trials in a temporary directory, and what reading and analysing it costs: the part ``lab`` of
scaling.py.
"""

from __future__ import annotations

import json
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl
from sqlalchemy import create_engine, insert, update

from leadline.analysis import steady_state, steady_verdict
from leadline.conclude.washout import settled_wash_out
from leadline.design import make_plan
from leadline.design.switchback import switchback_plan
from leadline.lab import schema as t
from leadline.lab.results import analysis_of
from leadline.lab.slotmeasure import slots_of
from leadline.lab.store import Store
from leadline.load.driver import steady_series
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor, Plan
from leadline.model.record import Phases
from leadline.model.result import SteadyState
from leadline.model.study import Study

T = TypeVar("T")
SECONDS = 600
RESPONSES = ["throughput", "p50", "p90", "p99", "cpu_per_transaction"]
STEPS = ("reset", "apply", "start", "verify", "warm", "load", "collect", "audit", "stop")
HEADER = (
    "time_ns,second,phase,transaction,ok,failed,response_mean_ms,response_p50_ms,response_p99_ms,service_mean_ms,"
    "in_flight,skipped"
)


def study_of(switchback: bool) -> Study:
    slots = {"switchback": {"slot": 10}} if switchback else {}
    return Study.model_validate(
        {
            "study": "large",
            "question": "How does it grow?",
            "workload": {"users": 10, "ramp_up": 10, "steady": 1000 if switchback else SECONDS},
            "pseudo_factors": {f"pseudo{n}": list("abcd") for n in range(1, 12)},
            "design": {"kind": "one-at-a-time", **slots},
            "responses": RESPONSES,
        }
    )


def factors(cost: ApplyCost) -> list[Factor]:
    return [Factor(f"pseudo{n}", tuple("abcd"), "a", pseudo=True, apply_cost=cost) for n in range(1, 12)]


def fill(directory: Path, study: Study, plan: Plan) -> Store:
    """A study of which every trial is done, written in few transactions."""
    store = Store(directory)
    store.add_study(study, "study: large\n", plan, {}, ())
    rng = np.random.default_rng(1)
    steady = json.dumps(asdict(SteadyState("steady", 0.0, "Steady throughout.")))
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in ("responses", "steps", "audits", "readings")}
    changes, slots, figures = [], [], []
    for number, trial in enumerate(plan.trials, start=1):
        start = 1_700_000_000.0 + 700 * number
        key = {"trial_id": number, "attempt": 1}
        phases = json.dumps(asdict(Phases(start, start + 10, start + 610, start + 612)))
        changes.append(
            {"key": number, "phases": phases, "began": start, "over": start + 612, "where": f"trials/{number}"}
        )
        values = 100 * np.exp(rng.normal(0, 0.04, len(RESPONSES)))
        rows["responses"] += [{**key, "name": n, "value": float(v)} for n, v in zip(RESPONSES, values, strict=True)]
        rows["steps"] += [{**key, "name": n, "started": start, "ended": start + 1, "detail": ""} for n in STEPS]
        rows["audits"] += [{**key, "name": f"audit{n}", "passed": True, "detail": "as it should be"} for n in range(4)]
        for slot in trial.slots:
            due = round((start + 10 + slot.begin) * 1e9)
            moments = {"due_ns": due, "set_from_ns": due, "set_at_ns": due}
            window = {"measured_from_ns": due + 3 * 10**9, "measured_until_ns": due + 10**10}
            slots.append(
                {**key, "slot": slot.index, "wanted": "{}", "found": "{}", "matches": True, **moments, **window}
            )
            figures += [
                {**key, "slot": slot.index, "name": n, "value": float(v)}
                for n, v in zip(RESPONSES, values, strict=True)
            ]
    engine = create_engine(f"sqlite:///{directory / 'lab.sqlite'}")
    with engine.begin() as connection:
        done = update(t.trials).values(state="done", attempt=1, steady=steady)
        for one in changes:
            place = {"started": one["began"], "ended": one["over"], "phases": one["phases"], "directory": one["where"]}
            connection.execute(done.where(t.trials.c.id == one["key"]).values(**place))
        for name, many in rows.items():
            if many:
                connection.execute(insert(t.metadata.tables[name]), many)
        if slots:
            connection.execute(insert(t.slots), slots)
            connection.execute(insert(t.slot_responses), figures)
    engine.dispose()
    return store


def write_seconds(directory: Path, trials: int) -> None:
    """The driver's rows of a second, of every trial."""
    rng = np.random.default_rng(2)
    for number in range(1, trials + 1):
        rate, mean, tail = (level * np.exp(rng.normal(0, 0.05, SECONDS)) for level in (200.0, 40.0, 160.0))
        lines = [HEADER]
        for second in range(SECONDS):
            ms = f"{mean[second]:.3f},{mean[second]:.3f},{tail[second]:.3f},{mean[second]:.3f}"
            lines.append(f"{second * 10**9},{second},steady,all,{int(rate[second])},0,{ms},3,0")
        driver = directory / "trials" / str(number) / "driver"
        driver.mkdir(parents=True)
        (driver / "seconds.csv").write_text("\n".join(lines) + "\n")


def write_slots(directory: Path, plan: Plan) -> None:
    """The seconds of every slot, of every trial."""
    rng = np.random.default_rng(3)
    for number, trial in enumerate(plan.trials, start=1):
        start = 1_700_000_000.0 + 700 * number + 10
        seconds = np.concatenate([slot.begin + np.arange(slot.seconds) for slot in trial.slots])
        subjects = np.repeat([str(slot.index) for slot in trial.slots], [int(slot.seconds) for slot in trial.slots])
        times = np.round((start + seconds) * 1e9).astype(np.int64)
        frames = [
            pl.DataFrame(
                {"time_ns": times, "metric": name, "subject": subjects, "value": rng.normal(100, 5, len(times))}
            )
            for name in ("throughput", "mean", "p50", "p99")
        ]
        path = directory / "trials" / str(number) / "series" / "slots.parquet"
        path.parent.mkdir(parents=True)
        pl.concat(frames).write_parquet(path)


def judge(directory: Path, trials: int) -> None:
    """The verdict on the steady state of every trial, as it is measured."""
    for number in range(1, trials + 1):
        rows = steady_series(directory / "trials" / str(number) / "driver")
        steady_verdict([row.ok_per_s for row in rows], [row.p99 for row in rows])
        steady_state([row.response_mean_ms for row in rows], higher_is_better=False)


def timed(what: str, work: Callable[[], T]) -> T:
    begun, cpu = time.perf_counter(), time.process_time()
    found = work()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"| {what} | {time.process_time() - cpu:.1f} | {time.perf_counter() - begun:.1f} | {memory:.0f} |", flush=True
    )
    return found


def run(sizes: Sequence[int]) -> None:
    print("| what | CPU seconds | seconds | largest memory so far, MiB |")
    print("| --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        if 1_000 in sizes:
            with_slots(root / "slots")
        for trials in sizes:
            without_slots(root / str(trials), trials)


def with_slots(directory: Path) -> None:
    study = study_of(True)
    design = study.design.model_copy(update={"replicates": 10})
    plan = switchback_plan(factors(ApplyCost.LIVE), design, study.workload)
    store = fill(directory, study, plan)
    write_slots(directory, plan)
    count = sum(len(trial.slots) for trial in plan.trials)
    record = timed(f"store, {len(plan.trials)} trials of {count} slots in all", lambda: store.load(1))
    timed("their wash-out, from 10 seconds a slot", lambda: settled_wash_out(record, slots_of(record)))
    timed("their analysis, wash-out included", lambda: analysis_of(record))


def without_slots(directory: Path, trials: int) -> None:
    study = study_of(False)
    plan = make_plan(
        factors(ApplyCost.RESTART), study.design.model_copy(update={"replicates": max(1, round(trials / 39))})
    )
    count = len(plan.trials)
    store = fill(directory, study, plan)
    if trials == 1_000:
        write_seconds(directory, count)
        timed(f"verdicts of {count:,} trials of {SECONDS} s", lambda: judge(directory, count))
    record = timed(f"store, {count:,} trials", lambda: store.load(1))
    timed(f"analysis of {count:,} trials", lambda: analysis_of(record))
