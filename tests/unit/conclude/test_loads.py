"""The answer of a study that varies its load alone, on simulated servers of known capacity."""

from dataclasses import replace
from pathlib import Path

import pytest

from leadline.checks.files.study import parse_study
from leadline.conclude.loads import of_loads
from leadline.experiments.results import analysis_of
from leadline.model.disturbance import MachineUse
from leadline.model.errors import FailureClass
from leadline.model.naming import plain_level
from leadline.model.record import StudyRecord
from leadline.places.simulated import SimulatedTestbed, parse_truth
from leadline.places.testbed import RunOptions
from leadline.store.lab import Store

TRUTH = """
truth:
  seed: 1
  server: { cores: 2, demand: 3ms, database_demand: 1ms, delay: 2ms, think: 100ms }  # 500 a second, 53 users
"""
STUDY = """
study: loads
question: how far does it go?
workload: {{ ramp_up: 2s, steady: 10s, ramp_down: 1s, users: 20 }}
factors: {{ {factors} }}
design: {{ replicates: 2, kind: full-factorial, sentinels: null }}
responses: [throughput, mean, p90]
"""


def ran(lab: Path, factors: str) -> StudyRecord:
    bed = SimulatedTestbed(parse_truth(TRUTH, "truth.yaml"), lab, host=[])
    file = parse_study(STUDY.format(factors=factors), "s.yaml")
    bed.run(file, bed.plan(file), RunOptions())
    store = Store(lab)
    return store.load(store.find("loads"))


@pytest.fixture(scope="module")
def beyond(tmp_path_factory: pytest.TempPathFactory) -> StudyRecord:
    return ran(tmp_path_factory.mktemp("lab"), "load.users: [5, 10, 20, 40, 80, 160]")


def test_a_load_neither_helps_nor_hurts(beyond: StudyRecord) -> None:
    answer = analysis_of(beyond).answer
    assert answer.startswith("SIMULATED: The system carries 40 users (")
    assert ", not 80 users: there throughput is " in answer
    assert not {"helps", "hurts", "luck"} & set(answer.replace(":", "").split())


def test_nor_does_it_beside_another_factor(tmp_path: Path) -> None:
    record = ran(tmp_path, "load.users: [40, 10], jvm.heap: [256m, 512m]")
    answer = analysis_of(record).answer
    assert "load.users=10 changes throughput −7" in answer
    assert not {"helps", "hurts", "luck"} & set(answer.replace(":", "").split())


def with_responses(record: StudyRecord, **by_load: dict[int, float]) -> StudyRecord:
    """Further responses of its trials, by users."""
    trials = []
    for trial in record.trials:
        users = int(trial.planned.treatment["load.users"])
        more = {name: values[users] for name, values in by_load.items()}
        trials.append(replace(trial, responses={**trial.responses, **more}))
    return replace(record, trials=tuple(trials))


def test_limits_and_what_gave_out_first(beyond: StudyRecord) -> None:
    uses = {5: 0.1, 10: 0.1, 20: 0.2, 40: 0.5, 80: 2.5, 160: 9.0}
    busy = {5: 0.1, 10: 0.2, 20: 0.4, 40: 0.7, 80: 0.99, 160: 1.0}
    told = of_loads(with_responses(beyond, limit_use=uses, host_cpu=busy), plain_level)
    assert (
        told[1] == "The limits are kept to 40 users; at 80 users 0 of 2 trials did, the worst used 2.5 times its limit"
    )
    assert told[2].startswith(
        "The CPUs gave out first: 99 % busy at 80 users, of a transaction server 3.0 ms, database "
    )
    idle = dict.fromkeys(busy, 0.3)
    told = of_loads(with_responses(beyond, limit_use=dict.fromkeys(uses, 0.5), host_cpu=idle), plain_level)
    assert told[1] == "All loads kept the limits"
    assert told[2].startswith("The CPUs did not give out: 30 % busy at 80 users, ")
    broken = of_loads(with_responses(beyond, limit_use=dict.fromkeys(uses, 1.5)), plain_level)
    assert broken[0].startswith("No load keeps all limits; at 5 users 0 of 2 trials did")


def test_what_gave_out_is_looked_for_where_no_trial_kept_up(beyond: StudyRecord) -> None:
    """One trial of a load broke its limits and its twin, half idle, did not: their mean says nothing."""
    uses = {5: 0.1, 10: 0.1, 20: 0.2, 40: 0.5, 80: 2.5, 160: 9.0}
    busy = {5: 0.1, 10: 0.2, 20: 0.4, 40: 0.6, 80: 0.99, 160: 1.0}
    record = with_responses(beyond, limit_use=uses, host_cpu=busy)
    worse = [
        replace(trial, responses={**trial.responses, "limit_use": 3.0, "host_cpu": 0.98})
        if (trial.planned.treatment["load.users"], trial.planned.replicate) == (40, 0)
        else trial
        for trial in record.trials
    ]
    told = of_loads(replace(record, trials=tuple(worse)), plain_level)
    assert told[0].startswith("The limits are kept to 20 users; at 40 users 1 of 2 trials did")
    assert told[2].startswith("The CPUs gave out first: 99 % busy at 80 users, ")
    lighter = [one for one in worse if int(one.planned.treatment["load.users"]) <= 40]
    told = of_loads(replace(record, trials=tuple(lighter)), plain_level)
    assert told[2].startswith("The CPUs gave out first: 98 % busy at 40 users, ")


def with_failures(record: StudyRecord, **which: set[int]) -> StudyRecord:
    """Trials of these ``users`` and ``replicates`` failed."""
    trials = [
        replace(trial, failure=FailureClass.WORKLOAD, responses={})
        if trial.planned.treatment["load.users"] in which["users"] and trial.planned.replicate in which["replicates"]
        else trial
        for trial in record.trials
    ]
    return replace(record, trials=tuple(trials))


def test_a_load_that_always_fails_is_an_end(beyond: StudyRecord) -> None:
    (told, *_) = of_loads(with_failures(beyond, users={40, 80, 160}, replicates={0, 1}), plain_level)
    assert told.startswith("The system carries 20 users (")
    assert told.endswith(", not 40 users: there 2 of 2 trials failed")
    (told, *_) = of_loads(with_failures(beyond, users={5}, replicates={0, 1}), plain_level)
    assert told == "5 users are too many: 2 of 2 trials failed at this lightest load"


def test_cpus_that_others_took_are_not_what_gave_out(beyond: StudyRecord) -> None:
    busy = with_responses(beyond, host_cpu=dict.fromkeys((5, 10, 20, 40, 80, 160), 1.0))
    taken = MachineUse({"others_cpu": 0.6})
    told = of_loads(replace(busy, trials=tuple(replace(one, machine=taken) for one in busy.trials)), plain_level)
    assert told[-1].startswith(
        "What gave out first cannot be told: the CPUs were 100 % busy at 80 users, of a transaction "
    )
    assert told[-1].endswith(", but other programs took 60 %")


def test_failed_trials_are_no_throughput(beyond: StudyRecord) -> None:
    (told, *_) = of_loads(with_failures(beyond, users={20}, replicates={1}), plain_level)
    assert told.startswith("The system carries 10 users (")
    assert told.endswith(" of what that asks, and 1 of 2 trials failed")


@pytest.mark.parametrize(
    "factors",
    [
        "load.think: [20ms, 50ms, 100ms]",
        "load.users: [5, 10]",
        "load.users: [5, 10, 20], jvm.heap: [256m, 512m]",
        "jvm.heap: [256m, 512m, 1g]",
    ],
)
def test_other_studies_have_no_such_answer(tmp_path: Path, factors: str) -> None:
    assert of_loads(ran(tmp_path, factors), plain_level) == []


def test_where_its_end_was_not_reached(tmp_path: Path) -> None:
    (told, *_) = of_loads(ran(tmp_path, "load.users: [2, 4, 8]"), plain_level)
    assert told.startswith("The system carries 8 users (")
    assert told.endswith(": that is the heaviest load tried, and its end was not reached")
