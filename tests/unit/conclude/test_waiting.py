"""What response times consist of: requests from waits, parts of a response, effects of settings by part."""

import random
from dataclasses import replace

import pytest

from leadline.advice.findings import why
from leadline.conclude.explanation import told_waits
from leadline.conclude.waiting import Served, explain_waits, part_of, requests_of
from leadline.design.profiling import Place
from leadline.model.frames import (
    CODE,
    CONNECTION_WAIT,
    DATABASE_WAIT,
    DELAYED,
    LOCK_WAIT,
    OUTSIDE,
    PAUSED,
    SLEEP,
    STATEMENT_TIME,
    StudyWaits,
)
from leadline.model.naming import plain_level
from leadline.model.plan import Factor, Plan, Role, Treatment
from leadline.model.result import Observation

WORKER = "java.lang.Thread.run;org.apache.tomcat.util.threads.TaskThread.run"
IDLE = f"{WORKER};java.util.concurrent.ThreadPoolExecutor.getTask;java.util.concurrent.locks.LockSupport.park"
CALL = f"{WORKER};shop.Web.post;shop.Orders.buy"
READ = f"{CALL};org.postgresql.jdbc.PgStatement.execute;java.net.Socket.read"
POOL = f"{CALL};com.zaxxer.hikari.HikariDataSource.getConnection;java.util.concurrent.locks.LockSupport.park"
PARK, ENTER, SLEPT, SOCKET = "jdk.ThreadPark", "jdk.JavaMonitorEnter", "jdk.ThreadSleep", "jdk.SocketRead"


@pytest.mark.parametrize(
    ("event", "stack", "part"),
    [
        (PARK, POOL, f"{CONNECTION_WAIT};Orders.buy"),
        (SOCKET, READ, f"{DATABASE_WAIT};Orders.buy"),
        (SOCKET, f"{CALL};com.zaxxer.hikari.HikariDataSource.getConnection;{READ}", f"{DATABASE_WAIT};Orders.buy"),
        (SOCKET, f"{CALL};java.net.Socket.read", "waiting for another service;Orders.buy"),
        (SOCKET, f"{WORKER};org.apache.coyote.http11.Http11Processor.service;sun.nio.ch.Net.read", "idle"),
        (ENTER, CALL, f"{LOCK_WAIT};Orders.buy"),
        (ENTER, WORKER, LOCK_WAIT),
        (PARK, f"{CALL};java.util.concurrent.locks.ReentrantLock.lock", f"{LOCK_WAIT};Orders.buy"),
        (PARK, f"{CALL};java.util.concurrent.locks.ReentrantLock$Sync.lock", f"{LOCK_WAIT};Orders.buy"),
        (SLEPT, f"{CALL};java.lang.Thread.sleep", f"{SLEEP};Orders.buy"),
        (PARK, IDLE, "idle"),
        ("jdk.JavaMonitorWait", WORKER, "idle"),
    ],
)
def test_a_wait_is_told_by_its_stack(event: str, stack: str, part: str) -> None:
    assert part_of(event, stack) == part


def test_a_request_is_what_a_thread_does_between_two_waits_for_work() -> None:
    waits = [
        (PARK, f"1;{IDLE}", 0.0, 10.0),
        (PARK, f"1;{POOL}", 12.0, 20.0),
        (SOCKET, f"1;{READ}", 21.0, 25.0),
        (PARK, f"1;{IDLE}", 30.0, 40.0),
        (PARK, f"1;{IDLE}", 41.0, 50.0),  # nothing was waited for in between
        (PARK, f"2;{IDLE}", 0.0, 100.0),  # a thread that never waits for anything else
        (PARK, f"2;{IDLE}", 101.0, 200.0),
    ]
    (request,) = requests_of(waits, [(5.0, 6.0), (22.0, 24.0), (26.0, 27.0)])
    assert request.ms == 20
    assert request.kind == "Orders.buy"
    assert request.parts == {
        f"{CONNECTION_WAIT};Orders.buy": 8,
        f"{DATABASE_WAIT};Orders.buy": 2,
        PAUSED: 3,
        CODE: 7,
    }
    assert requests_of([]) == []


FACTOR = Factor("pool", (10, 1), 10)
PLAN = Plan("one-at-a-time", 1, (FACTOR,), ())


def _study(blocks: int, more: float, recorded: bool, skipped: int = 0) -> StudyWaits | None:
    """Each block both levels; with one connection ``more`` ms of waiting for it, of two requests in three.

    Of the first ``skipped`` trials nothing is recorded.
    """
    rng = random.Random(3)
    observations, served = [], dict[Place, Served]()
    for trial in range(2 * blocks):
        size, slow = (1, more) if trial % 2 else (10, 0.0)
        waits, at = [], 0.0
        for number in range(900):
            code, wait = rng.uniform(3, 5), (slow if number % 3 else 0.0) * rng.uniform(0.9, 1.1)
            for event, stack, ms in ((PARK, IDLE, 1.0), (PARK, POOL, wait), (SOCKET, READ, 2.0)):
                waits.append((event, f"1;{stack}", at, at + ms))
                at += ms
            at += code
        requests = requests_of([*waits, (PARK, f"1;{IDLE}", at, at + 1)])
        times = sorted(request.ms + 1 for request in requests)
        responses = {
            "throughput": 90.0,
            "mean": sum(times) / len(times),
            "p50": times[450],
            "p99": times[891],
            "application_cpu_per_transaction": 3.0,
            "connection_wait": 2 * slow / 3,
            "driver_wait": 0.5,
        }
        role = Role.TREATMENT if size == 1 else Role.BASELINE
        treatment = Treatment((("pool", size),))
        observations.append(Observation(trial, trial, trial // 2, 0, role, treatment, float(trial), responses))
        if trial >= skipped:
            served[trial, None] = Served(requests, 10.0)
    return explain_waits(PLAN, observations, served if recorded else {}, plain_level)


def test_a_wait_for_a_connection_is_named_with_its_size() -> None:
    waits = _study(4, 30.0, recorded=True)
    assert waits is not None
    by_response = {level.response: level for level in waits.levels}
    assert list(by_response) == ["mean", "p50", "p99"]
    for response, size in (("mean", 20.0), ("p50", 30.0), ("p99", 33.0)):
        effects = by_response[response].effects
        path = next(path for path in effects.paths if path.path == (CONNECTION_WAIT,))
        assert path.named
        assert path.interval is not None
        assert path.change == pytest.approx(size, rel=0.05)
        parts = sum(path.change for path in effects.paths if len(path.path) == 1)
        assert parts + effects.rest == pytest.approx(effects.total.change)
        assert "% waiting for a connection in Orders.buy" in by_response[response].sentence
    code = next(path for path in by_response["mean"].effects.paths if path.path == (CODE,))
    delayed = next(path for path in by_response["mean"].effects.paths if path.path == (DELAYED,))
    assert (code.baseline, delayed.baseline) == pytest.approx((3.0, 1.0), abs=0.1)
    assert not code.named
    (slow,) = [sentence for sentence in waits.slow if sentence.startswith("pool=1: ")]
    assert "of requests that wait in Orders.buy the slowest take" in slow


def test_trials_without_recorded_waits_are_not_held_against_those_with() -> None:
    waits, all_recorded = _study(5, 30.0, recorded=True, skipped=2), _study(4, 30.0, recorded=True)
    assert waits is not None
    assert all_recorded is not None
    for some, every in zip(waits.levels, all_recorded.levels, strict=True):
        assert some.effects.recordings == every.effects.recordings == (4, 4)


def test_without_recorded_waits_the_mean_is_told_by_counters() -> None:
    waits = _study(4, 30.0, recorded=False)
    assert waits is not None
    (level,) = waits.levels
    assert level.response == "mean"
    assert "% waiting for a connection" in level.sentence
    assert "`profile: full`" in waits.notes[0]
    assert OUTSIDE in {path.name for path in level.effects.paths}


def test_without_a_difference_no_part_is_named() -> None:
    waits = _study(4, 0.0, recorded=True)
    assert waits is not None
    assert [level.response for level in waits.levels if level.effects.named] == []


def test_what_tells_of_no_part_is_not_explained() -> None:
    observation = Observation(
        0, 0, 0, 0, Role.BASELINE, Treatment((("pool", 10),)), 0.0, {"throughput": 1.0, "mean": 1.0}
    )
    assert explain_waits(PLAN, [observation, replace(observation, trial=1)], {}, plain_level) is None


ITEMS, ITEM = "SELECT * FROM item LIMIT ?", "SELECT name FROM item WHERE id = ?"


def test_the_statement_that_carries_the_time_is_named_with_its_calls() -> None:
    observations, statements = [], {}
    for trial in range(8):
        size, calls = (1, 20.0) if trial % 2 else (10, 1.0)
        ms = {ITEMS: 2.0 + trial % 3 / 10, ITEM: 0.1 * calls * (1 + trial % 3 / 50)}
        responses = {"throughput": 50.0, "mean": sum(ms.values()) + 5, "statement_time": sum(ms.values())}
        role = Role.TREATMENT if size == 1 else Role.BASELINE
        treatment = Treatment((("pool", size),))
        observations.append(Observation(trial, trial, trial // 2, 0, role, treatment, float(trial), responses))
        if trial < 6:  # the others have no profile
            counts = {ITEMS: 1.0, ITEM: calls}
            statements[trial, None] = {text: (50 * counts[text], 50 * ms[text]) for text in ms}
    waits = explain_waits(PLAN, observations, {}, plain_level, statements)
    assert waits is not None
    by_response = {level.response: level for level in waits.levels}
    assert list(by_response) == [STATEMENT_TIME, "mean"]
    assert by_response["mean"].effects.recordings == (4, 4)
    level = by_response[STATEMENT_TIME]
    assert level.effects.recordings == (3, 3)
    assert level.sentence.startswith("pool=1, time of statements: +")
    assert f"% waiting for the database in {ITEM}." in level.sentence
    assert level.sentence.endswith(f" {ITEM}: 1 → 20 calls per transaction.")
    assert [told.response for told in told_waits(waits)] == ["mean", STATEMENT_TIME]
    (finding, _) = why(waits.levels, {})
    assert finding.remedy == f"EXPLAIN (ANALYZE, BUFFERS) {ITEM}: an index, or fewer of them"
