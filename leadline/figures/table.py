"""A table of results, systems x settings x repeats, of a study or from somebody else, and the fit of each system;
and how the sentences of the figures write numbers and lists. In a study one factor may play the system.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from leadline.analysis.linear import fit
from leadline.analysis.table import Floats, response_kind
from leadline.model.errors import BLAMED, UsageError, did_you_mean
from leadline.model.knob import ApplyCost
from leadline.model.naming import Describe, plain_level
from leadline.model.plan import Factor, Plan
from leadline.model.result import Interval, Observation, ResponseKind
from leadline.model.units import rounded


def size(value: float) -> str:
    """Three significant digits or so, without exponents for common sizes."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 6)}f}" if abs(value) >= 1e-4 else rounded(value, 2)


def between(interval: Interval | None) -> str:
    return "" if interval is None else f" [{size(interval.low)}, {size(interval.high)}]"


def count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def listed(parts: Sequence[str], most: int = 4) -> str:
    """``a, b and c``; what is beyond ``most`` is counted."""
    first = list(parts[:most])
    if len(parts) > most:
        first.append(f"{len(parts) - most} more")
    return first[0] if len(first) == 1 else ", ".join(first[:-1]) + " and " + first[-1] if first else "none"


def chance(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


AT_DEFAULT = -1  # the level of a parameter that a run left alone, where the table does not name it


@dataclass(frozen=True)
class Parameter:
    """A factor with its levels as text. ``default``: index of the level the baseline has, None where unknown."""

    name: str
    levels: tuple[str, ...]
    default: int | None = None

    @property
    def changed(self) -> tuple[int, ...]:
        """Levels that are not the default."""
        return tuple(index for index in range(len(self.levels)) if index != self.default)


@dataclass(frozen=True)
class Setting:
    """One level of one parameter, by index into the table's parameters."""

    parameter: int
    level: int


@dataclass(frozen=True)
class Run:
    """One trial (or slot, or published mean) on one system.

    ``levels`` has one index for each parameter of the table, or ``AT_DEFAULT``. Either ``value`` is a finite number or
    ``failure`` names the class. ``blamed``: whether the failure may be the setting's doing.
    """

    system: int
    levels: tuple[int, ...]
    value: float | None
    failure: str = ""
    block: int = 0
    blamed: bool = True


@dataclass(frozen=True)
class ResultTable:
    """Runs of every setting on every system. Raises UsageError where there is nothing to make a figure of."""

    response: ResponseKind
    systems: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.runs:
            raise UsageError("the table has no finished run")
        if not any(parameter.changed for parameter in self.parameters):
            raise UsageError(
                "no parameter has a level besides its default, so there is no setting to compare; two levels are needed"
            )
        if all(run.value is None for run in self.runs):
            raise UsageError(f"all {len(self.runs)} runs failed, so there is no figure of {self.response.name}")

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Every level that is not its parameter's default, in the table's order."""
        return tuple(
            Setting(number, level) for number, parameter in enumerate(self.parameters) for level in parameter.changed
        )

    def name(self, setting: Setting) -> str:
        parameter = self.parameters[setting.parameter]
        return f"{parameter.name}={parameter.levels[setting.level]}"

    def is_baseline(self, run: Run) -> bool:
        return all(level in (AT_DEFAULT, p.default) for level, p in zip(run.levels, self.parameters, strict=True))

    def of(self, system: int, setting: Setting | None = None) -> list[Run]:
        """Runs of a system that have the setting."""
        return [
            run
            for run in self.runs
            if run.system == system and (setting is None or run.levels[setting.parameter] == setting.level)
        ]

    @property
    def sign(self) -> float:
        """1 where more is better, else -1."""
        return 1.0 if self.response.higher_is_better else -1.0


def ordered(words: Iterable[str]) -> tuple[str, ...]:
    """Distinct words in the order they came."""
    return tuple(dict.fromkeys(words))


KNOWN_DF = 10**7  # degrees of freedom of a noise that was given, not estimated


@dataclass(frozen=True)
class SystemFit:
    """Least squares of the response on block + levels, for one system.

    The s settings of the table come first and the baseline last in ``means`` (s + 1), NaN where ``known`` (s + 1) is
    False. ``scatter`` (s + 1, r) times its transpose times ``sigma`` squared is the covariance of the means. ``df`` is
    0 where the noise is not known.
    """

    system: str
    means: Floats
    known: tuple[bool, ...]
    scatter: Floats
    sigma: float
    df: int

    @property
    def baseline(self) -> float | None:
        return float(self.means[-1]) if self.known[-1] else None

    @property
    def centre(self) -> float:
        """The baseline, or the mean over settings where there is none: what percentages refer to."""
        return float(self.means[-1]) if self.known[-1] else float(np.mean(self.means[list(self.known)]))

    @property
    def cv(self) -> float | None:
        """Noise of one run in percent of the centre."""
        return 100 * self.sigma / self.centre if self.df > 0 and self.centre > 0 else None

    def error(self, row: Floats) -> float:
        """Standard error of the combination ``row`` (s + 1) of the means."""
        return float(self.sigma * np.linalg.norm(row @ self.scatter))


def fit_systems(table: ResultTable, cv: float | None = None) -> tuple[SystemFit, ...]:
    """A fit for every system that has a figure.

    ``cv``: the noise of one row of the table in percent, used where a system has no repeats to estimate it from.
    """
    fits = []
    for number, name in enumerate(table.systems):
        runs = [run for run in table.runs if run.system == number and run.value is not None]
        if not runs:
            continue
        settings = table.settings
        blocks = sorted({run.block for run in runs})
        width = len(blocks) + len(settings)
        design = np.zeros((len(runs), width))
        for row, run in enumerate(runs):
            design[row, blocks.index(run.block)] = 1.0
            for column, setting in enumerate(settings):
                design[row, len(blocks) + column] = run.levels[setting.parameter] == setting.level
        values = np.array([run.value for run in runs], dtype=np.float64)
        result = fit(design, values)
        contrasts = np.zeros((len(settings) + 1, width))
        contrasts[:, : len(blocks)] = 1.0 / len(blocks)
        contrasts[:-1, len(blocks) :] = np.eye(len(settings))
        estimable = result.estimable(contrasts)
        means = np.where(estimable, result.estimates(contrasts), math.nan)
        sigma, df = result.sigma, result.df
        if df == 0 and cv is not None:
            sigma, df = abs(cv / 100 * float(values.mean())), KNOWN_DF
        scatter = np.where(np.array(estimable)[:, None], result.scatter(contrasts), 0.0)
        fits.append(SystemFit(name, means, tuple(estimable), scatter, sigma, df))
    return tuple(fits)


SYSTEMS = ("kernel", "server", "system")
THIS = "this system"


def system_factor(plan: Plan, wanted: str | None = None) -> Factor | None:
    """The factor that plays the system: the one asked for, else one that needs another kernel or is named so.

    None where the study has one system. Raises UsageError for a name that is no factor.
    """
    names = [factor.name for factor in plan.factors]
    if wanted is not None:
        if wanted not in names:
            hint = did_you_mean(wanted, names) or f"factors: {', '.join(names) or 'none'}"
            raise UsageError(f"--system {wanted}: the study has no such factor; {hint}")
        return plan.factors[names.index(wanted)]
    for factor in plan.factors:
        if factor.apply_cost is ApplyCost.KERNEL or factor.name.rpartition(".")[2] in SYSTEMS:
            return factor
    return None


def table_of(
    plan: Plan,
    observations: Sequence[Observation],
    response: str,
    system: str | None = None,
    describe: Describe = plain_level,
) -> ResultTable:
    """The table of one response of a study.

    The system factor's levels are the systems; every other factor is a parameter whose default is its baseline level.
    Observations without a figure for the response and without a failure are left out with a note. Raises UsageError
    where nothing is left, or where a parameter never changes inside a block, whole plot or trial with slots.
    """
    chosen = system_factor(plan, system)
    factors = [factor for factor in plan.factors if factor is not chosen]
    names = tuple(describe(chosen.name, level) for level in chosen.levels) if chosen else (THIS,)
    blocks: dict[tuple[int | None, ...], int] = {}
    runs = []
    strange = 0
    for observation in sorted(observations, key=lambda o: (o.position, o.trial, o.slot or 0)):
        levels = observation.treatment.as_dict()
        value = observation.responses.get(response)
        good = observation.failure is None and value is not None and math.isfinite(value)
        valid = all(factor.name in levels and levels[factor.name] in factor.levels for factor in plan.factors)
        if not valid or (observation.failure is None and not good):
            strange += 1
            continue
        place = (observation.block, observation.plot, observation.trial if observation.slot is not None else None)
        runs.append(
            Run(
                system=chosen.levels.index(levels[chosen.name]) if chosen else 0,
                levels=tuple(factor.levels.index(levels[factor.name]) for factor in factors),
                value=float(value) if good and value is not None else None,
                failure=observation.failure.value if observation.failure else "",
                block=blocks.setdefault(place, len(blocks)),
                blamed=observation.failure in BLAMED,
            )
        )
    lost = _never_inside(runs, [factor.name for factor in factors])
    if lost:
        raise UsageError(
            f"{', '.join(lost)} change{'s' if len(lost) == 1 else ''} only between trials or whole plots, others "
            "inside them: the figures set all settings side by side, and these have another noise"
        )
    notes = [f"{strange} trials have no figure of {response} or a treatment the plan does not have; they are left out."]
    return ResultTable(
        response=response_kind(response),
        systems=names,
        parameters=tuple(
            Parameter(
                factor.name,
                tuple(describe(factor.name, level) for level in factor.levels),
                factor.levels.index(factor.baseline),
            )
            for factor in factors
        ),
        runs=tuple(runs),
        notes=tuple(notes) if strange else (),
    )


def _never_inside(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    """Parameters that have several levels, but only one in each block of each system."""
    lost = []
    for number, name in enumerate(names):
        levels: dict[tuple[int, int], set[int]] = {}
        for run in runs:
            if run.value is not None:
                levels.setdefault((run.system, run.block), set()).add(run.levels[number])
        if len(set().union(*levels.values())) > 1 and all(len(values) == 1 for values in levels.values()):
            lost.append(name)
    return lost
