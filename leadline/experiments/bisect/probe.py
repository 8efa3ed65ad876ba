"""A probe of a bisection as a study file, and what its trials gave."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from leadline.checks.files.study import StudyFile, study_of
from leadline.conclude.configurations import configuration_names
from leadline.experiments import probes
from leadline.experiments.bisect.span import Span
from leadline.experiments.confirm import kept_keys
from leadline.experiments.probes import NO_SENTINEL_INSIDE, search_name, seed_of, settings_of
from leadline.layouts import layout_of
from leadline.model.bounds import RawLevel
from leadline.model.errors import FailureClass, UsageError
from leadline.model.guest import KERNEL
from leadline.model.record import StudyRecord
from leadline.model.result import RESPONSES
from leadline.model.study import Study
from leadline.planning.bisection import Block, Changes

_OF_TREATMENTS = (FailureClass.CONFIGURATION, FailureClass.WORKLOAD)


@dataclass(frozen=True)
class BisectQuestion(probes.SearchQuestion):
    """What is asked: the study whose stack and load are used, what lies between the ends, the response looked at."""

    span: Span
    response: str
    exact: bool = False

    @property
    def name(self) -> str:
        span = (self.span.factors, self.span.steps, self.span.ordered)
        return search_name(self.study, "bisect", *span, self.response, self.exact)

    @property
    def log(self) -> bool:
        """Whether figures enter as logarithms, so that effects are ratios."""
        return RESPONSES[self.response].unit != "share"


@dataclass(frozen=True)
class ProbeFile(StudyFile):
    """A probe's study; what is wrong with a level is told of where it was named."""

    span: Span

    def where(self, path: Sequence[str | int]) -> str:
        if len(path) > 1 and path[1] in self.span.factors:
            return self.span.source
        return super().where(path)


@dataclass(frozen=True)
class Given:
    """What a probe gave: its block, and treatments that failed of their own doing, with the reason.

    ``by_world``: of a block that is the mean over worlds, those of each.
    """

    block: Block | None
    failed: dict[Changes, str]
    by_world: tuple[dict[Changes, float], ...] = ()


def probe_file(
    question: BisectQuestion,
    block: Sequence[Changes],
    name: str,
    draw: int = 0,
    replicates: int = 1,
    unset: Collection[str] = (),
) -> ProbeFile:
    """The study that runs a block: its first treatment, an end, is the baseline. ``draw`` gives another order."""
    study, span = question.study, question.span
    treatments = list(dict.fromkeys(block))
    levels = [span.levels(treatment) for treatment in treatments]
    varied = [factor for factor in span.factors if any(level[factor] != levels[0][factor] for level in levels)]
    settings = {**settings_of(study, span.factors, unset), **{factor: levels[0][factor] for factor in span.factors}}
    seed = study.design.seed if question.exact else seed_of(study, name)
    configurations = {
        _word(at): {factor: treatment[factor] for factor in varied if treatment[factor] != levels[0][factor]}
        for at, treatment in enumerate(levels)
    }
    document: dict[str, Any] = {
        "study": name,
        "question": f"Which change between {span.label(treatments[0])} and the other end changes {question.response}?",
        **_kept(question),
        "factors": {factor: _distinct([level[factor] for level in levels]) for factor in varied},
        "settings": {factor: level for factor, level in settings.items() if factor not in varied},
        "design": {
            **_design(study, replicates),
            "configurations": configurations,
            "seed": seed + draw,
        },
        "responses": list(dict.fromkeys([question.response, *study.responses])),
    }
    parsed = study_of(document)
    return ProbeFile(parsed.study, parsed.text, replace(parsed.places, source=question.file.source), span)


def _kept(question: BisectQuestion) -> dict[str, Any]:
    """What all probes have in common; a kernel that is looked for is no longer the guest's."""
    keys = kept_keys(question.study)
    if KERNEL in question.span.factors and "guest" in keys:
        keys["guest"] = {key: value for key, value in keys["guest"].items() if key != KERNEL.partition(".")[2]}
    return keys


def _design(study: Study, replicates: int) -> dict[str, Any]:
    """In virtual time a probe is made in all worlds of the study."""
    layout = layout_of(study.design)
    if layout.exact:
        return layout.fresh(study.design, "configurations", layout.instances(study.design), ())
    sentinels = NO_SENTINEL_INSIDE if replicates == 1 else None
    return {"kind": "configurations", "replicates": replicates, "sentinels": sentinels}


def given(question: BisectQuestion, record: StudyRecord, block: Sequence[Changes]) -> list[Given]:
    """What the blocks of a finished probe gave. Raises UsageError for figures that have no logarithm."""
    treatments = {_word(at): treatment for at, treatment in enumerate(dict.fromkeys(block))}
    names = configuration_names(record.study, record.plan)
    blocks = []
    for number in sorted({trial.planned.block for trial in record.trials}):
        treatments_, values, failed = [], [], {}
        for trial in (trial for trial in record.trials if trial.planned.block == number):
            treatment = treatments[names[trial.planned.treatment]]
            value = trial.observation().responses.get(question.response)
            if trial.failure in _OF_TREATMENTS:
                failed[treatment] = trial.failure_message
            elif value is not None and math.isfinite(value):
                treatments_.append(treatment)
                values.append(_scaled(question, value))
        blocks.append(Given(Block(tuple(treatments_), tuple(values)) if len(treatments_) > 1 else None, failed))
    return [_over_worlds(blocks)] if layout_of(question.study.design).exact else blocks


def _over_worlds(worlds: Sequence[Given]) -> Given:
    """The means over the worlds in which all that can be run has a figure."""
    failed = {treatment: why for world in worlds for treatment, why in world.failed.items()}
    blocks = [dict(zip(world.block.treatments, world.block.values, strict=True)) for world in worlds if world.block]
    wanted = set[Changes]().union(*blocks) - failed.keys()
    whole = [block for block in blocks if wanted <= block.keys()]
    if not whole or len(wanted) < 2:
        return Given(None, failed)
    treatment = tuple(treatment for treatment in whole[0] if treatment in wanted)
    return Given(
        Block(treatment, tuple(fmean(block[treatment] for block in whole) for treatment in treatment)),
        failed,
        tuple(whole),
    )


def _scaled(question: BisectQuestion, value: float) -> float:
    if not question.log:
        return value
    if value <= 0:
        raise UsageError(
            f"--response {question.response}: a trial gave {value:g}, so changes have no ratio; name another"
        )
    return math.log(value)


def _word(at: int) -> str:
    return "end" if at == 0 else f"candidate {at}"


def _distinct(levels: Sequence[RawLevel]) -> list[RawLevel]:
    return list({(level, type(level)): level for level in levels}.values())
