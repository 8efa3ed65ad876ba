"""Confirmation: fresh trials of a setting that was chosen for its figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from leadline.analysis.linear import fit
from leadline.analysis.scale import Scale, response_kind
from leadline.analysis.table import Floats
from leadline.analysis.unequal import unequal
from leadline.model import distributions
from leadline.model.plan import Treatment
from leadline.model.result import Confirmation, Observation, Verdict
from leadline.model.units import signed


def confirm(
    chosen: Treatment,
    baseline: Treatment,
    fresh: Sequence[Observation],
    response: str,
    level: float = 0.95,
) -> Confirmation:
    """The change that ``chosen`` makes against ``baseline``, from ``fresh`` observations alone.

    The trials on which the choice was made must not be among them: then nothing was selected, one comparison is made,
    and the interval holds at ``level`` without any allowance for luck. Blocks are taken out. Raises ValueError where
    the two are the same treatment.
    """
    if chosen == baseline:
        raise ValueError("the chosen treatment is the baseline: there is nothing to confirm")
    pairs = [
        (observation, value)
        for observation in fresh
        if observation.treatment in (chosen, baseline)
        and observation.failure is None
        and (value := observation.responses.get(response)) is not None
        and math.isfinite(value)
    ]
    is_chosen = np.array([observation.treatment == chosen for observation, _ in pairs], dtype=bool)
    values = np.array([value for _, value in pairs], dtype=np.float64)
    counts = int(is_chosen.sum()), int((~is_chosen).sum())

    def nothing(reason: str) -> Confirmation:
        return Confirmation(response, Verdict.UNDETERMINED, None, None, None, *counts, f"Not confirmed: {reason}.")

    if min(counts) == 0:
        return nothing(f"{counts[0]} fresh trials of the setting and {counts[1]} of the baseline gave a figure")
    kind = response_kind(response)
    scale = Scale(kind.unit != "share" and bool(np.all(values > 0)), float(values[~is_chosen].mean()))
    blocks = np.array([observation.block for observation, _ in pairs])
    columns = np.column_stack([is_chosen, blocks[:, None] == np.unique(blocks)]).astype(np.float64)
    contrast: Floats = np.eye(1, columns.shape[1])
    solved = fit(columns, scale.into(values))
    if not solved.estimable(contrast)[0]:
        return nothing("no block holds both the setting and the baseline")
    if solved.df <= 0 or solved.sigma == 0:
        return nothing("the noise is not known, because no fresh trial is repeated or all gave the same figure")
    solved = unequal(solved, columns, scale.into(values), None, {None: is_chosen.astype(np.int64)})
    value, error, df = (float(of(contrast)[0]) for of in (solved.estimates, solved.errors, solved.degrees))
    reach = float(distributions.t.ppf((1 + level) / 2, df)) * error
    percent, interval = scale.percent(value), scale.interval(value, reach, level)
    if percent is None or interval is None:
        return nothing("the change cannot be given in percent of the baseline")
    verdict = Verdict.UNDETERMINED
    if abs(value) > reach:
        verdict = Verdict.BETTER if (value > 0) == kind.higher_is_better else Verdict.WORSE
    words = {Verdict.BETTER: "Confirmed", Verdict.WORSE: "Refuted", Verdict.UNDETERMINED: "Not confirmed"}[verdict]
    text = (
        f"{words}: {response} changes by {signed(percent, 2)} % [{signed(interval.low, 2)}, {signed(interval.high, 2)}]"
        f" in {counts[0]} fresh trials against {counts[1]} of the baseline."
    )
    p_value = float(2 * distributions.t.sf(abs(value) / error, df))
    return Confirmation(response, verdict, percent, interval, p_value, *counts, text)
