"""What a search for the largest load says, as sentences and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from leadline.conclude.wording import loaded
from leadline.experiments.knee.run import KneeQuestion, KneeResult, KneeRun, types_of
from leadline.experiments.knee.search import (
    KneeLimit,
    KneeTrial,
    LoadInterval,
    critical,
)
from leadline.load.within import TypeWithin
from leadline.model.units import rounded
from leadline.places.testbed import Testbed


def knee(asked: KneeQuestion, place: Testbed, *, budget: float | None = None, fresh: bool = False) -> Knee:
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
        trials_at_highest = [trial for trial in trials if trial.planned.treatment.as_dict()[factor] == highest]
        return types_of(trials_at_highest[-1]) if trials_at_highest else []

    @property
    def answered(self) -> bool:
        return self.result.complete and self.kept

    @property
    def answer(self) -> str:
        """The conclusion in one sentence."""
        return self._conclusion if self.result.complete else f"So far: {self._conclusion}"

    @property
    def _conclusion(self) -> str:
        question = self.result.question
        if not self.kept:
            why = self.result.found[0].found.reason if self.result.found else self.result.stopped
            return f"Not known: how much load keeps the limits: {why}."
        limit = self.result.found[0]
        if limit.found.limited_by != "server":
            if limit.load.value is None:
                return f"Not known: how much load keeps the limits: {limit.found.reason}."
            least = loaded(question.factor, f"{limit.load.value:g}")
            return f"The system carries at least {least} within the limits: {limit.found.reason}."
        first = f"; {limit.found.gave_out} is broken first" if limit.found.gave_out else ""
        return (
            f"The system carries {loaded(question.factor, _bounded(limit.load))} within the limits, "
            f"{_bounded(limit.throughput)} transactions/s{first}."
        )

    def lines(self) -> list[str]:
        """Trials, limits and types, in lines, without the answer."""
        result, factor = self.result, self.result.question.factor
        lines = [f"trials by {factor}"]
        for trial in sorted(result.measured, key=lambda one: one.load):
            rate = "" if trial.throughput is None else f"{rounded(trial.throughput, 4)} transactions/s, "
            lines.append(f"  {trial.load:8.4g}  {rate}{_said(trial)}")
        for limit in result.found:
            lines += _limit_lines(limit)
        if (at := self.critical) is not None:
            lines.append(f"critical throughput: {_bounded(at)} transactions/s, the geometric mean over these limits")
        elif result.question.critical:
            lines.append("critical throughput: unknown, as some limit is kept at no load that was tried")
        if self.types:
            lines.append(f"at {factor} {result.found[0].found.highest:g}, by type")
        for type_ in self.types:
            uses = ", ".join(f"{name} at {use:.0%} of its limit" for name, use in type_.uses.items())
            verdict = "broken" if any(use > 1 for use in type_.uses.values()) else "kept" if type_.uses else "no limit"
            lines.append(
                f"  {type_.transaction}  {rounded(type_.throughput, 4)} transactions/s, {rounded(type_.within, 4)} "
                f"within the limit; {uses + ', ' if uses else ''}{verdict}"
            )
        return lines

    @property
    def critical(self) -> LoadInterval | None:
        """Of a search that asked for it, where every limit is known."""
        if not self.result.question.critical:
            return None
        estimate = critical(self.result.found)
        return None if estimate.value is None else estimate

    def document(self) -> dict[str, Any]:
        """As JSON types: ``leadline-knee-trials/1`` (docs/guides/limits.md)."""
        result, question = self.result, self.result.question
        at = self.critical
        return {
            "format": "leadline-knee-trials/1",
            "search": result.name,
            "study": question.study.study,
            "load": question.factor,
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
                    "transaction": type_.transaction,
                    "throughput": type_.throughput,
                    "within": type_.within,
                    "uses": type_.uses,
                }
                for type_ in self.types
            ],
            "seconds": result.seconds,
            "studies": [record.id for record in result.records],
            "complete": result.complete,
            "stopped": result.stopped,
            "restored": list(result.restored),
            "answer": self.answer,
        }


def _said(trial: KneeTrial) -> str:
    if trial.driver_limit:
        return "the driver was the limit"
    if trial.failed:
        return trial.failed.splitlines()[0]
    worst = max(trial.uses, key=lambda name: trial.uses[name])
    return f"{worst} at {trial.uses[worst]:.0%} of its limit"


def _limit_lines(limit: KneeLimit) -> list[str]:
    estimate = limit.found
    if estimate.highest is None:
        return [f"{limit.target.name}: {estimate.reason}"]
    below = "" if estimate.lowest_failed is None else f", broken at {rounded(estimate.lowest_failed, 4)}"
    line = f"{limit.target.name}: kept at {rounded(estimate.highest, 4)}{below}"
    if estimate.limit is None:
        return [f"{line}; {estimate.reason}"]
    drift = estimate.limit
    drifted = drift.drift_p is not None and drift.drift_p < 0.05 and drift.drift is not None
    drift_text = (
        f"; the system drifted, by {drift.drift:+.1%} of this load from the first to the last" if drifted else ""
    )
    return [f"{line}; limit at {_bounded(limit.load)} from {drift.probes} trials near it{drift_text}"]


def _bounded(found: LoadInterval) -> str:
    value, low, high = ("?" if end is None else rounded(end, 4) for end in (found.value, found.low, found.high))
    return f"{value} [{low}, {high}]"


def _ends(found: LoadInterval) -> dict[str, float | None]:
    return {"value": found.value, "low": found.low, "high": found.high}
