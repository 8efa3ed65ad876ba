"""The A/A twin of a study: same plan, nothing differs."""

from pathlib import Path

import pytest

from leadline.checks.files.study import StudyFile, parse_study
from leadline.checks.plan import Planned, plan_study
from leadline.experiments.twin import aa_twin
from leadline.host.local import LocalHost
from leadline.model.errors import UsageError
from leadline.model.knob import Level
from leadline.model.plan import Treatment
from leadline.stack.registry import stack_catalogue

TEXT = """\
study: both
question: Which?
workload: { scenario: brokerage-classic, users: 4, steady: 120s }
factors:
  vm.dirty_background_ratio: [10, 1, 40]
  jvm.heap: [256m, 512m]
baseline: { jvm.heap: 512m }
settings: { vm.dirty_expire_centisecs: 1200 }
design: { kind: one-at-a-time, replicates: 2, switchback: { slot: 10s } }
"""


def _planned(file: StudyFile) -> Planned:
    stack = file.study.stack
    return plan_study(file, LocalHost(), stack_catalogue(stack), False)


@pytest.mark.parametrize("switchback", [True, False])
def test_twin_has_the_plan_of_the_study_and_sets_baselines_only(switchback: bool) -> None:
    text = TEXT if switchback else TEXT.replace(", switchback: { slot: 10s }", "")
    file = parse_study(text, "both.yaml")
    study = _planned(file)
    twin_file = aa_twin(file, study)
    twin = _planned(twin_file)
    assert twin_file.study.study == "both-aa"
    assert twin_file.study.workload == file.study.workload
    assert twin_file.study.design == file.study.design
    assert all(factor.pseudo for factor in twin.plan.factors)
    assert twin.settings == {**study.settings, "vm.dirty_background_ratio": 10, "jvm.heap": 512 * 1024**2}
    pairs = zip(study.plan.factors, twin.plan.factors, strict=True)
    assert all(b.name == f"same.{a.name}" and len(a.levels) == len(b.levels) for a, b in pairs)
    assert _shape(study) == _shape(twin)


def _shape(planned: Planned) -> list[tuple[object, ...]]:
    """Every trial's and slot's block and the factors that are not at their baseline, in an order of its own."""
    baseline = {factor.name: factor.baseline for factor in planned.plan.factors}
    return sorted(
        (
            trial.block,
            len(trial.slots),
            *sorted(name.removeprefix("same.") for name in _changed(place.treatment, baseline)),
        )
        for trial in planned.plan.trials
        for place in (trial.slots or [trial])
    )


def _changed(treatment: Treatment, baseline: dict[str, Level]) -> list[str]:
    return [name for name, level in treatment.levels if level != baseline[name]]


def test_apply_cost_of_a_pseudo_factor_that_is_not_there() -> None:
    file = parse_study(
        "study: aa\nquestion: q\nworkload: {scenario: brokerage-classic, users: 2}\n"
        "pseudo_factors: {first: [a, b]}\npseudo_apply_costs: {frist: restart}\n",
        str(Path("aa.yaml")),
    )
    with pytest.raises(UsageError, match=r"aa\.yaml:5: .*frist.*did you mean first"):
        _planned(file)
