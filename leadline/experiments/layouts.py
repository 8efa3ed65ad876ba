"""The layouts of a study compared, with what this host and the lab's earlier studies say."""

from __future__ import annotations

from pathlib import Path

from leadline.checks.machine import apart, room_for
from leadline.checks.plan import Planned
from leadline.experiments.pilot import noise_beside
from leadline.model.plan import Plan
from leadline.model.study import Study
from leadline.planning.layouts import Compared, Question, compared
from leadline.planning.noise import Noise


def compare_layouts(
    study: Study,
    planned: Planned,
    lab: Path,
    noise: Noise,
    overhead: float,
    effect: float | None = None,
    power: float = 0.8,
) -> Compared | None:
    """Plain trials, switchback and rotation on the study's question; None in guests and of commands, which have
    plain ones only.

    ``noise``: what its own layout meets; ``overhead``: seconds of a trial beside its load; ``effect`` in percent.
    """
    if study.stack.in_guest or not study.under_load:
        return None

    def room(plan: Plan) -> tuple[str, int]:
        if lack := apart(study):
            return lack[1], 0
        found = room_for(plan, planned.settings, planned.machine)
        return found.refused, found.fit

    question = Question(
        planned.plan.factors, planned.design, study.workload, overhead, planned.of_host, room, power=power
    )
    return compared(question, planned.plan, noise, noise_beside(study, lab, noise.response), effect)
