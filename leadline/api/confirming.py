"""The study that confirms what a finished one found, as large as its effect needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from leadline.api.results import StudyResult
from leadline.api.studies import Study
from leadline.checks.plan import setup_for
from leadline.experiments.confirm import best_settings, confirmation_study, effect_to_find, named_setting
from leadline.experiments.pilot import noise_for, overhead_for
from leadline.model.errors import UsageError
from leadline.model.knob import Level
from leadline.model.naming import level_text
from leadline.model.units import format_duration, rounded, signed
from leadline.places.testbed import Testbed
from leadline.planning.forecast import Need, forecast

FEWEST = 3  # replicates, whatever the planning says: the noise must be seen, too


def confirmation(
    first: StudyResult,
    place: Testbed,
    *,
    settings: Sequence[str] = (),
    best: int = 1,
    response: str | None = None,
    effect: float | None = None,
    power: float = 0.8,
    budget: str | None = None,
) -> Study:
    """With as many replicates as the effect needs (percent; that of the settings if None) at the first study's noise.

    ``settings``: ``knob=level[,knob=level]``, the ``best`` ones of the response if there are none. Raises UsageError
    for a study that cannot be confirmed and for an effect that would take longer than the study itself.
    """
    record = first.record
    if settings and best > 1:
        raise UsageError("--best chooses settings and --setting names them; leave one of the two out")
    if not first.answered:
        raise UsageError(f"{first.run} is not finished, or every trial failed: only a finished study can be confirmed")
    if record.study.confirms is not None:
        raise UsageError(
            f"{first.run} is a confirmation itself, of {record.study.confirms.run}; confirm that one --new"
        )

    def describe(factor: str, level: Level) -> str:
        return level_text(record.study, factor, level)

    name = response or record.study.responses[0]
    if name not in record.study.responses:
        raise UsageError(
            f"--response: {record.study.study} has no {name!r}; it has {', '.join(record.study.responses)}"
        )
    analysis = first.analysis
    choices = (
        [named_setting(record, analysis, name, text, describe) for text in settings]
        if settings
        else best_settings(record, analysis, name, best)
    )
    wanted = effect if effect is not None else effect_to_find(choices, name)
    smallest = confirmation_study(record, choices, name, FEWEST, budget)
    plan = place.plan(smallest).plan
    noise = noise_for(smallest.study, place.directory, source=first.run, response=name)
    setup = setup_for(smallest.study.design, smallest.study.workload, overhead_for(smallest.study, noise))
    outlook = forecast(plan, noise, setup, effect=wanted, power=power)
    if outlook.need is None or outlook.need.replicates is None:
        why = outlook.reason or "no reasonable number of trials is enough"
        raise UsageError(
            f"an effect of {signed(wanted, 2)} % on {name} cannot be confirmed: {why}; name a larger one (--effect)"
        )
    replicates = max(FEWEST, outlook.need.replicates)
    need_itself = max(
        setup_for(record.study.design, record.study.workload, setup.overhead).seconds(record.plan),
        smallest.study.budget or 0.0,
    )
    per_replicate = setup.seconds(plan) / FEWEST
    if replicates > FEWEST and replicates * per_replicate > need_itself:
        within = max(FEWEST, int(need_itself / per_replicate))
        most = place.plan(confirmation_study(record, choices, name, within, budget))
        _refuse(wanted, name, outlook.need, need_itself, forecast(most.plan, noise, setup).smallest.get(0.8))
    return Study(confirmation_study(record, choices, name, replicates, budget))


def _refuse(wanted: float, name: str, need: Need, own: float, smallest: float | None) -> NoReturn:
    """A confirmation takes no longer than the study whose choice it confirms."""
    needed_text = (
        f"{need.trials:,} trials and {format_duration(need.seconds)}" if need.trials and need.seconds else "more"
    )
    could = "" if smallest is None else f"; in that time an effect of {rounded(smallest, 2)} % could be confirmed"
    raise UsageError(
        f"confirming {signed(wanted, 2)} % on {name} takes {needed_text}, longer than the study itself "
        f"({format_duration(own)})"
        f"{could}: name a larger one (--effect {rounded(max(smallest or 0.0, 2 * wanted), 2)}%), or allow the time "
        "(--budget)"
    )
