"""Effects over several hosts, each of which ran whole blocks.

A host's own level is in its blocks. What is left is treatment x host: a setting may do more on one host than on
another. So every host is analysed by itself, and the effect is the mean over hosts, each counting the same.

With few hosts they are fixed: the mean is of these hosts, its variance the sum of theirs, its degrees of freedom
Satterthwaite's. From ``RANDOM_FROM`` hosts on they are a sample: the mean is of hosts like these, and its standard
error is that of the hosts' own estimates, so that it carries treatment x host whatever the noise inside. In balanced
blocks that is the analysis of variance with treatment x host random (Scheffe, The Analysis of Variance, 1959, chapter
8); where hosts differ in noise or blocks, the t test errs on the safe side (Ibragimov and Mueller 2010, Journal of
Business and Economic Statistics 28, 453-468).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.columns import Main, Model
from leadline.analysis.linear import Fit
from leadline.analysis.table import Floats, Sample, StudyTable
from leadline.analysis.unequal import TwoStrataFit, UnequalFit

RANDOM_FROM = 6  # hosts; fewer say too little of how an effect differs from host to host
Noise = Literal["own", "family", "none"]
_ROUNDING = 1e-9  # of the plain standard error: hosts that differ by less say the same


@dataclass(frozen=True)
class HostPart:
    """The trials of one host, analysed by themselves."""

    table: StudyTable
    sample: Sample
    model: Model
    fit: Fit

    @property
    def blocks(self) -> int:
        return len(np.unique(self.sample.blocks))

    def has(self, main: Main) -> bool:
        """Whether some figure is of this level."""
        factor, level = main
        return any(self.table.cells[int(cell)][factor] == level for cell in np.unique(self.sample.cells))

    def rows(self, model: Model, contrasts: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Contrasts (k, p) of ``model`` as those of this host's own (k, q), and which (k) of them its figures tell."""
        mains, pairs = len(model.mains), len(model.pairs)
        rows = np.zeros((len(contrasts), self.model.width))
        mask = np.ones(len(contrasts), dtype=np.bool_)
        mains_part = contrasts[:, model.leading : model.leading + mains + pairs]
        rows[:, self.model.leading : self.model.leading + mains] = mains_part[:, :mains]
        for number, pair in enumerate(model.pairs):
            if pair in self.model.pairs:
                at = self.model.leading + mains + self.model.pairs.index(pair)
                rows[:, at] = mains_part[:, mains + number]
            else:
                mask &= mains_part[:, mains + number] == 0
        return rows, np.asarray(mask & np.array(self.fit.estimable(rows), dtype=np.bool_))


@dataclass(frozen=True)
class OnHosts:
    """Contrasts host by host, all (h, k): estimates, standard errors, their degrees of freedom, and which are known."""

    estimates: Floats
    errors: Floats
    degrees: Floats
    known: NDArray[np.bool_]

    @property
    def count(self) -> Floats:
        """Hosts (k) that tell of each contrast."""
        return np.asarray(np.maximum(self.known.sum(axis=0), 1), dtype=np.float64)


@dataclass(frozen=True)
class HostsFit(Fit):
    """A fit whose contrasts of levels are means over hosts. ``plain`` is the fit that knows nothing of hosts; its
    ``beta``, ``half`` and ``rows`` are kept. ``sigma`` is the noise inside hosts.
    """

    plain: Fit
    model: Model
    parts: tuple[HostPart, ...]
    random: bool

    @property
    def separate(self) -> bool:
        return self.random or any(part.fit.separate for part in self.parts)

    def estimable(self, contrasts: Floats) -> list[bool]:
        by_host = on_hosts(self.model, self.parts, contrasts, noise="none")
        return [bool(count) for count in by_host.known.sum(axis=0) > int(self.random)]

    def estimates(self, contrasts: Floats) -> Floats:
        by_host = on_hosts(self.model, self.parts, contrasts, noise="none")
        return np.asarray(np.sum(by_host.estimates * by_host.known, axis=0) / by_host.count)

    def errors(self, contrasts: Floats) -> Floats:
        return self._judged(contrasts, False)[0]

    def degrees(self, contrasts: Floats) -> Floats:
        return self._judged(contrasts, False)[1]

    def together(self, contrasts: Floats) -> tuple[Floats, Floats]:
        """Standard errors (k) and degrees of freedom (k) of contrasts that are judged as one family."""
        return self._judged(contrasts, True)

    def scatter(self, contrasts: Floats) -> Floats:
        if self.random:  # (k, h)
            by_host = on_hosts(self.model, self.parts, contrasts, noise="none")
            moved = self._around(by_host) / np.sqrt(by_host.count * np.maximum(by_host.count - 1, 1))
            return np.asarray(moved.T / self.sigma)
        scattered, count = [], on_hosts(self.model, self.parts, contrasts, noise="none").count
        for part in self.parts:
            rows, mask = part.rows(self.model, contrasts)
            scattered.append(part.fit.scatter(rows) * (mask / count)[:, None] * part.fit.sigma / self.sigma)
        return np.asarray(np.hstack(scattered))

    def _around(self, found: OnHosts) -> Floats:
        """Hosts' estimates (h, k) less their mean, 0 where one is not known."""
        mean = np.sum(found.estimates * found.known, axis=0) / found.count
        return np.asarray((found.estimates - mean) * found.known)

    def _judged(self, contrasts: Floats, family: bool) -> tuple[Floats, Floats]:
        by_host = on_hosts(self.model, self.parts, contrasts, "none" if self.random else "family" if family else "own")
        if self.random:
            free = np.maximum(by_host.count - 1, 1)
            errors = np.sqrt(np.sum(self._around(by_host) ** 2, axis=0) / free / by_host.count)
            return np.maximum(errors, _ROUNDING * self.plain.errors(contrasts)), free
        squares = by_host.errors**2 * by_host.known
        total = np.maximum(squares.sum(axis=0), 1e-300)
        degrees = total**2 / np.maximum(np.sum(squares**2 / np.maximum(by_host.degrees, 1.0), axis=0), 1e-300)
        return np.sqrt(total) / by_host.count, np.asarray(np.maximum(degrees, 1.0))


def on_hosts(model: Model, parts: Sequence[HostPart], contrasts: Floats, noise: Noise = "own") -> OnHosts:
    """Contrasts (k, p) of ``model`` on each host. ``noise``: what errors are wanted for: contrasts by themselves, those
    that are judged as one family, or nothing.
    """
    shape = (len(parts), len(contrasts))
    result = OnHosts(np.zeros(shape), np.zeros(shape), np.ones(shape), np.zeros(shape, dtype=np.bool_))
    for place, part in enumerate(parts):
        rows, mask = part.rows(model, contrasts)
        result.known[place], result.estimates[place] = mask, part.fit.estimates(rows)
        if noise == "family" and isinstance(part.fit, UnequalFit | TwoStrataFit):
            result.errors[place], result.degrees[place] = part.fit.together(rows)
        elif noise != "none":
            result.errors[place], result.degrees[place] = part.fit.errors(rows), part.fit.degrees(rows)
    return result


def hosts_fit(model: Model, plain: Fit, parts: Sequence[HostPart]) -> HostsFit | str:
    """The fit over hosts, else why what hosts differ by cannot be kept apart from the noise between blocks."""
    random = len(parts) >= RANDOM_FROM
    if not random and any(part.blocks < 2 or part.fit.df <= 0 for part in parts):
        return "a host ran one block alone"
    mains = np.array([model.effect(main) for main in model.mains]).reshape(len(model.mains), model.width)
    having = np.array([sum(part.has(main) for part in parts) for main in model.mains], dtype=np.int64)
    hosts_with = on_hosts(model, parts, mains, noise="none").known.sum(axis=0)
    if np.any((hosts_with < np.minimum(having, 2)) & np.array(plain.estimable(mains), dtype=np.bool_)):
        return "a host alone cannot compare a level with the baseline"
    free = sum(part.fit.df for part in parts if part.fit.df > 0)
    inside = sum(part.fit.df * part.fit.sigma**2 for part in parts if part.fit.df > 0)
    sigma = float(np.sqrt(inside / free)) if free > 0 and inside > 0 else plain.sigma
    df = len(parts) - 1 if random else free
    fitted = HostsFit(plain.beta, plain.half, plain.rows, df, sigma, plain, model, tuple(parts), random)
    return fitted if sigma > 0 else "repeated trials gave exactly the same figures"
