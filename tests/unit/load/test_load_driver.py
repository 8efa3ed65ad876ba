"""The driver's command line as the lab starts it.

The load as a factor: which knobs a workload has, what a trial's driver is given, what it says it did.
"""

from pathlib import Path

import pytest

import leadline.load.driver as driver
from leadline.checks.files.study import parse_study
from leadline.load.driver import DriverRun
from leadline.load.knobs import LoadOwner, load_knobs, why_not
from leadline.load.scenario import sent_variables
from leadline.model.errors import LeadlineError, NotInPlay, UsageError
from leadline.model.knob import ApplyCost, Kind
from leadline.model.workload import Workload, load_at
from leadline.places.simulated import SimulatedTestbed, parse_truth
from leadline.places.simulated.model import Station, closed
from leadline.places.testbed import RunOptions
from leadline.store.lab import Store


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


CLOSED, OPEN = Workload(users=4), Workload(arrivals="poisson", rate=4.0)
STUDY = """
study: load
question: how far does it go?
workload: {{ ramp_up: 2s, steady: 10s, ramp_down: 1s{workload} }}
factors: {{ {factors} }}
design: {{ replicates: 2, kind: full-factorial, sentinels: null }}
responses: [throughput, mean, cpu_per_transaction]
"""


def study(factors: str, workload: str = "") -> str:
    return STUDY.format(factors=factors, workload=workload)


def test_knobs_are_those_of_the_arrivals_and_the_scenario() -> None:
    names = {knob.name: knob for knob in load_knobs(CLOSED)}
    assert set(names) >= {"load.users", "load.think", "load.session_length"}
    assert not {"load.rate", "load.units"} & set(names)
    assert names["load.think"].kind is Kind.DURATION
    assert names["load.think"].default == 0.25
    assert names["load.session_length"].kind is Kind.INTEGER
    assert all(knob.apply_cost is ApplyCost.RUN for knob in names.values())
    assert "load.rate" in {knob.name for knob in load_knobs(OPEN)}
    assert load_knobs(Workload.model_validate({"generator": "wrk"})) == []


def test_levels_reach_the_drivers_command_line() -> None:
    load = load_at(CLOSED, {"load.users": 9, "load.think": 0.1, "jvm.heap": 5}, load_knobs(CLOSED))
    options = DriverRun(load, "http://localhost", 1, Path("out"), sent_variables(load)).options()
    assert ("--users", "9") in options
    assert ("--var", "think=0.1s") in options
    assert ("--rate", "2.5") in DriverRun(
        load_at(OPEN, {"load.rate": 2.5}, load_knobs(OPEN)), "http://x", 1, Path("out")
    ).options()
    assert load_at(CLOSED, {"jvm.heap": 5}, load_knobs(CLOSED)) is CLOSED


@pytest.mark.parametrize(
    ("name", "load", "told"),
    [
        ("load.rate", CLOSED, "vary load.users"),
        ("load.users", OPEN, "vary load.rate"),
        ("load.thnk", CLOSED, "did you mean load.think?"),
        ("load.units", CLOSED, "workload.load_units"),
        ("load.users", Workload.model_validate({"generator": "wrk"}), "leave workload.generator out"),
    ],
)
def test_what_cannot_be_varied_says_why(name: str, load: Workload, told: str) -> None:
    assert told in why_not(name, load)
    assert not why_not("vm.swappiness", load)


@pytest.mark.parametrize(
    ("factors", "workload", "told"),
    [
        ("load.users: [0, 5]", "", "s.yaml:5: load.users: 0 is below the smallest legal value 1"),
        ("load.rate: [1, 5]", ", users: 3", "load.rate is of open arrivals"),
        ("load.users: [1, 5]", ", users: 3, max_sessions: 4", "load.users: 4 sessions at most are fewer than the 5"),
        ("load.rate: [0.01, 5]", ", arrivals: open", "raise `rate`"),
    ],
)
def test_the_dry_run_refuses_levels_that_the_driver_would(factors: str, workload: str, told: str) -> None:
    truth = parse_truth("truth: { seed: 1 }", "t.yaml")
    file = parse_study(study(factors, workload), "s.yaml")
    with pytest.raises(UsageError, match=r"s\.yaml:5") as refused:
        SimulatedTestbed(truth, Path(), host=[]).plan(file)
    assert told in str(refused.value)


def test_a_simulated_study_follows_the_queueing_law_and_the_drivers_summary_is_read_back(tmp_path: Path) -> None:
    truth = parse_truth("truth: { seed: 1, noise: { trials: 0.1%, seconds: 0.1% } }", "t.yaml")
    bed = SimulatedTestbed(truth, tmp_path, host=[])
    file = parse_study(study("load.users: [2, 40], load.think: [10ms, 100ms]"), "s.yaml")
    assert file.study.workload.users == 2
    result = bed.run(file, bed.plan(file), RunOptions())
    record = Store(tmp_path).load(result.study_id)
    station = Station(2, 0.004, 0.002, 50)
    owner = LoadOwner(file.study.workload)
    with pytest.raises(NotInPlay, match="after its run"):
        owner.read_back("load.users")
    with pytest.raises(UsageError, match="cannot be changed while it runs"):
        owner.apply({"load.users": 8})
    for trial in record.trials:
        levels = trial.planned.treatment.as_dict()
        wanted = closed(station, int(levels["load.users"]), float(levels["load.think"])).throughput
        assert trial.responses["throughput"] == pytest.approx(wanted, rel=0.02)
        assert trial.directory is not None
        owner.begin({"jvm.heap": 1, **levels}, trial.directory)
        assert owner.at(file.study.workload).users == levels["load.users"]
        assert {name: owner.read_back(name) for name in levels} == levels
        with pytest.raises(LookupError, match="does not tell session_length"):
            owner.read_back("load.session_length")
