"""How often the answer claims something where nothing differs: over all responses and interactions together.

python tests/statistics/conclude/test_statistics_answer.py 1000
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from leadline.conclude.answer import Facts, answer
from leadline.conclude.study import conclude
from leadline.design.make import make_plan
from leadline.model.design import Design
from leadline.model.judgement import Judgement
from leadline.model.plan import Factor, Plan
from leadline.model.record import StudyRecord, TrialRecord, TrialState
from leadline.model.result import StudyAnalysis, Verdict
from leadline.model.study import Study

RESPONSES = ("throughput", "p50", "p90", "p99", "cpu_per_transaction")
FACTORS = [Factor(f"server.{name}", (10, 20), 10) for name in "abc"]
DESIGNS = {
    "one at a time": Design(replicates=6, sentinels=None),
    "full factorial": Design(kind="full-factorial", replicates=3, sentinels=None),
}
WEAK = "Not significant after correction"


def concluded(plan: Plan, seed: int, shared: float = 0.0, effects: Mapping[str, float] | None = None) -> StudyAnalysis:
    """Responses of 10 % noise, ``shared`` of its variance common to all. ``effects``: of server.a=20, as ratios."""
    rng = np.random.default_rng(seed)
    study = Study.model_validate(
        {"study": "null", "question": "?", "responses": RESPONSES, "factors": {one.name: [10, 20] for one in FACTORS}}
    )
    trials = []
    for number, trial in enumerate(plan.trials, 1):
        noise = np.sqrt(shared) * rng.normal() + np.sqrt(1 - shared) * rng.normal(size=len(RESPONSES))
        changed = (effects or {}) if trial.treatment["server.a"] == 20 else {}
        values = {
            name: 100 * changed.get(name, 1.0) * float(np.exp(0.1 * own))
            for name, own in zip(RESPONSES, noise, strict=True)
        }
        begun = 1.7e9 + 60 * number
        trials.append(TrialRecord(number, trial, TrialState.DONE, 1, begun, begun + 30, None, responses=values))
    return conclude(StudyRecord(1, study, "", plan, 0.0, {}, tuple(trials)))


def claims(design: Design, studies: int, shared: float = 0.0) -> tuple[float, float, float]:
    """The share of studies without any effect whose tables have a verdict, whose answer claims something, and in which
    some response's drift is detected.
    """
    plan = make_plan(FACTORS, design)
    verdicts = answers = drifts = 0
    for seed in range(studies):
        found = concluded(plan, seed, shared)
        every = [one for response in found.responses for one in (*response.effects, *response.interactions)]
        verdicts += any(one.verdict in (Verdict.BETTER, Verdict.WORSE) for one in every)
        firm = found.answer.partition(WEAK)[0]
        answers += " helps" in firm or " hurts" in firm
        drifts += any(one.drift.detected for one in found.responses)
    return verdicts / studies, answers / studies, drifts / studies


def beside_an_effect(studies: int) -> tuple[float, float, float]:
    """Where server.a changes p50 by 60 % and p90 by 25 %: the shares of answers that claim p50, that claim p90, and
    that claim something of another response.
    """
    plan = make_plan(FACTORS, DESIGNS["full factorial"])
    claimed = [
        concluded(plan, seed, effects={"p50": 1.6, "p90": 1.25}).answer.partition(WEAK)[0] for seed in range(studies)
    ]

    def share(*names: str) -> float:
        return sum(any(f"{name} {sign}" in one for name in names for sign in "+−") for one in claimed) / studies

    return share("p50"), share("p90"), share("throughput", "p99", "cpu per transaction")


@pytest.mark.parametrize("name", DESIGNS)
def test_the_answer_claims_seldom_what_is_not_there(name: str) -> None:
    verdicts, answers, drifts = claims(DESIGNS[name], 60)
    assert answers <= 0.12, "5 % and 2.5 times their Monte Carlo error"
    assert drifts <= 0.12, "the same: of all responses together"
    assert verdicts > answers, "tables hold response by response"


def test_what_is_large_in_one_response_lends_no_weight_to_others() -> None:
    large, less, none = beside_an_effect(40)
    assert large == 1
    assert less > 0.5, "where it is large enough by itself"
    assert none <= 0.15, "5 % and 2.5 times their Monte Carlo error"


def test_a_verdict_of_one_response_among_many_is_told_as_weak_and_alone_it_holds() -> None:
    plan = make_plan(FACTORS, DESIGNS["one at a time"])
    for seed in range(200):
        found = concluded(plan, seed)
        (first,) = [one for one in found.responses if one.response == "p50"]
        weak = [one for one in first.effects if one.verdict is Verdict.WORSE and (one.p_adjusted or 0) > 0.01]
        if weak:
            break
    assert f"{WEAK} for all comparisons of 5 responses: " in found.answer
    assert f"{weak[0].factor}=20 (p50 +" in found.answer.partition(WEAK)[2]
    facts = Facts(lambda _, level: str(level), Judgement(trials=len(plan.trials), done=len(plan.trials)))
    assert answer(replace(found, responses=(first,)), facts).text.startswith(f"{weak[0].factor}=20 hurts: p50 +")


if __name__ == "__main__":
    for name, design in DESIGNS.items():
        for shared in (0.0, 0.8):
            print(name, shared, *claims(design, int(sys.argv[1]), shared))
    print("beside an effect", *beside_an_effect(int(sys.argv[1])))
