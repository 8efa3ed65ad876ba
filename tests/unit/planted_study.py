"""Studies of one factor with planted effects, run by arithmetic."""

from __future__ import annotations

from pathlib import Path

from leadline.checks.files.study import parse_study
from leadline.conclude.study import conclude
from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.model.record import StudyRecord, TrialRecord, TrialState
from leadline.model.result import StudyAnalysis
from leadline.places.simulated import SimulatedTestbed, bound, parse_truth, simulate_observations
from leadline.places.simulated.model import Truth

POOL, HEAP, COLLECTOR = "server.datasource.max_connections", "jvm.heap", "jvm.collector"
CACHE, VERSION = "server.datasource.statement_cache", "app.version"
KNOBS = [
    Knob(POOL, Kind.INTEGER, ApplyCost.RESTART, "n", default=10, minimum=1),
    Knob(HEAP, Kind.SIZE, ApplyCost.RESTART, "h", default=512 * 2**20, minimum=1),
    Knob(COLLECTOR, Kind.CHOICE, ApplyCost.RESTART, "c", default="g1", choices=("g1", "parallel", "serial", "zgc")),
    Knob(CACHE, Kind.INTEGER, ApplyCost.RESTART, "n", default=60, minimum=0),
    Knob(VERSION, Kind.CHOICE, ApplyCost.RESTART, "v", default="2.0", choices=("2.0", "2.1")),
]
LEVELS = {POOL: "[10, 5, 20, 70]", HEAP: "[512m, 256m, 1g]", COLLECTOR: "[g1, parallel, serial, zgc]"}
LEVELS |= {CACHE: "[60, 0]", VERSION: "['2.0', '2.1']"}
QUIET = "trials: 0.4%, latency_trials: 0.5%, seconds: 1%, latency_seconds: 1%"
NOISY = "trials: 3%, latency_trials: 6%"


RESPONSES = "throughput, p50, p99"


def planted(
    factor: str, effects: str, noise: str, design: str = "replicates: 6, seed: 3", responses: str = RESPONSES
) -> tuple[StudyRecord, StudyAnalysis]:
    """A study of one factor that has run. ``effects``: ``5: throughput -12%, p99 30%; 70: p99 40%``."""
    text = (
        "study: s\nquestion: q\nworkload: { users: 40, ramp_up: 2s, steady: 12s, ramp_down: 1s }\n"
        f"responses: [{responses}]\nfactors: {{ {factor}: {LEVELS[factor]} }}\ndesign: {{ {design} }}\n"
    )
    file = parse_study(text, "s.yaml")
    plan = SimulatedTestbed(Truth(), Path(), service_knobs=KNOBS, host=[]).plan(file).plan
    changed = []
    for one in effects.split(";") if effects else []:
        level, _, changes = one.strip().partition(": ")
        percent = ", ".join("{}: {}".format(*change.split()) for change in changes.split(", "))
        changed.append(f"{{ when: {{ {factor}: {level} }}, percent: {{ {percent} }} }}")
    known = parse_truth(f"truth:\n  seed: 4\n  noise: {{ {noise} }}\n  effects: [{', '.join(changed)}]\n", "t.yaml")
    held = bound(known, plan.factors, {knob.name: knob for knob in KNOBS}, "t.yaml")
    seen = simulate_observations(plan, held, file.study.workload)
    trials = tuple(
        TrialRecord(n, trial, TrialState.DONE, 1, one.started, one.started + 30.0, responses=one.responses)
        for n, (trial, one) in enumerate(zip(plan.trials, seen, strict=True), 1)
    )
    record = StudyRecord(1, file.study, file.text, plan, 0.0, {}, trials)
    return record, conclude(record)
