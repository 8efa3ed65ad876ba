"""The driver's command line as the lab starts it."""

from pathlib import Path

import pytest

import leadline.load.driver as driver
from leadline.load.driver import DriverRun
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.workload import Workload


@pytest.fixture
def fake_binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package folder with an executable where the wheel has the driver."""
    path = tmp_path / "package" / "_bin" / "leadline-load"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setattr(driver, "_PACKAGE", tmp_path / "package")
    return path


def options(argv: list[str]) -> dict[str, str]:
    return dict(zip(argv[3::2], argv[4::2], strict=True))


def test_a_closed_workload(fake_binary: Path, tmp_path: Path) -> None:
    workload = Workload(users=40, ramp_up=1.5, steady=20, ramp_down=2, timeout=3)
    run = DriverRun(workload, "http://127.0.0.1:1/b", 7, tmp_path / "out", {"units": 2}, cpus="1")
    spec = run.spec(tmp_path / "driver.log")
    argv = list(spec.argv)
    assert argv[:2] == [str(fake_binary), "run"]
    assert argv[2].endswith("brokerage-classic.yaml")
    assert options(argv) == {
        "--url": "http://127.0.0.1:1/b",
        "--out": str(tmp_path / "out"),
        "--arrivals": "closed",
        "--users": "40",
        "--ramp-up": "1500000us",
        "--steady": "20000000us",
        "--ramp-down": "2000000us",
        "--timeout": "3000000us",
        "--seed": "7",
        "--max-sessions": "1000",
        "--var": "units=2",
        "--progress": "json",
        "--verdict": "file",
    }
    assert (spec.name, spec.cpus, run.seconds) == ("driver", "1", 23.5)
    assert (tmp_path / "out").is_dir()


@pytest.mark.usefixtures("fake_binary")
def test_a_population_may_have_a_server_of_its_own(tmp_path: Path) -> None:
    argv = DriverRun(Workload(users=1), "http://h", 1, tmp_path, population_urls={"plant": "http://h:2"}).argv()
    assert (options(argv)["--url"], options(argv)["--population-url"]) == ("http://h", "plant=http://h:2")


@pytest.mark.usefixtures("fake_binary")
def test_open_workloads_have_a_rate(tmp_path: Path) -> None:
    argv = DriverRun(Workload(arrivals="poisson", rate=2.5), "http://h", 1, tmp_path).argv()
    assert options(argv)["--rate"] == "2.5"
    assert "--users" not in argv
    with pytest.raises(UsageError, match="need `rate`"):
        DriverRun(Workload(arrivals="constant"), "http://h", 1, tmp_path).argv()
    with pytest.raises(UsageError, match="need `users`"):
        DriverRun(Workload(), "http://h", 1, tmp_path).argv()


def test_a_missing_binary_says_how_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_PACKAGE", tmp_path / "nowhere" / "leadline")
    with pytest.raises(LeadlineError, match="cargo build --release"):
        driver.find_binary()


@pytest.mark.usefixtures("fake_binary")
def test_an_instance_that_takes_turns_waits_for_its_start(tmp_path: Path) -> None:
    run = DriverRun(Workload(users=3), "http://h", 1, tmp_path / "out", windows=[(0.0, 4.0), (12.0, 16.0)], told=True)
    spec = run.spec(tmp_path / "driver.log")
    found = options(list(spec.argv))
    assert (found["--windows"], found["--start-at"]) == ("0s-4s,12s-16s", "stdin")
    assert spec.input
    assert not DriverRun(Workload(users=3), "http://h", 1, tmp_path / "other").spec(tmp_path / "log").input
