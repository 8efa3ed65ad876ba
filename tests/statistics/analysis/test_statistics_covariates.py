"""Analysis of covariance beside a planted neighbour: error rates, coverage, the check and what it narrows."""

from dataclasses import replace

import numpy as np
import pytest
from witnesses import matrix

from bench.statistics.covariates import CASES, RESPONSE, plan_of, rates, study
from leadline.analysis.study import analyse

LONGER = matrix("some hundred simulated studies more")

STUDIES = 200  # Monte Carlo error of a rate of 5 %: 1.5 %; docs/evidence/statistics.md has 1,000


@pytest.fixture(
    scope="module",
    params=[
        "neighbour",
        "neighbour, one level with 3 times the noise",
        pytest.param("slots", marks=LONGER),
    ],
)
def found(request: pytest.FixtureRequest) -> dict[str, float]:
    return rates(CASES[request.param], STUDIES, 11)


def test_error_rates_and_coverage_hold_beside_a_neighbour(found: dict[str, float]) -> None:
    assert found["covariate wrong verdict"] <= 0.05 + 4 * 0.0154
    assert found["covariate coverage"] >= 0.95 - 4 * 0.0154
    assert found["covariate width"] < 0.5 * found["plain width"]
    assert found["used"] > 0.95


def test_a_covariate_that_a_level_moves_is_not_used_and_the_report_says_so() -> None:
    case = CASES["moved by 5 deviations"]
    plan, rng = plan_of(case), np.random.default_rng(3)
    for _ in range(10):
        seen = study(case, plan, rng)
        plain, asked = (
            analyse(plan, seen, [RESPONSE], verdicts_only=True, covariates=names).responses[0]
            for names in ((), ("others_cpu",))
        )
        (covariate,) = asked.covariates
        assert not covariate.used
        assert covariate.moved_p is not None
        assert covariate.moved_p < 0.01
        assert any("levels move it" in note for note in asked.notes)
        assert asked.effects == plain.effects


def test_what_others_use_of_full_cpus_is_no_covariate() -> None:
    """It is what the study leaves over: it would take most of an effect on CPU out."""
    case = CASES["neighbour"]
    rows = [
        replace(row, responses={**row.responses, "host_cpu": 0.999})
        for row in study(case, plan_of(case), np.random.default_rng(3))
    ]
    (covariate,) = analyse(plan_of(case), rows, [RESPONSE], covariates=("others_cpu",)).responses[0].covariates
    assert not covariate.used
    assert "no CPU was idle" in covariate.sentence


def test_the_drivers_cpu_is_a_covariate_of_all_responses_but_itself() -> None:
    """What slows the driver slows the server: it tells as much as what the neighbour used."""
    case, driver = CASES["neighbour"], "driver_cpu_per_transaction"
    rows = [
        replace(row, responses={**row.responses, driver: 0.1 + 0.1 * row.machine["others_cpu"]}, machine={})
        for row in study(case, plan_of(case), np.random.default_rng(3))
    ]
    first, itself = analyse(plan_of(case), rows, [RESPONSE, driver], covariates=(driver,)).responses
    (covariate,) = first.covariates
    assert covariate.used
    assert covariate.narrower is not None
    assert covariate.narrower > 0.5
    assert "10 % more go with" in covariate.sentence
    assert itself.covariates[0].sentence.endswith("is not used: it is the response.")


def test_over_many_responses_no_level_moves_a_covariate_by_chance() -> None:
    """Null studies of six responses with two covariates: at most 5 % say that levels move one (the test has 1 %)."""
    case, studies, responses = CASES["neighbour"], 60, [f"response{number}" for number in range(6)]
    plan, said = plan_of(case), 0
    for seed in (20, 153, 381, *range(1000, 1000 + studies - 3)):  # alone, the first three are below 1 %
        drawn = [study(case, plan, np.random.default_rng([seed, number][: number + 1])) for number in range(6)]
        seen = [
            replace(
                row[0],
                responses={name: own.responses[RESPONSE] for name, own in zip(responses, row, strict=True)},
                machine={"others_cpu": row[0].machine["others_cpu"], "steal": row[1].machine["others_cpu"]},
            )
            for row in zip(*drawn, strict=True)
        ]
        analysis = analyse(plan, seen, responses, verdicts_only=True, covariates=["others_cpu", "steal"])
        moved = ["levels move it" in one.sentence for response in analysis.responses for one in response.covariates]
        said += any(moved)
        if seed == 20:
            alone = analyse(plan, seen, responses[:1], verdicts_only=True, covariates=["others_cpu"]).responses[0]
            assert "a test at 1 % finds" in alone.covariates[0].sentence
    assert said <= 0.05 * studies


def test_what_cannot_be_used_is_said() -> None:
    case = CASES["neighbour"]
    plan = plan_of(case)
    seen = study(case, plan, np.random.default_rng(5))
    missing = [replace(seen[0], machine={}), *seen[1:]]
    same = [replace(one, machine={"others_cpu": 0.25}) for one in seen]
    one_of_all = [replace(one, machine={"others_cpu": 0.004 if one is seen[0] else 0.0}) for one in seen]
    few = [one for one in seen if one.block < 3]
    for observations, why in (
        (missing, "not recorded in 1 of 15 trials"),
        (same, "hardly varies"),
        (one_of_all, "hardly varies"),
        (few, "too few"),
    ):
        response = analyse(plan, observations, [RESPONSE], verdicts_only=True, covariates=["others_cpu"]).responses[0]
        plain = analyse(plan, observations, [RESPONSE], verdicts_only=True).responses[0]
        assert why in response.covariates[0].sentence
        assert response.effects == plain.effects


def test_the_slope_and_what_was_removed_are_told() -> None:
    case = replace(CASES["neighbour"], noise=0.005)
    plan = plan_of(case)
    response = analyse(plan, study(case, plan, np.random.default_rng(8)), [RESPONSE], covariates=["others_cpu"])
    (covariate,) = response.responses[0].covariates
    assert covariate.percent == pytest.approx(-9.5, abs=1.0)
    assert covariate.variance_removed is not None
    assert covariate.variance_removed > 0.9
    assert "others_cpu" in response.responses[0].model
    assert "% of the variance removed" in response.responses[0].notes[0]
    assert all(effect.robust is None for effect in response.responses[0].effects)  # ranks know no covariates
