"""Tunings as rotations: what stands side by side, what changes in slots, what is refused, and what comes of it."""

from collections import Counter
from pathlib import Path

import pytest

from leadline.checks.files.study import TuningFile, find_tuning, parse_tuning
from leadline.experiments.tuning import Outline, TuningRun, outline, part_file, steps_left_out, tuning_catalogue
from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.model.plan import Plan
from leadline.model.tuning import MODE
from leadline.places.simulated import SimulatedTestbed, parse_truth
from leadline.planning.sequence.compare import compare_part
from leadline.planning.sequence.keep import step_part
from leadline.report.tuning.export import document, export, lines
from leadline.report.tuning.page import figures, render
from leadline.report.tuning.view import gather
from leadline.store.tunings import TuningRecords

KNOBS = [
    Knob(MODE, Kind.CHOICE, ApplyCost.RESTART, "mode", choices=("direct", "session", "orm")),
    Knob("jvm.heap", Kind.SIZE, ApplyCost.RESTART, "heap"),
    Knob("server.pool", Kind.INTEGER, ApplyCost.LIVE, "pool"),
    Knob("server.cache", Kind.INTEGER, ApplyCost.LIVE, "cache"),
]
TUNING = """\
tuning: small
question: q
stack: { server: tomcat }
modes: [orm, direct]
workload: { users: 40, variables: { think: 100ms }, ramp_up: 6s, steady: 16s, ramp_down: 1s }
steps:
  - { name: heap, levels: { jvm.heap: [128m, 512m] } }
  - { name: pool, levels: { server.pool: [10, 70] } }
  - { name: cache, levels: { server.cache: [0, 60] }, steady: 48s, rotation: { slot: 8s, wash_out: 3s } }
rotation: { slot: 4s, otherwise: one-by-one }
blocks: { step: 2, confirm: 0, compare: 4, rungs: false }
responses: [throughput, p99]
"""
TRUTH = """\
truth:
  noise: { trials: 1%, seconds: 2%, latency_trials: 1% }
  effects:
    - { when: { app.mode: direct }, percent: { throughput: 80% } }
    - { when: { server.pool: 70, app.mode: orm }, percent: { throughput: 40% } }
    - { when: { server.cache: 60 }, percent: { throughput: 30% } }
"""
KEPT = {"orm": {"pool": 1}, "direct": {}}  # before the step of the cache


def small(*overrides: str) -> TuningFile:
    return parse_tuning(TUNING, "small.yaml", overrides)


def simulated(lab: Path) -> SimulatedTestbed:
    return SimulatedTestbed(parse_truth(TRUTH, "truth.yaml"), lab, service_knobs=KNOBS, host=[])


def step_plan(file: TuningFile, testbed: SimulatedTestbed, step: str) -> Plan:
    chosen = next(one for one in file.tuning.steps if one.name == step)
    kept: dict[str, dict[str, int]] = {}
    for mode in file.tuning.modes:
        kept[mode] = {name: at for name, at in KEPT[mode].items() if name != step}
    return testbed.plan(part_file(file.tuning, step_part(file.tuning, chosen, kept, {}))).plan


def test_a_step_of_restart_knobs_has_an_instance_for_each_configuration(tmp_path: Path) -> None:
    plan = step_plan(small(), simulated(tmp_path), "heap")
    assert [len({trial.treatment for trial in block}) for block in plan.together] == [4, 4]
    assert all(sum(not turn.warm_up for turn in trial.turns) == 4 for trial in plan.trials)
    assert not any(trial.slots for trial in plan.trials)


def test_a_step_of_live_knobs_shares_the_instances_of_a_mode(tmp_path: Path) -> None:
    plan = step_plan(small(), simulated(tmp_path), "cache")
    assert [sorted(str(trial.treatment[MODE]) for trial in block) for block in plan.together] == [["direct", "orm"]] * 2
    for trial in plan.trials:
        mode = trial.treatment[MODE]
        assert [slot.seconds for slot in trial.slots] == [8.0] * 6
        assert [slot.treatment["server.cache"] for slot in trial.slots].count(60) == 3
        assert {slot.treatment[MODE] for slot in trial.slots} == {mode}
        assert {slot.treatment["server.pool"] for slot in trial.slots} == {70 if mode == "orm" else 10}


@pytest.mark.parametrize(("blocks", "sizes"), [(2, [2]), (3, [3]), (5, [2, 3])])
def test_in_one_mode_blocks_of_a_live_step_stand_side_by_side(blocks: int, sizes: list[int], tmp_path: Path) -> None:
    plan = step_plan(small("modes=[orm]", f"blocks.step={blocks}"), simulated(tmp_path), "cache")
    assert [len(block) for block in plan.together] == sizes


def test_in_the_comparison_every_configuration_has_instances_of_its_own(tmp_path: Path) -> None:
    tuning = small().tuning
    part = compare_part(tuning, {"orm": {"pool": 1, "cache": 1}, "direct": {"cache": 1}}, {})
    assert part is not None
    assert list(part.configurations) == ["orm untuned", "orm tuned", "direct untuned", "direct tuned"]
    plan = simulated(tmp_path).plan(part_file(tuning, part)).plan
    assert [len({trial.treatment for trial in block}) for block in plan.together] == [4] * 4
    assert not any(trial.slots for trial in plan.trials)


def test_what_is_planted_is_kept_and_its_gain_held(tmp_path: Path) -> None:
    testbed = simulated(tmp_path)
    file = small()
    result = TuningRun(file, steps_left_out(file, testbed), testbed).execute()
    assert result.complete
    view = gather(testbed.store, TuningRecords(testbed.store).load(result.tuning_id))
    kept = {(one.mode, one.step) for one in view.progress.decisions if one.kept}
    assert kept == {("orm", "pool"), ("orm", "cache"), ("direct", "cache")}
    changes = {(one.mode, one.step): one.change for one in view.progress.decisions}
    for (mode, step), truth in {("orm", "pool"): 40, ("orm", "cache"): 30, ("direct", "cache"): 30}.items():
        change = changes[mode, step]
        assert change is not None
        assert change.percent == pytest.approx(truth, abs=6)
        assert (change.trials, change.failures, change.against) == (2, 0, 2)  # instances, not slots
        assert change.df > 1  # two modes with two instances each, or the slots where these agree by luck
    assert view.progress.comparison is not None
    assert view.progress.comparison.gains["orm"].percent == pytest.approx(82, abs=12)
    over = {one.step: one for one in view.over_modes}
    for step, truth in {"heap": 0, "pool": 100 * (1.4**0.5 - 1), "cache": 30}.items():
        change = over[step].change
        assert over[step].modes == ("orm", "direct")
        assert change.simultaneous is not None
        assert change.interval is not None
        assert change.interval.low < change.percent < change.interval.high
        assert change.percent == pytest.approx(truth, abs=4)  # one play: coverage is of many
        product = (1 + over[step].by_mode["orm"].percent / 100) * (1 + over[step].by_mode["direct"].percent / 100)
        assert 100 * (product**0.5 - 1) == pytest.approx(change.percent)
    assert (over["heap"].change.trials, over["heap"].change.against) == (4, 4)
    text = "\n".join(lines(view))
    assert "Every step over its modes, change of throughput" in text
    assert "over-modes" in figures(view)
    assert 'id="over-modes-head"' in render(view)
    assert set(document(view)["over_modes"]) == {"throughput", "p99"}
    assert "over orm, direct: throughput +" in view.answer
    export(view, tmp_path / "files", ["csv"])
    averages = (tmp_path / "files" / "over_modes.csv").read_text().splitlines()
    assert [row.split(",")[3] for row in averages[1:]] == ["throughput"] * 3 + ["p99"] * 3
    rows = [row.split(",") for row in (tmp_path / "files" / "steps.csv").read_text().splitlines()]
    assert [row[4] for row in rows[1:]] == ["throughput", "p99"] * 6


def outlined(lab: Path, *overrides: str) -> Outline:
    file, testbed = small(*overrides), simulated(lab)
    return outline(file.tuning, steps_left_out(file, testbed), testbed)


def test_the_dry_run_counts_instances_and_their_own_seconds(tmp_path: Path) -> None:
    told = outlined(tmp_path)
    assert [(line.what, line.least, line.most) for line in told.lines_of] == [
        ("heap", 8, 8), ("pool", 4, 4), ("cache", 4, 4), ("compare", 8, 16),
    ]  # fmt: skip
    by_name = {line.what: line.seconds for line in told.lines_of}
    assert by_name["cache"] - by_name["pool"] == 32
    steps = 12 * by_name["heap"] + 4 * by_name["cache"]
    assert told.seconds == (steps + 8 * by_name["compare"], steps + 16 * by_name["compare"])
    assert told.side_by_side[0].startswith("4 instances at once need about ")


def test_where_memory_is_too_small_a_tuning_runs_plain_trials(tmp_path: Path) -> None:
    heaps = "steps=[{name: heap, levels: {jvm.heap: [480g, 481g]}}, {name: pool, levels: {server.pool: [10, 70]}}]"
    told = outlined(tmp_path, heaps)
    assert [(line.what, line.least) for line in told.lines_of][:2] == [("heap", 8), ("pool", 8)]
    assert told.side_by_side[0].startswith("No rotation: 4 instances at once need about ")
    plan = step_plan(small(heaps), simulated(tmp_path), "pool")
    assert plan.layout != "rotation"
    assert not any(trial.slots for trial in plan.trials)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("rotation={slot: 4500ms}", "--set rotation={slot: 4500ms}: design.rotation.slot is 4.5s"),
        ("rotation={slot: 4s, instances: 3}", "rotation.instances: 3 replicates are to stand side by side"),
        ("rotation=null", "step cache has keys of a rotation, and the tuning has none"),
        ("rotation={slots: 4s}", "slots"),
    ],
)
def test_a_rotation_that_does_not_fit_is_refused(override: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        steps_left_out(small(override), simulated(tmp_path))
    assert words in str(refused.value)


def test_what_does_not_fit_is_named_with_its_line(tmp_path: Path) -> None:
    file = parse_tuning(TUNING.replace("slot: 4s", "slot: 12s"), "small.yaml")
    with pytest.raises(UsageError, match=r"^small\.yaml:\d+: workload\.steady of 16s is too short for 2 slots of 12s"):
        steps_left_out(file, simulated(tmp_path))


def test_a_tuning_that_names_no_ramp_up_warms_until_it_is_over() -> None:
    load = "workload={users: 40, steady: 16s}"
    assert small(load).tuning.workload.warm_up is not None
    plain = small(load, "rotation=null", "steps=[{name: heap, levels: {jvm.heap: [128m, 512m]}}]")
    assert plain.tuning.workload.warm_up is None


def test_daytrader_has_as_many_instances_of_every_step(tmp_path: Path) -> None:
    file = find_tuning("daytrader")
    assert file is not None
    testbed = SimulatedTestbed(parse_truth(TRUTH, "truth.yaml"), tmp_path, tuning_catalogue(file), host=[])
    left_out = steps_left_out(file, testbed)
    for step in file.tuning.steps:
        if step.name not in left_out:
            part = step_part(file.tuning, step, {mode: {} for mode in file.tuning.modes}, left_out)
            plan = testbed.plan(part_file(file.tuning, part)).plan
            count = Counter(trial.treatment for trial in plan.trials)
            assert len(count) == 2 * len(step.modes or file.tuning.modes), step.name
            assert set(count.values()) == {2}, step.name
            assert not any(trial.slots for trial in plan.trials), step.name
    told = outline(file.tuning, left_out, testbed)
    assert max(told.seconds) <= 2 * 3600  # 65 s a trial are assumed, 52 s were measured on a quiet machine
