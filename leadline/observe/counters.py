"""Observer of counters that some part of the stack gives on request: a database's statistics, a server's."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from leadline.host.received import lines_of
from leadline.model.received import LARGEST, json_object, number, whole
from leadline.observe.base import ObserverContext, Sampler
from leadline.observe.table import TallTable

SUBJECT = "database"


def database_observer(stats: Source, gauges: Sequence[str] = (), interval: float | None = 0.0) -> CounterObserver:
    """``stats`` is the service's own: counter name to value since the database started.

    ``gauges`` are names whose rate means nothing (connections now open). ``interval`` as in ``CounterObserver``.
    """
    return CounterObserver("database", SUBJECT, stats, gauges, interval)


Source = Callable[[], Mapping[str, float]]


class CounterObserver:
    """Asks ``source`` once an interval (or only at start and stop) and stores what it says.

    ``raw/<name>.jsonl`` gets a line per call: ``{"time_ns", "monotonic_ns", "values"}`` or, where the call raised,
    ``"error"`` instead of ``"values"``: a gap in the series and a warning, never the end of the trial. The series
    are every value under its own name (of the subject that follows it after a tab) and, unless it is one of ``gauges``,
    its rate as ``<name>.per_s``.

    ``interval``: seconds; None: at start and stop only; left out: the context's.
    """

    def __init__(
        self,
        name: str,
        subject: str,
        source: Source,
        gauges: Sequence[str] = (),
        interval: float | None = 0.0,
    ) -> None:
        self._name = name
        self._subject = subject
        self._source = source
        self._gauges = frozenset(gauges)
        self._interval = interval
        self._directory: Path | None = None
        self._sampler: Sampler | None = None
        self._calls = 0
        self._failures: dict[str, int] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def warnings(self) -> Sequence[str]:
        failed = [
            f"{self._name}: {count} of {self._calls} calls failed: {why}" for why, count in self._failures.items()
        ]
        return [*(self._sampler.warnings if self._sampler else ()), *failed]

    def start(self, context: ObserverContext) -> None:
        self._directory = context.directory
        self._calls = 0
        self._failures.clear()
        raw = self._raw(context.directory)
        raw.parent.mkdir(parents=True, exist_ok=True)
        raw.write_text("")
        self._sampler = Sampler(self._name, self._sample, self._interval if self._interval != 0 else context.interval)
        self._sampler.start()

    def stop(self) -> None:
        if self._sampler:
            self._sampler.stop()

    def collect(self) -> Path | None:
        return self.collect_from(self._directory) if self._directory else None

    def collect_from(self, directory: Path) -> Path | None:
        """``collect`` for a trial's directory that another, ended process has recorded."""
        raw = self._raw(directory)
        if not raw.exists():
            return None
        return self._decode(raw).write(directory / "series" / f"{self._name}.parquet")

    def _raw(self, directory: Path) -> Path:
        return directory / "raw" / f"{self._name}.jsonl"

    def _sample(self, _lateness_ns: int) -> None:
        if self._directory is None:
            return
        record: dict[str, object] = {"time_ns": time.time_ns(), "monotonic_ns": time.monotonic_ns()}
        self._calls += 1
        try:
            record["values"] = dict(self._source())
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            self._failures[why] = self._failures.get(why, 0) + 1
            record["error"] = why
        with self._raw(self._directory).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def _decode(self, raw: Path) -> TallTable:
        table = TallTable()
        before: dict[str, float] = {}
        before_ns = 0
        what = str(raw)
        for line in lines_of(raw):
            if not line.endswith("\n"):
                continue  # a crash cut it
            record = json_object(line, what)
            time_ns, monotonic_ns = whole(record, "time_ns", what), whole(record, "monotonic_ns", what)
            names = record.get("values")
            if not isinstance(names, dict):
                continue
            values = {name: number(names, name, what, least=-LARGEST) for name in names}
            seconds = (monotonic_ns - before_ns) / 1e9
            for metric, value in values.items():
                name, _, subject = metric.partition("\t")
                table.add(time_ns, name, subject or self._subject, value)
                was = before.get(metric)
                if metric not in self._gauges and was is not None and seconds > 0 and value >= was:
                    table.add(time_ns, f"{name}.per_s", subject or self._subject, (value - was) / seconds)
            before, before_ns = values, monotonic_ns
        return table
