"""The studies of the golden set: every built-in one and every kind of design, simulated with fixed seeds."""

import hashlib
import json
import lzma
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from leadline.checks.files.study import StudyFile, find_study, parse_study, parse_tuning
from leadline.checks.plan import Planned
from leadline.checks.subject import study_catalogue
from leadline.design.make import plan_to_json
from leadline.experiments.confirm import best_settings, confirmation_study
from leadline.experiments.results import analysis_of
from leadline.experiments.tuning import TuningRun, steps_left_out
from leadline.experiments.twin import aa_twin
from leadline.host.knobs import every_knob
from leadline.model.knob import ApplyCost, Kind, Knob, Owner
from leadline.model.record import StudyRecord, TrialRecord
from leadline.model.result import StudyAnalysis
from leadline.model.tuning import MODE
from leadline.places.simulated import SimulatedTestbed, bound, parse_truth, simulate_observations
from leadline.places.simulated.model import Truth
from leadline.places.testbed import RunOptions
from leadline.report.document import plain
from leadline.report.tuning.export import document
from leadline.report.tuning.view import gather
from leadline.store.tunings import TuningRecords

Analyse = Callable[[StudyRecord], StudyAnalysis]
analyse = analysis_of
BUILTIN = (
    *("aa", "by-reference", "collectors", "heap", "keep-alive", "large-pages", "messaging", "monitoring", "pools"),
    *("quickstart", "response-cache", "statement-cache", "vmm", "web-server-place"),
)
HOST = [
    Knob("vm.ratio", Kind.INTEGER, ApplyCost.LIVE, "live", default=10, minimum=0, owner=Owner.HOST),
    Knob("vm.age", Kind.INTEGER, ApplyCost.LIVE, "live", default=10, minimum=0, owner=Owner.HOST),
]
SERVICE = [
    *(Knob(f"server.{name}", Kind.INTEGER, ApplyCost.RESTART, name, default=10, minimum=0) for name in "abcdefg"),
    Knob(MODE, Kind.CHOICE, ApplyCost.RESTART, "mode", choices=("direct", "session", "orm")),
]
TWO = "".join(f"  server.{name}: [10, 20]\n" for name in "abcde")
THREE = "".join(f"  server.{name}: [10, 5, 20]\n" for name in "abcd")
TRUTH = """\
truth:
  seed: 5
  noise: { trials: 3%, blocks: 2%, startup: 4% }
  effects:
    - { when: { server.a: 20 }, percent: { throughput: 12%, p50: -9% } }
    - { when: { server.b: 20 }, percent: { p99: 60%, cpu_per_transaction: 4% } }
    - { when: { server.a: 20, server.b: 20 }, percent: { throughput: 9% } }
    - { when: { vm.ratio: 40 }, percent: { throughput: -6%, latency: 5% } }
"""
BROKEN = TRUTH + "  failures: [{ class: configuration, probability: 100%, when: { server.b: 20 } }]\n"
DRIFT = TRUTH + "  drift: -40%\n  outliers: { trials: 10% }\n"
LOAD = "workload: { users: 40, ramp_up: 2s, steady: 12s, ramp_down: 1s }\n"
RESPONSES = "responses: [throughput, p50, p99, cpu_per_transaction, startup]\n"
SMALL = "  server.a: [10, 20]\n  server.b: [10, 20]\n  vm.ratio: [10, 40]\n"
# name -> factors, design, truth
DESIGNS = {
    "one-at-a-time": ("  server.a: [10, 20, 40]\n" + TWO.partition("\n")[2], "replicates: 3, seed: 1", TRUTH),
    "failing": (SMALL, "replicates: 3, seed: 2", BROKEN),
    "drifting": (SMALL, "replicates: 5, sentinels: 2, seed: 3", DRIFT),
    "single": (SMALL, "replicates: 1, sentinels: 2, seed: 4", TRUTH),
    "full-factorial": (SMALL, "kind: full-factorial, replicates: 2, seed: 5", TRUTH),
    "fractional-factorial": (TWO, "kind: fractional-factorial, replicates: 2, seed: 6", TRUTH),
    "plackett-burman": (TWO, "kind: plackett-burman, replicates: 1, sentinels: 4, seed: 7", TRUTH),
    "definitive-screening": (THREE, "kind: definitive-screening, replicates: 2, seed: 8", TRUTH),
    "d-optimal": (TWO, "kind: d-optimal, replicates: 2, seed: 9", TRUTH),
    "latin": (SMALL, "replicates: 4, blocks: latin, sentinels: null, seed: 10", TRUTH),
    "looks": (SMALL, "replicates: 9, looks: 3, sentinels: null, seed: 12", TRUTH),
    "switchback": (
        "  vm.ratio: [10, 40]\n  vm.age: [10, 20]\n  server.a: [10, 20]\n",
        "replicates: 3, sentinels: null, seed: 13, switchback: { slot: 6s, wash_out: 1s }",
        TRUTH + "  carry_over: 0.5s\n",
    ),
    "switchback-looks": (
        "  vm.ratio: [10, 40]\n",
        "replicates: 6, looks: 3, sentinels: null, seed: 14, switchback: { slot: 6s }",
        TRUTH,
    ),
    "configurations": (
        SMALL,
        "kind: configurations, replicates: 4, sentinels: null, seed: 15, configurations: "
        "{ base: {}, one: { server.a: 20 }, two: { server.a: 20, server.b: 20, vm.ratio: 40 } }",
        TRUTH,
    ),
}
TUNED = "truth: { seed: 2, effects: [{ when: { server.a: 20 }, percent: { throughput: 20% } }] }\n"
TUNING = """\
tuning: small
question: q
stack: { server: tomcat }
modes: [orm, direct]
workload: { users: 40, ramp_up: 2s, steady: 12s, ramp_down: 1s }
steps:
  - { name: first, levels: { server.a: [10, 20] } }
  - { name: second, levels: { server.b: [10, 20] } }
blocks: { step: 3, confirm: 3, compare: 4 }
seed: 3
"""


def builtin(name: str) -> tuple[StudyFile, Planned, list[Knob], list[Knob]]:
    """A built-in study, with a short load where slots do not need theirs, planned where every knob can be set."""
    file = find_study(name)
    if file.study.design.switchback is None and file.study.design.rotation is None:
        file = find_study(name, ["workload.ramp_up=2s", "workload.steady=12s", "workload.ramp_down=1s"])
    host, service = every_knob(), study_catalogue(file)
    return file, _planned(file, (host, service)), host, service


def _planned(file: StudyFile, knobs: tuple[list[Knob], list[Knob]] = (HOST, SERVICE)) -> Planned:
    host, service = knobs
    return SimulatedTestbed(Truth(), Path(), None, True, service, host).plan(file)


def run(file: StudyFile, planned: Planned, truth: str, lab: Path, knobs: tuple[list[Knob], list[Knob]]) -> StudyRecord:
    """The study's record: by its whole life cycle where that decides what runs or measures slots, else at once."""
    host, service = knobs
    known = parse_truth(truth, "truth.yaml")
    if any(trial.slots for trial in planned.plan.trials) or file.study.design.looks > 1:
        place = SimulatedTestbed(known, lab, service_knobs=service, host=host)
        return place.store.load(place.run(file, planned, RunOptions()).study_id)
    held = bound(known, planned.plan.factors, {knob.name: knob for knob in (*host, *service)}, "truth.yaml")
    seen = simulate_observations(planned.plan, held, file.study.workload)
    trials = tuple(
        TrialRecord(
            *(number, trial, "failed" if one.failure else "done", 1, one.started, one.started + 20.0, one.failure),
            responses=one.responses,
        )
        for number, (trial, one) in enumerate(zip(planned.plan.trials, seen, strict=True), start=1)
    )
    return StudyRecord(1, file.study, file.text, planned.plan, 0.0, {"host.SIMULATED": "yes"}, trials)


def made(name: str) -> StudyFile:
    factors, design, _ = DESIGNS[name]
    load = LOAD.replace("12s", "90s") if "switchback" in name else LOAD
    text = f"study: {name}\nquestion: q\n{load}factors:\n{factors}design: {{ {design} }}\n{RESPONSES}"
    return parse_study(text, f"{name}.yaml")


def _design(name: str, lab: Path) -> StudyRecord:
    file = made(name)
    planned = _planned(file)
    return run(file, planned, _named(DESIGNS[name][2], file), lab, (HOST, SERVICE))


def _named(truth: str, file: StudyFile) -> str:
    """The truth without effects of factors and levels that the study does not have."""
    kept = []
    for line in truth.splitlines():
        if "when" in line:
            when = line.split("when: {")[1].split("}")[0]
            pairs = [pair.split(":") for pair in when.split(",")]
            if not all(int(level) in file.study.factors.get(name.strip(), []) for name, level in pairs):
                continue
        kept.append(line)
    return "\n".join(kept) + "\n"


def cases(analyse: Analyse, lab: Path) -> Iterator[tuple[str, Any]]:
    """(name, document of numbers): plans and analyses."""
    for name in BUILTIN:
        file, planned, host, service = builtin(name)
        truth = "truth: { seed: 3 }\n"
        yield f"plan {name}", plan_to_json(replace(planned.plan, notes=()))
        yield name, analyse(run(file, planned, truth, lab / name, (host, service)))
    for name in DESIGNS:
        record = _design(name, lab / name)
        yield f"plan {name}", plan_to_json(replace(record.plan, notes=()))
        yield name, analyse(record)
        if name in ("one-at-a-time", "looks"):
            part = tuple(
                trial if trial.planned.block == 0 else replace(trial, state="planned", responses={})
                for trial in record.trials
            )
            yield f"{name} unfinished", analyse(replace(record, trials=part))
    yield from _of_confirmation(analyse, lab)
    file = made("one-at-a-time")
    twin = aa_twin(file, _planned(file))
    record = run(twin, _planned(twin), "truth: { seed: 8 }\n", lab / "twin", (HOST, SERVICE))
    yield "one-at-a-time-aa", analyse(record)
    tuning = parse_tuning(TUNING, "small.yaml")
    place = SimulatedTestbed(parse_truth(TUNED, "truth.yaml"), lab / "tuning", service_knobs=SERVICE, host=HOST)
    ended = TuningRun(tuning, steps_left_out(tuning, place), place).execute()
    yield "tuning", document(gather(place.store, TuningRecords(place.store).load(ended.tuning_id)))


def _of_confirmation(analyse: Analyse, lab: Path) -> Iterator[tuple[str, Any]]:
    for name, chosen in (("confirmation", "one-at-a-time"), ("confirmation of several", "full-factorial")):
        record = _design(chosen, lab / f"{name} first")
        choices = best_settings(record, analyse(record), "throughput", 1)
        file = confirmation_study(record, choices, "throughput", 4)
        truth = _named(TRUTH, file)
        yield name, analyse(run(file, _planned(file), truth, lab / name, (HOST, SERVICE)))


def numbers(value: Any) -> Any:
    """Figures, verdicts and truth values, by key; words are left out, so that they may change."""
    value = plain(value)
    if isinstance(value, dict):
        if "effects" in value and "interactions" in value:  # they were one list
            value = {**value, "effects": [*value["effects"], *value["interactions"]]}
        found = {key: numbers(item) for key, item in value.items() if key == "verdict" or not isinstance(item, str)}
        return {key: item for key, item in found.items() if item not in ({}, [])}
    if isinstance(value, list):
        return [numbers(item) for item in value if not isinstance(item, str)]
    return value


GOLDEN = Path(__file__).with_name("golden.json.xz")


def write(found: Iterator[tuple[str, Any]]) -> None:
    document = {name: recorded(content) for name, content in found}
    GOLDEN.write_bytes(lzma.compress(json.dumps(document, separators=(",", ":")).encode()))


def recorded(content: Any) -> Any:
    """A plan's SHA-256, the figures of anything else."""
    if isinstance(content, str):
        return hashlib.sha256(content.encode()).hexdigest()
    return numbers(content)


def read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lzma.decompress(GOLDEN.read_bytes()))
    return found
