"""The load driver as the limit; the application itself: leaks, errors, answers that come too late."""

from __future__ import annotations

from leadline.advice.facts import TrialFacts
from leadline.advice.look import Look, Rule, Sign, number, percent


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


_DRIVER = (Rule("driver.limit", "driver", "the driver is the limit", limit),)


def leak(trial: TrialFacts) -> list[Look]:
    """A live set that grows to the end of the log."""
    collection = trial.collection
    if collection is None or collection.leak == "undetermined":
        return []
    sign = None
    if collection.leak in ("leak", "full"):
        figures = {} if collection.live is None else {"live": (collection.live / (1 << 20), "MiB")}
        remedy = "compare two heap dumps of the application (jcmd PID GC.heap_dump); a larger heap only puts it off"
        sign = Sign(collection.leak_sentence, figures, 1.0, remedy=remedy)
    return [Look("application.leak", "application", None, None, sign)]


def errors(trial: TrialFacts) -> list[Look]:
    """More errors than the study allows."""
    share, allowed = trial.load.errors, trial.limits.errors
    if share is None or allowed is None:
        return []
    sign = None
    if share > allowed:
        says = f"{percent(share)} of the transactions failed; the study allows {percent(allowed)}"
        remedy = "see the driver's error samples and the server's log of these trials"
        sign = Sign(says, {"errors": (100 * share, "%")}, share, remedy=remedy)
    return [Look("application.errors", "application", None, None, sign)]


def late(trial: TrialFacts) -> list[Look]:
    """Response times beyond the study's limits."""
    looks = []
    for name, value, allowed in (
        ("p90", trial.load.p90_s, trial.limits.p90),
        ("p99", trial.load.p99_s, trial.limits.p99),
    ):
        if value is None or allowed is None:
            continue
        sign = None
        if value > allowed:
            says = f"{name} of the response time was {number(value)} s; the limit is {number(allowed)} s"
            remedy = "the findings of the layers beneath, if any, say why; else less load or a faster application"
            sign = Sign(says, {name: (value, "s")}, value / allowed, remedy=remedy)
        looks.append(Look("application.late", name, None, None, sign))
    return looks


RULES = (
    Rule("application.leak", "application", "memory leak", leak),
    Rule("application.errors", "application", "errors", errors),
    Rule("application.late", "application", "responses come too late", late),
)
