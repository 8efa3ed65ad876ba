"""Carry-over: what a slot still has of the levels before, and the effect that a permanent setting would have.

A level's effect is taken to build up exponentially: on average over its measured seconds a slot still has the share c
of how it began, and 1 - c of its own level's effect. The coefficient of levels smoothed so is the effect of a permanent
setting, direct and carried together. c is not known: fits at several values are weighed by their likelihood and by a
prior that holds slow carry-over to be rare, since wash-outs are left out of slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis.columns import Model
from leadline.analysis.linear import Fit, fit
from leadline.analysis.mixed import MixedFit, whiten
from leadline.analysis.strata import Strata
from leadline.analysis.table import Floats, Sample, StudyTable

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
