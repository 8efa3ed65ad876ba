"""Advice on a real server with planted faults: a heap that is too small, a statement cache that is too small."""

import subprocess
from pathlib import Path

import pytest
import server_cells

from leadline.advice import Finding
from leadline.host.local import LocalHost
from leadline.load.driver import DriverRun
from leadline.load.result import read_summary
from leadline.model.plan import Factor, Plan, PlannedTrial, Role, Treatment
from leadline.model.record import Phases, StudyRecord, TrialRecord
from leadline.model.study import Study
from leadline.model.workload import Workload
from leadline.observe.base import ObserverContext
from leadline.observe.pools import PoolsObserver
from leadline.report.advising import Advice, advice

pytestmark = pytest.mark.stack

MIB = 1 << 20
HEAP = 16 * MIB  # the application keeps 10 to 12
LOAD = Workload(users=8, ramp_up=2.0, steady=6.0, ramp_down=0.2)
LEVELS = {
    "jvm.heap": HEAP,
    "jvm.collector": "g1",
    "server.datasource.statement_cache": 2,
    "server.datasource.max_connections": 30,
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Advice:
    """The advice on one short trial of Tomcat."""
    place = tmp_path_factory.mktemp("advise")
    made = server_cells.stack(place, "tomcat", "direct")
    trial = place / "trial"
    observer = PoolsObserver(LocalHost())
    try:
        made.up(LEVELS, trial)
        observer.start(ObserverContext(trial, made.processes(), interval=0.25))
        run = DriverRun(LOAD, made.url(), 1, trial / "driver", {"units": 1, "think": "1ms"})
        subprocess.run(run.argv(), stdout=subprocess.DEVNULL, check=True, timeout=60)
        observer.stop()
        assert observer.collect() is not None
        knobs = {knob.name: knob for knob in made.server.knobs()}
    finally:
        made.down()
    return advice(_record(place), knobs)


def _record(place: Path) -> StudyRecord:
    summary = read_summary(place / "trial" / "driver")
    started = summary.started_unix_ns / 1e9
    begin, end = summary.phases.steady
    phases = Phases(started, started + begin, started + end, started + summary.phases.drained)
    heap = Factor("jvm.heap", (HEAP, 8 * HEAP), HEAP)
    planned = PlannedTrial(0, 0, 0, Role.BASELINE, Treatment.of({"jvm.heap": HEAP}), 1)
    study = Study.model_validate(
        {
            "study": "planted",
            "question": "?",
            "stack": {"server": "tomcat"},
            "factors": {"jvm.heap": [HEAP, 8 * HEAP]},
            "settings": {name: level for name, level in LEVELS.items() if name != "jvm.heap"},
        }
    )
    plan = Plan("one-at-a-time", 1, (heap,), (planned,))
    trial = TrialRecord(1, planned, "done", 1, started, started + 10, phases=phases, directory=place / "trial")
    return StudyRecord(1, study, "", plan, started, {}, (trial,))


def finding(found: Advice, name: str) -> Finding:
    return next(one for one in found.findings if one.name == name)


def test_the_small_heap_is_found_with_a_larger_one_to_try(found: Advice) -> None:
    one = finding(found, "jvm.heap")
    assert (one.layer, one.knob, one.now) == ("jvm", "jvm.heap", HEAP)
    figures = {each.name: each.median for each in one.evidence}
    print(one.says, one.reason)
    assert figures["in pauses"] > 5
    assert one.then in (2 * HEAP, 4 * HEAP, 8 * HEAP)


def test_the_small_statement_cache_is_found_by_its_discards(found: Advice) -> None:
    one = finding(found, "server.statements")
    print(one.says)
    assert (one.now, one.then) == (2, 8)
    assert {each.name for each in one.evidence} == {"discarded", "used"}


def test_what_was_not_planted_is_not_found(found: Advice) -> None:
    rules = {one.rule for one in found.findings}
    assert not rules & {"server.pool", "server.threads", "server.churn", "server.keep-alive", "application.leak"}
