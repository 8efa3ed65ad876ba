"""What ``run --dry-run`` prints: the plan, its cost, what it will find and what would halve that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned, cost, setup_for, worst_cost
from leadline.checks.subject import subject_of
from leadline.cli.commands.plan import document, layouts_document
from leadline.cli.output import print_json, say
from leadline.experiments.pilot import compare_layouts, hosting_for, noise_for, overhead_for
from leadline.model.plan import PlannedTrial
from leadline.model.study import Study
from leadline.model.units import format_duration
from leadline.planning.forecast import forecast
from leadline.planning.looks import schedule
from leadline.planning.wording import forecast_lines, layout_lines, noise_lines
from leadline.stack.registry import download_seconds, downloads
from leadline.trial.looks import check_looks
from leadline.trial.progress import treatment_label

if TYPE_CHECKING:
    from leadline.places.pool.base import Looked


def print_plan(
    file: StudyFile, planned: Planned, json: bool, lab: Path = Path("lab"), pool: Looked | None = None
) -> None:
    """The plan as a table or a JSON document. ``lab`` may hold earlier studies; ``pool``: where its blocks will run."""
    plan, study = planned.plan, file.study
    check_looks(file, plan)
    noise = noise_for(study, lab)
    overhead = overhead_for(study, noise)
    hosts = None if pool is None else pool.at_once
    seconds, worst = cost(study, plan, overhead, hosts), worst_cost(study, plan, overhead, hosts)
    setup = setup_for(planned.design, study.workload, overhead, hosts)
    hosting = hosting_for(study, lab, hosts or 1)
    margins = [one.margin for one in study.conditions if one.response == noise.response and one.margin]
    outlook = forecast(plan, noise, setup, effect=min(margins, default=None), design=planned.design, hosts=hosting)
    layouts = compare_layouts(study, planned, lab, noise, overhead) if pool is None else None
    subject = subject_of(study)
    here = pool is None and study.under_load and study.stack.is_here
    missing = downloads(study.stack) if here else []
    if json:
        print_json(
            {
                "study": study.study,
                "seed": plan.seed,
                "trials": [_trial(trial, planned) for trial in plan.trials],
                "skipped": list(planned.skipped),
                "notes": list(plan.notes),
                "seconds": seconds,
                "seconds_at_worst": worst,
                "load": subject.load_document(),
                "services": study.stack.services if study.under_load else [],
                "downloads": [{"name": artefact.coordinate, "bytes": artefact.size} for artefact in missing],
                "download_seconds": download_seconds(missing),
                "not_checked": list(planned.unchecked),
                "looks": list(schedule(plan, study.design.looks)),
                "forecast": document(noise, outlook, setup),
                "layouts": layouts_document(layouts),
                "pool": None if pool is None else pool.document(),
            }
        )
        return
    for trial in plan.trials:
        label = treatment_label(trial, plan, planned.knobs)
        say(f"{trial.position + 1:4d}  block {trial.block + 1}  {label}{_slots(trial)}")
    for note in (*planned.skipped, *plan.notes):
        say(note)
    for text in subject.load_lines():
        say(text)
    for text in planned.unchecked:
        say(f"not checked: {text}")
    for text in pool.lines() if pool is not None else []:
        say(text)
    over = "" if pool is None else f" over {pool.over}"
    say(f"{len(plan.trials)} trials, {plan.kind}, seed {plan.seed}, {_about(study)} {format_duration(seconds)}{over}")
    if missing:
        sizes = ", ".join(f"{artefact.name} {artefact.size / 1e6:.0f} MB" for artefact in missing)
        once = f"about {format_duration(download_seconds(missing))} at 10 MB/s (assumed)"
        say(f"before the first trial, once: it downloads {sizes}: {once}")
    for text in _bounds(study, worst):
        say(text)
    if study.budget is not None and seconds > study.budget:
        say(f"the budget of {format_duration(study.budget)} ends first: about {study.budget / seconds:.0%} of them run")
    if study.design.looks == "watched":
        say(f"it may end early: watched, asked after every block from block {schedule(plan, 'watched')[0]} on")
    elif study.design.looks > 1:
        ends = ", ".join(str(block) for block in schedule(plan, study.design.looks)[:-1])
        say(f"it may end early: {study.design.looks} interim analyses, after block {ends} and at the end")
    for text in (*noise_lines(noise), *forecast_lines(outlook), *(layout_lines(layouts) if layouts else [])):
        say(text)


def _about(study: Study) -> str:
    warm_up = study.workload.warm_up
    return "at most about" if warm_up and warm_up.until == "steady" else "about"


def _bounds(study: Study, worst: float) -> list[str]:
    """What a machine that is not quiet may add."""
    lines = []
    if study.repeat:
        bounds = f"{study.repeat.others_cpu:.0%} of the CPUs, or the hypervisor {study.repeat.steal:.0%}"
        lines.append(f"at most {study.repeat.at_most} trials or blocks are measured again, where others use {bounds}")
    if study.wait:
        most = format_duration(study.wait.at_most)
        lines.append(f"before each it waits up to {most} until others use less than {study.wait.quiet:.0%} of the CPUs")
    return [*lines, f"with all of that at worst {format_duration(worst)}"] if lines else []


def _slots(trial: PlannedTrial) -> str:
    return f", {len(trial.slots)} slots of {format_duration(trial.slots[0].seconds)}" if trial.slots else ""


def _trial(trial: PlannedTrial, planned: Planned) -> dict[str, object]:
    row: dict[str, object] = {
        "position": trial.position,
        "block": trial.block,
        "replicate": trial.replicate,
        "role": trial.role.value,
        "levels": trial.treatment.as_dict(),
        "label": treatment_label(trial, planned.plan, planned.knobs),
    }
    if trial.slots:
        row["slots"] = [
            {"begin": slot.begin, "seconds": slot.seconds, "levels": slot.treatment.as_dict()} for slot in trial.slots
        ]
    if trial.turns:
        row["turns"] = [{"begin": turn.begin, "seconds": turn.seconds, "warm_up": turn.warm_up} for turn in trial.turns]
    return row
