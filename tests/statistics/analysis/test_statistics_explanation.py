"""Studies that change nothing, resampled from real samples of a server: how often they name a frame."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leadline.conclude.explanation import explain
from leadline.design.profiling import Place
from leadline.model.frames import StudyProfile
from leadline.model.naming import plain_level
from leadline.model.plan import Factor, Plan, Role, Treatment
from leadline.model.result import Observation

# Of a rotation of brokerage on Liberty, JDK 25: slots of 8 s with their responses, and stacks (four innermost frames).
REAL = json.loads(Path(__file__).with_name("samples.json").read_text())
STACKS = [";".join(REAL["frames"][at] for at in stack) for stack in REAL["stacks"]]
PLAN = Plan("one-at-a-time", 1, (Factor("cache", (60, 0), 60),), ())
BOTH = Plan("full-factorial", 1, (*PLAN.factors, Factor("pool", (10, 2), 10)), ())
LOOKUP = "leadline.brokerage.sql.Queries.quotes"
PREPARE = "org.postgresql.jdbc.PgConnection.prepareStatement"
COLLECTOR = "(garbage collector)"


def study(
    rng: np.random.Generator,
    instances: int,
    slots: int,
    plant: float = 0.0,
    pool: float = 0.0,
    where: str = PREPARE,
) -> StudyProfile:
    """Real slots, drawn anew, half of each instance's under either level; ``plant``: ms that the second adds, ``pool``:
    that a second factor does, whose levels fall as they may.
    """
    observations, profiles = list[Observation](), dict[Place, dict[str, float]]()
    for instance in range(instances):
        levels = rng.permutation([0, 60] * (slots // 2))
        for slot, level in enumerate(levels):
            treatment, costs = {"cache": int(level)}, {where: plant * (level == 0)}
            if pool:
                treatment["pool"] = int(rng.choice([10, 2]))
                costs[LOOKUP] = pool * (treatment["pool"] == 2)
            observation, stacks = _slot(rng, instance, slot, treatment, costs)
            observations.append(observation)
            profiles[instance, slot] = stacks
    profile = explain(BOTH if pool else PLAN, observations, profiles, plain_level)
    assert profile is not None
    return profile


def _slot(
    rng: np.random.Generator, instance: int, slot: int, levels: dict[str, int], costs: dict[str, float]
) -> tuple[Observation, dict[str, float]]:
    drawn: dict[str, Any] = REAL["slots"][rng.integers(len(REAL["slots"]))]
    numbers, counts = np.array(drawn["counts"]).T
    size = int(rng.poisson(counts.sum()))
    again = rng.multinomial(size, counts / counts.sum())
    stacks = {STACKS[number]: float(count) for number, count in zip(numbers, again, strict=True) if count}
    responses = {f"{name}_cpu_per_transaction": ms for name, ms in drawn["responses"].items() if name != "throughput"}
    for frame, ms in costs.items():
        if frame == COLLECTOR:  # measured by its threads, as unevenly as collections fall
            ms *= rng.lognormal(0.0, 0.3)
        else:
            stacks[frame] = float(rng.poisson(size * ms / drawn["responses"]["application"]))
        for name in ("collector" if frame == COLLECTOR else "application", "server"):
            responses[f"{name}_cpu_per_transaction"] += ms
    responses["throughput"] = drawn["responses"]["throughput"]
    return (
        Observation(
            *(instance, instance, 0, instance, Role.TREATMENT, Treatment.of(levels), 0.0, responses),
            slot=slot,
            seconds=5.0,
        ),
        stacks,
    )


@pytest.mark.parametrize(("instances", "slots", "pool"), [(8, 4, 0.0), (4, 4, 0.0), (4, 8, 1.0)])
def test_studies_without_an_effect_seldom_name_a_frame(instances: int, slots: int, pool: float) -> None:
    rng, studies = np.random.default_rng(instances), 100
    named = sum(bool(study(rng, instances, slots, pool=pool).levels[0].effects.named) for _ in range(studies))
    assert named <= stats.binom.ppf(0.995, studies, 0.05)


@pytest.mark.parametrize(("instances", "slots", "pool"), [(8, 4, 0.0), (4, 4, 0.0), (4, 8, 0.0), (8, 8, 1.0)])
def test_a_planted_cost_is_named_in_the_driver_and_the_changes_sum_to_the_totals(
    instances: int, slots: int, pool: float
) -> None:
    rng, studies = np.random.default_rng(2), 25
    named = 0
    for _ in range(studies):
        effects = study(rng, instances, slots, plant=0.15, pool=pool).levels[0].effects
        named += any(effect.named and effect.change > 0 and effect.name == PREPARE for effect in effects.methods)
        own = sum(method.change for method in effects.methods) + effects.rest
        assert own == pytest.approx(effects.total.change)
    assert named >= 0.9 * studies


@pytest.mark.parametrize(("instances", "slots", "pool"), [(4, 4, 0.0), (4, 8, 1.0)])
def test_a_collector_that_works_more_is_named_beside_noisy_application_code(
    instances: int, slots: int, pool: float
) -> None:
    """The total varies five times as much; with one weight for all frames it was named in a quarter of these."""
    rng, studies = np.random.default_rng(7), 40
    named = 0
    for _ in range(studies):
        effects = study(rng, instances, slots, plant=0.1, pool=pool, where=COLLECTOR).levels[0].effects
        named += any(effect.named and effect.change > 0 and effect.path == (COLLECTOR,) for effect in effects.paths)
    assert named >= 0.45 * studies
