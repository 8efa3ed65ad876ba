"""What shows that a knob of PostgreSQL is at work: one figure of the running server under each of two levels.

``RELOADED``: levels a reload brings into force; ``RESTARTED``: two sets of levels, each for one start. Every witness
counts, none looks at the clock.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from witnesses import Witness, wait_for

from leadline.stack import postgres as client
from leadline.stack.postgres import Postgres

KB, MB = 1024, 1024**2
Measure = Callable[[Postgres], Any]


def run(database: Postgres, *statements: str) -> Any:
    """The last one's rows, all in one session."""
    with client.connect(database.endpoint(), timeout=60) as connection:
        return [connection.run(statement) for statement in statements][-1]


def explained(database: Postgres, options: str, statement: str, *before: str) -> dict[str, Any]:
    [[rows]] = run(database, *before, f"EXPLAIN ({options}, FORMAT JSON) {statement}")
    plan: dict[str, Any] = (json.loads(rows) if isinstance(rows, str) else rows)[0]["Plan"]
    return plan


def commits_flushed(database: Postgres) -> int:
    """Flushes of the log by sessions over 10 commits."""
    asked = (
        "SELECT coalesce(sum(fsyncs), 0)::int FROM pg_stat_io WHERE object = 'wal' AND backend_type = 'client backend'"
    )

    def flushed() -> int:
        return int(run(database, asked)[0][0])

    run(database, "CHECKPOINT", "SELECT pg_stat_force_next_flush()", "SELECT 1")
    before = flushed()
    updates = ["UPDATE account SET balance = balance + 1 WHERE id = 1"] * 10
    run(database, *updates, "SELECT pg_stat_force_next_flush()", "SELECT 1")
    return flushed() - before


def page_images(database: Postgres) -> int:
    plan = explained(database, "ANALYZE, WAL", "UPDATE account SET balance = 1 WHERE id <= 5000", "CHECKPOINT")
    return int(plan.get("WAL FPI", 0))


def log_bytes(database: Postgres) -> int:
    """Of a change of one row in every page of a table of equal letters, so that page images are nearly all of it."""
    made = "CREATE TABLE IF NOT EXISTS even AS SELECT g AS id, repeat('x', 1000) AS text FROM generate_series(1, 700) g"
    change = "UPDATE even SET id = id WHERE id % 14 = 0"
    plan = explained(database, "ANALYZE, WAL", change, made, "CHECKPOINT")
    return int(plan["WAL Bytes"])


def sleeps_at_commit(database: Postgres) -> bool:
    """Whether a session was seen in a sleep of its own, not of the disk, during 10 commits."""
    sleeps = {"x86_64": ("35", "230"), "aarch64": ("101", "115")}[os.uname().machine]  # nanosleep, clock_nanosleep
    with client.connect(database.endpoint(), timeout=60) as connection:
        [[pid]] = connection.run("SELECT pg_backend_pid()")

        def commits() -> None:
            for _ in range(10):
                connection.run("UPDATE account SET balance = balance + 1 WHERE id = 1")

        seen = False
        thread = threading.Thread(target=commits)
        thread.start()
        while thread.is_alive():
            seen |= Path(f"/proc/{pid}/syscall").read_text().split()[0] in sleeps
            time.sleep(0.002)
        return seen


def log_waited_for_room(database: Postgres) -> int:
    asked = "SELECT wal_buffers_full FROM pg_stat_wal"
    before = int(run(database, asked)[0][0])
    message = f"SELECT pg_logical_emit_message(true, 'leadline', repeat('x', {512 * KB}))"
    run(database, message, "SELECT pg_stat_force_next_flush()", "SELECT 1")
    return int(run(database, asked)[0][0]) - before


def switched(database: Postgres, segments: int) -> None:
    for _ in range(segments):
        run(database, "SELECT pg_logical_emit_message(true, 'leadline', 'x')", "SELECT pg_switch_wal()")


def checkpoints_asked_for(segments: int) -> Measure:
    """Checkpoints because of the log's length, over so many segments of 16 MiB from a checkpoint on."""

    def asked(database: Postgres) -> int:
        return int(run(database, "SELECT num_requested FROM pg_stat_checkpointer")[0][0])

    def measure(database: Postgres) -> int:
        run(database, "CHECKPOINT")
        before = asked(database)
        switched(database, segments)
        run(database, "CHECKPOINT")  # ends after one that the log asked for
        return asked(database) - before - 1

    return measure


def timed_checkpoint(database: Postgres) -> int:
    """Checkpoints by the clock within 40 s."""
    asked = "SELECT num_timed FROM pg_stat_checkpointer"
    before = int(run(database, asked)[0][0])
    run(database, "SELECT pg_logical_emit_message(true, 'leadline', 'x')")
    wait_for(lambda: int(run(database, asked)[0][0]) > before, 40)
    return int(run(database, asked)[0][0]) - before


def log_files(database: Postgres) -> int:
    """Files of the log left of a dozen, after thirty checkpoints a segment apart: the running average of what is
    written between two, which keeps files as well, is low again by then.
    """
    switched(database, 12)
    for _ in range(30):
        switched(database, 1)
        run(database, "CHECKPOINT")
    return int(run(database, "SELECT count(*) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'")[0][0])


def sort_on_disk(database: Postgres) -> bool:
    return (
        str(explained(database, "ANALYZE", "SELECT * FROM account ORDER BY balance, id")["Sort Space Type"]) == "Disk"
    )


def index_spilled(database: Postgres) -> int:
    asked = "SELECT temp_files FROM pg_stat_database WHERE datname = current_database()"
    before = int(run(database, asked)[0][0])
    made = "CREATE INDEX by_balance ON account (balance, id)"
    run(database, made, "DROP INDEX by_balance", "SELECT pg_stat_force_next_flush()", "SELECT 1")
    return int(run(database, asked)[0][0]) - before


def index_cost(database: Postgres) -> float:
    """What the planner thinks of reading the table in the order of an index that scatters it."""
    asked = "SELECT * FROM scattered WHERE text > '8' ORDER BY text"
    plan = explained(
        database,
        "COSTS",
        asked,
        "CREATE TABLE IF NOT EXISTS scattered AS SELECT md5(g::text) AS text FROM generate_series(1, 5000) g",
        "CREATE INDEX IF NOT EXISTS by_text ON scattered (text)",
        "ANALYZE scattered",
        "SET enable_seqscan = off",
        "SET enable_sort = off",
        "SET enable_bitmapscan = off",
    )
    assert plan["Node Type"].startswith("Index")
    return float(plan["Total Cost"])


def workers(database: Postgres) -> int:
    plan = explained(
        database,
        "ANALYZE",
        "SELECT count(*) FROM account",
        "SET parallel_setup_cost = 0",
        "SET parallel_tuple_cost = 0",
        "SET min_parallel_table_scan_size = 0",
    )
    nodes = [plan]
    while nodes:
        node = nodes.pop()
        if "Workers Launched" in node:
            return int(node["Workers Launched"])
        nodes += node.get("Plans", [])
    return 0


def processes(kind: str) -> Measure:
    asked = f"SELECT count(*) FROM pg_stat_activity WHERE backend_type = '{kind}'"

    def measure(database: Postgres) -> int:
        return int(run(database, asked)[0][0])

    return measure


def sees_others_commits(database: Postgres) -> bool:
    endpoint = database.endpoint()
    with client.connect(endpoint) as one, client.connect(endpoint) as other:
        one.run("BEGIN")
        before: Any = one.run("SELECT balance FROM account WHERE id = 7")
        other.run("UPDATE account SET balance = balance + 1 WHERE id = 7")
        return bool(one.run("SELECT balance FROM account WHERE id = 7") != before)


def end_of_a_deadlock(database: Postgres) -> str:
    """What ends two sessions that wait for each other and for locks no longer than 0.3 s: the server's code."""
    endpoint = database.endpoint()
    codes: list[str] = []

    def second(connection: Any, row: int) -> None:
        try:
            connection.run(f"UPDATE account SET balance = 1 WHERE id = {row}")
        except Exception as error:  # pg8000's
            codes.append(str(error.args[0]["C"]))
            connection.run("ROLLBACK")

    with client.connect(endpoint, timeout=60) as one, client.connect(endpoint, timeout=60) as other:
        for connection, row in ((one, 1), (other, 2)):
            connection.run("SET lock_timeout = '0.3s'")
            connection.run("BEGIN")
            connection.run(f"UPDATE account SET balance = 1 WHERE id = {row}")
        thread = threading.Thread(target=second, args=(one, 2))
        thread.start()
        second(other, 1)
        thread.join(30)
    return sorted(codes)[0]


def time_is_taken(database: Postgres) -> bool:
    return "Shared I/O Read Time" in explained(database, "ANALYZE, BUFFERS", "SELECT count(*) FROM account")


def pages_cleaned(database: Postgres) -> int:
    """Pages the background writer wrote while a table larger than the cache was changed over and over."""
    asked = "SELECT buffers_clean FROM pg_stat_bgwriter"
    before = int(run(database, asked)[0][0])

    def cleaned() -> bool:
        run(database, "UPDATE account SET balance = balance + 1 WHERE id % 100 = 0")
        return int(run(database, asked)[0][0]) > before

    off = database.read_back("database.bgwriter_lru_maxpages") == 0
    if off:
        for _ in range(3):
            cleaned()
    else:
        wait_for(cleaned)
    run(database, "VACUUM account")
    return int(run(database, asked)[0][0]) - before


def vacuumed_soon(database: Postgres) -> bool:
    run(
        database,
        "CREATE TABLE IF NOT EXISTS stale AS SELECT 1 AS id FROM generate_series(1, 2000)",
        "DELETE FROM stale",
    )
    asked = "SELECT autovacuum_count FROM pg_stat_user_tables WHERE relname = 'stale'"
    return wait_for(lambda: int(run(database, asked)[0][0]) > 0)


def reads_of_the_second_scan(database: Postgres) -> int:
    scan = "SELECT count(*) FROM account"
    return int(explained(database, "ANALYZE, BUFFERS", scan, scan)["Shared Read Blocks"])


@contextmanager
def sessions(database: Postgres) -> Iterator[tuple[int, str]]:
    """As many as the database takes, and what it says to the next."""
    with ExitStack() as stack:
        for count in range(1000):
            try:
                stack.enter_context(client.connect(database.endpoint()))
            except client.QueryError as refused:
                yield count, str(refused)
                return
        raise AssertionError("a thousand sessions and no end")


def connections(database: Postgres) -> tuple[int, str]:
    with sessions(database) as found:
        return found


def read_by_workers(database: Postgres) -> int:
    """Bytes that the reading workers read during a scan of a table that is not in the cache."""
    pids = [row[0] for row in run(database, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'io worker'")]

    def read() -> int:
        return sum(int(Path(f"/proc/{pid}/io").read_text().split()[1]) for pid in pids)

    before = read()
    run(database, "SELECT count(*) FROM account")
    return read() - before


def _off_in_the_second(first: Any, second: Any) -> bool:
    return bool(first) and not second


def _on_in_the_second(first: Any, second: Any) -> bool:
    return bool(second) and not first


RELOADED: dict[str, Witness[Postgres]] = {
    "database.checkpoint_timeout": Witness((30.0, 86400.0), timed_checkpoint, _off_in_the_second, longer=True),
    "database.min_wal_size": Witness((32 * MB, 192 * MB), log_files, lambda few, many: few < many, longer=True),
    "database.synchronous_commit": Witness(("on", "off"), commits_flushed, lambda on, off: on >= 10 > 2 * off),
    "database.fsync": Witness((True, False), commits_flushed, lambda on, off: on >= 10 and off == 0),
    "database.wal_sync_method": Witness(
        ("fdatasync", "open_datasync"), commits_flushed, lambda on, off: on >= 10 and off == 0
    ),
    "database.full_page_writes": Witness((True, False), page_images, _off_in_the_second),
    "database.wal_compression": Witness(("off", "pglz"), log_bytes, lambda plain, packed: packed < plain / 1.5),
    "database.max_wal_size": Witness((32 * MB, 1024 * MB), checkpoints_asked_for(3), lambda short, long: short > long),
    "database.checkpoint_completion_target": Witness(
        (1.0, 0.0),
        checkpoints_asked_for(6),
        lambda early, late: early > late,
        {"database.max_wal_size": 160 * MB},
        longer=True,
    ),
    "database.work_mem": Witness((64 * KB, 32 * MB), sort_on_disk, _off_in_the_second),
    "database.maintenance_work_mem": Witness((64 * KB, 64 * MB), index_spilled, _off_in_the_second),
    "database.random_page_cost": Witness((1.0, 4.0), index_cost, lambda cheap, dear: cheap < dear),
    "database.effective_cache_size": Witness((64 * KB, 1024 * MB), index_cost, lambda none, all_: none > all_),
    "database.max_parallel_workers_per_gather": Witness((0, 1), workers, lambda none, one: (none, one) == (0, 1)),
    "database.autovacuum_naptime": Witness((1.0, 2.0), vacuumed_soon, lambda one, two: one and two, longer=True),
    "database.default_transaction_isolation": Witness(
        ("read committed", "repeatable read"), sees_others_commits, _off_in_the_second
    ),
    "database.deadlock_timeout": Witness(
        (0.001, 600.0), end_of_a_deadlock, lambda soon, late: (soon, late) == ("40P01", "55P03")
    ),
    "database.commit_delay": Witness((0, 20000), sleeps_at_commit, _on_in_the_second, {"database.commit_siblings": 0}),
    "database.commit_siblings": Witness(
        (0, 1000), sleeps_at_commit, _off_in_the_second, {"database.commit_delay": 20000}
    ),
    "database.track_io_timing": Witness((False, True), time_is_taken, _on_in_the_second),
    "database.bgwriter_lru_maxpages": Witness(
        (1000, 0), pages_cleaned, _off_in_the_second, {"database.bgwriter_delay": 0.01}, longer=True
    ),
    "database.effective_io_concurrency": Witness((16, 0), read_by_workers, lambda ahead, none: ahead > none == 0),
}

# one cluster, started once with the first levels and once with the second
RESTARTED: dict[str, Witness[Postgres]] = {
    "database.shared_buffers": Witness(
        (1 * MB, 64 * MB), reads_of_the_second_scan, lambda small, large: small > large == 0
    ),
    "database.wal_buffers": Witness((32 * KB, 4 * MB), log_waited_for_room, lambda small, large: small > large == 0),
    "database.max_connections": Witness(
        (12, 15),
        connections,
        lambda few, many: (few[0], many[0]) == (12, 15) and "sorry, too many clients already" in few[1],
    ),
    "database.io_method": Witness(("worker", "sync"), processes("io worker"), _off_in_the_second),
    "database.autovacuum": Witness((True, False), processes("autovacuum launcher"), _off_in_the_second),
}

# Knobs of which no figure can tell two levels apart without a clock.
WITHOUT: dict[str, str] = {
    "database.huge_pages": "needs huge pages that the host reserved",
    "database.wal_writer_delay": "only the pace of a background process",
    "database.bgwriter_delay": "only the pace of a background process",
}
