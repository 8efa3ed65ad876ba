"""A study's whole life cycle on the simulated host: real store, plan and runner, virtual time."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leadline.checks.files.study import StudyFile, parse_study
from leadline.checks.plan import cost
from leadline.cli.main import app
from leadline.load.result import read_summary
from leadline.load.series import steady_series
from leadline.model.errors import FailureClass, UsageError
from leadline.model.knob import ApplyCost, Kind, Knob, Owner
from leadline.model.record import StudyRecord
from leadline.places.simulated import SimulatedTestbed, Truth, bound, parse_truth, simulate_observations
from leadline.places.testbed import RunOptions
from leadline.report.files import read
from leadline.store.lab import Store
from leadline.trial.run import RunResult

HOST = [Knob("vm.ratio", Kind.INTEGER, ApplyCost.LIVE, "a live knob", default=10, minimum=0, owner=Owner.HOST)]
SERVICE = [
    Knob("server.pool", Kind.INTEGER, ApplyCost.RESTART, "a pool", default=10, minimum=1),
    Knob("server.cache", Kind.INTEGER, ApplyCost.RESTART, "a cache", default=50, minimum=0),
]
STUDY = """
study: small
question: Does it?
workload: {{ users: 40, ramp_up: 4s, steady: {steady}, ramp_down: 1s }}
factors: {{ server.pool: [10, 2], vm.ratio: [10, 40] }}
design: {{ replicates: 2, sentinels: null, seed: 3{design} }}
{more}
"""
QUIET = "noise: { trials: 0, seconds: 0, latency_trials: 0, latency_seconds: 0, cpu_trials: 0 }"


def study(steady: str = "20s", design: str = "", more: str = "") -> StudyFile:
    return parse_study(STUDY.format(steady=steady, design=design, more=more), "small.yaml")


@dataclass(frozen=True)
class Ended:
    result: RunResult
    store: Store
    seconds: float  # of virtual time


def on(lab: Path, truth: Truth = Truth()) -> SimulatedTestbed:  # noqa: B008 frozen
    return SimulatedTestbed(truth, lab, service_knobs=SERVICE, host=HOST)


def run(file: StudyFile, truth: str, lab: Path, fresh: bool = False) -> Ended:
    known = parse_truth("truth:\n" + "".join(f"  {line}\n" for line in truth.strip().split("\n")), "truth.yaml")
    place = on(lab, known)
    begun = place.now()
    result = place.run(file, place.plan(file), RunOptions(fresh))
    return Ended(result, place.store, place.now() - begun)


def record_of(ended: Ended) -> StudyRecord:
    return ended.store.load(ended.result.study_id)


def failures(record: StudyRecord) -> list[FailureClass | None]:
    return [trial.failure for trial in record.trials]


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ("profile: '0s:10,60s:100'", "small.yaml:5: workload.profile: the simulated server has one load throughout"),
        ("arrivals: open\n  rate: 5\n  bursts: 2s/3s", "small.yaml:7: workload.bursts: "),
        ("arrivals: replay\n  replay: t.csv", "small.yaml:6: workload.replay: .* no recording"),
        ("arrivals: replay", "small.yaml:5: the simulated server"),
        ("generator: k6", "small.yaml:5: workload.generator: no other load generator runs in a simulation"),
        ("users: 5\ndrivers: [local, local]", "small.yaml:6: a simulation has one driver"),
    ],
)
def test_a_load_that_is_not_simulated_is_refused_at_its_line(load: str, expected: str, tmp_path: Path) -> None:
    text = f"study: small\nquestion: Does it?\nfactors: {{ vm.ratio: [10, 40] }}\nworkload:\n  {load}\n"
    with pytest.raises(UsageError, match=expected):
        on(tmp_path / "lab").plan(parse_study(text, "small.yaml"))
    planned = on(tmp_path / "lab").plan(study())
    with pytest.raises(UsageError, match=expected):
        on(tmp_path / "lab").run(parse_study(text, "small.yaml"), planned, RunOptions())
    assert not (tmp_path / "lab").exists()


def test_virtual_time_is_the_planned_time(tmp_path: Path) -> None:
    """Forty hours, a trial of more than six: over in a second or two."""
    file = study(steady="24000s")
    planned = cost(file.study, on(tmp_path).plan(file).plan)
    ended = run(file, QUIET, tmp_path)
    record = record_of(ended)
    assert planned > 39 * 3600
    assert ended.seconds == pytest.approx(planned)
    assert ended.result.complete
    assert record.trials[-1].ended is not None
    assert record.trials[-1].ended - record.created == pytest.approx(planned, rel=1e-6)
    assert record.environment["host.SIMULATED"]
    assert record.environment["version.simulated"].startswith("truth ")


def test_the_life_cycle_and_the_fast_path_give_the_same_figures(tmp_path: Path) -> None:
    """As long as no warm-up is cut: noise of one second is small here, so none is seen."""
    truth = "seed: 4\nnoise: {trials: 4%, seconds: 0.1%, latency_seconds: 0.1%, blocks: 3%, startup: 10%}\ndrift: 5%"
    file = study()
    record = record_of(run(file, truth, tmp_path))
    known = parse_truth("truth:\n  " + truth.replace("\n", "\n  "), "x")
    fast = simulate_observations(record.plan, known, file.study.workload)
    for whole, alone in zip(record.observations(), fast, strict=True):
        assert whole.responses == pytest.approx(alone.responses)
        assert whole.started == pytest.approx(alone.started)
        assert (whole.treatment, whole.role, whole.block) == (alone.treatment, alone.role, alone.block)


def test_a_seed_gives_the_same_study_and_another_seed_another(tmp_path: Path) -> None:
    def throughputs(seed: int, lab: str) -> list[float]:
        record = record_of(run(study(), f"seed: {seed}", tmp_path / lab))
        return [trial.responses["throughput"] for trial in record.trials]

    first = throughputs(1, "a")
    assert first == throughputs(1, "b")
    assert first != throughputs(2, "c")


def test_slots_run_through_the_real_life_cycle(tmp_path: Path) -> None:
    file = study(steady="24s", design=", switchback: { slot: 6s, wash_out: 2s }")
    truth = f"{QUIET}\ncarry_over: 500ms\neffects: [{{when: {{vm.ratio: 40}}, percent: {{throughput: 10%}}}}]"
    record = record_of(run(file, truth, tmp_path))
    observations = record.observations()
    assert len(observations) == 4 * sum(1 for _ in record.trials)
    assert all(trial.failure is None and len(trial.slots) == 4 for trial in record.trials)
    assert all(slot.matches and slot.set_at == slot.due for trial in record.trials for slot in trial.slots)
    known = parse_truth("truth:\n  " + truth.replace("\n", "\n  "), "x")
    fast = simulate_observations(record.plan, known, file.study.workload, wash_out=2.0)
    for whole, alone in zip(observations, fast, strict=True):
        assert whole.responses == pytest.approx(alone.responses)
        assert (whole.slot, whole.seconds, whole.role) == (alone.slot, pytest.approx(alone.seconds), alone.role)
        assert whole.started == pytest.approx(alone.started)
    assert record.trials[0].directory is not None
    assert (record.trials[0].directory / "series" / "slots.parquet").is_file()


def test_a_silent_live_knob_fails_its_slots(tmp_path: Path) -> None:
    file = study(steady="24s", design=", switchback: { slot: 6s, wash_out: 2s }")
    record = record_of(run(file, f"{QUIET}\nsilent: [vm.ratio]", tmp_path))
    fast = simulate_observations(record.plan, bound_truth("silent: [vm.ratio]"), file.study.workload, wash_out=2.0)
    found = [(one.position, one.treatment, one.failure) for one in record.observations()]
    ended = {position for position, _, _ in found}  # a baseline that cannot be set ends the run
    assert found == [(one.position, one.treatment, one.failure) for one in fast if one.position in ended]
    assert {failure for _, treatment, failure in found if treatment["vm.ratio"] == 40} == {FailureClass.CONFIGURATION}
    assert any(failure is None for _, treatment, failure in found if treatment["vm.ratio"] == 10)


def test_the_files_are_read_as_those_of_a_real_trial(tmp_path: Path) -> None:
    trial = record_of(run(study(), QUIET, tmp_path)).trials[0]
    assert trial.directory is not None
    summary = read_summary(trial.directory / "driver")
    assert summary.phases.steady == (4.0, 24.0)
    assert summary.all.per_second == pytest.approx(trial.responses["throughput"])
    rows = steady_series(trial.directory / "driver")
    assert sum(row.phase == "steady" for row in rows) == 20
    files = read(trial)
    assert files.problems == ()
    assert files.seconds is not None


@pytest.mark.parametrize(
    ("failure", "expected", "words"),
    [
        ("class: configuration", FailureClass.CONFIGURATION, "did not start"),
        ("class: workload", FailureClass.WORKLOAD, "of the transactions failed"),
        ("class: workload, step: audit", FailureClass.WORKLOAD, "audit failed: simulated-ledger"),
        ("class: bottleneck", FailureClass.BOTTLENECK, "the driver was the limit"),
        ("class: infrastructure", FailureClass.INFRASTRUCTURE, "the host failed"),
        ("class: infrastructure, step: load, message: gone", FailureClass.INFRASTRUCTURE, "gone"),
    ],
)
def test_a_level_fails_with_its_class(failure: str, expected: FailureClass, words: str, tmp_path: Path) -> None:
    truth = f"{QUIET}\nfailures: [{{{failure}, probability: 100%, when: {{server.pool: 2}}}}]"
    record = record_of(run(study(), truth, tmp_path))
    for trial in record.trials:
        if trial.planned.treatment["server.pool"] == 2:
            assert trial.failure is expected
            assert words in trial.failure_message
            assert trial.attempt == (3 if expected is FailureClass.INFRASTRUCTURE else 1)
        else:
            assert trial.failure is None
    fast = simulate_observations(record.plan, bound_truth(truth), study().study.workload)
    assert [one.failure for one in fast] == failures(record)


def bound_truth(text: str) -> Truth:
    known = parse_truth("truth:\n" + "".join(f"  {line}\n" for line in text.split("\n")), "x")
    return bound(known, [], {knob.name: knob for knob in (*HOST, *SERVICE)})


def test_an_infrastructure_failure_now_and_then_is_retried(tmp_path: Path) -> None:
    record = record_of(run(study(), "failures: [{class: infrastructure, probability: 30%}]", tmp_path))
    assert failures(record) == [None] * len(record.trials)
    assert sum(trial.attempt for trial in record.trials) > len(record.trials)


@pytest.mark.parametrize(("knob", "level"), [("server.pool", 2), ("vm.ratio", 40)])
def test_a_silent_knob_is_a_configuration_failure(knob: str, level: int, tmp_path: Path) -> None:
    record = record_of(run(study(), f"{QUIET}\nsilent: [{knob}]", tmp_path))
    for trial in record.trials:
        changed = trial.planned.treatment[knob] == level
        assert trial.failure is (FailureClass.CONFIGURATION if changed else None)
        assert not changed or knob in trial.failure_message


def test_a_driver_at_its_capacity_is_the_bottleneck(tmp_path: Path) -> None:
    truth = f"{QUIET}\ndriver: {{capacity: 370}}\neffects: [{{when: {{server.pool: 2}}, percent: {{throughput: 20%}}}}]"
    record = record_of(run(study(), truth, tmp_path))
    for trial in record.trials:
        slow = trial.planned.treatment["server.pool"] == 10
        assert trial.failure is (None if slow else FailureClass.BOTTLENECK)
        assert trial.responses["throughput"] <= 370 + 1e-6


@pytest.mark.parametrize(
    ("warm_up", "steady", "verdict"),
    [
        ("shape: exponential, depth: 60%, seconds: 6s", "90s", "steady"),
        ("shape: step, depth: 40%, seconds: 20s", "90s", "steady"),
        ("shape: slowing-down, depth: 40%", "90s", "slowing-down"),
        ("shape: never-steady, depth: 60%, seconds: 25s", "120s", "never-steady"),
    ],
)
def test_the_warm_up_is_judged(warm_up: str, steady: str, verdict: str, tmp_path: Path) -> None:
    truth = f"noise: {{trials: 0, seconds: 2%, latency_seconds: 2%}}\nwarm_up: {{{warm_up}}}"
    file = parse_study(
        STUDY.format(steady=steady, design="", more="").replace(", vm.ratio: [10, 40]", ""), "small.yaml"
    )
    record = record_of(run(file, truth, tmp_path))
    found = [trial.steady for trial in record.trials]
    assert [one.verdict for one in found if one] == [verdict] * len(record.trials)
    if "step" in warm_up:
        assert all(one is not None and one.cut is not None and one.cut >= 14 for one in found)


def test_the_budget_counts_virtual_time_and_a_run_goes_on(tmp_path: Path) -> None:
    file = study(more="budget: 150s")  # a trial takes 47 s
    first = run(file, "seed: 5", tmp_path)
    assert "the budget is used up with 3 trials left" in first.result.stopped
    assert first.seconds == pytest.approx(3 * 47)
    second = run(file, "seed: 5", tmp_path)
    assert second.result.study_id == first.result.study_id
    assert second.result.complete
    trials = record_of(second).trials
    starts = [trial.started for trial in trials if trial.started]
    assert starts == sorted(starts)
    assert starts[3] - starts[2] == pytest.approx(47)
    whole = record_of(run(study(), "seed: 5", tmp_path / "whole")).trials
    assert [t.responses for t in trials] == [t.responses for t in whole]


def test_the_command_says_simulated_and_keeps_apart(tmp_path: Path) -> None:
    truth = tmp_path / "truth.yaml"
    truth.write_text("truth:\n  seed: 3\n  effects:\n    - { when: { jvm.heap: 512m }, scale: { demand: 0.7 } }\n")
    file = tmp_path / "heap.yaml"
    file.write_text(
        "study: heap\nquestion: q\nstack: { server: tomcat }\n"
        "workload: { users: 90, steady: 20s }\nfactors: { jvm.heap: [256m, 512m] }\nresponses: [throughput]\n"
    )
    lab = tmp_path / "lab"
    arguments = ["run", str(file), "--simulate", str(truth), "--lab", str(lab)]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "SIMULATED" in shown.output
    assert (lab / "simulated" / "lab.sqlite").is_file()
    assert not (lab / "lab.sqlite").exists()
    page = next((lab / "simulated" / "reports").rglob("report.html")).read_text(encoding="utf-8")
    assert "SIMULATED" in page

    rated = CliRunner().invoke(app, ["simulate", str(file), "--truth", str(truth), "--studies", "20", "--json"])
    document = json.loads(rated.output)
    assert document["studies"] == 20
    assert document["effects"][0]["found"] > 0.9
    assert document["effects"][0]["truth_percent"] > 10
