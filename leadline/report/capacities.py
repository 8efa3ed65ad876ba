"""A study's queueing model, as Python and the command line have it."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leadline.capacity.answer import Capacity, LeftOut, Prediction, Resource
from leadline.capacity.answer import answer as answered
from leadline.capacity.fit import OTHER, measured
from leadline.capacity.network import Agents
from leadline.load.arrivals import stated_agents
from leadline.load.knobs import load_knobs
from leadline.model.naming import Describe, describing
from leadline.model.record import StudyRecord
from leadline.model.result import Interval
from leadline.model.units import rounded
from leadline.model.workload import RATE, USERS, is_load, load_at

_ROLES = {"rest": "rest (kernel threads, interrupts, what is no process of the study)"}
_HEAD = (
    "load",
    "pool",
    "think",
    "measured",
    "throughput",
    "throughput_low",
    "throughput_high",
    "response_ms",
    "response_ms_low",
    "response_ms_high",
)


def capacity_lines(found: Capacity, describe: Describe) -> Iterator[str]:
    """What is printed, but for the answer."""
    data, model = found.measured, found.model
    unit = _unit(found)
    yield f"fitted from {len(data.points)} trials at {len(data.loads)} loads, {_numbers(data.loads)} {unit}" + (
        f", {data.failed} failed" if data.failed else ""
    )
    if data.held:
        yield f"at {data.held}"
    for role, demand in model.processes.items():
        yield f"demand of the {_ROLES.get(role, role)}: {_ms(demand, found.demands.get(role))} CPU a transaction"
    if model.delay > 0:
        yield f"delay without queueing: {_ms(model.delay, found.demands.get('delay'))}"
    if model.other > 0:
        yield (
            f"a resource that is no CPU (a lock, a disk, a pool that is no factor): {rounded(1000 * model.other, 3)}"
            " ms a transaction, one at a time"
        )
    for level, think in sorted(model.think.items(), key=lambda item: str(item[0])):
        at = f" at load.think = {describe('load.think', level)}" if level is not None else ""
        yield f"think time by Little's law{at}: {rounded(1000 * think, 3)} ms"
    if not data.closed:
        what = "transactions a second of a unit, at light load" if data.agents else "transactions of a session"
        yield f"{what}: {rounded(model.visits, 3)}"
    yield ""
    yield from _predictions(found, describe)
    yield ""
    yield "loads left out of the fit: predicted against measured"
    for cell in found.left_out:
        yield (
            f"  {_cell(found, cell, describe)}  throughput {rounded(cell.predicted_throughput, 4)} against "
            f"{rounded(cell.throughput, 4)} "
            f"({cell.throughput_error:+.1%}), mean response {rounded(1000 * cell.predicted_response, 3)} against "
            f"{rounded(1000 * cell.response, 3)} ms ({'begun late' if cell.late else f'{cell.response_error:+.0%}'})"
        )
    yield (f"  mean error: throughput {found.throughput_error:.1%}, response time {found.response_error:.0%}")
    yield ""
    for resource in found.resources:
        yield _resource(resource)
    yield from found.notes
    for doubt in found.doubts:
        yield f"The model does not hold: {doubt}."


def answer(found: Capacity) -> str:
    """The knee and what saturates first, in one sentence."""
    pool = f" with {found.measured.pool} = {found.pool}" if found.pool is not None else ""
    from_ = f"{rounded(found.knee, 3)} {_unit(found)}{_within(found.knee_interval)}"
    knee = f"Responses slow down from {from_} on{pool} (the knee)"
    most = f"more than {rounded(found.capacity, 4)} transactions/s{_within(found.capacity_interval)} cannot be done"
    but = "" if found.holds else "; but the model does not hold"
    return f"{knee}, and {most}: {_name(found.limit)} saturates first{but}."


def capacity_document(found: Capacity, describe: Describe) -> dict[str, Any]:
    """As JSON types (docs/reference/json.md)."""
    model = found.model
    return {
        "load": found.measured.factor,
        "at": found.measured.held,
        "trials": len(found.measured.points),
        "failed": found.measured.failed,
        "pool": {"knob": found.measured.pool, "level": found.pool} if found.measured.pool else None,
        "knee": _bounded(found.knee, found.knee_interval),
        "capacity": _bounded(found.capacity, found.capacity_interval),
        "limit": found.limit,
        "resources": [
            {
                "name": resource.name,
                "demand_ms": 1000 * resource.demand,
                "servers": resource.servers,
                "utilisation_measured": resource.measured,
                "utilisation_at_capacity": resource.full,
                "parts": resource.parts,
            }
            for resource in found.resources
        ],
        "demands_ms": {
            name: _bounded(1000 * demand, found.demands.get(name), 1000) for name, demand in model.processes.items()
        },
        "delay_ms": _bounded(1000 * model.delay, found.demands.get("delay"), 1000),
        "other_ms": 1000 * model.other,
        "think_ms": {
            "" if level is None else describe("load.think", level): 1000 * think for level, think in model.think.items()
        },
        "transactions_per_arrival": None if found.measured.closed else model.visits,
        "predictions": [dict(zip(_HEAD, row, strict=True)) for row in _rows(found, describe)],
        "left_out": [
            {
                "load": cell.load,
                "pool": cell.pool,
                "think": None if cell.think is None else describe("load.think", cell.think),
                "throughput": cell.throughput,
                "predicted_throughput": cell.predicted_throughput,
                "throughput_error": cell.throughput_error,
                "response_ms": 1000 * cell.response,
                "predicted_response_ms": 1000 * cell.predicted_response,
                "response_error": None if cell.late else cell.response_error,
            }
            for cell in found.left_out
        ],
        "mean_error": {"throughput": found.throughput_error, "response": found.response_error},
        "holds": found.holds,
        "doubts": list(found.doubts),
        "notes": list(found.notes),
        "answer": answer(found),
    }


def _rows(found: Capacity, describe: Describe) -> Iterator[tuple[Any, ...]]:
    for prediction in found.predictions:
        yield (
            prediction.load,
            prediction.pool,
            None if prediction.think is None else describe("load.think", prediction.think),
            prediction.measured,
            prediction.solution.throughput,
            *_ends(prediction.throughput),
            1000 * prediction.solution.response,
            *_ends(prediction.response, 1000),
        )


def _predictions(found: Capacity, describe: Describe) -> Iterator[str]:
    yield "predicted (* measured)"
    for prediction in found.predictions:
        busy = ", ".join(f"{_name(name)} {used:.0%} busy" for name, used in prediction.solution.utilisation.items())
        star, rate = "*" if prediction.measured else " ", f"{rounded(prediction.solution.throughput, 4)} transactions/s"
        mean = _ms(prediction.solution.response, prediction.response)
        yield (
            f" {star}{_cell(found, prediction, describe)}  {rate}{_within(prediction.throughput)}, "
            f"mean response {mean}; {busy}"
        )


def _cell(found: Capacity, one: Prediction | LeftOut, describe: Describe) -> str:
    parts = [f"{rounded(one.load, 4)} {_unit(found)}"]
    if one.pool is not None:
        parts.append(f"{found.measured.pool} {one.pool}")
    if one.think is not None:
        parts.append(f"think {describe('load.think', one.think)}")
    return ", ".join(parts)


def _resource(one: Resource) -> str:
    parts = ", ".join(f"{role} {share:.0%}" for role, share in one.parts.items())
    measured = "" if one.measured is None else f"measured {one.measured:.0%} busy at the peak ({parts}), "
    return f"{_name(one.name)}: {measured}{one.full:.0%} at capacity"


def _name(name: str) -> str:
    return "a resource that is no CPU" if name == OTHER else "CPU" if name == "cpu" else name


def _unit(found: Capacity) -> str:
    data = found.measured
    return "users" if data.closed else f"units of {data.factor}" if data.agents else "sessions/s"


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _ms(seconds: float, interval: Interval | None) -> str:
    return f"{rounded(1000 * seconds, 3)} ms{_within(interval, 1000)}"


def _within(interval: Interval | None, factor: float = 1) -> str:
    return "" if interval is None else f" [{rounded(factor * interval.low, 4)}, {rounded(factor * interval.high, 4)}]"


def _ends(interval: Interval | None, factor: float = 1) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (factor * interval.low, factor * interval.high)


def _bounded(value: float, interval: Interval | None, factor: float = 1) -> dict[str, float | None]:
    low, high = _ends(interval, factor)
    return {"value": value, "low": low, "high": high}


@dataclass(frozen=True)
class CapacityResult:
    """``record``: the study; ``capacity``: the model fitted from it, and what it says."""

    record: StudyRecord
    capacity: Capacity

    @property
    def answer(self) -> str:
        """The knee and what saturates first, in one sentence."""
        return ("SIMULATED: " if self.record.simulated else "") + answer(self.capacity)

    def lines(self) -> list[str]:
        """Demands, predictions, errors and resources, for people."""
        return list(capacity_lines(self.capacity, describing(self.record.study)))

    def document(self) -> dict[str, Any]:
        """As JSON types (docs/reference/json.md)."""
        run = {"run": f"{self.record.study.study}@{self.record.id}", "simulated": self.record.simulated}
        return {**run, **capacity_document(self.capacity, describing(self.record.study)), "answer": self.answer}

    def write(self, path: Path) -> None:
        """The predictions as CSV. Raises OSError."""
        with path.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([_HEAD, *_rows(self.capacity, describing(self.record.study))])


def capacity_of(
    record: StudyRecord, at: Mapping[str, str] | None, cpus: float | None, loads: Sequence[float], pools: Sequence[int]
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
