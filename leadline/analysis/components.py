"""Where the noise comes from: variance components of the mixed model, and the sentence about the model."""

from __future__ import annotations

import math

import numpy as np

from leadline.analysis.columns import Model
from leadline.analysis.linear import Fit, Strata
from leadline.analysis.mixed import MixedFit, whiten
from leadline.analysis.table import Sample, Scale
from leadline.analysis.unequal import TwoStrataFit, UnequalFit
from leadline.model import distributions
from leadline.model.result import Component, Interval

_PLURAL = {"trial": "trials", "plot": "whole plots", "block": "blocks", "slot": "slots"}


def components_of(scale: Scale, sample: Sample, fit: Fit, strata: Strata, level: float) -> tuple[Component, ...]:
    """Components of a fit. Intervals are those of a chi-squared law with Satterthwaite's degrees of freedom."""
    inner = "slot" if sample.slotted else "trial"
    if not isinstance(fit, MixedFit) or fit.curvature is None:
        return (_component(scale, inner, fit.sigma**2, float(fit.df), level),)
    curve = fit.curvature
    spread = 2 / fit.df + float(curve.rss @ curve.inverse @ curve.rss)
    components = [_component(scale, inner, fit.sigma**2, 2 / spread, level)]
    ones = np.zeros((sample.size, 1))
    for index, stratum in enumerate(strata.random):
        ratio = fit.ratios[index]
        gradient = np.array(curve.rss)
        for place, row in enumerate(np.eye(len(gradient)) * curve.step):
            low, high = (whiten(strata, ones, fit.parameters + sign * row).ratios[index] for sign in (-1, 1))
            gradient[place] += (high - low) / (2 * curve.step * ratio) if ratio else 0.0
        df = 2 / (2 / fit.df + float(gradient @ curve.inverse @ gradient))
        components.append(_component(scale, stratum.name, ratio * fit.sigma**2, df, level))
    return tuple(components)


def _component(scale: Scale, name: str, variance: float, df: float, level: float) -> Component:
    if variance <= 0:
        return Component(_PLURAL[name], variance, None, df)
    percent = scale.noise(math.sqrt(variance))
    ends = [
        scale.noise(math.sqrt(variance * df / float(quantile)))
        for quantile in (distributions.chi2.ppf((1 + level) / 2, df), distributions.chi2.ppf((1 - level) / 2, df))
        if quantile > 0
    ]
    interval = None
    if len(ends) == 2 and ends[0] is not None and ends[1] is not None:
        interval = Interval(ends[0], ends[1], level)
    return Component(_PLURAL[name], variance, percent, df, interval)


def model_sentence(model: Model, sample: Sample, fit: Fit, strata: Strata) -> str:
    """Which model was used."""
    blocks = {"random": "random blocks"}.get(model.entry, "fixed blocks" if len(np.unique(sample.blocks)) > 1 else "")
    fixed = ["levels"]
    if model.pairs:
        fixed.append("two-factor interactions")
    if model.kept:
        fixed.append(f"{100 * model.kept:.0f} % of which slots keep of the slot before")
    if model.places:
        fixed.append("slots of one number" if sample.slotted else "places in a block")
    fixed += [model.table.covariates[number] for number in model.covariates]
    if model.timed:
        fixed.append("a straight line over time")
    if not isinstance(fit, MixedFit):
        head = ", ".join(part for part in [blocks, *fixed] if part)
        unequal = ", each level with its own" if isinstance(fit, UnequalFit) else ""
        return (
            f"Least squares: {head}; one source of noise, between {'slots' if sample.slotted else 'trials'}{unequal}."
        )
    random = [_PLURAL[stratum.name] for stratum in strata.random if stratum.name != "block"]
    sources = [*random, "slots" if sample.slotted else "trials"]
    terms = ", ".join(part for part in [blocks, *fixed] if part)
    two = isinstance(fit, TwoStrataFit)
    head = "Least squares in two strata" if two else "Mixed model (REML, variances integrated out)"
    text = f"{head}: {terms}; noise between "
    text += " and ".join(sources) if len(sources) < 3 else ", ".join(sources[:-1]) + " and " + sources[-1]
    if fit.correlation is not None:
        text += f", neighbouring slots correlated {fit.correlation:.2f}"
    return text + (", each level with its own." if two else ".")
