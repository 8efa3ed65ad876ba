"""Soaks of 14 days in virtual time: planted leaks are found with kind, start and rate; a crash leaves a gap."""

import math
from pathlib import Path

import pytest
from simulated_soak import Kind, Leak, SimulatedSoak

from leadline.conclude.soak import SoakAnswer, conclude_soak
from leadline.experiments.soak.record import Alarms, SoakRecord, Watch, evened, read_record
from leadline.model.soak import DAY, HOUR, SoakTimes

BEGIN = 1_700_000_000.0
NAMES: dict[Kind, tuple[str, ...]] = {
    "heap": ("heap of the server",),
    "native": ("memory of the server outside its heap",),
    "handles": ("open files of the server",),
    "threads": ("threads of the server",),
    "connections": ("connections in use of main", "sockets of the server"),
    "disk": ("disk use of database",),
}


def answer(record: SoakRecord) -> SoakAnswer:
    return conclude_soak(record.intervals, evened(record.intervals), record.times, record.ends)


def soak(folder: Path, *leaks: Leak, interval: float = HOUR) -> tuple[SoakRecord, SimulatedSoak]:
    record = SoakRecord(folder / "soak.jsonl", SoakTimes(14 * DAY, interval, DAY))
    return record, SimulatedSoak(3, leaks)


def test_without_a_leak_it_is_stable(tmp_path: Path) -> None:
    record, stack = soak(tmp_path, interval=HOUR / 2)
    watch = Watch(Alarms("soak", None, None), 0.01, lambda _: None)
    stack.run(record, BEGIN, math.inf, watch)
    found = answer(record)
    assert found.complete
    assert found.passed, found.sentence
    assert found.gaps == ()
    assert record.alarms == []


@pytest.mark.parametrize(
    ("kind", "per_day"),
    [("heap", 20.0), ("native", 25.0), ("handles", 20.0), ("threads", 6.0), ("connections", 3.0), ("disk", 9000.0)],
)
def test_a_planted_leak_is_found_with_kind_start_and_rate(tmp_path: Path, kind: Kind, per_day: float) -> None:
    record, stack = soak(tmp_path, Leak(kind, per_day, after=4 * DAY))
    stack.run(record, BEGIN, math.inf, lambda _: None)
    found = answer(record)
    suspect = found.judged.suspect
    assert suspect is not None
    assert suspect.series.name in NAMES[kind], found.sentence
    assert suspect.earliest is not None
    assert suspect.latest is not None
    assert suspect.earliest - DAY <= 4 * DAY <= suspect.latest + DAY
    assert suspect.per_day == pytest.approx(per_day, rel=0.1)


def test_a_leak_raises_its_alarm_while_it_runs(tmp_path: Path) -> None:
    record, stack = soak(tmp_path, Leak("handles", 20.0))
    watch, told = Watch(Alarms("soak", None, None), 0.01, lambda _: None), list[float]()

    def checkpoint(record: SoakRecord) -> None:
        watch(record)
        told.extend([record.measured] if record.alarms and not told else [])

    stack.run(record, BEGIN, math.inf, checkpoint)
    assert [one["series"] for one in record.alarms] == ["open files of the server"]
    assert told[0] < 7 * DAY


def test_growth_that_the_disk_has_room_for_is_no_degradation(tmp_path: Path) -> None:
    record, stack = soak(tmp_path, Leak("disk", 200.0))
    stack.run(record, BEGIN, math.inf, lambda _: None)
    found = answer(record)
    assert found.passed, found.sentence
    (disk,) = [drift for drift in found.judged.drifts if drift.series.name == "disk use of database"]
    assert disk.per_day == pytest.approx(200, rel=0.05)
    assert "it rises, by less than" in disk.reason


def test_a_crash_leaves_a_gap_and_each_start_is_judged_by_itself(tmp_path: Path) -> None:
    record, stack = soak(tmp_path, Leak("handles", 30.0))
    stack.run(record, BEGIN, BEGIN + 6.5 * DAY, lambda _: None)  # half a day since the checkpoint is lost
    assert answer(record).measured == 6 * DAY
    resumed = read_record(record.path)
    stack.run(resumed, BEGIN + 7 * DAY, math.inf, lambda _: None)
    found = answer(resumed)
    (gap,) = found.gaps
    assert (gap.begin, gap.end) == (BEGIN + 6 * DAY, BEGIN + 7 * DAY)
    assert found.complete
    leaking = [drift for drift in found.judged.degrading if drift.series.name.startswith("open files")]
    assert [drift.series.name[-9:] for drift in leaking] == ["(start 1)", "(start 2)"]
    for drift in leaking:  # the restart gave all back: neither a fall nor a slower rise
        assert drift.per_day == pytest.approx(30, rel=0.1)
    assert "1 gap, 24 h in all" in found.sentence
