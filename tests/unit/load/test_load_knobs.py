"""The load as a factor: which knobs a workload has, what a trial's driver is given, what it says it did."""

from pathlib import Path

import pytest

from leadline.checks.files.study import parse_study
from leadline.load.driver import DriverRun
from leadline.load.knobs import LoadOwner, load_knobs, why_not
from leadline.load.scenario import sent_variables
from leadline.model.errors import NotInPlay, UsageError
from leadline.model.knob import ApplyCost, Kind
from leadline.model.workload import Workload, load_at
from leadline.places.simulated import SimulatedTestbed, parse_truth
from leadline.places.simulated.model import Station, closed
from leadline.places.testbed import RunOptions
from leadline.store.lab import Store

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
