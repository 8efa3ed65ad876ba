"""What `leadline show` prints of studies that cannot answer: what is wrong and which design would do."""

import dataclasses
import io
from collections.abc import Callable

import pytest
from rich.console import Console
from simulated_strata import SimulatedStrata, split_plot_plan
from simulated_study import SimulatedSystem, pseudo_factors

from leadline.analysis.study import analyse
from leadline.design.make import make_plan
from leadline.model.design import Design
from leadline.model.errors import FailureClass
from leadline.model.plan import Plan, PlannedTrial
from leadline.model.record import StudyRecord
from leadline.model.result import Observation
from leadline.model.study import Study
from leadline.report.text import StudyTable

Built = tuple[Plan, list[Observation]]


def shown(plan: Plan, seen: list[Observation]) -> str:
    document = {
        "study": "hopeless",
        "question": "Can this be answered?",
        "factors": {factor.name: list(factor.levels) for factor in plan.factors},
        "workload": {"users": 1, "steady": 10},
    }
    record = StudyRecord(1, Study.model_validate(document), "", plan, 1.0, {}, ())
    out = io.StringIO()
    Console(file=out, width=200, no_color=True).print(
        StudyTable(record, analyse(plan, seen, ["throughput"])), soft_wrap=True
    )
    return out.getvalue()


def without(plan: Plan, drop: Callable[[PlannedTrial], bool]) -> Built:
    gone = {trial.position for trial in plan.trials if drop(trial)}
    return plan, [one for one in SimulatedSystem().run(plan, 1) if one.position not in gone]


def one_replicate() -> Built:
    plan = make_plan(pseudo_factors(3), Design(replicates=2))
    return without(plan, lambda trial: trial.block == 1 or trial.role.value == "sentinel")


def all_failed() -> Built:
    plan = make_plan(pseudo_factors(2), Design(replicates=2))
    seen = SimulatedSystem().run(plan, 1)
    return plan, [dataclasses.replace(one, responses={}, failure=FailureClass.INFRASTRUCTURE) for one in seen]


def constant() -> Built:
    plan = make_plan(pseudo_factors(2), Design(replicates=2))
    seen = SimulatedSystem().run(plan, 1)
    return plan, [dataclasses.replace(one, responses={"throughput": 7.0}) for one in seen]


def crashed() -> Built:
    """Every block was cut off before its trial of the second factor, or before its baseline."""
    plan = make_plan(pseudo_factors(2), Design(replicates=2, sentinels=None))

    def drop(trial: PlannedTrial) -> bool:
        other = trial.treatment["pseudo2"] == "b"
        return other if trial.block == 0 else not other

    return without(plan, drop)


def kernel_once() -> Built:
    plan = split_plot_plan(replicates=1)
    return plan, SimulatedStrata().run(plan, 1)


def aliased() -> Built:
    """Of a two-level fraction only the trials in which the first two factors move together."""
    plan = make_plan(pseudo_factors(4), Design(kind="fractional-factorial", replicates=2))
    return without(plan, lambda trial: trial.treatment["pseudo1"] != trial.treatment["pseudo2"])


CASES: dict[str, tuple[Callable[[], Built], str, str]] = {
    "one replicate": (one_replicate, "no degree of freedom is left", "two or more replicates, or sentinels"),
    "all trials failed": (all_failed, "trials failed", "once a baseline trial succeeds"),
    "constant response": (constant, "every trial gave the same figure", "a response with a finer scale"),
    "missing blocks after a crash": (crashed, "no block holds both", "running the missing trials"),
    "a kernel in one whole plot": (kernel_once, "too few of these are repeated", "two or more replicates are needed"),
    "aliased factors": (
        aliased,
        "cannot distinguish it from the other factors",
        "a d-optimal or full factorial design",
    ),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_study_that_cannot_answer_says_what_is_wrong_and_what_would_do(name: str) -> None:
    build, wrong, remedy = CASES[name]
    text = shown(*build())
    assert wrong in text
    assert remedy in text
    assert "nan" not in text.lower().replace("nanosecond", "")
    assert "inf " not in text.lower()
