"""The comparisons of a tuning, and whether a step is kept: the rule, its error rates, what it said of every mode."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from leadline.analysis.contrasts import Change, Pair, contrasts, residual
from leadline.analysis.linear import Residual, detectable
from leadline.analysis.maxt import max_t
from leadline.analysis.table import inside, response_kind
from leadline.design.seeds import derived
from leadline.layouts import layout_of
from leadline.model.bounds import RawLevel
from leadline.model.errors import BLAMED
from leadline.model.plan import Plan, Treatment
from leadline.model.result import Observation, Verdict
from leadline.model.tuning import MODE, Step, Tuning
from leadline.model.units import rounded
from leadline.planning.power import percent

Levels = Mapping[str, RawLevel]
Kept = Mapping[str, int]  # step -> which of its levels, 0 is untuned


class Stage(StrEnum):
    STEP = "step"  # the best so far against the candidates of a step
    CONFIRM = "confirm"  # fresh trials of the chosen candidates
    COMPARE = "compare"  # untuned against tuned, all modes
    FACTORIAL = "factorial"  # the steps of a mode as factors


@dataclass(frozen=True)
class Part:
    """One comparison, run as one study. ``configurations``: name -> all levels, the first is the baseline.

    ``key`` tells it from every other comparison of the tuning, by what is compared.
    """

    stage: Stage
    step: str  # of a step or a confirmation, else empty
    mode: str  # of a factorial, else empty
    configurations: Mapping[str, Levels]
    blocks: int
    seed: int

    @property
    def key(self) -> str:
        text = json.dumps([self.configurations, self.blocks], sort_keys=True, default=str)
        name = "/".join(word for word in (self.stage.value, self.step or self.mode) if word)
        return f"{name}/{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @property
    def trials(self) -> int:
        return len(self.configurations) * self.blocks


@dataclass(frozen=True)
class Measured:
    """What a comparison gave so far. ``treatments``: the configurations as the plan holds them."""

    plan: Plan
    observations: Sequence[Observation]
    treatments: Mapping[str, Treatment]
    complete: bool


def levels_of(tuning: Tuning, mode: str, kept: Kept, left_out: Mapping[str, str]) -> dict[str, RawLevel]:
    """All levels of a configuration: every knob of every step that can be tried, the mode, and what is held."""
    raw_levels: dict[str, RawLevel] = {MODE: mode}
    for step in tuning.steps:
        if step.name in left_out:
            continue
        raw_levels |= {knob: levels[kept.get(step.name, 0)] for knob, levels in step.levels.items()}
        if mode not in modes_of(tuning, step):
            raw_levels |= step.elsewhere
    return raw_levels


def describe(step: Step, candidate: int) -> str:
    """``knob=level, knob=level``."""
    return ", ".join(f"{knob}={_word(levels[candidate])}" for knob, levels in step.levels.items())


def _word(level: RawLevel) -> str:
    return ("off", "on")[level] if isinstance(level, bool) else str(level)


def part_of(
    tuning: Tuning,
    stage: Stage,
    configurations: Mapping[str, Levels],
    blocks: int,
    *,
    step: str = "",
    mode: str = "",
) -> Part:
    """The seed follows from the tuning's and from what is compared: other data and another order than in any other."""
    bare = Part(stage, step, mode, configurations, blocks, 0)
    seed = int.from_bytes(derived(tuning.seed, "part of a tuning", bare.key)[:4])
    return Part(stage, step, mode, configurations, blocks, seed)


def modes_of(tuning: Tuning, step: Step) -> list[str]:
    """The modes in which a step is tried, in the tuning's order."""
    return [mode for mode in tuning.modes if step.modes is None or mode in step.modes]


FALSE_KEEP = 0.05  # share of whole tunings that may keep anything where nothing helps
CONFIRM_LEVEL = 0.95
LOOSEST = 0.2  # one-sided: how easily a candidate may go to its confirmation


@dataclass(frozen=True)
class Decision:
    """A step in one mode. ``candidate``: the level that was chosen, 0 where none was; ``kept`` whether it stays.

    ``setting`` describes the chosen candidate, the one that came nearest where none was, and ``change`` is that one's.
    ``tried``: each candidate against the best so far, in order; ``confirmed``: the chosen one in fresh trials.
    ``settled``: nothing more is to be measured for it.
    """

    mode: str
    step: str
    kept: bool
    candidate: int
    setting: str
    tried: tuple[Change, ...] = ()
    confirmed: Change | None = None
    reason: str = ""
    settled: bool = True
    best: int = 1

    @property
    def change(self) -> Change | None:
        """Of the candidate that ``setting`` describes, in the trials of the step; None where it was not tried."""
        return self.tried[self.best - 1] if self.tried else None


def decision_levels(tuning: Tuning, steps: int) -> tuple[float, float]:
    """Confidence levels of a step's and of a confirmation's intervals, each for all modes and candidates at once.

    They are such that at most ``FALSE_KEEP`` of tunings of ``steps`` steps keep anything where nothing helps: a step
    keeps what lies outside its interval on the better side. With confirmation both have to, in trials that share
    nothing, so that the two errors multiply and the first may be larger. Largest and smallest of the comparisons are
    taken to leave their side with probability p each, independently: both stay inside with (1 - p) squared.
    """
    share = FALSE_KEEP / max(steps, 1)
    if tuning.blocks.confirm:
        share = min(LOOSEST, share / (1 - CONFIRM_LEVEL**0.5))
    return (1 - share) ** 2, CONFIRM_LEVEL


def smallest_step(tuning: Tuning, part: Part, sigma: float, level: float) -> float:
    """The change in percent that a step finds with a power of 80 %; ``sigma``: the noise of logarithms of one trial."""
    names = list(part.configurations)
    rows = []
    for name in names:
        if not name.endswith(" before"):
            mode = name.split()[0]
            row = np.zeros(len(names))
            row[names.index(name)], row[names.index(f"{mode} before")] = 1.0, -1.0
            rows.append(row)
    blocks = tuning.blocks.step
    df = float((blocks - 1) * (len(names) - 1))
    critical = max_t(np.array(rows)).quantile(level, df)
    return percent(detectable(critical, sigma * (2 / blocks) ** 0.5, df, 0.8))


def step_part(tuning: Tuning, step: Step, kept: Mapping[str, Kept], left_out: Mapping[str, str]) -> Part:
    """In every mode the best so far and each candidate on top of it."""
    configurations: dict[str, Levels] = {}
    for mode in modes_of(tuning, step):
        configurations[f"{mode} before"] = levels_of(tuning, mode, kept[mode], left_out)
        for candidate in range(1, step.candidates + 1):
            levels = levels_of(tuning, mode, {**kept[mode], step.name: candidate}, left_out)
            configurations[candidate_name(mode, step, candidate)] = levels
    return part_of(tuning, Stage.STEP, configurations, tuning.blocks.step, step=step.name)


def candidate_name(mode: str, step: Step, candidate: int) -> str:
    """The configuration of a candidate in the part of its step; what it is compared with is ``MODE before``."""
    return f"{mode} {step.name}" + (f" {candidate}" if step.candidates > 1 else "")


def candidate_pair(measured: Measured, mode: str, step: Step, candidate: int) -> Pair:
    """A candidate's treatment, and that of the best so far, in the part of their step."""
    at = measured.treatments
    return at[candidate_name(mode, step, candidate)], at[f"{mode} before"]


def noise_of_others(measured: Iterable[Measured], response: str) -> list[Residual]:
    """What steps have in common beside the one that is judged: in rotations, whose instances are all warm and have
    the same slots, the noise between these. Steps with a load or slots of their own have another.
    """
    residuals = (
        residual(measurement.plan, measurement.observations, response)
        for measurement in measured
        if layout_of(measurement.plan).side_by_side
    )
    return [residual for residual in residuals if residual is not None]


def chosen_in(
    tuning: Tuning, step: Step, measured: Measured, level: float, before: Iterable[Measured] = ()
) -> list[Decision]:
    """The best candidate of each mode whose interval excludes none on the better side and that breaks no limit.

    ``before``: earlier steps that share their noise. Later ones have no part in it, so that a decision stays.
    """
    modes = modes_of(tuning, step)
    numbers = range(1, step.candidates + 1)
    pairs = [candidate_pair(measured, mode, step, candidate) for mode in modes for candidate in numbers]
    response = tuning.responses[0]
    others = noise_of_others(before, response)
    changes = contrasts(measured.plan, measured.observations, response, pairs, family_level=level, others=others)
    decisions = []
    for number, mode in enumerate(modes):
        mine = slice(number * step.candidates, (number + 1) * step.candidates)
        decisions.append(_choice(tuning, step, mode, changes[mine], pairs[mine], measured))
    return decisions


def _choice(
    tuning: Tuning,
    step: Step,
    mode: str,
    changes: Sequence[Change],
    pairs: Sequence[Pair],
    measured: Measured,
) -> Decision:
    sign = 1.0 if response_kind(tuning.responses[0]).higher_is_better else -1.0
    broken = [broken_limit(tuning, measured.observations, *pair) for pair in pairs]
    able = [at for at, change in enumerate(changes) if change.better and not broken[at]]
    if able:
        best = max(able, key=lambda at: sign * (changes[at].percent or 0.0))
        final = tuning.blocks.confirm == 0
        return Decision(
            mode, step.name, final, best + 1, describe(step, best + 1), tuple(changes), settled=final,
            reason="better" if final else "better; fresh trials are to confirm it", best=best + 1,
        )  # fmt: skip
    usable = [at for at, change in enumerate(changes) if change.percent is not None]
    near = max(usable, key=lambda at: sign * (changes[at].percent or 0.0)) if usable else 0
    reason = broken[near] or _why_not(tuning, changes[near])
    return Decision(mode, step.name, False, 0, describe(step, near + 1), tuple(changes), reason=reason, best=near + 1)


def _why_not(tuning: Tuning, change: Change) -> str:
    if change.reason:
        return change.reason
    if inside(change.simultaneous, 100 * tuning.equivalence):
        return f"equivalent, within {100 * tuning.equivalence:g} %"
    return "worse" if change.verdict is Verdict.WORSE else "no change lies within its interval"


def broken_limit(tuning: Tuning, observations: Sequence[Observation], treatment: Treatment, before: Treatment) -> str:
    """Why a candidate must not be kept whatever it gains, empty where nothing speaks against it.

    Trials that failed by the candidate's own doing, and a latency limit that it misses where the best so far did not.
    """
    mine = [observation for observation in observations if observation.treatment == treatment]
    failed = [observation.failure for observation in mine if observation.failure in BLAMED]
    if failed:
        kinds = ", ".join(sorted({failure.value for failure in failed if failure}))
        return f"{len(failed)} of its {len(mine)} trials failed ({kinds})"
    for name, limit in (("p90", tuning.limits.p90), ("p99", tuning.limits.p99)):
        if limit is None:
            continue
        now, then = (_middle(observations, treatment_, name) for treatment_ in (treatment, before))
        if now is not None and now > 1000 * limit and (then is None or then <= 1000 * limit):
            return f"{name} {rounded(now, 3)} ms is beyond the limit of {rounded(1000 * limit, 3)} ms"
    return ""


def _middle(observations: Sequence[Observation], treatment: Treatment, response: str) -> float | None:
    values = [
        observation.responses[response]
        for observation in observations
        if observation.treatment == treatment and observation.failure is None and response in observation.responses
    ]
    return float(np.median(values)) if values else None


def confirm_part(
    tuning: Tuning,
    step: Step,
    chosen: Sequence[Decision],
    kept: Mapping[str, Kept],
    left_out: Mapping[str, str],
) -> Part:
    """The chosen candidates, each against the best so far of its mode, in trials that had no part in the choice."""
    configurations: dict[str, Levels] = {}
    for decision in chosen:
        configurations[f"{decision.mode} before"] = levels_of(tuning, decision.mode, kept[decision.mode], left_out)
        levels = levels_of(tuning, decision.mode, {**kept[decision.mode], step.name: decision.candidate}, left_out)
        configurations[candidate_name(decision.mode, step, decision.candidate)] = levels
    return part_of(tuning, Stage.CONFIRM, configurations, tuning.blocks.confirm, step=step.name)


def confirmed_in(tuning: Tuning, step: Step, chosen: Sequence[Decision], measured: Measured) -> list[Decision]:
    """The chosen candidates with what the fresh trials say."""
    pairs = [candidate_pair(measured, decision.mode, step, decision.candidate) for decision in chosen]
    changes = contrasts(measured.plan, measured.observations, tuning.responses[0], pairs, family_level=CONFIRM_LEVEL)
    decisions = []
    for decision, change, pair in zip(chosen, changes, pairs, strict=True):
        broken = broken_limit(tuning, measured.observations, *pair)
        keeps = change.better and not broken
        reason = "confirmed" if keeps else f"not confirmed: {broken or _why_not(tuning, change)}"
        decisions.append(replace(decision, kept=keeps, confirmed=change, reason=reason, settled=True))
    return decisions
