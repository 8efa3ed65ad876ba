"""What effects do on each of a study's hosts, and whether they differ there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from leadline.analysis.columns import Main, Model
from leadline.analysis.comparisons import Family, effects_of
from leadline.analysis.hosts import RANDOM_FROM, HostPart, HostsFit, on_hosts
from leadline.analysis.table import Floats, Sample, Scale, StudyTable
from leadline.model import distributions
from leadline.model.result import AcrossHosts, Effect, HostEffect, HostSpread, Interval, ResponseKind
from leadline.model.units import format_number

ALPHA = 0.05
FEWEST = 2  # blocks of a host, with fewer of which it says nothing of its own noise


@dataclass(frozen=True)
class Hosts:
    """The hosts of a response's figures. ``fit`` is a text where they are not kept apart: why not."""

    names: tuple[str, ...]
    parts: tuple[HostPart, ...]
    fit: HostsFit | str


def across_hosts(
    table: StudyTable,
    kind: ResponseKind,
    scale: Scale,
    model: Model,
    hosts: Hosts,
    level: float,
    margin: float | None,
) -> AcrossHosts:
    """Effects by host, how far they differ, and what the study's intervals say of other hosts."""
    count = len(hosts.parts)
    effects = []
    for name, part in zip(hosts.names, hosts.parts, strict=True):
        family = Family.of(part.fit, [part.model.effect(main) for main in part.model.mains], 1 - (1 - level) / count)
        host_effects = effects_of(part.table, part.sample, kind, scale, part.model, family, level, margin)
        effects += [_named(effect, name, count) for effect in host_effects]
    spreads, p_value = _spreads(table, scale, model, hosts.parts)
    p_value = None if p_value is None else min(1.0, table.responses * p_value)
    differ = p_value is not None and p_value < ALPHA
    holds = " ".join([_scope(hosts), *_missing(table, model, hosts.parts)])
    sentence = _difference(table, spreads, p_value, differ)
    random = isinstance(hosts.fit, HostsFit) and hosts.fit.random
    return AcrossHosts(hosts.names, random, tuple(effects), spreads, p_value, differ, holds, sentence)


def _named(effect: Effect, host: str, count: int) -> HostEffect:
    """The effect as one of ``count`` hosts' families, which share the error rate (Bonferroni)."""
    effect_of_host = HostEffect(**{field.name: getattr(effect, field.name) for field in fields(effect)}, host=host)
    return (
        effect_of_host
        if effect_of_host.p_adjusted is None
        else replace(effect_of_host, p_adjusted=min(1.0, count * effect_of_host.p_adjusted))
    )


def _scope(hosts: Hosts) -> str:
    count = len(hosts.parts)
    if isinstance(hosts.fit, str):
        return (
            f"The {count} hosts are not kept apart, as {hosts.fit}: effects are means over blocks, and what hosts "
            "differ by is noise between blocks."
        )
    if hosts.fit.random:
        return (
            f"Effects are means over {count} hosts, and intervals are for hosts like these: they carry what effects "
            "differ by from host to host, so more hosts, rather than more blocks on each, would narrow them."
        )
    return f"Effects are means over these {count} hosts, and intervals say nothing of other hosts."


def _missing(table: StudyTable, model: Model, parts: Sequence[HostPart]) -> list[str]:
    """Levels that not every host has figures of."""
    counts = [(main, sum(part.has(main) for part in parts)) for main in model.mains]
    parts_text = [f"{table.level_name(*main)} on {count}" for main, count in counts if count < len(parts)]
    return [f"Of {len(parts)} hosts there are figures of {', '.join(parts_text)}."] if parts_text else []


def _difference(table: StudyTable, spreads: Sequence[HostSpread], p_value: float | None, differ: bool) -> str:
    if p_value is None:
        return f"Whether effects differ between hosts cannot be tested: each would have to run {FEWEST} blocks or more."
    if not differ:
        return f"Effects do not differ visibly between the hosts (p = {p_value:.2g})."
    significant = [
        spread
        for spread in spreads
        if spread.p_value is not None and spread.p_value * len(spreads) * table.responses < ALPHA
    ]
    sentences = [
        f"{spread.factor}={table.describe(spread.factor, spread.level)}"
        + ("" if spread.percent is None else f" by {format_number(spread.percent, 2)} %")
        for spread in significant
    ]
    return f"Effects differ between the hosts: {', '.join(sentences)} (standard deviation, p = {p_value:.2g})."


def _spreads(
    table: StudyTable, scale: Scale, model: Model, parts: Sequence[HostPart]
) -> tuple[tuple[HostSpread, ...], float | None]:
    """Treatment x host of every level, and the p value of all together (Bonferroni)."""
    judged = [part for part in parts if part.blocks >= FEWEST and part.fit.df > 0 and part.fit.sigma > 0]
    contrasts = np.array([model.effect(main) for main in model.mains]).reshape(len(model.mains), model.width)
    by_host = on_hosts(model, judged, contrasts) if judged else None
    spreads = []
    for place, main in enumerate(model.mains):
        variance, p_value = None, None
        if by_host is not None:
            mask = by_host.known[:, place]
            variance, p_value = _differing(
                *(figure[mask, place] for figure in (by_host.estimates, by_host.errors, by_host.degrees))
            )
        percent = None if variance is None else scale.percent(float(np.sqrt(variance)))
        spreads.append(_spread(table, main, percent, p_value))
    tested = [spread.p_value for spread in spreads if spread.p_value is not None]
    return tuple(spreads), min(1.0, len(tested) * min(tested)) if tested else None


def _spread(table: StudyTable, main: Main, percent: float | None, p_value: float | None) -> HostSpread:
    factor = table.factors[main[0]]
    return HostSpread(factor.name, factor.levels[main[1]], percent, p_value)


def _differing(estimates: Floats, errors: Floats, degrees: Floats) -> tuple[float | None, float | None]:
    """Variance of an effect between hosts, from its estimates (h) there, and the p value of none.

    F is the variance of the estimates over what their standard errors (h) say. Both degrees of freedom are
    Satterthwaite's, so that hosts may differ in noise and blocks (Box 1954).
    """
    count, squares = len(estimates), errors**2
    if count < 2 or not np.all(squares > 0):
        return None, None
    expected, between = float(squares.mean()), float(estimates.var(ddof=1))
    around = (np.eye(count) - 1 / count) * squares
    upper = float(np.trace(around) ** 2 / np.trace(around @ around))
    lower = float(squares.sum() ** 2 / np.sum(squares**2 / np.maximum(degrees, 1.0)))
    return max(0.0, between - expected), float(distributions.f.sf(between / expected, upper, lower))


def baseline_over_hosts(scale: Scale, sample: Sample, level: float) -> tuple[float, Interval | None, int] | None:
    """Mean of the baseline trials with its interval, in the response's unit (geometric on the log scale), and the
    degrees of freedom that this has, plus one. Of many hosts it rests on how their means differ, of few on how the
    blocks of each do. None on one host, and where few hosts have one block.
    """
    baselines = sample.only(sample.is_baseline)
    hosts = np.unique(baselines.hosts)
    if len(hosts) < 2:
        return None
    values, chosen = scale.into(baselines.values), [baselines.hosts == host for host in hosts]
    blocks = [
        np.array([values[baselines.blocks == block].mean() for block in np.unique(baselines.blocks[host])])
        for host in chosen
    ]
    means = np.array([block.mean() for block in blocks])
    if len(hosts) >= RANDOM_FROM:
        df, error = len(hosts) - 1, float(means.std(ddof=1)) / math.sqrt(len(hosts))
    elif min(len(block) for block in blocks) < FEWEST:
        return None
    else:
        df = sum(len(block) - 1 for block in blocks)
        inside = sum(float(np.sum((block - block.mean()) ** 2)) for block in blocks) / df
        error = math.sqrt(inside * sum(1 / len(block) for block in blocks)) / len(hosts)
    middle, reach = float(means.mean()), float(distributions.t.ppf((1 + level) / 2, df)) * error

    def back(value: float) -> float:
        return math.exp(value) if scale.log else value

    if scale.log and middle + reach > 600:
        return back(middle), None, df + 1
    low = back(middle - reach)
    return back(middle), Interval(low if scale.log else max(0.0, low), back(middle + reach), level), df + 1
