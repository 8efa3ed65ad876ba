"""The load driver as the limit."""

from __future__ import annotations

from leadline.advice.facts import TrialFacts
from leadline.advice.look import Look, Rule, Sign, percent


def limit(trial: TrialFacts) -> list[Look]:
    """The driver, not the system, bounded the load: its figures are of itself."""
    load = trial.load
    if load.limit is None:
        return []
    sign = None
    if load.limit or load.dropped:
        figures = {} if load.cpu_share is None else {"driver": (100 * load.cpu_share, "% of one CPU")}
        why = load.evidence or (f"{load.dropped} arrivals were dropped" if load.dropped else "")
        busy = f"it used {percent(load.cpu_share)} of a CPU" if load.cpu_share is not None else ""
        says = "the driver bounded the load" + "".join(f"; {part}" for part in (why, busy) if part)
        remedy = "give the driver CPUs of its own (placement.driver_cpus), several drivers (drivers) or a smaller load"
        sign = Sign(says, figures, load.cpu_share or 1.0, remedy=remedy)
    return [Look("driver.limit", "driver", None, None, sign)]


RULES = (Rule("driver.limit", "driver", "the driver is the limit", limit),)
