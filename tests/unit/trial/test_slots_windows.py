"""Windows of a run: what the driver's files say of each slot, and the clock that slots follow."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram

from leadline.load.series import responses_between, responses_in_windows, started_unix_ns
from leadline.model.errors import TrialFailure
from leadline.model.plan import Slot, Treatment
from leadline.trial.drivers import Pacer
from leadline.trial.measure import measure_windows, seconds
from leadline.trial.system import LoadClock, Window


class FakeDriverFiles:
    """Rows and response log as the driver writes them: ``tps[i]`` transactions of ``10 + i`` ms in second i."""

    START = 1_700_000_000_123_456_789

    def __init__(self, directory: Path, tps: list[int]) -> None:
        directory.mkdir(parents=True)
        lines = ["#[Histogram log format version 1.3]\n"]
        rows = ["time_ns,second,phase,transaction,ok,failed,response_mean_ms,response_p50_ms,response_p99_ms,"]
        rows[0] += "service_mean_ms,in_flight,skipped\n"
        for second, count in enumerate(tps):
            time_ns = self.START + second * 1_000_000_000
            ms = f"{10 + second}.0," * 4 if count else ",,,,"
            rows.append(f"{time_ns},{second},steady,all,{count},1,{ms}3,0\n")
            if count:
                histogram = HdrHistogram(64, 3_600_000_000_000, 3)
                histogram.record_value((10 + second) * 1_000_000, count)
                lines.append(f"Tag=look,{second}.000,1.000,1.0,{histogram.encode().decode()}\n")
        (directory / "response.hlog").write_text("".join(lines))
        (directory / "seconds.csv").write_text("".join(rows))


def test_windows_of_a_run_are_read_at_once(tmp_path: Path) -> None:
    FakeDriverFiles(tmp_path / "driver", [10, 20, 30, 0, 50, 60])
    asked = [(0.0, 2.0), (0.5, 3.0), (1.2, 1.9), (3.0, 4.0), (4.0, 6.0)]
    found = responses_in_windows(tmp_path / "driver", asked)
    assert [one and one.ok for one in found] == [30, 50, None, 0, 110]
    assert found[4] == responses_between(tmp_path / "driver", 4.0, 6.0)
    assert found[1] is not None
    assert found[1].errors == pytest.approx(2 / 52)


def test_windows_are_measured_by_unix_time(tmp_path: Path) -> None:
    FakeDriverFiles(tmp_path / "driver", [10, 20, 30, 0, 50, 60])
    start = FakeDriverFiles.START / 1e9
    found = measure_windows(
        tmp_path, [Window(start, start + 2), Window(start + 2.5, start + 4), Window(start + 4, start + 6)]
    )
    assert [one.responses.get("throughput") for one in found] == [15.0, None, 55.0]
    assert found[1].reason == "no transaction succeeded"
    assert found[1].window.begin == pytest.approx(start + 3)
    assert all(math.isfinite(value) for one in found for value in one.responses.values())
    series = seconds(tmp_path)
    assert series.begins[2] == pytest.approx(start + 2)
    assert list(series.values["throughput"]) == [10, 20, 30, 0, 50, 60]
    assert math.isnan(series.values["mean"][3])


def test_the_pacer_follows_the_driver_and_notices_a_set_clock(tmp_path: Path) -> None:
    assert started_unix_ns(tmp_path / "driver") is None
    slots = [Slot(index, 2.0 * index, 2.0, Treatment(())) for index in range(3)]
    calls: list[tuple[int, int]] = []

    def on_slot(index: int, due_ns: int, clock: LoadClock) -> None:
        calls.append((index, due_ns))

    pacer = Pacer(tmp_path / "driver", 0.0, slots, on_slot)
    assert pacer.pace(0.2) == 0.2
    FakeDriverFiles(tmp_path / "driver", [1])
    with pytest.raises(TrialFailure) as error:
        pacer.pace(0.2)
    assert "the host's clock was set" in str(error.value)

    text = (tmp_path / "driver" / "seconds.csv").read_text()
    pacer = Pacer(tmp_path / "driver", 0.0, slots, on_slot)
    now = time.time_ns()
    (tmp_path / "driver" / "seconds.csv").write_text(text.replace(str(FakeDriverFiles.START), str(now)))
    assert pacer.pace(0.2) == 0.2
    assert calls == [(0, now)]
    with pytest.raises(TrialFailure) as error:
        pacer.check_complete()
    assert "after 1 of 3 slots" in str(error.value)
