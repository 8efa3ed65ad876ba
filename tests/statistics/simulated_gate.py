"""Figures of two builds in paired blocks, each part of their noise a number of its own."""

from __future__ import annotations

import math

import numpy as np

from leadline.design.make import make_plan
from leadline.model.design import Design
from leadline.model.plan import Factor, Plan
from leadline.model.result import Observation


def plan_of(blocks: int) -> Plan:
    factor = Factor("build", ("base", "head"), "base")
    return make_plan([factor], Design(replicates=blocks, looks="watched", sentinels=None, seed=3))


def observed(
    plan: Plan, seed: int, *, blocks: float = 0.0, trials: float = 0.0, drift: float = 0.0, harm: float = 0.0
) -> list[Observation]:
    """Figures with one part of the noise each: of blocks (both sides alike), of trials, a drift over the study."""
    random = np.random.default_rng(seed)
    of_block = random.normal(0, blocks, 1 + max(trial.block for trial in plan.trials))
    rows = []
    for trial in plan.trials:
        head = trial.treatment["build"] == "head"
        common = of_block[trial.block] + drift * trial.position / len(plan.trials)
        figures = {
            "cpu_per_transaction": 2.0 * math.exp(common + harm * head + random.normal(0, trials)),
            "throughput": 100.0 * math.exp(common + random.normal(0, trials)),
        }
        place = (trial.position, trial.position, trial.block, trial.replicate, trial.role, trial.treatment)
        rows.append(Observation(*place, float(trial.position), figures))
    return rows
