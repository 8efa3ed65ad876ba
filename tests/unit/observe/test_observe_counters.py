"""Counters of a part of the stack, robust to calls that fail."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from leadline.observe.base import ObserverContext
from leadline.observe.counters import CounterObserver
from leadline.observe.database import database_observer


class FakeDatabase:
    """Answers with growing counters; every call whose number is in ``fails`` raises."""

    def __init__(self, fails: frozenset[int] = frozenset()) -> None:
        self.calls = 0
        self.fails = fails

    def stats(self) -> Mapping[str, float]:
        self.calls += 1
        if self.calls in self.fails:
            raise LookupError("connection refused")
        return {"commits": 10.0 * self.calls, "connections": 4.0}


def test_values_and_rates(tmp_path: Path) -> None:
    source = FakeDatabase()
    observer = database_observer(source.stats, gauges=("connections",), interval=None)
    observer.start(ObserverContext(tmp_path))
    observer.stop()
    path = observer.collect()
    assert path == tmp_path / "series" / "database.parquet"
    table = pl.read_parquet(path)
    assert set(table["subject"]) == {"database"}
    assert table.filter(pl.col("metric") == "commits")["value"].to_list() == [10.0, 20.0]
    rates = table.filter(pl.col("metric") == "commits.per_s")
    seconds = table.filter(pl.col("metric") == "commits")["time_ns"].diff().to_list()[1] / 1e9
    assert abs(rates["value"][0] - 10.0 / seconds) / rates["value"][0] < 0.2
    assert "connections.per_s" not in set(table["metric"])


def test_failing_calls_are_gaps_and_warnings(tmp_path: Path) -> None:
    source = FakeDatabase(frozenset({1, 3}))
    observer = CounterObserver("database", "database", source.stats, interval=0.005)
    observer.start(ObserverContext(tmp_path))
    while source.calls < 5:
        pass
    observer.stop()
    path = observer.collect()
    assert path is not None
    commits = pl.read_parquet(path).filter(pl.col("metric") == "commits")["value"].to_list()
    assert commits[:3] == [20.0, 40.0, 50.0]
    assert observer.warnings == [f"database: 2 of {source.calls} calls failed: LookupError: connection refused"]
    raw = (tmp_path / "raw" / "database.jsonl").read_text().splitlines()
    assert '"error": "LookupError: connection refused"' in raw[0]


def test_a_source_that_never_answers_gives_no_table(tmp_path: Path) -> None:
    observer = CounterObserver("database", "database", FakeDatabase(frozenset(range(100))).stats, interval=None)
    observer.start(ObserverContext(tmp_path))
    observer.stop()
    assert observer.collect() is None
    assert observer.warnings


def test_a_cut_line_and_a_restarted_counter(tmp_path: Path) -> None:
    raw = tmp_path / "raw" / "database.jsonl"
    raw.parent.mkdir()
    line = '{{"time_ns": {n}000000000, "monotonic_ns": {n}000000000, "values": {{"commits": {v}}}}}\n'
    raw.write_text(line.format(n=1, v=50) + line.format(n=2, v=5) + line.format(n=3, v=9) + '{"time_ns": 4, "val')
    observer = CounterObserver("database", "database", dict)
    path = observer.collect_from(tmp_path)
    assert path is not None
    table = pl.read_parquet(path)
    assert table.filter(pl.col("metric") == "commits")["value"].to_list() == [50, 5, 9]
    rates = table.filter(pl.col("metric") == "commits.per_s")
    assert rates["value"].to_list() == [4]
    assert rates["time_ns"].to_list() == [3_000_000_000]
