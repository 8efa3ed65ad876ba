"""Drift: does the baseline change over the study?"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from leadline.analysis.linear import fit
from leadline.analysis.scale import Scale
from leadline.analysis.table import Sample
from leadline.model.result import Drift

ALPHA = 0.05


def no_drift(reason: str) -> Drift:
    return Drift(None, None, None, False, reason)


def drift(scale: Scale, sample: Sample, level: float) -> Drift:
    """Straight line through the baseline and sentinel trials over time."""
    chosen = sample.is_baseline
    count = int(chosen.sum())
    if count < 3:
        return no_drift(f"Drift cannot be seen from {count} baseline trial{'' if count == 1 else 's'}: at least 3.")
    if sample.hours is None:
        return no_drift("Drift cannot be seen: the trials have no start times.")
    hours = sample.hours[chosen]
    if np.ptp(hours) <= 0:
        return no_drift("Drift cannot be seen: the baseline trials started at the same time.")
    values = scale.into(sample.values[chosen])
    span = float(np.ptp(hours))
    line = fit(np.column_stack([np.ones(count), (hours - hours.mean()) / span]), values)
    if line.sigma == 0:
        return no_drift("Drift cannot be judged: the baseline trials gave the same figure or an exact line.")
    total = float(line.beta[1])
    error = float(line.errors(np.array([[0.0, 1.0]]))[0])
    reach = float(stats.t.ppf((1 + level) / 2, line.df)) * error
    p_value = float(2 * stats.t.sf(abs(total) / error, line.df))
    # a straight line in the model's scale: percent of the baseline's level in the first hour
    hourly = scale.percent(total / span)
    interval = scale.interval(total / span, reach / span, level)
    found = p_value < ALPHA
    if hourly is None or interval is None:
        words = "too steep to be given in percent" if scale.log else "a change from a baseline of zero"
        return Drift(None, None, p_value, found, f"Drift over {count} baseline trials: {words}.")
    whole = scale.percent(total)
    across = "" if whole is None else f" ({whole:+.2g} % over the {_span(span)} between first and last)"
    figures = f"{hourly:+.2g} % an hour [{interval.low:.2g}, {interval.high:.2g}]{across}"
    if found:
        text = f"The baseline drifted over its {count} trials: {figures}."
    else:
        text = f"No drift can be seen over {count} baseline trials: {figures}."
    return Drift(hourly, interval, p_value, found, text)


def _span(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1.5 else f"{math.ceil(hours * 60)} min"
