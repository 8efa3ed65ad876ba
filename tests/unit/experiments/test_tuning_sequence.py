"""What a tuning measures next, from what has been measured; designs of named configurations."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from leadline.analysis.contrasts import contrasts, mean_contrasts
from leadline.checks.plan import plan_study
from leadline.design.kind import DesignError
from leadline.design.make import make_plan
from leadline.experiments.tuning import measured, part_file
from leadline.layouts.check import plan_problems
from leadline.model.design import Design
from leadline.model.errors import FailureClass
from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.model.plan import Factor, Plan, Treatment
from leadline.model.result import Observation, Verdict
from leadline.model.tuning import MODE, Tuning
from leadline.places.simulated.host import SimulatedHost
from leadline.places.simulated.timing import VirtualClock
from leadline.planning.sequence import Measured, Part, Progress, Stage, advance

KNOBS = [
    Knob(MODE, Kind.CHOICE, ApplyCost.RESTART, "mode", choices=("direct", "session", "orm")),
    Knob("jvm.heap", Kind.SIZE, ApplyCost.RESTART, "heap"),
    Knob("server.least", Kind.INTEGER, ApplyCost.RESTART, "least"),
    Knob("server.most", Kind.INTEGER, ApplyCost.RESTART, "most"),
    Knob("server.watch", Kind.BOOLEAN, ApplyCost.RESTART, "watch"),
]
DOCUMENT = {
    "tuning": "small",
    "question": "q",
    "modes": ["orm", "direct"],
    "workload": {"users": 20},
    "steps": [
        {"name": "heap", "levels": {"jvm.heap": ["256m", "512m", "1g"]}},
        {"name": "pool", "levels": {"server.least": [1, 10], "server.most": [10, 70]}},
        {"name": "watch", "levels": {"server.watch": [True, False]}, "modes": ["orm"]},
    ],
    "responses": ["throughput", "p99"],
    "blocks": {"step": 2, "confirm": 2, "compare": 2},
}


def tuning(**keys: object) -> Tuning:
    return Tuning.model_validate({**DOCUMENT, **keys})


Figures = Mapping[str, float]  # gain of each step, percent


def played(
    whole: Tuning,
    gains: Figures,
    broken: Mapping[str, FailureClass] | None = None,
    p99: Figures | None = None,
    heaps: Figures | None = None,
) -> tuple[Progress, list[Part]]:
    """All parts with almost no noise; ``broken``: steps whose trials fail, ``p99`` and ``heaps``: what steps and levels
    of the heap make of the 99th percentile, ms.
    """
    results: dict[str, Measured] = {}
    parts: list[Part] = []
    while True:
        found = advance(whole, results)
        if found.next is None:
            return found, parts
        parts.append(found.next)
        results[found.next.key] = _measured(whole, found.next, gains, broken or {}, p99 or {}, heaps or {})


def _measured(
    whole: Tuning, part: Part, gains: Figures, broken: Mapping[str, FailureClass], p99: Figures, heaps: Figures
) -> Measured:
    file = part_file(whole, part)
    plan = plan_study(file, SimulatedHost([], VirtualClock()), KNOBS).plan
    empty = measured(file, part, plan, [], complete=True)
    names = {treatment: name for name, treatment in empty.treatments.items()}
    seen = []
    for trial in plan.trials:
        levels = part.configurations[names[trial.treatment]]
        on = [step.name for step in whole.steps if any(levels[knob] != row[0] for knob, row in step.levels.items())]
        rate = 100.0 * (1 + 0.001 * ((7 * trial.position) % 5))
        late = heaps.get(str(levels["jvm.heap"]), 50.0) + 0.1 * ((7 * trial.position) % 5)
        failure = None
        for step in on:
            rate *= 1 + gains.get(step, 0.0) / 100
            late = p99.get(step, late)
            failure = failure or broken.get(step)
        figures = {} if failure else {"throughput": rate, "p99": late}
        seen.append(
            Observation(
                trial.position + 1, trial.position, trial.block, trial.replicate, trial.role, trial.treatment,
                float(trial.position), figures, failure,
            )
        )  # fmt: skip
    return replace(empty, observations=seen)


def test_each_step_is_tried_on_top_of_what_was_kept() -> None:
    found, parts = played(tuning(), {"heap": 10, "pool": 20, "watch": -5})
    stages = [(part.stage, part.step) for part in parts]
    assert stages == [
        (Stage.STEP, "heap"), (Stage.CONFIRM, "heap"), (Stage.STEP, "pool"), (Stage.CONFIRM, "pool"),
        (Stage.STEP, "watch"), (Stage.COMPARE, ""),
    ]  # fmt: skip
    assert len({part.seed for part in parts}) == len(parts)
    pool = parts[2].configurations
    assert list(pool) == ["orm before", "orm pool", "direct before", "direct pool"]
    assert all(row["jvm.heap"] == found_heap(found, str(row[MODE])) for row in pool.values())
    assert (pool["orm pool"]["server.least"], pool["orm pool"]["server.most"]) == (10, 70)
    assert list(parts[4].configurations) == ["orm before", "orm watch"]
    assert [one.kept for one in found.of("direct")] == [True, True]
    assert [one.kept for one in found.of("orm")] == [True, True, False]
    assert found.comparison is not None
    assert [rung.name for rung in found.comparison.rungs] == [
        "orm untuned", "orm tuned", "direct untuned", "direct tuned",
    ]  # fmt: skip
    assert found.comparison.gains["direct"].percent == pytest.approx(32, abs=1)


def found_heap(found: Progress, mode: str) -> str:
    return ["256m", "512m", "1g"][found.kept[mode]["heap"]]


def test_without_fresh_trials_the_comparison_has_every_rung() -> None:
    blocks = {"step": 2, "confirm": 0, "compare": 2}
    found, parts = played(tuning(blocks=blocks), {"heap": 10, "pool": 20, "watch": 30})
    assert Stage.CONFIRM not in [part.stage for part in parts]
    assert found.comparison is not None
    assert [rung.name for rung in found.comparison.of("orm")] == ["orm untuned", "orm +heap", "orm +pool", "orm tuned"]
    steps = [rung.change.percent for rung in found.comparison.of("orm") if rung.change]
    assert steps == pytest.approx([10, 20, 30], abs=1)


def test_a_step_that_fails_or_breaks_a_limit_is_not_kept() -> None:
    broken = {"heap": FailureClass.CONFIGURATION}
    found, _ = played(tuning(limits={"p99": "80ms"}), {"heap": 50, "pool": 50}, broken, {"pool": 90.0})
    heap, pool = found.of("direct")
    assert not heap.kept
    assert heap.tried[0].verdict is Verdict.FAILED
    assert heap.reason == "2 of its 2 trials failed (configuration)"
    assert not pool.kept
    assert pool.reason == "p99 90 ms is beyond the limit of 80 ms"


def test_a_step_that_is_to_be_left_alone_is_called_equivalent() -> None:
    found, _ = played(tuning(), {"heap": 10, "pool": 0, "watch": -5})
    reasons = [one.reason for one in found.of("orm")]
    assert reasons == ["confirmed", "not confirmed: equivalent, within 2 %", "worse"]


def test_steps_that_cannot_be_tried_are_passed_over() -> None:
    results: dict[str, Measured] = {}
    first = advance(tuning(), results, {"heap": "no such knob"})
    assert first.next is not None
    assert first.next.step == "pool"
    assert "jvm.heap" not in first.next.configurations["orm before"]
    assert first.of("orm")[0].reason == "no such knob"
    second = advance(tuning(), results, {"heap": "no such knob"}, untried=("pool", "watch"))
    assert second.next is not None
    assert second.next.stage is Stage.COMPARE
    assert list(second.next.configurations) == ["orm untuned", "direct untuned"]
    assert "budget" in second.of("orm")[1].reason


def test_a_part_is_an_ordinary_study() -> None:
    part = advance(tuning(), {}).next
    assert part is not None
    file = part_file(tuning(), part)
    assert file.study.study == "small-heap"
    assert file.study.factors == {MODE: ["orm", "direct"], "jvm.heap": ["256m", "512m", "1g"]}
    assert file.study.settings == {"server.least": 1, "server.most": 10, "server.watch": True}
    assert file.study.stack.mode == "orm"
    plan = plan_study(file, SimulatedHost([], VirtualClock()), KNOBS).plan
    assert plan_problems(plan) == ()
    assert len(plan.trials) == 12
    alone = advance(tuning(modes=["direct"]), {}).next
    assert alone is not None
    assert MODE not in part_file(tuning(modes=["direct"]), alone).study.factors


def test_factorials_combine_the_kept_steps_of_each_mode() -> None:
    keys = {"factorial": {"replicates": 2}}
    found, parts = played(tuning(**keys), {"heap": 10, "pool": 20, "watch": 30})
    crossing = [part for part in parts if part.stage is Stage.FACTORIAL]
    assert [part.mode for part in crossing] == ["orm", "direct"]
    assert len(crossing[0].configurations) == 8
    assert next(iter(crossing[1].configurations)) == "direct untuned"
    assert set(crossing[1].configurations) == {f"direct {name}" for name in ("untuned", "heap", "pool", "heap+pool")}
    assert [one.mode for one in found.factorials] == ["orm", "direct"]
    mains = {one.factor: one.percent for one in found.factorials[1].analysis.effects}
    assert mains["pool"] == pytest.approx(20, abs=1)


def test_a_factorial_of_all_steps_takes_the_candidate_that_came_nearest() -> None:
    """Less is better: the one with the smallest change, not with the largest."""
    whole = tuning(responses=["p99"], factorial={"of": "all", "replicates": 2}, modes=["orm"])
    found, parts = played(whole, {}, p99={"pool": 80.0, "watch": 40.0}, heaps={"512m": 60.0, "1g": 90.0})
    assert found.kept == {"orm": {"watch": 1}}
    crossing = next(part for part in parts if part.stage is Stage.FACTORIAL)
    assert {levels["jvm.heap"] for levels in crossing.configurations.values()} == {"256m", "512m"}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"modes": ["orm", "orm"]}, "lists one twice"),
        ({"settings": {"jvm.heap": "1g"}}, "held under settings and moved by the step heap"),
        ({"steps": [{"name": "a", "levels": {"x": [1, 2], "y": [1]}}]}, "at least one candidate"),
        ({"steps": [{"name": "a", "levels": {"x": [1, 2], "y": [1, 2, 3]}}]}, "as many levels each"),
        ({"steps": [{"name": "a", "levels": {"x": [1, 1]}}]}, "twice"),
        ({"blocks": {"confirm": 1}}, "two blocks and more"),
        ({"factorial": {"replicates": 1}}, "1 is not between 2 and 1,000"),
        ({"factorial": {"kind": "full-factorial", "resolution": 4}}, "full-factorial has no resolution"),
        ({"factorial": {"kind": "full-factorial", "foldover": True}}, "full-factorial has no foldover"),
    ],
)
def test_a_tuning_that_makes_no_sense_is_refused(keys: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tuning(**keys)


FACTORS = [Factor("a", (0, 1), 0), Factor("b", (0, 1), 0)]


def test_configurations_are_compared_as_wholes() -> None:
    named: dict[str, dict[str, object]] = {"none": {}, "both": {"a": 1, "b": 1}, "one": {"b": 1}}
    plan = _plan(named)
    assert plan_problems(plan) == ()
    assert len(plan.trials) == 9
    at = {name: Treatment.of({"a": 0, "b": 0} | levels) for name, levels in named.items()}  # type: ignore[operator]
    rate = {at["none"]: 100.0, at["both"]: 150.0, at["one"]: 120.0}
    seen = [
        Observation(t.position, t.position, t.block, t.replicate, t.role, t.treatment, float(t.position),
                    {"throughput": rate[t.treatment] * (1 + 0.01 * ((3 * t.position) % 4))})
        for t in plan.trials
    ]  # fmt: skip
    changes = contrasts(plan, seen, "throughput", [(at["both"], at["none"]), (at["both"], at["one"])])
    assert [change.percent for change in changes] == pytest.approx([50, 25], abs=3)
    assert all(change.better and change.trials == 3 and change.against == 3 for change in changes)
    assert changes[0].simultaneous is not None
    assert changes[0].interval is not None
    assert changes[0].simultaneous.low <= changes[0].interval.low < changes[0].interval.high
    none_left = [
        replace(one, failure=FailureClass.WORKLOAD, responses={}) if one.treatment == at["one"] else one for one in seen
    ]
    lost = contrasts(plan, none_left, "throughput", [(at["one"], at["none"]), (at["both"], at["none"])])
    assert lost[0].verdict is Verdict.FAILED
    assert lost[0].reason == "all 3 trials failed"
    assert lost[1].better


def _plan(named: dict[str, dict[str, object]]) -> Plan:
    return make_plan(
        FACTORS, Design.model_validate({"kind": "configurations", "configurations": named, "sentinels": None})
    )


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"none": {}}, "two or more"),
        ({"one": {"a": 1}, "two": {"b": 1}}, "no configuration is the baseline"),
        ({"none": {}, "one": {"aa": 1}}, "did you mean a"),
        ({"none": {}, "one": {"a": 7}}, "none of its levels 0, 1"),
        ({"none": {}, "same": {"a": 0}}, "are the same"),
    ],
)
def test_configurations_that_cannot_be_compared_are_refused(named: dict[str, dict[str, object]], words: str) -> None:
    with pytest.raises(DesignError, match=words):
        _plan(named)


def test_over_its_modes_a_step_is_the_mean_of_its_pairs() -> None:
    whole = tuning()
    found, parts = played(whole, {"heap": 10, "pool": 20, "watch": -5})
    part = next(part for part in parts if part.step == "pool")
    known = _measured(whole, part, {"heap": 10, "pool": 20}, {}, {}, {})
    at = known.treatments
    pairs = [(at[f"{mode} pool"], at[f"{mode} before"]) for mode in ("orm", "direct")]
    single = contrasts(known.plan, known.observations, "throughput", pairs)
    (mean,) = mean_contrasts(known.plan, known.observations, "throughput", [pairs])
    ratios = [1 + one.percent / 100 for one in single if one.percent is not None]
    assert mean.percent == pytest.approx(100 * ((ratios[0] * ratios[1]) ** 0.5 - 1))
    assert (mean.trials, mean.against) == (4, 4)
    assert found.next is None
