"""Carry-over: what a slot still has of the levels before, and the effect that a permanent setting would have.

A level's effect is taken to build up exponentially: on average over its measured seconds a slot still has the share c
of how it began, and 1 - c of its own level's effect. The coefficient of levels smoothed so is the effect of a permanent
setting, direct and carried together. c is not known: fits at several values are weighed by their likelihood and by a
prior that holds slow carry-over to be rare, since wash-outs are left out of slots.

The wash-out, how long a slot still feels the one before, is estimated from slots laid over each other. After a change
of level the response moves from the old level to the new one. Every second of a slot is compared with the slot's own
end; the sizes of these gaps, signed by the direction of the change, follow an exponential on average. Its time constant
is fitted by least squares over all slots that change a level, and the wash-out is the time after which less than a
tenth of the change is left. Whether anything is left at all in the first second is tested by flipping the signs of
whole slots (a permutation test: without carry-over the sign of a slot's gap means nothing).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy  # loads scipy.optimize at its first use

from leadline.analysis.columns import Model
from leadline.analysis.linear import Fit, Strata, fit
from leadline.analysis.mixed import MixedFit, whiten
from leadline.analysis.table import Floats, Sample, StudyTable
from leadline.model import distributions
from leadline.model.units import rounded

SHARES = tuple(number / 50 for number in range(46))  # of how a slot began that its figures still have
_NONE = 0.5  # prior probability of no carry-over; the rest falls with the square of what a slot gains
_OPEN = 8.0  # of twice the log likelihood: shares that lie farther behind the best are excluded
DETECTED = 0.05  # weight of no carry-over, below which there is one
HIDDEN = "a carry-over longer than its slots is not excluded, so nothing is called equivalent"


@dataclass(frozen=True)
class CarriedFit(MixedFit):
    """A fit whose contrasts are effects of permanent settings. ``chosen`` is the fit at the likeliest share, ``fits``
    (j) those at all shares with their ``weights`` (j); ``open`` (j) tells the shares that the data do not exclude.
    """

    chosen: Fit | None = None
    fits: tuple[Fit, ...] = ()
    weights: tuple[float, ...] = ()
    open: tuple[bool, ...] = ()

    @property
    def separate(self) -> bool:
        return self.chosen is not None and self.chosen.separate

    def scatter(self, contrasts: Floats) -> Floats:
        assert self.chosen is not None
        return self.chosen.scatter(contrasts)

    def estimates(self, contrasts: Floats) -> Floats:
        return np.asarray(np.array(self.weights) @ self._values(contrasts), dtype=np.float64)

    def errors(self, contrasts: Floats) -> Floats:
        assert self.chosen is not None
        weights = np.array(self.weights)
        spread = weights @ (self._values(contrasts) - self.estimates(contrasts)) ** 2
        wider = weights @ self._wider(contrasts) ** 2
        return np.asarray(np.sqrt(self.chosen.errors(contrasts) ** 2 * wider + spread), dtype=np.float64)

    def degrees(self, contrasts: Floats) -> Floats:
        assert self.chosen is not None
        return self.chosen.degrees(contrasts)

    def ends(self, contrasts: Floats, critical: Floats) -> tuple[Floats, Floats]:
        """Lowest and highest ends (k) of the intervals at all shares that are open."""
        assert self.chosen is not None
        reach = critical * self.chosen.errors(contrasts) * self._wider(contrasts)
        values, is_open = self._values(contrasts), np.array(self.open)
        return (values - reach)[is_open].min(axis=0), (values + reach)[is_open].max(axis=0)

    def _values(self, contrasts: Floats) -> Floats:
        """(j, k): estimates at every share."""
        return np.array([fit.estimates(contrasts) for fit in self.fits])

    def _wider(self, contrasts: Floats) -> Floats:
        """(j, k): standard errors at every share over those at the chosen one."""
        sizes = np.array([fit.sigma * np.linalg.norm(Fit.scatter(fit, contrasts), axis=1) for fit in self.fits])
        return np.asarray(sizes / sizes[self.weights.index(max(self.weights))], dtype=np.float64)


@dataclass(frozen=True)
class CarryOver:
    """How much slots keep of the levels before: ``share`` is the likeliest, ``none`` the weight of no carry-over.
    ``responses``: of the study, each of which is tested so (Bonferroni: under no carry-over the weight falls below w in
    at most w / (1 - w) of all cases).
    """

    share: float
    none: float
    fits: tuple[Fit, ...]
    weights: tuple[float, ...]
    open: tuple[bool, ...]
    responses: int = 1

    @property
    def detected(self) -> bool:
        return self.responses * self.none < DETECTED

    @property
    def sentence(self) -> str:
        if self.detected:
            over = f" (adjusted for {self.responses} responses)" if self.responses > 1 else ""
            return (
                f"A test at 5 %{over} detects a carry-over: slots keep about {100 * self.share:.0f} % of the effect of "
                "the level before, and a longer wash-out is needed. Effects are those of a permanent setting."
            )
        return "No carry-over from the slot before can be seen. Effects are those of a permanent setting."

    def around(self, chosen: MixedFit) -> CarriedFit:
        """The fit at the likeliest share, with the share's uncertainty."""
        fields = {name: getattr(chosen, name) for name in MixedFit.__dataclass_fields__}
        return CarriedFit(**fields, chosen=chosen, fits=self.fits, weights=self.weights, open=self.open)


def prior(shares: Sequence[float] = SHARES) -> Floats:
    """Weights (j) of the shares, of which the first is 0, before any data."""
    gains = (1 - np.array(shares[1:])) ** 2
    return np.array([_NONE, *((1 - _NONE) * gains / gains.sum())])


def carry_over(model: Model, sample: Sample, values: Floats, fitted: Fit, strata: Strata) -> CarryOver | None:
    """Weighs the shares at the covariance of ``fitted``, a fit without carry-over; None where nothing changes in slots
    or too few slots tell.
    """
    if not isinstance(fitted, MixedFit) or not changing_factors(model.table, sample):
        return None
    lost = strata.swept.groups if strata.swept else 0
    fits = []
    for share in SHARES:
        design = replace(model, kept=share).rows(sample)
        rows = whiten(strata, np.column_stack([design, values])[strata.order], fitted.parameters).columns
        fits.append(fit(rows[:, :-1], rows[:, -1], lost))
    if any(fit.sigma == 0 or fit.df <= 0 for fit in fits):
        return None
    behind = np.array([fit.df * np.log(fit.sigma**2) for fit in fits])
    behind -= behind.min()
    weights = prior() * np.exp(-behind / 2)
    weights /= weights.sum()
    share = SHARES[int(np.argmax(weights))]
    is_open = tuple((behind < _OPEN).tolist())
    return CarryOver(
        share, float(weights[0]), tuple(fits), tuple(weights.tolist()), is_open, max(1, model.table.responses)
    )


def changing_factors(table: StudyTable, sample: Sample) -> set[int]:
    """Factors that change between neighbouring slots."""
    after = sample.previous >= 0
    codes = np.array(table.cells)
    changed = codes[sample.cells[after]] != codes[sample.previous[after]]
    return {int(factor) for factor in np.flatnonzero(changed.any(axis=0))} if changed.size else set()


ALPHA = 0.05
LEFT = 0.1  # of the change that may be left when the wash-out ends
FEWEST = 6  # slots that change a level
_FLIPS = 2000
_SEED = 1945


@dataclass(frozen=True)
class SlotSeries:
    """One slot second by second: ``values`` from its start, ``before`` and ``after`` names of the levels that were in
    force in the slot before (None for a trial's first) and in this one.
    """

    values: tuple[float, ...]
    before: str | None
    after: str


@dataclass(frozen=True)
class WashOut:
    """``seconds`` to leave out at the start of every slot; 0 where no carry-over can be seen, None where too little is
    known. ``time_constant`` of the exponential in seconds, ``share`` of a change that is left in the first second.
    """

    seconds: float | None
    detected: bool
    p_value: float | None
    time_constant: float | None
    share: float | None
    sentence: str


def estimate(slots: Sequence[SlotSeries], interval: float = 1.0) -> WashOut:
    """The wash-out of slots of equal length, sampled every ``interval`` seconds.

    ``slots`` are in the order in which they ran. The settled level of each treatment is the mean over its slots' second
    halves; a slot's gap at a second is what it lacks to its own second half, as a share of the
    expected change. Slots whose change is smaller than the noise of such a mean say nothing and weigh little.
    """
    length = min((len(slot.values) for slot in slots), default=0)
    usable = [slot for slot in slots if all(math.isfinite(value) for value in slot.values[:length])]
    changed = sum(slot.before is not None and slot.before != slot.after for slot in usable)
    if length < 4 or changed < FEWEST:
        return _unknown(f"{changed} slots that change a level, of {length} samples; {FEWEST} of 4 are needed")
    data = np.array([slot.values[:length] for slot in usable])
    half = length // 2
    ends = data[:, half:].mean(axis=1)
    gaps, steps = _changes(usable, data, ends, half)
    if len(steps) < FEWEST or not np.any(np.abs(steps) > 1e-12 * max(1.0, float(np.abs(ends).max()))):
        return _unknown("no level that changes the response, so there is nothing that could be carried over")
    share = steps @ gaps / float(steps @ steps)  # share of the change left at each sample, by least squares
    p_value = _signs(gaps, steps)
    if p_value >= ALPHA:
        text = f"No carry-over can be seen within slots (p = {p_value:.2g}): nothing has to be left out."
        return WashOut(0.0, False, p_value, None, float(share[0]), text)
    constant, first = exponential(share, interval, length, half)
    seconds = min(seconds_until_left(constant, first, interval), length * interval)
    text = (
        f"After a change {100 * min(max(float(share[0]), 0.0), 1.0):.0f} % of it is left in the first "
        f"{interval:g} s (p = {p_value:.2g}), with a time constant of {rounded(constant, 2)} s."
    )
    return WashOut(seconds, True, p_value, constant, float(share[0]), text)


def _changes(slots: Sequence[SlotSeries], data: Floats, ends: Floats, half: int) -> tuple[Floats, Floats]:
    """Gaps (s, half) of the slots that change a level, and their expected changes (s).

    The levels before and after are means over the other slots: a slot's own noise, and that of the slot before it,
    which it continues, would otherwise be on both sides.
    """
    names = np.array([slot.after for slot in slots])
    gaps, steps = [], []
    for index, slot in enumerate(slots):
        if slot.before is None or slot.before == slot.after:
            continue
        others = np.ones(len(slots), dtype=bool)
        others[max(0, index - 1) : index + 1] = False
        old, new = ends[others & (names == slot.before)], ends[others & (names == slot.after)]
        if len(old) and len(new):
            gaps.append(data[index, :half] - ends[index])
            steps.append(float(old.mean() - new.mean()))
    return np.array(gaps).reshape(-1, half), np.array(steps)


def _signs(gaps: Floats, steps: Floats) -> float:
    """One-sided p value that the first sample's gap goes with the step, by flipping slots' signs."""
    products = gaps[:, 0] * steps
    flips = np.random.default_rng(_SEED).choice([-1.0, 1.0], size=(_FLIPS, len(products)))
    return float((1 + np.sum(flips @ products >= products.sum() * (1 - 1e-12))) / (_FLIPS + 1))


def seconds_until_left(constant: float, first: float, interval: float) -> float:
    """Seconds, in whole samples, until less than a tenth of a change is left of the share ``first`` at its start."""
    return math.ceil(max(interval, constant * math.log(max(first / LEFT, 1.0))) / interval - 1e-9) * interval


def exponential(share: Floats, interval: float, length: int, half: int) -> tuple[float, float]:
    """Time constant, and the share left at the very start, of the curve that the shares follow.

    The reference is the slot's own second half, of which the same exponential is a part: it is taken off the model.
    """
    centre = (np.arange(half) + 0.5) * interval
    late = (np.arange(half, length) + 0.5) * interval

    def shape(log_constant: float) -> Floats:
        constant = math.exp(log_constant)
        return np.asarray(np.exp(-centre / constant) - np.exp(-late / constant).mean(), dtype=np.float64)

    def lack(log_constant: float) -> float:
        curve = shape(log_constant)
        size = max(float(curve @ share) / float(curve @ curve), 0.0)
        return float(np.sum((share - size * curve) ** 2))

    bounds = (math.log(0.1 * interval), math.log(4 * length * interval))
    grid = np.linspace(*bounds, 40)
    start = grid[int(np.argmin([lack(point) for point in grid]))]
    width = grid[1] - grid[0]
    minimum = scipy.optimize.minimize_scalar(lack, bounds=(start - width, start + width), method="bounded")
    curve = shape(float(minimum.x))
    return math.exp(float(minimum.x)), max(float(curve @ share) / float(curve @ curve), 0.0)


def _unknown(what: str) -> WashOut:
    return WashOut(None, False, None, None, None, f"The wash-out cannot be estimated: {what}.")


_FOLDS = 12


@dataclass(frozen=True)
class LevelledSlot:
    """One slot second by second, and the levels by factor that were in force before (None for a trial's first) and in
    it.
    """

    values: tuple[float, ...]
    before: Mapping[str, str] | None
    after: Mapping[str, str]


@dataclass(frozen=True)
class LevelWashOut:
    """Seconds until less than a tenth of a change to ``level`` is left, at most those of a slot. ``slots`` changed to
    it; ``p_value`` is adjusted for the number of levels that were tested.
    """

    factor: str
    level: str
    slots: int
    seconds: float
    time_constant: float
    share: float
    p_value: float


Change = tuple[str, str]


def by_level(slots: Sequence[LevelledSlot], alpha: float = 0.05, interval: float = 1.0) -> tuple[LevelWashOut, ...]:
    """Levels after which a carry-over is seen, the longest first; empty where none is, or where too few slots change.

    ``slots`` are in the order in which they ran, sampled every ``interval`` seconds; those with missing samples are
    passed over.
    """
    length = min((len(slot.values) for slot in slots), default=0)
    usable = [slot for slot in slots if all(math.isfinite(value) for value in slot.values[:length])]
    if length < 4 or len(usable) < 2 * FEWEST:
        return ()
    data = np.array([slot.values[:length] for slot in usable])
    half = length // 2
    ends = data[:, half:].mean(axis=1)
    changes, steps, rows = _steps(usable, ends)
    df = len(rows) - len(changes)
    if not changes or df < FEWEST:
        return ()
    gaps = data[rows, :half] - ends[rows, None]
    inverse = np.linalg.pinv(steps.T @ steps, hermitian=True)
    shares = inverse @ steps.T @ gaps  # share of a change left: levels by seconds
    rest = gaps[:, 0] - steps @ shares[:, 0]
    errors = math.sqrt(float(rest @ rest) / df) * np.sqrt(np.maximum(np.diag(inverse), 0.0))
    estimable = errors > 0
    ratios = np.divide(shares[:, 0], errors, out=np.zeros(len(changes)), where=estimable)
    adjusted = np.minimum(len(changes) * np.where(estimable, distributions.t.sf(ratios, df), 1.0), 1.0)
    washed = []
    for column, (factor, level) in enumerate(changes):
        if adjusted[column] < alpha:
            constant, first = exponential(shares[column], interval, length, half)
            count = int(np.sum(steps[:, column] != 0))
            seconds = min(seconds_until_left(constant, first, interval), length * interval)
            share, p_value = float(shares[column, 0]), float(adjusted[column])
            washed.append(LevelWashOut(factor, level, count, seconds, constant, share, p_value))
    return tuple(sorted(washed, key=lambda one: -one.seconds))


def _steps(slots: Sequence[LevelledSlot], ends: Floats) -> tuple[list[Change], Floats, list[int]]:
    """Changes with enough slots; the expected change of each (r, m); the slots (r) that change something."""
    changed = [_changed(slot) for slot in slots]
    rows = [index for index, row in enumerate(changed) if row]
    counts: dict[Change, int] = {}
    for index in rows:
        for factor in changed[index]:
            key = (factor, slots[index].after[factor])
            counts[key] = counts.get(key, 0) + 1
    changes = [key for key in sorted(counts) if counts[key] >= FEWEST]
    place = {key: column for column, key in enumerate(changes)}
    effects = _effects(slots, ends)
    steps = np.zeros((len(slots), len(changes)))
    for index in rows:
        before, after = slots[index].before or {}, slots[index].after
        for factor in changed[index]:
            if (factor, after[factor]) in place:
                effect = effects[index]
                steps[index, place[factor, after[factor]]] = (
                    effect[factor, before[factor]] - effect[factor, after[factor]]
                )
    return changes, steps[rows], rows


def _changed(slot: LevelledSlot) -> list[str]:
    if slot.before is None:
        return []
    return [factor for factor, level in slot.after.items() if factor in slot.before and slot.before[factor] != level]


def _effects(slots: Sequence[LevelledSlot], ends: Floats) -> list[dict[Change, float]]:
    """For each slot the effects of all levels, from slots neither in its stretch nor beside it."""
    levels = sorted({item for slot in slots for item in slot.after.items()})
    levels += sorted({item for slot in slots for item in (slot.before or {}).items()} - set(levels))
    design = np.array([[1.0, *(float(slot.after.get(factor) == level) for factor, level in levels)] for slot in slots])
    gram, sums = design.T @ design, design.T @ ends
    effects: list[dict[Change, float]] = []
    for stretch in np.array_split(np.arange(len(slots)), min(_FOLDS, len(slots) // 2)):
        near = slice(max(0, stretch[0] - 1), stretch[-1] + 2)
        part = design[near]
        beta = np.linalg.pinv(gram - part.T @ part, rcond=1e-9, hermitian=True) @ (sums - part.T @ ends[near])
        effects += [dict(zip(levels, (float(value) for value in beta[1:]), strict=True))] * len(stretch)
    return effects
