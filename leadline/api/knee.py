"""The largest load at which a study's system keeps its limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from leadline.api.studies import Study
from leadline.lab.knee.probe import Question, types_of
from leadline.lab.knee.run import MOST, KneeResult, KneeRun, question_of
from leadline.lab.knee.search import BESIDES, CRITICAL_MS, Limit, Measured, critical
from leadline.lab.pilot import noise_for, overhead_for
from leadline.lab.planning import load_seconds
from leadline.lab.testbed import Testbed
from leadline.load.knee import Interval, steps_at_most
from leadline.load.limitsets import limit_set
from leadline.load.within import TypeWithin
from leadline.model.units import format_duration

__all__ = ["MOST", "Knee", "KneeOutline", "Question", "knee", "limited", "outline", "question_of"]


def limited(study: Study, reference: str, overrides: Sequence[str], name: str) -> Study:
    """The study, read again with a named set of limits of its scenario, which stands in place of the study's own
    percentiles. Raises UsageError for an unknown one.
    """
    own = study.file.study
    levels = limit_set(name, own.workload.scenario)
    more = [f"workload.variables.{parameter}={level}" for parameter, level in levels.items()]
    none = [f"limits.{each}=null" for each in ("p90", "p99") if getattr(own.limits, each) is not None]
    return Study.read(reference, [*overrides, *more, *none])


@dataclass(frozen=True)
class KneeOutline:
    """What a search would take at most; ``seconds_per_trial`` by earlier trials where there are any."""

    question: Question
    trials: int
    seconds_per_trial: float
    budget: float | None

    @property
    def seconds(self) -> float:
        return self.trials * self.seconds_per_trial

    def lines(self) -> list[str]:
        """Plain lines of text."""
        asked, loads = self.question, self.question.loads
        over = "; longer than the budget" if self.budget is not None and self.seconds > self.budget else ""
        found = [
            f"{asked.factor} from {loads.first:g} to {loads.top:g}, steps of {loads.factor:g}, then to "
            f"{loads.resolution:.1%}; two loads in each probe",
            f"about {self.trials} trials of {format_duration(self.seconds_per_trial)}, "
            f"{format_duration(self.seconds)}{over}",
        ]
        if asked.critical:
            found.append(f"critical throughput over 99 % within {', '.join(f'{ms:g}' for ms in CRITICAL_MS)} ms")
        return found

    def document(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "study": self.question.study.study,
            "load": self.question.factor,
            "from": self.question.loads.first,
            "to": self.question.loads.top,
            "trials": self.trials,
            "seconds_per_trial": self.seconds_per_trial,
            "seconds": self.seconds,
        }


def outline(asked: Question, place: Testbed, budget: float | None = None) -> KneeOutline:
    """Nothing is changed. Raises UsageError for a load of the range that cannot be run."""
    KneeRun(asked, place).check()
    study = asked.study
    overhead = overhead_for(study, noise_for(study, place.directory, response=study.responses[0]))
    steps, _ = steps_at_most(asked.loads, 0)
    near = BESIDES + asked.repeats
    searches = 1 + len(CRITICAL_MS) * asked.critical
    own = steps + near + 2
    trials = 2 * math.ceil((own + (searches - 1) * (own - steps // 2)) / 2)
    return KneeOutline(asked, min(trials, MOST), load_seconds(study) + overhead, budget)


def knee(asked: Question, place: Testbed, *, budget: float | None = None, fresh: bool = False) -> Knee:
    """Run what is left of a search, or all of it anew (``fresh``). Raises as a study's run does."""
    run = KneeRun(asked, place, budget)
    run.check()
    return Knee(run.execute(fresh))


@dataclass(frozen=True)
class Knee:
    """A search as it stands."""

    result: KneeResult

    @property
    def kept(self) -> bool:
        """Whether some load kept the limits."""
        return bool(self.result.found) and self.result.found[0].found.highest is not None

    @cached_property
    def types(self) -> list[TypeWithin]:
        """Types of transactions in the last trial at the highest load that kept the limits; real ones only."""
        highest, factor = self.result.found[0].found.highest if self.result.found else None, self.result.question.factor
        trials = [trial for record in self.result.records for trial in record.trials if trial.failure is None]
        own = [trial for trial in trials if trial.planned.treatment.as_dict()[factor] == highest]
        return types_of(own[-1]) if own else []

    @property
    def answered(self) -> bool:
        return self.result.complete and self.kept

    @property
    def answer(self) -> str:
        """The conclusion in one sentence."""
        return self._conclusion if self.result.complete else f"So far: {self._conclusion}"

    @property
    def _conclusion(self) -> str:
        asked = self.result.question
        if not self.kept:
            why = self.result.found[0].found.reason if self.result.found else self.result.stopped
            return f"No load is known to keep the limits: {why}."
        limit = self.result.found[0]
        if limit.found.limited_by != "server":
            least = f"at least {limit.load.value:g}" if limit.load.value is not None else "unknown"
            return f"The limits are kept at {asked.factor} {least}: {limit.found.reason}."
        first = f"; {limit.found.gave_out} is broken first" if limit.found.gave_out else ""
        return (
            f"The limits are kept up to {asked.factor} {_bounded(limit.load)}, "
            f"{_bounded(limit.throughput)} transactions/s{first}."
        )

    def lines(self) -> list[str]:
        """Trials, limits and types, in lines, without the answer."""
        result, factor = self.result, self.result.question.factor
        found = [f"trials by {factor}"]
        for trial in sorted(result.measured, key=lambda one: one.load):
            rate = "" if trial.throughput is None else f"{trial.throughput:.4g} transactions/s, "
            found.append(f"  {trial.load:8.4g}  {rate}{_said(trial)}")
        for limit in result.found:
            found += _limit_lines(limit)
        if (at := self.critical) is not None:
            found.append(f"critical throughput: {_bounded(at)} transactions/s, the geometric mean over these limits")
        elif result.question.critical:
            found.append("critical throughput: unknown, as some limit is kept at no load that was tried")
        if self.types:
            found.append(f"at {factor} {result.found[0].found.highest:g}, by type")
        for each in self.types:
            uses = ", ".join(f"{name} at {use:.0%} of its limit" for name, use in each.uses.items())
            kept = "broken" if any(use > 1 for use in each.uses.values()) else "kept" if each.uses else "no limit"
            found.append(
                f"  {each.transaction}  {each.throughput:.4g} transactions/s, {each.within:.4g} within the limit; "
                f"{uses + ', ' if uses else ''}{kept}"
            )
        return found

    @property
    def critical(self) -> Interval | None:
        """Of a search that asked for it, where every limit is known."""
        if not self.result.question.critical:
            return None
        found = critical(self.result.found)
        return None if found.value is None else found

    def document(self) -> dict[str, Any]:
        """As JSON types: ``leadline-knee-trials/1`` (docs/guides/limits.md)."""
        result, asked = self.result, self.result.question
        at = self.critical
        return {
            "format": "leadline-knee-trials/1",
            "search": result.name,
            "study": asked.study.study,
            "load": asked.factor,
            "limits": [
                {
                    "name": limit.target.name,
                    "load": _ends(limit.load),
                    "throughput": _ends(limit.throughput),
                    "highest": limit.found.highest,
                    "lowest_failed": limit.found.lowest_failed,
                    "limited_by": limit.found.limited_by,
                    "reason": limit.found.reason,
                    "gave_out": limit.found.gave_out,
                    "interval_from": None if limit.found.limit is None else limit.found.limit.probes,
                }
                for limit in result.found
            ],
            "critical_throughput": None if at is None else _ends(at),
            "trials": [
                {
                    "load": trial.load,
                    "throughput": trial.throughput,
                    "p99_ms": trial.p99_ms,
                    "uses": dict(trial.uses),
                    "failed": trial.failed,
                    "driver_limit": trial.driver_limit,
                }
                for trial in result.measured
            ],
            "types": [
                {
                    "transaction": each.transaction,
                    "throughput": each.throughput,
                    "within": each.within,
                    "uses": each.uses,
                }
                for each in self.types
            ],
            "seconds": result.seconds,
            "studies": [record.id for record in result.records],
            "complete": result.complete,
            "stopped": result.stopped,
            "restored": list(result.restored),
            "answer": self.answer,
        }


def _said(trial: Measured) -> str:
    if trial.driver_limit:
        return "the driver was the limit"
    if trial.failed:
        return trial.failed.splitlines()[0]
    worst = max(trial.uses, key=lambda name: trial.uses[name])
    return f"{worst} at {trial.uses[worst]:.0%} of its limit"


def _limit_lines(limit: Limit) -> list[str]:
    found = limit.found
    if found.highest is None:
        return [f"{limit.target.name}: {found.reason}"]
    below = "" if found.lowest_failed is None else f", broken at {found.lowest_failed:.4g}"
    line = f"{limit.target.name}: kept at {found.highest:.4g}{below}"
    if found.limit is None:
        return [f"{line}; {found.reason}"]
    drift = found.limit
    drifted = drift.drift_p is not None and drift.drift_p < 0.05 and drift.drift is not None
    told = f"; the system drifted, by {drift.drift:+.1%} of this load from the first to the last" if drifted else ""
    return [f"{line}; limit at {_bounded(limit.load)} from {drift.probes} trials near it{told}"]


def _bounded(found: Interval) -> str:
    low, high = ("?" if end is None else f"{end:.4g}" for end in (found.low, found.high))
    return f"{found.value:.4g} [{low}, {high}]"


def _ends(found: Interval) -> dict[str, float | None]:
    return {"value": found.value, "low": found.low, "high": found.high}
