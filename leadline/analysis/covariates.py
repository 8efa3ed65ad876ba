"""Analysis of covariance: figures of the machine that the plan named beforehand, as columns of the model.

One slope for all levels (Fisher 1932; Cochran 1957). What a level moves is part of its effect, so a figure that levels
move is not used: each is first analysed as if it were a response, in the same model. The test is strict, because its
false alarms are costly: they come exactly when chance has put the disturbance under one level, and then the plain
analysis, which is all that is left, errs too (docs/concepts/statistics.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Model, fitted_with_strata
from leadline.analysis.comparisons import Family
from leadline.analysis.linear import Fit
from leadline.analysis.table import Floats, Sample, Scale, StudyTable
from leadline.model.disturbance import FIGURES, OTHERS
from leadline.model.result import Covariate
from leadline.model.units import signed

MOVED = 0.01  # of the test whether any level moves a covariate, shared by all covariates of all responses
VARIES = 0.01  # standard deviation, of a share as it is, else of the mean: what varies less is the figure itself
_LEAST = 4  # degrees of freedom that must be left
_FULL = 0.98  # of all CPUs busy: from there on what others use is what the study leaves over, its effects included


@dataclass(frozen=True)
class Checked:
    """``used``: numbers of the table's covariates that enter the model. ``told``: one for each covariate."""

    used: tuple[int, ...]
    told: tuple[Covariate, ...]


def checked(table: StudyTable, sample: Sample, values: Floats, timed: bool) -> Checked:
    """Which covariates may be used, before the response is looked at. ``values`` (n) only tell how many are fitted."""
    df = fitted_with_strata(table, sample, values, timed)[1].df
    full = float(np.median([one.responses.get("host_cpu", 0.0) for one in table.observations])) >= _FULL
    used: list[int] = []
    covariates: list[Covariate] = []
    for number, name in enumerate(table.covariates):
        column = sample.machine[:, number]
        missing = int(np.sum(~np.isfinite(column)))
        what = "slots" if sample.slotted else "trials"
        reason, p_value = "", None
        if missing:
            reason = f"it was not recorded in {missing} of {len(column)} {what}"
        elif np.array_equal(column, sample.values):
            reason = "it is the response"
        elif name == OTHERS and full:
            reason = "no CPU was idle, so that it is what the study's own programs left over"
        elif np.std(column) <= VARIES * (1.0 if FIGURES[name].share else float(np.abs(column).mean())):
            reason = f"it hardly varies between {what} (standard deviation below 1 %)"
        elif df - len(used) - 1 < _LEAST:
            reason = f"too few {what} are left to estimate its slope"
        else:
            p_value = _moved(table, sample, column, timed)
            tests = len(table.covariates) * max(1, table.responses)
            if p_value is not None and p_value < MOVED / tests:
                over = f" (adjusted for {tests} tests)" if tests > 1 else ""
                reason = (
                    f"a test at 1 %{over} finds that levels move it (p = {p_value:.2g}), "
                    "and would take out their effect"
                )
        if not reason:
            used.append(number)
        covariates.append(Covariate(name, not reason, p_value, f"{name} is not used: {reason}." if reason else ""))
    return Checked(tuple(used), tuple(covariates))


def _moved(table: StudyTable, sample: Sample, column: Floats, timed: bool) -> float | None:
    """P value that some level moves the covariate, adjusted for all comparisons; None where it cannot be tested."""
    model, fit, _ = fitted_with_strata(table, sample, column, timed)
    family = Family.of(fit, [model.effect(main) for main in model.mains], 0.95)
    if family.law is None:
        return None
    return min((family.adjusted(place) for place in family.place if place is not None), default=None)


def with_gain(
    told: tuple[Covariate, ...],
    scale: Scale,
    sample: Sample,
    fitted: tuple[Model, Fit],
    plain: tuple[Model, Fit],
) -> tuple[Covariate, ...]:
    """The same with what the covariates did: ``fitted`` has those that are used, ``plain`` has none."""
    (model, fit), gain = fitted, _gain(fitted, plain)
    if gain is None:
        return told
    covariates = []
    for covariate in told:
        if not covariate.used:
            covariates.append(covariate)
            continue
        number = model.table.covariates.index(covariate.name)
        slope = float(fit.beta[model.covariate(number)])
        share = FIGURES[covariate.name].share
        step, unit = (0.1, "10 points") if share else (0.1 * float(sample.machine[:, number].mean()), "10 %")
        percent = scale.percent(slope * step)
        size = "" if percent is None else f"; {unit} more go with {signed(percent, 2)} %"
        tested = "" if covariate.moved_p is None else f" No level moves it visibly (p = {covariate.moved_p:.2g})."
        sentence = f"{covariate.name} is a covariate{size}.{tested}"
        covariates.append(Covariate(covariate.name, True, covariate.moved_p, sentence, percent, *gain))
    return tuple(covariates)


def _gain(fitted: tuple[Model, Fit], plain: tuple[Model, Fit]) -> tuple[float, float] | None:
    """Shares by which the variance of the middle comparison, and its interval, are smaller than without covariates."""
    after, before = (
        Family.of(fit, [model.effect(main) for main in model.mains], 0.95) for model, fit in (fitted, plain)
    )
    if before.law is None or after.law is None or before.place != after.place:
        return None
    errors = float(np.median(after.strict / before.strict))
    width = float(np.median(after.critical * after.errors / (before.critical * before.errors)))
    return 1 - errors**2, 1 - width


def gain_sentence(told: tuple[Covariate, ...]) -> str:
    """What the covariates that are used did together; empty without any."""
    used = next((covariate for covariate in told if covariate.used and covariate.variance_removed is not None), None)
    if used is None or used.variance_removed is None or used.narrower is None:
        return ""
    names = ", ".join(covariate.name for covariate in told if covariate.used)
    width = f"{100 * abs(used.narrower):.0f} % {'narrower' if used.narrower >= 0 else 'wider'}"
    removed = f"{100 * used.variance_removed:.0f} % of the variance"
    gained = f"{removed} removed, intervals {width}"
    return f"Analysis of covariance ({names}): {gained}. Effects are those at equal values of them."
