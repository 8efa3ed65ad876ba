"""Observations as arrays, in the order of the plan, and the scale on which a response is compared.

Factors that only ever change together are one factor. Scales are ratios for positive responses and differences for
shares that may be zero; equivalence is judged on them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from leadline.design.kinds import KINDS
from leadline.layouts import between_blocks, layout_of
from leadline.model import distributions
from leadline.model.knob import ApplyCost
from leadline.model.naming import Describe, plain_level, treatment_name
from leadline.model.plan import Factor, Plan, PlannedTrial, Role, Treatment
from leadline.model.result import RESPONSES, Interval, Observation, ResponseKind

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SQUARES = ("latin", "williams")  # ways of blocking in which every treatment comes equally often at every place
Cell = tuple[int, ...]  # index of each factor's level in plan order


@dataclass(frozen=True)
class StudyTable:
    """The trials of a study that finished, sorted by position, and the cells (treatments) of its plan.

    ``cells`` starts with the baseline; ``cell_of[i]`` is the index into ``cells`` of observation i.
    """

    factors: tuple[Factor, ...]
    cells: tuple[Cell, ...]
    observations: tuple[Observation, ...]
    cell_of: tuple[int, ...]
    strangers: int  # observations of treatments the plan does not have; left out
    describe: Describe
    screening: bool = False  # the plan's runs alias interactions
    complete: bool = True  # every block was planned with the same treatments
    between_blocks: bool = False  # some factor was planned to change between blocks only, as that of the host
    washed: float = 0.0  # share of a slot, at its start, that is not measured
    slots_in_block: int = 1  # slots after which the plan repeats its treatments inside a trial
    places: Mapping[int, int] = field(default_factory=dict)  # position -> place in its block, where squares balance it
    in_parallel: bool = False  # some block has several trials with slots: slots of one number meet the same arrivals
    equal_noise: bool = False  # all levels are taken to have the same noise
    covariates: tuple[str, ...] = ()  # figures of the machine that the plan names for the model
    exact: bool = False  # blocks are worlds, in which there is neither noise nor order
    responses: int = 1  # of the study: a test that each of them has is adjusted for their number
    hosts: tuple[str, ...] = ()  # where the trials ran, by name; empty on one host, and of forks, which have none

    @classmethod
    def of(cls, plan: Plan, observations: Sequence[Observation], describe: Describe) -> StudyTable:
        baseline = tuple(factor.levels.index(factor.baseline) for factor in plan.factors)
        treatments = {t for trial in plan.trials for t in _treatments(trial)}
        planned = {cell_of(plan.factors, treatment) for treatment in treatments} - {None, baseline}
        cells = (baseline, *sorted(cell for cell in planned if cell is not None))
        index = {cell: number for number, cell in enumerate(cells)}
        ordered = sorted(observations, key=lambda one: (one.position, one.trial, one.slot or 0))
        rows = [(observation, cell_of(plan.factors, observation.treatment)) for observation in ordered]
        used = [(observation, index[cell]) for observation, cell in rows if cell in index]
        layout = layout_of(plan)
        hosts = tuple(sorted({observation.host for observation, _ in used}))
        return cls(
            factors=plan.factors,
            cells=cells,
            observations=tuple(observation for observation, _ in used),
            cell_of=tuple(cell for _, cell in used),
            strangers=len(rows) - len(used),
            describe=describe,
            screening=plan.kind in KINDS and KINDS[plan.kind].screening,
            complete=_complete(plan),
            between_blocks=bool(between_blocks(plan)),
            places=_places(plan) if plan.blocks in SQUARES else {},
            in_parallel=_in_parallel(plan),
            exact=layout.exact,
            washed=_washed(plan, observations),
            slots_in_block=max((len(set(_treatments(trial))) for trial in plan.trials), default=1),
            hosts=() if layout.exact or len(hosts) < 2 else hosts,
        )

    def on_host(self, host: int) -> StudyTable:
        """The trials of one of the hosts, by its index."""
        pairs = zip(self.observations, self.cell_of, strict=True)
        pairs_of_host = [(observation, cell) for observation, cell in pairs if observation.host == self.hosts[host]]
        observations, cells = (
            tuple(observation for observation, _ in pairs_of_host),
            tuple(cell for _, cell in pairs_of_host),
        )
        return replace(self, observations=observations, cell_of=cells, hosts=())

    @property
    def crossed(self) -> bool:
        """Whether some treatment changes more than one factor, so that interactions can exist."""
        return any(sum(a != b for a, b in zip(cell, self.cells[0], strict=True)) > 1 for cell in self.cells)

    def comparisons(self) -> list[tuple[int, int]]:
        """(factor, level) indices of every level that is not its factor's baseline, in plan order."""
        return [
            (number, level)
            for number, factor in enumerate(self.factors)
            for level in range(len(factor.levels))
            if level != self.cells[0][number]
        ]

    def level_name(self, factor: int, level: int) -> str:
        """``factor=level``."""
        chosen = self.factors[factor]
        return f"{chosen.name}={self.describe(chosen.name, chosen.levels[level])}"

    def cell_name(self, cell: Cell) -> str:
        """``baseline``, or the levels that differ from it."""
        changed = [self.level_name(f, level) for f, level in enumerate(cell) if level != self.cells[0][f]]
        return ", ".join(changed) or "baseline"

    def of_levels(self, *chosen: tuple[int, int]) -> list[Observation]:
        """Observations that have all of these (factor, level) indices."""
        pairs = zip(self.observations, self.cell_of, strict=True)
        return [
            observation
            for observation, cell in pairs
            if all(self.cells[cell][factor] == level for factor, level in chosen)
        ]


def _places(plan: Plan) -> dict[int, int]:
    """Place of each trial in its block, by position; -1 for sentinels."""
    places: dict[int, int] = {}
    counts: Counter[int] = Counter()
    for trial in sorted(plan.trials, key=lambda one: one.position):
        outside = trial.role is Role.SENTINEL
        places[trial.position] = -1 if outside else counts[trial.block]
        counts[trial.block] += not outside
    return places


def _washed(plan: Plan, observations: Sequence[Observation]) -> float:
    lengths = [slot.seconds for trial in plan.trials for slot in trial.slots]
    seconds = [one.seconds for one in observations if one.seconds]
    return float(np.clip(1 - np.median(seconds) / np.median(lengths), 0.0, 0.9)) if lengths and seconds else 0.0


def _in_parallel(plan: Plan) -> bool:
    blocks = [trial.block for trial in plan.trials if trial.slots]
    return len(set(blocks)) < len(blocks)


def cell_of(factors: Sequence[Factor], treatment: Treatment) -> Cell | None:
    """Level indices of a treatment, None when it has a level or a factor the factors do not have."""
    levels = treatment.as_dict()
    if set(levels) != {factor.name for factor in factors}:
        return None
    try:
        return tuple(factor.levels.index(levels[factor.name]) for factor in factors)
    except ValueError:
        return None


def _treatments(trial: PlannedTrial) -> tuple[Treatment, ...]:
    """The treatments of a trial's slots, or its own."""
    return tuple(slot.treatment for slot in trial.slots) or (trial.treatment,)


def _complete(plan: Plan) -> bool:
    """Whether every block holds the same treatments, sentinels aside; of a trial with slots its set of treatments."""
    treatments: dict[int, set[frozenset[Treatment]]] = {}
    for trial in plan.trials:
        if trial.role is not Role.SENTINEL:
            treatments.setdefault(trial.block, set()).add(frozenset(_treatments(trial)))
    return len({frozenset(block) for block in treatments.values()}) <= 1


@dataclass(frozen=True)
class Sample:
    """Trials, or slots, with a finite figure for one response, as arrays of one length (n).

    ``cells`` index the table's cells, ``plots`` and ``slots`` are -1 where there are none, ``previous`` is the cell of
    the slot before in the same trial, -1 where there is none. ``hours`` since the first, None when not known.
    ``places`` in the block, -1 for sentinels; None where the design does not balance them. Of slots beside those of
    other trials: their number in the block. ``machine`` (n, c): the table's covariates, NaN where one was not recorded.
    ``hosts`` (n, or none) index the table's hosts.
    """

    values: Floats
    cells: Ints
    blocks: Ints
    trials: Ints
    plots: Ints
    slots: Ints
    previous: Ints
    hours: Floats | None
    places: Ints | None = None
    machine: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    hosts: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def slotted(self) -> bool:
        return bool(np.any(self.slots >= 0))

    @property
    def size(self) -> int:
        return len(self.values)

    def of_trials(self, scaled: Floats) -> tuple[Floats, Ints, Floats | None]:
        """Means of ``scaled`` (n) over trials, with the trials' blocks and hours: one row a trial."""
        _, first, trial = np.unique(self.trials, return_index=True, return_inverse=True)
        sizes = np.bincount(trial)
        hours = None if self.hours is None else np.bincount(trial, self.hours) / sizes
        return np.bincount(trial, scaled) / sizes, self.blocks[first], hours

    def only(self, chosen: NDArray[np.bool_]) -> Sample:
        """The rows that are chosen."""
        return Sample(
            self.values[chosen],
            self.cells[chosen],
            self.blocks[chosen],
            self.trials[chosen],
            self.plots[chosen],
            self.slots[chosen],
            self.previous[chosen],
            None if self.hours is None else self.hours[chosen],
            None if self.places is None else self.places[chosen],
            self.machine[chosen] if len(self.machine) else self.machine,
            self.hosts[chosen] if len(self.hosts) else self.hosts,
        )

    @property
    def is_baseline(self) -> NDArray[np.bool_]:
        return np.asarray(self.cells == 0)


def sample_of(table: StudyTable, response: str) -> tuple[Sample, int]:
    """The sample of one response, and how many trials gave a figure that is not a finite number."""
    rows = []
    machine, hosts = [], list[int]()
    broken = 0
    cells = {
        (observation.trial, observation.slot): cell
        for observation, cell in zip(table.observations, table.cell_of, strict=True)
        if observation.slot is not None
    }
    for observation, cell in zip(table.observations, table.cell_of, strict=True):
        value = observation.responses.get(response)
        if observation.failure is not None or value is None:
            continue
        if not math.isfinite(value) or abs(value) > 1e150:
            broken += 1
            continue
        machine.append(
            [observation.machine.get(name, observation.responses.get(name, math.nan)) for name in table.covariates]
        )
        slot = -1 if observation.slot is None else observation.slot
        plot = -1 if observation.plot is None else observation.plot
        before = cells.get((observation.trial, slot - 1), -1)
        place = table.places.get(observation.position, -1)
        if table.hosts:
            hosts.append(table.hosts.index(observation.host))
        rows.append(
            (float(value), observation.started, cell, observation.block, observation.trial, plot, slot, before, place)
        )
    started = np.array([row[1] for row in rows], dtype=np.float64)
    dated = len(rows) > 0 and not table.exact and bool(np.all(np.isfinite(started))) and bool(np.ptp(started) > 0)
    whole = np.array([row[2:] for row in rows], dtype=np.int64).reshape(len(rows), 7)
    places = whole[:, 6] if table.places else None
    if table.in_parallel:
        slots = whole[:, [1, 4]]  # block and number
        places = np.unique(slots, axis=0, return_inverse=True)[1].reshape(len(rows)).astype(np.int64)
    return (
        Sample(
            values=np.array([row[0] for row in rows], dtype=np.float64),
            cells=whole[:, 0],
            blocks=whole[:, 1],
            trials=whole[:, 2],
            plots=whole[:, 3],
            slots=whole[:, 4],
            previous=whole[:, 5],
            hours=(started - started.min()) / 3600.0 if dated else None,
            places=places,
            machine=np.array(machine, dtype=np.float64).reshape(len(rows), len(table.covariates)),
            hosts=np.array(hosts, dtype=np.int64),
        ),
        broken,
    )


WHOLE = ("confirmation", "configurations")  # kinds that compare settings of all factors as wholes
SETTING = "setting"  # name of the factor that stands for all
_DEAREST = tuple(reversed(ApplyCost))


def as_one_factor(
    plan: Plan,
    observations: Sequence[Observation] = (),
    describe: Describe = plain_level,
    named: Mapping[Treatment, str] | None = None,
) -> tuple[Plan, list[Observation]]:
    """Plan and observations of a confirmation, or of configurations, with one factor in place of several; any other
    plan as it is. ``named``: names of treatments; the levels that differ from the baseline name the others.
    """
    if plan.kind not in WHOLE or len(plan.factors) < 2:
        return plan, list(observations)
    used = [slot.treatment for trial in plan.trials for slot in trial.slots]
    used += [trial.treatment for trial in plan.trials]
    every = dict.fromkeys([plan.baseline, *used])
    names = {
        treatment: (named or {}).get(treatment) or treatment_name(plan, treatment, describe) for treatment in every
    }

    def one(treatment: Treatment) -> Treatment:
        return Treatment.of({SETTING: names.get(treatment, "unknown")})

    cost = next(cost for cost in _DEAREST if any(factor.apply_cost is cost for factor in plan.factors))
    levels = tuple(dict.fromkeys(names.values()))
    factor = Factor(SETTING, levels, names[plan.baseline], all(factor.pseudo for factor in plan.factors), cost)
    trials = tuple(
        replace(
            trial,
            treatment=one(trial.treatment),
            slots=tuple(replace(slot, treatment=one(slot.treatment)) for slot in trial.slots),
        )
        for trial in plan.trials
    )
    return replace(plan, factors=(factor,), trials=trials), [
        replace(observation, treatment=one(observation.treatment)) for observation in observations
    ]


_LARGEST = 1e9  # percent; anything beyond says only that the noise is too large


def response_kind(response: str) -> ResponseKind:
    """The response's unit and direction; one that is not in the table is a plain quantity where less is better."""
    return RESPONSES.get(response, ResponseKind(response, "", False, response))


@dataclass(frozen=True)
class Scale:
    """How figures enter the model and how contrasts leave it as percent of the baseline.

    On the log scale a contrast b is 100 (exp(b) - 1) percent. On the linear scale it is 100 b / ``base`` percent, where
    ``base`` is the mean of the baseline trials; no percent exists where that is not positive.
    """

    log: bool
    base: float

    def into(self, values: Floats) -> Floats:
        return np.asarray(np.log(values) if self.log else values, dtype=np.float64)

    def percent(self, contrast: float) -> float | None:
        """Percent of the baseline, None where it does not exist or is too large to mean anything."""
        if self.log:
            change = 100.0 * math.expm1(contrast) if contrast < 30 else math.inf
        elif self.base > 0:
            change = 100.0 * contrast / self.base
        else:
            return None
        return change if abs(change) <= _LARGEST else None

    def noise(self, sigma: float) -> float | None:
        """A standard deviation in percent of the baseline, of a lognormal figure on the log scale."""
        if self.log:
            return 100.0 * math.sqrt(math.expm1(sigma**2)) if sigma < 5 else None
        return self.percent(sigma)

    def interval(self, contrast: float, reach: float, level: float) -> Interval | None:
        return self.between(contrast - reach, contrast + reach, level)

    def between(self, lowest: float, highest: float, level: float = 0.95) -> Interval | None:
        low, high = self.percent(lowest), self.percent(highest)
        return None if low is None or high is None else Interval(low, high, level)


def scale_of(kind: ResponseKind, sample: Sample) -> Scale:
    """Log for positive quantities; linear for shares and wherever a figure is not positive."""
    baseline = sample.values[sample.is_baseline]
    baseline = baseline if len(baseline) else sample.values
    log = kind.unit != "share" and bool(np.all(sample.values > 0))
    return Scale(log, float(baseline.mean()) if len(baseline) else 0.0)


def baseline_mean(scale: Scale, sample: Sample, level: float) -> tuple[float | None, Interval | None]:
    """Mean of the baseline trials with its interval, in the response's unit (geometric on the log scale).

    With two blocks or more it is the mean of the blocks' means, and the interval rests on how these differ: trials of
    one block share what that block had in common.
    """
    chosen = sample.is_baseline
    if not chosen.any():
        return None, None
    baselines = sample.only(chosen)
    values, blocks = scale.into(baselines.values), baselines.blocks
    if baselines.slotted:
        values, blocks, _ = baselines.of_trials(values)
    groups = np.array([values[blocks == block].mean() for block in np.unique(blocks)])
    units = groups if len(groups) > 1 else values
    back: Callable[[float], float] = math.exp if scale.log else float
    centre = float(units.mean())
    if len(units) < 2:
        return back(centre), None
    reach = float(distributions.t.ppf((1 + level) / 2, len(units) - 1) * units.std(ddof=1) / math.sqrt(len(units)))
    if scale.log and centre + reach > 600:
        return back(centre), None
    low = back(centre - reach)
    return back(centre), Interval(low if scale.log else max(0.0, low), back(centre + reach), level)


MARGIN = 2.0  # percent


def margins(scale: Scale, margin: float) -> tuple[float, float] | None:
    """Contrasts that are -margin and +margin percent of the baseline; None where there is no percentage."""
    if scale.log:
        return math.log1p(-margin / 100), math.log1p(margin / 100)
    return (-margin / 100 * scale.base, margin / 100 * scale.base) if scale.base > 0 else None


def equivalence_p(scale: Scale, value: float, error: float, df: float, margin: float) -> float | None:
    """The larger p value of the two one-sided t tests that the contrast lies inside the margin."""
    ends = margins(scale, margin)
    if ends is None or error <= 0:
        return None
    return float(
        max(distributions.t.sf((value - ends[0]) / error, df), distributions.t.cdf((value - ends[1]) / error, df))
    )


def inside(interval: Interval | None, margin: float | None) -> bool:
    """Whether an interval in percent lies inside the margin."""
    return interval is not None and margin is not None and -margin < interval.low and interval.high < margin
