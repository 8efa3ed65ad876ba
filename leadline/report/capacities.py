"""A study's queueing model, as Python and the command line have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leadline.capacity.answer import Capacity
from leadline.capacity.answer import answer as answered
from leadline.capacity.cells import measured
from leadline.capacity.network import Agents
from leadline.capacity.scaling import Scaling, scaling_of
from leadline.load.arrivals import stated_agents
from leadline.load.knobs import load_knobs
from leadline.model.naming import describing
from leadline.model.record import StudyRecord
from leadline.model.workload import RATE, USERS, is_load, load_at
from leadline.report import capacity as text
from leadline.report import scaling as scaling_text


@dataclass(frozen=True)
class CapacityResult:
    """``record``: the study; ``capacity``: the model fitted from it, and what it says."""

    record: StudyRecord
    capacity: Capacity

    @property
    def answer(self) -> str:
        """The knee and what saturates first, in one sentence."""
        return self._said + text.answer(self.capacity)

    def lines(self) -> list[str]:
        """Demands, predictions, errors and resources, for people."""
        return list(text.lines(self.capacity, describing(self.record.study)))

    def document(self) -> dict[str, Any]:
        """As JSON types (docs/reference/json.md)."""
        run = f"{self.record.study.study}@{self.record.id}"
        document = text.document(self.capacity, describing(self.record.study))
        return {"run": run, "simulated": self.record.simulated, **document, "answer": self.answer}

    def write(self, path: Path) -> None:
        """The predictions as CSV. Raises OSError."""
        text.write(self.capacity, path, describing(self.record.study))

    @property
    def _said(self) -> str:
        return "SIMULATED: " if self.record.simulated else ""


def capacity_of(
    record: StudyRecord,
    at: Mapping[str, str] | None = None,
    cpus: float | None = None,
    loads: Sequence[float] = (),
    pools: Sequence[int] = (),
) -> CapacityResult:
    """Fit a study's model, predict ``loads`` and ``pools``. Raises UsageError for a study that tells too little."""
    points = measured(record, at, cpus, describing(record.study), _agents(record))
    return CapacityResult(record, answered(points, loads, pools))


def _agents(record: StudyRecord) -> dict[str, tuple[Agents, ...]]:
    """Of one unit, by the factor that sets how many agents there are, in proportion and with the same cycles."""
    load, agents = record.study.workload, {}
    knobs = load_knobs(load)
    for factor in record.plan.factors:
        if not is_load(factor.name) or factor.name in (USERS, RATE):
            continue
        units = []
        for level in factor.levels:
            stated = stated_agents(load_at(load, {factor.name: level}, knobs))
            if stated is None or isinstance(level, str) or level <= 0:
                break
            units.append(tuple(Agents(users / level, cycle) for users, cycle in stated))
        if len(units) == len(factor.levels) and len(set(units)) == 1:
            agents[factor.name] = units[0]
    return agents


@dataclass(frozen=True)
class ScalingResult:
    """``record``: the study; ``scaling``: the scalability law fitted from it."""

    record: StudyRecord
    scaling: Scaling

    @property
    def answer(self) -> str:
        """What more of the factor gains, and where that ends, in one sentence."""
        return ("SIMULATED: " if self.record.simulated else "") + scaling_text.answer(self.scaling)

    def lines(self) -> list[str]:
        """Coefficients and sizes, for people."""
        return list(scaling_text.lines(self.scaling))

    def document(self) -> dict[str, Any]:
        """As JSON types (docs/reference/json.md)."""
        document = scaling_text.document(self.scaling)
        run = f"{self.record.study.study}@{self.record.id}"
        return {"run": run, "simulated": self.record.simulated, **document, "answer": self.answer}


def scaling_result(record: StudyRecord, factor: str, at: Mapping[str, str] | None = None) -> ScalingResult:
    """Fit the scalability law over the levels of ``factor``. Raises UsageError for a study that tells too little."""
    return ScalingResult(record, scaling_of(record, factor, at, describing(record.study)))
