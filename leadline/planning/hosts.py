"""What a plan finds where its blocks run on several hosts, between which effects differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis.across_hosts import FEWEST
from leadline.analysis.comparisons import KNOWN
from leadline.analysis.hosts import RANDOM_FROM
from leadline.analysis.linear import detectable
from leadline.model import distributions
from leadline.model.plan import Plan
from leadline.model.result import ResponseAnalysis
from leadline.planning.noise import variance_of
from leadline.planning.power import Precision, percent, precision_of

HOSTS_CV = 2.0  # percent by which an effect is taken to differ from host to host where no study tells


@dataclass(frozen=True)
class Hosting:
    """``count`` hosts (2 or more) that run a plan's blocks in turn. ``differ``: standard deviation of an effect between
    them, percent, from ``source``.
    """

    count: int
    differ: float = HOSTS_CV
    source: str = "assumed"


@dataclass(frozen=True)
class OverHosts:
    """``used``: hosts that run a block. ``random``: whether the answer is for hosts like these, else for these alone.
    ``smallest``: power -> smallest effect of the mean over hosts, percent; None where nothing can be said.
    """

    hosts: Hosting
    used: int
    random: bool
    df: float | None
    smallest: Mapping[float, float | None]


def over_hosts(plan: Plan, sigma: float, hosts: Hosting, powers: Sequence[float], level: float = 0.95) -> OverHosts:
    """The forecast of ``plan``; ``sigma``: noise of one row, of logarithms. Raises ValueError for one host."""
    if hosts.count < 2:
        raise ValueError(f"{hosts.count} host: nothing can differ between hosts")
    used = min(hosts.count, len({trial.block for trial in plan.trials}))
    random, precision = used >= RANDOM_FROM, precision_of(plan, level)
    if isinstance(precision, str):
        return OverHosts(hosts, used, random, None, dict.fromkeys(powers))
    error, df, critical = precision.error * sigma, precision.own, precision.critical
    if random:  # each comparison has the noise between hosts for itself, as the analysis has it
        error = math.hypot(error, math.sqrt(variance_of(hosts.differ) / used))
        df = used - 1.0
        critical = _of_family(_independent(len(precision.errors), level), df)
    elif (alone := _on_one(plan, used)) and isinstance(inside := precision_of(alone, level), Precision):
        df = min(used * inside.own, float(precision.df))
        critical = _of_family(precision.law.quantile(level, KNOWN), df)
    smallest = {power: percent(detectable(critical, error, df, power)) for power in powers}
    return OverHosts(hosts, used, random, df, smallest)


def differs_by(one: ResponseAnalysis) -> float | None:
    """Standard deviation of an effect between hosts, percent, as a study found it: the median of its levels."""
    spreads = [] if one.across_hosts is None else [spread.percent for spread in one.across_hosts.spreads]
    known_percents = [percent for percent in spreads if percent is not None]
    return float(np.median(known_percents)) if known_percents else None


def _on_one(plan: Plan, hosts: int) -> Plan | None:
    """What the last host runs: of unequal shares the smallest. None for a single block, which says nothing of noise."""
    trials = [trial for trial in plan.trials if trial.block % hosts == hosts - 1]
    if len({trial.block for trial in trials}) < FEWEST:
        return None
    return replace(plan, trials=tuple(replace(trial, position=at) for at, trial in enumerate(trials)))


def _independent(comparisons: int, level: float) -> float:
    """The critical value of the largest of so many |z| that have nothing in common."""
    return float(distributions.norm.isf((1 - level ** (1 / comparisons)) / 2))


def _of_family(normal: float, df: float) -> float:
    """The t value with the p value of a normal one."""
    return float(distributions.t.isf(distributions.norm.sf(normal), df))
