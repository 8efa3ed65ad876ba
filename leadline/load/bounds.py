"""Limits of response times, of single transactions or of all together, for the search for the highest load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leadline.load.result import LimitResult
from leadline.load.scenario import read_scenario
from leadline.load.series import ALL
from leadline.model.errors import UsageError, nearest, quoted
from leadline.model.units import parse_duration

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}


@dataclass(frozen=True)
class Bound:
    """``measure`` (a key of ``QUANTILES``) of the response times of ``transaction`` is at most ``ms``."""

    transaction: str
    measure: str
    ms: float

    @property
    def name(self) -> str:
        return self.measure if self.transaction == ALL else f"{self.transaction} {self.measure}"


def read_bound(text: str) -> Bound:
    """``p90=2s``, or ``buy:p90=2s`` of the transaction ``buy``. Raises UsageError."""
    name, equals, time = text.rpartition("=")
    transaction, _, measure = name.rpartition(":")
    if not equals or measure not in QUANTILES:
        close = nearest(measure, list(QUANTILES)) if measure else None
        hint = f"did you mean {close}?" if close else f"measures are {', '.join(QUANTILES)}"
        raise UsageError(f"--limit {text}: write [TRANSACTION:]MEASURE=TIME, as in buy:p90=2s; {hint}")
    try:
        ms = 1000 * parse_duration(time)
    except ValueError as error:
        raise UsageError(f"--limit {text}: {error}") from None
    if ms <= 0:
        raise UsageError(f"--limit {text}: the time must be longer than 0")
    return Bound(transaction or ALL, measure, ms)


def check_bounds(bounds: Sequence[Bound], scenario: Path) -> None:
    """Raises UsageError for a transaction that the scenario does not have."""
    if not bounds:
        return
    transactions = [ALL, *map(str, read_scenario(scenario)["transactions"])]
    for bound in bounds:
        if bound.transaction not in transactions:
            close = nearest(bound.transaction, transactions)
            hint = f"did you mean {close}?" if close else f"it has {', '.join(transactions[1:])}"
            raise UsageError(f"--limit: {scenario.name} has no transaction {quoted(bound.transaction)}; {hint}")


def with_scenario(bounds: Sequence[Bound], stated: Sequence[LimitResult]) -> tuple[Bound, ...]:
    """``bounds``, and those percentiles of transactions that the scenario limits and ``bounds`` do not."""
    stated_bounds = {(bound.transaction, bound.measure) for bound in bounds}
    more = [
        Bound(limit.transaction, limit.measure, limit.bound)
        for limit in stated
        if limit.measure in QUANTILES and (limit.transaction, limit.measure) not in stated_bounds
    ]
    return (*bounds, *more)
