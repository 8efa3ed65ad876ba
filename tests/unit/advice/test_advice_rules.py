"""Rules of advice on trials whose truth is planted: what is there is found, what is not there is not."""

from dataclasses import replace
from typing import Any

import pytest

from leadline.advice import TrialFacts, advise
from leadline.advice.facts import Collection, HostUse, Load, Pool, Statements, StudyLimits, Threads, number, round_up
from leadline.advice.findings import LAYERS, RULES, Finding, written
from leadline.model.knob import ApplyCost, Kind, Knob

MIB = 1 << 20
GIB = 1 << 30

HEALTHY = TrialFacts(
    trial=1,
    treatment="baseline",
    samples=60,
    levels={
        "server.datasource.statement_cache": 60,
        "server.datasource.max_connections": 50,
        "server.datasource.min_connections": 0,
        "server.threads.max": 50,
        "server.http.max_keep_alive_requests": 100,
        "jvm.heap": 512 * MIB,
        "database.max_connections": 100,
        "database.shared_buffers": 128 * MIB,
        "database.work_mem": 4 * MIB,
        "database.max_wal_size": GIB,
        "database.tmp_table_size": 16 * MIB,
        "vm.swappiness": 60,
        "vm.min_free_kbytes": 67584,
        "vm.dirty_background_ratio": 10,
    },
    # as study B found it after tuning: 18 of 50 threads busy, nobody waits
    pools=(Pool("jdbc/brokerage", 50, 9.0, 22, 0.0, 0.0, 0, 0.0, 0.0, 400.0),),
    threads=(Threads("http", 18.0, 29, 50.0, 50.0, 0.0, 0.0),),
    statements=(Statements("jdbc/brokerage", 900.0, 0.0, 0.0, 600.0),),
    collection=Collection("G1", 60.0, 0.004, 60, 4.0, 11.0, 1.0, 0, 0, 0.0, 512 * MIB, 60 * MIB, "none", "", 9.0, 8.0),
    host=HostUse(0.4, 0.01, 0.0, 0.0, 0.0, 0.0, 0.02, 4.0 * GIB, 8.0 * GIB, others=0.02),
    load=Load(19.0, 400.0, 480.0, 0.005, 0.0, 0.02, 0.05, False, "", 0.2, 0),
    database={"blks_read": 15.0, "blks_hit": 7600.0, "temp_bytes": 0.0, "checkpoints": 0.0, "deadlocks": 0.0},
    limits=StudyLimits(0.001, 2.0, 3.0),
)


def with_(**changes: Any) -> TrialFacts:
    """The healthy trial with parts replaced; ``levels`` are merged."""
    if "levels" in changes:
        changes["levels"] = {**HEALTHY.levels, **changes["levels"]}
    return replace(HEALTHY, **changes)


def only(trial: TrialFacts) -> Finding:
    """The one finding of a trial."""
    found = advise([trial])
    assert [one.name for one in found] == [found[0].name], found
    return found[0]


def pool(**changes: Any) -> tuple[Pool, ...]:
    return (replace(HEALTHY.pools[0], **changes),)


def collection(**changes: Any) -> Collection:
    assert HEALTHY.collection is not None
    return replace(HEALTHY.collection, **changes)


def test_a_healthy_run_has_no_finding() -> None:
    assert advise([HEALTHY, replace(HEALTHY, trial=2)]) == []


def test_nothing_recorded_is_no_finding() -> None:
    assert advise([TrialFacts(1, "baseline", 0)]) == []
    assert advise([]) == []


def test_every_rule_looks_at_the_healthy_trial() -> None:
    looked = {look.rule for rule in RULES for look in rule.judge(HEALTHY)}
    # a server either has a largest number of threads or starts them by its own choice; the database is PostgreSQL
    assert {rule.name for rule in RULES} - looked == {"server.executor", "database.tables"}
    assert {rule.layer for rule in RULES} == set(LAYERS)


@pytest.mark.parametrize(
    ("size", "workers"),
    [
        ("app.spring.datasource.hikari.maximum-pool-size", "app.server.tomcat.threads.max"),
        ("app.quarkus.datasource.jdbc.max-size", "app.quarkus.thread-pool.max-threads"),
    ],
)
def test_a_pool_of_an_application_of_one_s_own_has_the_name_of_its_framework(size: str, workers: str) -> None:
    others = {name: level for name, level in HEALTHY.levels.items() if not name.startswith("server.")}
    starved = pool(limit=1, in_use_mean=1, in_use_max=1, full_share=1.0, waiting_mean=14, wait_ms=None)
    one = only(replace(HEALTHY, pools=starved, statements=(), levels={**others, size: 1, workers: 12}))
    assert (one.knob, one.now, one.then) == (size, 1, 12)
    assert "no more than the 12 threads" in one.reason


def test_study_b_s_pool_of_ten() -> None:
    """All 10 in use, 33 wait 8.25 ms: the published trial, whose next level was 70 with 50 threads."""
    one = only(
        with_(pools=pool(limit=10, in_use_mean=10, in_use_max=10, full_share=1.0, waiting_mean=33, wait_ms=8.25))
    )
    assert (one.layer, one.knob, one.now, one.then) == ("server", "server.datasource.max_connections", 10, 50)
    assert one.says == "all 10 connections were in use in 100 % of the samples and 33 callers waited 8.25 ms on average"
    assert "10 in use and 33 waiting want 43 at once" in one.reason
    assert {figure.name: figure.median for figure in one.evidence} == {
        "in use": 10,
        "full": 100,
        "waiting": 33,
        "wait": 8.25,
    }


def test_a_pool_of_one() -> None:
    starved = pool(limit=1, in_use_mean=1, in_use_max=1, full_share=0.98, waiting_mean=5.2, wait_ms=None)
    one = only(with_(pools=starved))
    assert one.then == 7
    assert one.says.startswith("the only connection was in use in 98 %")


def test_a_full_pool_without_waiters_is_no_finding() -> None:
    assert advise([with_(pools=pool(limit=10, full_share=1.0, waiting_mean=0.1))]) == []
    assert advise([with_(pools=pool(limit=10, full_share=0.1, waiting_mean=3.0))]) == []
    assert advise([with_(pools=pool(limit=10, full_share=1.0, waiting_mean=None))]) == []


def test_a_pool_grows_no_further_than_threads_and_database_allow() -> None:
    starved = pool(limit=40, in_use_mean=40, full_share=1.0, waiting_mean=100.0)
    one = only(with_(pools=starved, levels={"server.threads.max": 60}))
    assert one.then == 60
    assert "60 threads" in one.reason
    one = only(with_(pools=starved, levels={"server.threads.max": 500}))
    assert one.then == 95
    assert "the database allows 100" in one.reason
    one = only(with_(pools=starved, levels={"server.threads.max": 40}))
    assert one.then is None
    assert not one.testable
    assert one.remedy.startswith("the pool cannot grow")


def test_a_busy_host_is_told_beside_the_pool() -> None:
    starved = pool(limit=10, full_share=1.0, waiting_mean=5)
    host = replace(HEALTHY.host, idle=0.02)
    assert "only 2 % of the CPUs were idle" in only(with_(pools=starved, host=host)).reason


def test_threads_exhausted() -> None:
    one = only(with_(threads=(Threads("http", 50, 50, 50, 50, 0.97, 30.0),)))
    assert (one.rule, one.knob, one.now, one.then) == ("server.threads", "server.threads.max", 50, 80)


def test_an_executor_that_starts_threads_too_late() -> None:
    executor = Threads("Default Executor", 4.0, 4, 4.0, None, 0.95, None)
    load = replace(HEALTHY.load, in_flight_mean=38.0)
    one = only(with_(threads=(executor,), load=load))
    assert (one.rule, one.knob, one.now, one.start, one.then) == ("server.executor", "server.threads.min", None, 4, 40)
    assert one.testable
    busy = replace(HEALTHY.host, idle=0.03)
    assert advise([with_(threads=(executor,), load=load, host=busy)]) == [], "more threads do not make CPU"


def test_discarded_statements() -> None:
    one = only(
        with_(
            statements=(Statements("jdbc/brokerage", 900.0, 220.0, 200.0, 100.0),),
            levels={"server.datasource.statement_cache": 10},
        )
    )
    assert (one.knob, one.now, one.then) == ("server.datasource.statement_cache", 10, 40)
    assert "22.2 % of 900 uses" in one.says


def test_a_few_discards_are_no_finding() -> None:
    assert advise([with_(statements=(Statements("p", 900.0, 4.0, 4.0, 100.0),))]) == []


def test_no_statement_cache() -> None:
    one = only(with_(statements=(), levels={"server.datasource.statement_cache": 0}))
    assert (one.rule, one.now, one.then) == ("server.statements", 0, 60)


def test_connections_opened_again_and_again() -> None:
    one = only(with_(pools=pool(created_per_s=40.0)))
    assert (one.rule, one.knob, one.then) == ("server.churn", "server.datasource.min_connections", 25)


def test_kept_connections_that_end_early() -> None:
    one = only(with_(load=replace(HEALTHY.load, connects=0.2), levels={"server.http.max_keep_alive_requests": 5}))
    assert (one.rule, one.now, one.then) == ("server.keep-alive", 5, -1)
    # so many connections cannot come of a limit of 100
    assert advise([with_(load=replace(HEALTHY.load, connects=0.2))]) == []


def test_a_heap_too_small_and_what_a_larger_one_would_give() -> None:
    # 64 MiB, 24 live: 40 MiB are allocated in 0.2 s between pauses of 20 ms
    small = collection(share=0.09, pauses=270, mean_ms=20.0, interval_s=0.2, heap_max=64 * MIB, live=24 * MIB)
    one = only(with_(collection=small, levels={"jvm.heap": 64 * MIB}))
    # twice: (128 - 24) / 40 x 0.2 s = 0.52 s, 3.7 %; four times: 1.16 s, 1.7 %
    assert (one.knob, one.now, one.then) == ("jvm.heap", 64 * MIB, 256 * MIB)
    assert "about 1.16 s" in one.reason
    assert "1.69 %" in one.reason
    assert written(one.then, None, "jvm.heap") == "256m"


def test_a_heap_is_no_larger_than_memory_allows() -> None:
    small = collection(share=0.09, pauses=270, mean_ms=20.0, interval_s=0.2, heap_max=64 * MIB, live=24 * MIB)
    tight = replace(HEALTHY.host, memory_available=130.0 * MIB)
    assert only(with_(collection=small, host=tight, levels={"jvm.heap": 64 * MIB})).then == 128 * MIB
    none = replace(HEALTHY.host, memory_available=64.0 * MIB)
    one = only(with_(collection=small, host=none, levels={"jvm.heap": 64 * MIB}))
    assert one.then is None
    assert "does not fit" in one.remedy


@pytest.mark.parametrize(
    "changes", [{"stall_share": 0.4}, {"degenerated": 3}, {"full": 2, "collector": "Z"}, {"full": 2}]
)
def test_collections_of_last_resort_and_stalls_are_a_small_heap(changes: dict[str, Any]) -> None:
    assert only(with_(collection=collection(**changes))).rule == "jvm.heap"


def test_full_collections_of_the_serial_collector_are_usual() -> None:
    assert advise([with_(collection=collection(collector="Serial", full=5))]) == []


def test_long_pauses_that_are_seen_in_the_latency() -> None:
    long = collection(collector="Parallel", max_ms=420.0, p99_with_ms=400.0, p99_without_ms=20.0)
    one = only(with_(collection=long))
    assert (one.rule, one.now, one.then) == ("jvm.pauses", "parallel", "g1")
    shown_nowhere = replace(long, p99_with_ms=21.0)
    assert advise([with_(collection=shown_nowhere)]) == []


def test_a_leak_is_the_application_s() -> None:
    one = only(with_(collection=collection(leak="leak", leak_sentence="the live set grows by 9 MiB/h")))
    assert (one.layer, one.knob, one.says) == ("application", None, "the live set grows by 9 MiB/h")
    assert not one.testable


@pytest.mark.parametrize(
    ("host", "rule", "then"),
    [
        ({"swapped_per_s": 900.0}, "kernel.swap", 1),
        ({"direct_reclaims_per_s": 20.0}, "kernel.reclaim", 135168),
        ({"io_stalled": 0.6, "iowait": 0.3}, "kernel.storage", 5),
        ({"listen_overflows_per_s": 3.0}, "kernel.backlog", None),
        ({"steal": 0.2}, "kernel.steal", None),
    ],
)
def test_the_kernel_s_signs(host: dict[str, float], rule: str, then: int | None) -> None:
    one = only(with_(host=replace(HEALTHY.host, **host)))
    assert (one.layer, one.rule, one.then) == ("kernel", rule, then)
    assert one.reason or one.remedy


@pytest.mark.parametrize(
    ("counters", "rule", "then"),
    [
        ({"blks_read": 4000.0}, "database.cache", 256 * MIB),
        ({"temp_bytes": 30.0 * MIB}, "database.spills", 16 * MIB),
        ({"checkpoints": 0.2}, "database.checkpoints", 4 * GIB),
        ({"deadlocks": 2.0}, "database.deadlocks", None),
        ({"Created_tmp_disk_tables": 9.0}, "database.tables", 64 * MIB),
    ],
)
def test_the_database_s_signs(counters: dict[str, float], rule: str, then: int | None) -> None:
    one = only(with_(database={**HEALTHY.database, **counters}))
    assert (one.layer, one.rule, one.then) == ("database", rule, then)


def test_innodb_counts_misses_among_its_requests() -> None:
    counters = {"Innodb_buffer_pool_reads": 500.0, "Innodb_buffer_pool_read_requests": 1000.0}
    one = only(with_(database=counters))
    assert one.knob == "database.innodb_buffer_pool_size"
    assert next(figure.median for figure in one.evidence if figure.name == "missed") == pytest.approx(50)


def test_the_driver_and_the_answers() -> None:
    limited = replace(HEALTHY.load, limit=True, evidence="the loop used 98 % of a core", cpu_share=0.98)
    one = only(with_(load=limited))
    assert one.layer == "driver"
    assert "98 % of a core" in one.says
    assert only(with_(load=replace(HEALTHY.load, errors=0.02))).rule == "application.errors"
    assert only(with_(load=replace(HEALTHY.load, p99_s=3.4))).subject == "p99"


def test_a_finding_needs_more_than_half_of_the_trials_that_could_show_it() -> None:
    starved = with_(pools=pool(limit=50, full_share=1.0, waiting_mean=9.0), levels={"server.threads.max": 200})
    trials = [replace(starved, trial=1), replace(HEALTHY, trial=2), replace(HEALTHY, trial=3)]
    assert advise(trials) == []
    (one,) = advise([*trials, replace(starved, trial=4), replace(starved, trial=5)])
    assert (one.seen, one.trials) == (3, 5)


def test_trials_are_grouped_by_the_level_they_had() -> None:
    starved = with_(pools=pool(limit=1, full_share=1.0, waiting_mean=9.0), treatment="pool = 1")
    trials = [replace(HEALTHY, trial=number) for number in range(10)] + [replace(starved, trial=10)]
    (one,) = advise(trials)
    assert (one.now, one.seen, one.trials, one.treatments) == (1, 1, 1, ("pool = 1",))


def test_the_trial_in_the_middle_speaks_and_the_range_is_told() -> None:
    trials = [
        replace(with_(pools=pool(limit=10, full_share=1.0, waiting_mean=waiting)), trial=place)
        for place, waiting in enumerate((30.0, 6.0, 9.0))
    ]
    (one,) = advise(trials)
    assert one.example == 2
    waiting = next(figure for figure in one.evidence if figure.name == "waiting")
    assert (waiting.median, waiting.low, waiting.high) == (9.0, 6.0, 30.0)


def test_a_knob_that_the_stack_lacks_is_not_suggested() -> None:
    starved = with_(pools=pool(limit=10, full_share=1.0, waiting_mean=9.0))
    (one,) = advise([starved], knobs={})
    assert one.knob is None
    assert "which this stack does not have" in one.remedy
    small = Knob("server.datasource.max_connections", Kind.INTEGER, ApplyCost.RESTART, "a pool", maximum=15, minimum=1)
    (one,) = advise([starved], knobs={small.name: small})
    assert one.then == 15
    assert "largest legal" in one.reason


def test_findings_come_by_layer() -> None:
    everything = with_(
        pools=pool(limit=10, full_share=1.0, waiting_mean=9.0),
        host=replace(HEALTHY.host, swapped_per_s=90.0),
        collection=collection(share=0.2, leak="leak", leak_sentence="grows"),
        database={**HEALTHY.database, "deadlocks": 3.0},
        load=replace(HEALTHY.load, limit=True),
    )
    found = advise([everything])
    assert [one.layer for one in found] == list(LAYERS)


@pytest.mark.parametrize(
    ("value", "expected"), [(0.2, 1), (6.2, 7), (10, 10), (10.1, 12), (43, 50), (120, 120), (121, 150), (999, 1000)]
)
def test_levels_are_numbers_that_people_write(value: float, expected: int) -> None:
    assert round_up(value) == expected


def test_numbers() -> None:
    assert [number(one) for one in (0.0, 8.25, 33.333, 1234567.0, -3.0)] == [
        "0",
        "8.25",
        "33.3",
        "1,234,567",
        "\u22123",
    ]
