"""The record of a soak: bounded at any length, whole on the disk, of one resolution when it is judged."""

import math
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from leadline.experiments.soak.record import SoakRecord, evened, interval_of, merged, read_record, thinned
from leadline.host.files import LocalFiles
from leadline.load.series import Outcomes, latencies_of, new_histogram
from leadline.model.errors import LeadlineError
from leadline.model.soak import DAY, FINE, HOUR, INTERVAL_BYTES, Interval, SoakTimes, gaps
from leadline.observe.holdings import BoundedLogs, Holdings, size_of


def interval(begin: float, *values_ms: float, seconds: float = 60.0, stretch: int = 0) -> Interval:
    outcomes = Outcomes(new_histogram(), ok=len(values_ms), failed=1)
    for value in values_ms:
        outcomes.histogram.record_value(int(value * 1e6))
    return interval_of(begin, seconds, stretch, outcomes, {"rss.anon/server": (begin, begin + 1, begin + 2)})


def test_latencies_are_those_of_the_histogram() -> None:
    histogram = new_histogram()
    for value in range(1, 1001):
        histogram.record_value(value * 1_000_000)
    found = latencies_of(histogram, (50.0, 99.0))
    assert found[:2] == tuple(histogram.get_value_at_percentile(each) / 1e6 for each in (50.0, 99.0))
    assert found[2] == pytest.approx(1000, rel=0.01)


def test_hours_are_sums_of_their_minutes() -> None:
    whole = merged([interval(0, 1, 2), interval(60, 3), interval(120)])
    assert (whole.begin, whole.seconds, whole.ok, whole.failed) == (0, 180, 3, 3)
    assert whole.p50 == pytest.approx(2, rel=0.01)
    assert whole.worst == pytest.approx(3, rel=0.01)
    assert whole.gauges["rss.anon/server"] == (0, 61, 122)


def test_what_is_older_than_its_time_is_merged_by_the_hour_and_no_more() -> None:
    minutes = [interval(60.0 * at) for at in range(int((FINE + 3 * HOUR) / 60))]
    found = thinned(minutes)
    assert [one.seconds for one in found[:4]] == [HOUR, HOUR, HOUR, 60]
    assert len(found) == 3 + FINE / 60
    assert thinned(found) == found
    assert math.fsum(one.seconds for one in found) == FINE + 3 * HOUR


def test_a_year_is_bounded() -> None:
    """Hours alone grow, and what the dry run says holds for them."""
    times = SoakTimes.of(366 * DAY)
    assert times.interval == 60
    assert times.bytes_bound < 300 << 20
    day, year = SoakTimes.of(DAY).bytes_bound, times.bytes_bound
    assert year < 8 * day


def test_the_record_of_14_days_takes_less_than_its_bound(tmp_path: Path) -> None:
    times = SoakTimes(14 * DAY, 600.0, 6 * HOUR)
    record = SoakRecord(tmp_path / "soak.jsonl", times)
    values = [1 + at % 50 for at in range(300)]
    one = interval(0, *values)
    gauges = {f"disk/some-service-{at}": (123456789.5, 123456789.5, 123456789.5) for at in range(60)}
    record.intervals = [
        replace(one, begin=600.0 * at, seconds=600.0, gauges=gauges) for at in range(int(times.seconds / 600))
    ]
    record.save()
    assert record.path.stat().st_size < times.bytes_bound
    assert record.path.stat().st_size < INTERVAL_BYTES * len(record.intervals)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = SoakRecord(tmp_path / "soak.jsonl", SoakTimes.of(7200))
    assert record.begin_stretch() == 0
    record.add([interval(1000, 5), interval(1060)])
    record.ends[0] = "ended by SIGINT"
    record.save()
    found = read_record(record.path)
    assert math.isnan(found.intervals[1].p99)
    assert found.intervals[0] == record.intervals[0]
    assert (found.begun, found.ends, found.times, found.measured) == (1, {0: "ended by SIGINT"}, record.times, 120)
    assert found.left == 7200 - 120


def test_a_second_telling_of_an_interval_is_left_out(tmp_path: Path) -> None:
    record = SoakRecord(tmp_path / "soak.jsonl", SoakTimes.of(7200))
    record.add([interval(0), interval(60)])
    record.add([interval(60), interval(120)])
    assert [one.begin for one in record.intervals] == [0, 60, 120]


def test_a_damaged_record_says_so(tmp_path: Path) -> None:
    path = tmp_path / "soak.jsonl"
    path.write_text('{"format":"leadline-soak/1"}\n')
    with pytest.raises(LeadlineError, match="damaged"):
        read_record(path)


def test_what_is_judged_has_one_length() -> None:
    minutes = [interval(60.0 * at) for at in range(90)]
    assert evened(minutes) == minutes
    hours = thinned(minutes, fine=1800.0)
    assert {one.seconds for one in hours} == {HOUR, 60.0}
    assert {one.seconds for one in evened(hours)} == {HOUR}


def test_gaps_are_told_with_what_ended_the_stretch() -> None:
    found = gaps([interval(0), interval(60), interval(500, stretch=1), interval(700, stretch=1)], {})
    assert [(one.begin, one.end) for one in found] == [(120, 500), (560, 700)]
    assert found[0].why == "leadline ended without a word"
    assert gaps([interval(0), interval(500, stretch=1)], {0: "ended by SIGTERM"})[0].why == "ended by SIGTERM"


@pytest.mark.parametrize(
    ("seconds", "interval_s", "segment"), [(180, 1, 20), (3600, 30, 300), (7200, 60, 600), (DAY, 60, 600)]
)
def test_times_of_short_and_long_soaks(seconds: float, interval_s: float, segment: float) -> None:
    times = SoakTimes.of(seconds)
    assert (times.interval, times.segment) == (interval_s, segment)


class FakeProcess:
    """This process as a service."""

    def pids(self) -> list[int]:
        return [os.getpid()]


def test_open_files_and_sockets_are_counted_apart(tmp_path: Path) -> None:
    source = Holdings(LocalFiles(), {"server": FakeProcess()}, {"data": tmp_path}, BoundedLogs({}))  # type: ignore[dict-item]
    before = source()
    with (tmp_path / "file").open("wb") as stream, socket.socket(), socket.socket():
        stream.write(b"x" * 100_000)
        stream.flush()
        after = source()
    assert after["handles/server"] == before["handles/server"] + 1
    assert after["sockets/server"] == before["sockets/server"] + 2
    assert after["disk/data"] - before["disk/data"] >= 100_000
    assert after["free"] > 0


def test_a_log_is_emptied_under_its_writer_and_its_end_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    bounded = BoundedLogs({"logs": tmp_path}, most=1000)
    with log.open("ab", buffering=0) as writer:
        writer.write(b"a" * 900 + b"b" * 600)
        assert bounded.bound() == ["server.log"]
        assert log.stat().st_size == 0
        assert (tmp_path / "server.log.1").read_bytes() == b"b" * 500
        writer.write(b"c" * 10)
        assert log.read_bytes() == b"c" * 10
    assert bounded.written() == {"server.log": 1510}
    assert bounded.bound() == []


def test_what_is_not_there_takes_no_room(tmp_path: Path) -> None:
    assert size_of(tmp_path / "none") == 0
    assert BoundedLogs({"logs": tmp_path / "none"}).written() == {}
