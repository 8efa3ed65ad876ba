"""What ``run --dry-run`` prints: the plan and its cost."""

from __future__ import annotations

from leadline.cli.output import console, print_json
from leadline.lab.planning import Planned, cost
from leadline.lab.progress import treatment_label
from leadline.lab.studyfile import StudyFile
from leadline.model.units import format_duration


def print_plan(file: StudyFile, planned: Planned, json: bool) -> None:
    """The plan as a table or as one JSON document; nothing is changed."""
    plan, seconds = planned.plan, cost(file.study, planned.plan)
    if json:
        print_json(
            {
                "study": file.study.study,
                "seed": plan.seed,
                "trials": [
                    {
                        "position": trial.position,
                        "block": trial.block,
                        "replicate": trial.replicate,
                        "role": trial.role.value,
                        "levels": trial.treatment.as_dict(),
                        "label": treatment_label(trial, plan),
                    }
                    for trial in plan.trials
                ],
                "skipped": list(planned.skipped),
                "notes": list(plan.notes),
                "seconds": seconds,
            }
        )
        return
    for trial in plan.trials:
        label = treatment_label(trial, plan)
        console.print(f"{trial.position + 1:4d}  block {trial.block + 1}  {label}", markup=False, highlight=False)
    for note in (*planned.skipped, *plan.notes):
        console.print(note, markup=False, highlight=False)
    console.print(
        f"{len(plan.trials)} trials, {plan.kind}, seed {plan.seed}, about {format_duration(seconds)}", highlight=False
    )
