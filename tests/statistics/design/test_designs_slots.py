"""Screening designs inside trials: every kind over the live factors, exact where it says so, found in simulation."""

import hashlib
from collections import Counter
from typing import Any

import numpy as np
import pytest

from leadline.analysis.study import analyse
from leadline.design.coding import level_indices, model_matrix
from leadline.design.kinds import KINDS
from leadline.design.make import plan_from_json, plan_to_json
from leadline.design.properties import describe_design
from leadline.figures.table import table_of
from leadline.layouts import switchback_plan
from leadline.layouts.check import check_plan, plan_problems
from leadline.model.design import Design, Switchback
from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor, Plan, PlannedTrial, Treatment
from leadline.model.workload import Workload
from leadline.places.simulated import Truth, rates, simulate_observations
from leadline.planning.forecast import forecast, setup_of
from leadline.planning.noise import assumed


def live(letters: str, levels: tuple[int, ...] = (0, 1)) -> list[Factor]:
    return [Factor(f"vm.{letter}", levels, 0, apply_cost=ApplyCost.LIVE) for letter in letters]


TWO = live("abcdef")
THREE = live("wxyz", (0, 1, 2))
MIXED = [*live("ab"), *live("yz", (0, 1, 2))]
POOL = Factor("server.pool", (10, 2), 10)
CACHE = Factor("server.cache", ("small", "medium", "large"), "medium")
KERNEL = Factor("kernel", ("old", "new"), "old", apply_cost=ApplyCost.KERNEL)
FACTORS: dict[str, list[Factor]] = {
    "one-at-a-time": MIXED,
    "full-factorial": MIXED[1:],
    "fractional-factorial": TWO,
    "plackett-burman": TWO,
    "definitive-screening": THREE,
    "d-optimal": MIXED,
    "confirmation": TWO[:2],
    "configurations": TWO[:2],
    "within-each": MIXED,
}
NAMED = {"as it is": {}, "one": {"vm.a": 1}, "both": {"vm.a": 1, "vm.b": 1}}


def workload(steady: float = 240) -> Workload:
    return Workload(users=40, ramp_up=2, steady=steady, ramp_down=1)


def design(kind: str, **keys: Any) -> Design:
    if kind == "configurations":
        keys = {"configurations": NAMED, **keys}
    if kind == "within-each":
        keys = {"each": MIXED[0].name, **keys}
    slots = {key: keys.pop(key) for key in ("slot", "order") if key in keys}
    switchback = Switchback.model_validate({"slot": 5, "wash_out": 1, **slots})
    return Design.model_validate({"kind": kind, "switchback": switchback, "replicates": 2, "sentinels": None, **keys})


def plan(kind: str, factors: list[Factor], steady: float = 240, **keys: Any) -> Plan:
    return switchback_plan(factors, design(kind, **keys), workload(steady))


def inside(trial: PlannedTrial, factors: list[Factor]) -> list[Treatment]:
    """The levels of these factors, slot by slot."""
    names = [factor.name for factor in factors]
    return [Treatment.of({name: slot.treatment[name] for name in names}) for slot in trial.slots]


# plans


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_block_of_slots_holds_the_baseline_and_every_run_once(kind: str) -> None:
    factors = FACTORS[kind]
    made = plan(kind, factors)
    runs = KINDS[kind].treatments(factors, design(kind))
    wanted = {*runs, made.baseline}
    size = len(wanted)
    for trial in made.trials:
        held = inside(trial, factors)
        assert len(held) == 48 // size * size
        for at in range(0, len(held), size):
            assert set(held[at : at + size]) == wanted
    assert plan(kind, factors) == made
    assert plan(kind, factors, seed=2).trials != made.trials
    assert plan_problems(made) == ()
    assert plan_from_json(plan_to_json(made)) == made


@pytest.mark.parametrize("kind", ["fractional-factorial", "plackett-burman"])
def test_main_effects_stay_orthogonal_inside_every_trial(kind: str) -> None:
    made = plan(kind, TWO, order="williams")
    for trial in made.trials:
        model = model_matrix(TWO, level_indices(TWO, inside(trial, TWO)), interactions=False)
        np.testing.assert_allclose(model.T @ model, len(trial.slots) * np.eye(7), atol=1e-9)


def test_plans_of_the_kinds_that_always_were_stay_as_they_were() -> None:
    """A seed gives the same plan in every version: hashes of plans made when only these two kinds had slots."""
    known = {
        "one-at-a-time": "e4d7f540d87c94c5",
        "full-factorial": "d27093bd0965d048",
    }
    factors = [*live("a", (0, 1, 2)), Factor("vm.b", (0, 1), 1, apply_cost=ApplyCost.LIVE)]
    for kind, digest in known.items():
        other = kind == "full-factorial"
        slots = Switchback(slot=5, order="williams" if other else "random-blocks")
        chosen = Design.model_validate({"kind": kind, "switchback": slots, "seed": 7 if other else 1})
        made = switchback_plan(factors, chosen, Workload(users=5, ramp_up=1, steady=130))
        assert hashlib.sha256(plan_to_json(made).encode()).hexdigest()[:16] == digest


def test_notes_say_what_the_runs_can_tell() -> None:
    repeated = plan("plackett-burman", TWO[:2])
    assert len(set(inside(repeated.trials[0], TWO[:2]))) == 4
    assert any("4 of these runs are different" in note for note in repeated.notes)
    assert any("contrast of a level with its factor's baseline level over all slots" in n for n in repeated.notes)
    outer = plan("definitive-screening", THREE)
    assert any("The baseline is none of these runs" in note for note in outer.notes)
    centred = [Factor(factor.name, (0, 1, 2), 1, apply_cost=ApplyCost.LIVE) for factor in THREE]
    assert not any("none of these runs" in note for note in plan("definitive-screening", centred).notes)


def test_factors_that_need_a_restart_have_the_same_kind_between_trials() -> None:
    between = [Factor(f"server.{letter}", (0, 1), 0) for letter in "pqr"]
    made = plan("fractional-factorial", [*live("abc"), *between], resolution=3)
    held = Counter(tuple(trial.treatment[factor.name] for factor in between) for trial in made.trials)
    assert len(held) == 4
    assert set(held.values()) == {2}
    assert (0, 0, 0) in held
    check_plan(made)
    slots = plan("d-optimal", [*MIXED, CACHE], runs=12)
    assert len(set(inside(slots.trials[0], MIXED))) == 12
    assert Counter(trial.treatment["server.cache"] for trial in slots.trials) == {"small": 2, "medium": 2, "large": 2}


@pytest.mark.parametrize(
    ("kind", "factors", "other", "reason"),
    [
        ("fractional-factorial", TWO, POOL, "1 factor cannot be fractioned"),
        ("plackett-burman", TWO, CACHE, "plackett-burman takes two levels of every factor"),
        ("definitive-screening", THREE, POOL, "definitive-screening takes three levels of every factor"),
    ],
)
def test_where_a_kind_cannot_serve_them_trials_change_one_factor_at_a_time(
    kind: str, factors: list[Factor], other: Factor, reason: str
) -> None:
    made = plan(kind, [*factors, other, KERNEL])
    if reason.startswith("1 "):
        made = plan(kind, [*factors, other])
    note = next(note for note in made.notes if "one factor at a time" in note)
    assert reason in note
    assert {len(set(inside(trial, factors))) for trial in made.trials} == {len(set(inside(made.trials[0], factors)))}
    levels = {trial.treatment[other.name] for trial in made.trials}
    assert levels == set(other.levels)
    check_plan(made)


@pytest.mark.parametrize(
    ("kind", "factors", "keys", "words"),
    [
        ("plackett-burman", TWO, {"steady": 39}, "too short for one block of 8 slots of 5s: it takes 40s"),
        ("d-optimal", MIXED, {"steady": 55, "runs": 12}, "too short for one block of 12 slots of 5s: it takes 1m"),
        ("plackett-burman", TWO, {"steady": 45, "replicates": 1}, "set design.replicates to 2, or workload.steady"),
        ("plackett-burman", THREE, {}, "definitive-screening takes three levels"),
        ("fractional-factorial", TWO[:2], {}, "full-factorial takes 4 runs"),
        ("d-optimal", MIXED, {"runs": 5}, "5 runs cannot estimate the 7 figures of main effects"),
        ("one-at-a-time", MIXED, {"runs": 16}, "one-at-a-time has no runs"),
        ("full-factorial", live("abcdefghijklmnopqr"), {}, "262,144 slots in a block, more than 100,000"),
        ("plackett-burman", TWO, {"order": "abba"}, "abba takes two slot treatments, here are 8"),
    ],
)
def test_what_cannot_be_is_refused_with_what_would_do(
    kind: str, factors: list[Factor], keys: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError) as error:
        plan(kind, factors, **keys)
    assert words in str(error.value)


def test_damaged_treatments_are_found() -> None:
    made = plan("plackett-burman", TWO)
    assert len(made.trials) == 2
    first = made.trials[0]
    kept = Counter(slot.treatment for slot in first.slots[:8])
    assert set(kept.values()) == {1}
    constant = [slot for slot in first.slots if slot.treatment["vm.a"] == 0]
    problems = _with_slots(made, [slot.treatment for slot in constant])
    assert any("other slot treatments than the first" in problem for problem in problems)
    without = [slot.treatment for slot in first.slots if slot.treatment != made.baseline]
    assert "no slot holds the baseline of the live factors" in _with_slots(made, without, everywhere=True)
    lost = "some main effects of the live factors are not distinguishable"
    assert lost in _with_slots(made, [slot.treatment for slot in constant], everywhere=True)


def _with_slots(made: Plan, treatments: list[Treatment], everywhere: bool = False) -> tuple[str, ...]:
    """Problems of the plan after its first (or every) trial got these slots."""

    def changed(trial: PlannedTrial) -> PlannedTrial:
        slots = tuple(
            type(slot)(index, index * 5.0, 5.0, treatment)
            for index, (slot, treatment) in enumerate(zip(trial.slots, treatments, strict=False))
        )
        return type(trial)(
            trial.position, trial.block, trial.replicate, trial.role, slots[0].treatment, trial.seed, None, slots
        )

    trials = [changed(trial) if everywhere or trial.position == 0 else trial for trial in made.trials]
    return plan_problems(Plan(made.kind, made.seed, made.factors, tuple(trials)))


# what it can tell


def test_properties_tell_what_is_compared_inside_and_between_trials() -> None:
    found = describe_design(plan("plackett-burman", [*TWO, POOL], replicates=3))
    assert all(effect.estimable for effect in found.mains)
    assert [effect.inflation for effect in found.mains] == pytest.approx([1.0] * 7)
    assert any("Compared between trials" in remark and "server.pool" in remark for remark in found.remarks)
    assert found.regular
    assert found.resolution == 3
    folded = describe_design(plan("plackett-burman", TWO, foldover=True))
    assert all(effect.clear for effect in folded.mains)


def test_crossed_slots_are_forecast_as_more_exact_than_one_at_a_time() -> None:
    noise = assumed("throughput", 2.0, "given", slots=True)
    found = {}
    for kind in ("one-at-a-time", "fractional-factorial"):
        chosen = design(kind, replicates=8)
        made = switchback_plan(live("abcdefg"), chosen, workload(320))
        assert len(made.trials[0].slots) == 64
        found[kind] = forecast(
            made, noise, setup_of(chosen, workload(320), 20.0), 0.95, 5.0, 0.8, chosen, workload(320)
        )
    crossed, alone = (found[kind].smallest[0.8] for kind in ("fractional-factorial", "one-at-a-time"))
    assert crossed is not None
    assert alone is not None
    assert crossed == pytest.approx(alone / 2, rel=0.1)  # variances 4 / 512 and 2 / 64 of a slot
    others = {need.kind: need for need in found["one-at-a-time"].others}
    assert "main effects, if interactions are small" in others["plackett-burman, in slots"].note


# simulation


@pytest.mark.parametrize(
    ("kind", "factors"),
    [
        ("fractional-factorial", TWO),
        ("plackett-burman", [*TWO[:5], POOL]),
        ("definitive-screening", THREE),
        ("d-optimal", MIXED),
    ],
)
def test_a_planted_effect_is_found_and_intervals_hold_it(kind: str, factors: list[Factor]) -> None:
    """Trials differ by 4 %, seconds by 4 % with a correlation of 0.5; 5 % planted at one level."""
    made = plan(kind, factors, steady=160)
    name = factors[0].name
    known = Truth.model_validate(
        {
            "effects": [{"when": {name: 1}, "percent": {"throughput": "5%"}}],
            "noise": {"trials": "4%", "seconds": "4%", "autocorrelation": 0.5},
        }
    )
    found = rates(made, known, workload(160), 4)
    assert found.truth[(name, 1)] == pytest.approx(5)
    assert found.found[(name, 1)] >= 0.75  # effects seem to differ between instances in one study of twenty
    assert found.coverage is not None
    assert found.coverage > 0.85
    assert found.family_error == 0.0


def test_the_analysis_of_crossed_slots_is_a_mixed_model_with_aliases_told() -> None:
    made = plan("plackett-burman", [*TWO[:5], POOL])
    known = Truth.model_validate({"noise": {"trials": "4%", "seconds": "4%", "autocorrelation": 0.5}})
    result = analyse(made, simulate_observations(made, known, workload(), 1), ["throughput"]).responses[0]
    assert result.correlation is not None
    assert "trials" in {one.name for one in result.components}
    pool = next(one for one in result.effects if one.factor == "server.pool")
    slot = next(one for one in result.effects if one.factor == "vm.a")
    assert pool.interval is not None
    assert slot.interval is not None
    assert slot.interval.high - slot.interval.low < (pool.interval.high - pool.interval.low) / 3
    assert any("Aliased" in note for note in result.notes)
    crossed = {one.factor for one in result.interactions}
    assert crossed == {f"{factor.name} x server.pool" for factor in TWO[:5]}


def test_figures_of_settings_side_by_side_need_them_inside_trials() -> None:
    known = Truth.model_validate({})
    mixed = plan("plackett-burman", [*TWO[:5], POOL])
    with pytest.raises(UsageError, match=r"server\.pool changes only between trials"):
        table_of(mixed, simulate_observations(mixed, known, workload(), 1), "throughput")
    alone = plan("plackett-burman", TWO[:5])
    table = table_of(alone, simulate_observations(alone, known, workload(), 1), "throughput")
    assert len(table.settings) == 5
