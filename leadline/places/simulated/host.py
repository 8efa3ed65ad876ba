"""A host without hardware: knobs in a dictionary, time from a virtual clock."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from leadline.host.base import Elsewhere
from leadline.host.received import json_object_file, parquet_file
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import Catalogue, Kind, Knob, Level, Machine
from leadline.model.record import LoadSecond
from leadline.model.workload import Workload
from leadline.places.simulated.model import RESPONSES
from leadline.places.simulated.timing import VirtualClock
from leadline.places.simulated.trial import TrialSeries

SERIES = "raw/simulated.parquet"  # exact, one row a second
OTHERS = "others_cpu"  # column of a neighbour
NOTES = "raw/simulated.json"  # start of the load, phases
TRANSACTION = "transaction"  # the model has the one kind
_ROW = {name: index for index, name in enumerate(RESPONSES)}
_COLUMNS = (
    "time_ns",
    "second",
    "phase",
    "transaction",
    "ok",
    "failed",
    "response_mean_ms",
    "response_p50_ms",
    "response_p99_ms",
    "service_mean_ms",
    "in_flight",
    "skipped",
    "unanswered",
    "unanswered_from_ms",
    "dropped",
)


def write_load(
    directory: Path, series: TrialSeries, started_ns: int, workload: Workload, seed: int
) -> dict[str, dict[str, int]]:
    """Write everything; returns the counts of transactions, as the driver tells them."""
    table = {name: series.logs[row] for name, row in _ROW.items()} | {"failed": series.failed}
    if series.others is not None:
        table[OTHERS] = series.others
    pl.DataFrame(table).write_parquet(directory / SERIES)
    drained = float(series.logs.shape[1])
    notes = {
        "started_ns": started_ns,
        "steady": series.steady,
        "drained": drained,
        "driver_was_limit": series.driver_was_limit,
        "evidence": series.evidence,
    }
    (directory / NOTES).write_text(json.dumps(notes), encoding="utf-8")
    values = np.exp(series.logs)
    ok, failed = np.rint(values[0]).astype(int), np.rint(series.failed).astype(int)
    _write_seconds(directory / "driver" / "seconds.csv", series, started_ns, values, ok, failed)
    _write_summary(directory / "driver" / "summary.json", series, started_ns, workload, seed, ok, failed)
    return {TRANSACTION: {"ok": int(ok.sum()), "failed": int(failed.sum())}}


def read_load(directory: Path) -> tuple[TrialSeries, int]:
    """The series of a load and the unix nanoseconds at which it began."""
    table = parquet_file(directory / SERIES, None)
    notes: dict[str, Any] = json_object_file(directory / NOTES)
    logs = np.vstack([table[name].to_numpy() for name in RESPONSES])
    steady = (float(notes["steady"][0]), float(notes["steady"][1]))
    others = table[OTHERS].to_numpy() if OTHERS in table.columns else None
    failed = table["failed"].to_numpy()
    series = TrialSeries(logs, failed, steady, notes["driver_was_limit"], notes["evidence"], others)
    return series, int(notes["started_ns"])


def told_seconds(series: TrialSeries) -> Iterator[LoadSecond]:
    """The load as the driver would have told it, second by second."""
    values = np.exp(series.logs)
    for second in range(values.shape[1]):
        rate, median, tail = (float(values[_ROW[name], second]) for name in ("throughput", "p50", "p99"))
        failed = int(np.rint(series.failed[second]))
        yield LoadSecond(second + 1.0, _phase(second, series.steady), rate, tail, failed, median)


def _phase(second: int, steady: tuple[float, float]) -> str:
    if second + 1 <= steady[0] + 1e-6:
        return "ramp_up"
    return "steady" if second + 1 <= steady[1] + 1e-6 else "ramp_down"


def _write_seconds(
    path: Path, series: TrialSeries, started_ns: int, values: np.ndarray, ok: np.ndarray, failed: np.ndarray
) -> None:
    with path.open("w", encoding="ascii", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(_COLUMNS)
        for second in range(values.shape[1]):
            mean, p50, p99 = (round(float(values[_ROW[name], second]), 3) for name in ("mean", "p50", "p99"))
            flying = round(float(values[0, second]) * mean / 1000)
            row = [started_ns + second * 10**9, second, _phase(second, series.steady)]
            counted = [int(ok[second]), int(failed[second]), mean, p50, p99, mean, flying, 0, 0, "", 0]
            for name in (TRANSACTION, "all"):
                writer.writerow([*row, name, *counted])


def _write_summary(
    path: Path, series: TrialSeries, started_ns: int, workload: Workload, seed: int, ok: np.ndarray, failed: np.ndarray
) -> None:
    begin, end = series.steady
    first, last = math.ceil(begin - 1e-6), max(math.floor(end + 1e-6), math.ceil(begin - 1e-6) + 1)
    figures = series.window(first, last) or {}
    latency = {name: figures.get(name) for name in ("mean", "p50", "p90", "p95", "p99", "p999", "max")}
    part = {
        "ok": int(ok[first:last].sum()),
        "failed": int(failed[first:last].sum()),
        "skipped": 0,
        "per_second": figures.get("throughput", 0.0),
        "response_ms": latency,
        "service_ms": latency,
    }
    seconds = float(series.logs.shape[1])
    flying = figures.get("throughput", 0.0) * figures.get("mean", 0.0) / 1000
    arrived = int(ok.sum() + failed.sum())
    nothing = dict.fromkeys(latency)
    summary = {
        "format": "leadline-load/1",
        "version": "simulated",
        "completed": True,
        "scenario": {"name": workload.scenario, "sha256": ""},
        "variables": {name: str(value) for name, value in workload.variables.items()},
        "url": "simulated:",
        "seed": seed,
        "arrivals": {"model": workload.arrivals, "users": workload.users, "rate": workload.rate},
        "started_unix_ns": started_ns,
        "phases": {"ramp_up": [0.0, begin], "steady": [begin, end], "ramp_down": [end, seconds], "drained": seconds},
        "steady": {"duration_s": end - begin, "transactions": {TRANSACTION: part}, "all": part},
        "total": {TRANSACTION: {"ok": int(ok.sum()), "failed": int(failed.sum()), "skipped": 0}},
        "requests": {"count": arrived, "bytes_in": 0, "bytes_out": 0, "connects": 0, "reconnects": 0},
        "errors": {"simulated": int(failed.sum())} if failed.any() else {},
        "error_samples": {},
        "blocked_ms": nothing,
        "arrivals_planned": arrived,
        "arrivals_actual": arrived,
        "dropped": 0,
        "driver": {
            "cpu_user_s": 0.0,
            "cpu_system_s": 0.0,
            "cpu_share": 0.0,
            "scheduling": "normal",
            "lag_ms": nothing,
            "limit": series.driver_was_limit,
            "evidence": [series.evidence] if series.evidence else [],
        },
        "littles_law": {"concurrency_observed": flying, "concurrency_expected": flying, "relative_error": 0.0},
    }
    path.write_text(json.dumps(summary), encoding="utf-8")


def usual_level(knob: Knob) -> Level:
    """A level for a knob whose default depends on the host: its first choice, its minimum, zero or nothing."""
    if knob.default is not None:
        return knob.default
    if knob.choices:
        return knob.choices[0]
    if knob.kind is Kind.BOOLEAN:
        return False
    if knob.kind in (Kind.TEXT, Kind.CHOICE, Kind.VECTOR):
        return ""
    least = knob.minimum or 0
    return float(least) if knob.kind in (Kind.NUMBER, Kind.DURATION) else int(least)


class SimulatedHost(Elsewhere):
    """Implements ``leadline.host.base.TrialHost``. ``silent`` knobs take a level and keep the one they had.

    ``levels``: what knobs have when the simulation begins, where that is not their usual level. ``others``: share of
    all CPUs that other programs take at a moment, unix seconds.
    """

    name = "simulated"

    def __init__(
        self,
        knobs: Sequence[Knob],
        clock: VirtualClock,
        silent: Sequence[str] = (),
        levels: Mapping[str, Level] | None = None,
        others: Callable[[float], float] = lambda _moment: 0.0,
    ) -> None:
        self.clock = clock
        self._others = others
        self._catalogue = Catalogue(knobs)
        self._silent = frozenset(silent)
        first = levels or {}
        self._levels: dict[str, Level] = {knob.name: first.get(knob.name, usual_level(knob)) for knob in knobs}
        self._originals: dict[str, Level] = {}

    def held(self) -> AbstractContextManager[object]:
        return nullcontext()

    def guard(self, dead_man: float) -> AbstractContextManager[object]:  # noqa: ARG002
        """Nothing else uses it, and nothing is left by a process that ends."""
        return nullcontext()

    def cpus(self) -> Sequence[int]:
        return range(self.machine().cpus)

    def machine(self) -> Machine:
        """A large one: what is simulated need not fit into this machine."""
        return Machine(memory=1 << 40, cpus=64)

    def knobs(self) -> Sequence[Knob]:
        return list(self._catalogue)

    def read_back(self, name: str) -> Level:
        """Today's level. Raises UsageError for an unknown knob."""
        return self._levels[self._catalogue.get(name).name]

    def apply(self, levels: Mapping[str, Level]) -> None:
        """``set_knob`` for each."""
        for name, level in levels.items():
            self.set_knob(name, level)

    def set_knob(self, name: str, level: Level) -> None:
        """Raises UsageError for an unknown knob, TrialFailure(configuration) for one that does not keep its level."""
        knob = self._catalogue.get(name)
        if name in self._silent:
            if level != self._levels[name]:
                raise TrialFailure(
                    FailureClass.CONFIGURATION,
                    f"{name} was set to {knob.format(level)} and reads {knob.format(self._levels[name])}",
                )
            return
        self._originals.setdefault(name, self._levels[name])
        self._levels[name] = level

    def writable(self, name: str) -> str:
        """Every known knob can be set. Raises UsageError for an unknown one."""
        self._catalogue.get(name)
        return ""

    def busy(self, seconds: float) -> float:
        """What its neighbour takes at this moment."""
        share = self._others(self.clock.now())
        self.clock.advance(seconds)
        return share

    def drop_page_cache(self) -> None:
        """Nothing is cached."""

    def swap_off(self) -> None:
        """Nothing is swapped."""

    def restore(self) -> Sequence[str]:
        """Every knob that was changed gets its first level back."""
        lines = [
            f"{name} is {self._catalogue.get(name).format(level)} again" for name, level in self._originals.items()
        ]
        self._levels.update(self._originals)
        self._originals.clear()
        return lines

    def temporary(self) -> Mapping[str, tuple[str, str]]:
        """Nothing is made."""
        return {}

    def facts(self) -> Mapping[str, str]:
        return {"SIMULATED": "no real host, server or load: every figure comes from a truth file, in virtual time"}

    def levels(self) -> Mapping[str, Level]:
        """All levels in force."""
        return dict(self._levels)


def known_levels(host: SimulatedHost, settings: Mapping[str, Level]) -> dict[str, Level]:
    """Levels in force on the host and in the services. Raises UsageError where both claim a knob."""
    both = set(host.levels()) & set(settings)
    if both:
        raise UsageError(f"{', '.join(sorted(both))}: a knob of the host and of a service")
    return {**host.levels(), **settings}
