"""What shows that a knob of MariaDB is at work: one figure of the running server under each of two levels.

``LIVE``: levels set in the running server; ``RESTARTED``: two sets of levels, each for one start. Every witness counts,
none looks at the clock.
"""

import json
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pymysql
from witnesses import Witness, wait_for

from leadline.stack import mariadb as client
from leadline.stack.mariadb import MariaDb

KB, MB = 1024, 1024**2
_CHANGE = "UPDATE account SET balance = balance + 1 WHERE id = 1"
Measure = Callable[[MariaDb], Any]


def run(database: MariaDb, *statements: str) -> list[tuple[Any, ...]]:
    """The last one's rows, all in one session."""
    with client.connect(database.endpoint(), timeout=60) as connection:
        return [client.query(connection, statement) for statement in statements][-1]


def status(database: MariaDb, name: str) -> Any:
    return run(database, f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1]


def grown(name: str, *statements: str) -> Measure:
    """By how much a counter grows over the statements of one session."""

    def measure(database: MariaDb) -> int:
        before = int(status(database, name))
        run(database, *statements)
        return int(status(database, name)) - before

    return measure


def refusal(database: MariaDb, *statements: str) -> int:
    """The number of the error that the statements end with; 0 for none."""
    try:
        run(database, *statements)
    except client.QueryError as refused:
        return refused.code
    return 0


def flushes(event: str) -> Measure:
    """Flushes of a kind of file over 20 commits, as the performance schema counts them."""
    asked = f"SELECT COUNT_MISC FROM performance_schema.file_summary_by_event_name WHERE EVENT_NAME = '{event}'"

    def measure(database: MariaDb) -> int:
        before = int(run(database, asked)[0][0])
        run(database, *[_CHANGE] * 20)
        return int(run(database, asked)[0][0]) - before

    return measure


def shared_flush(database: MariaDb) -> int:
    """Groups of two commits that waited for each other: the second comes when the first waits, or has ended."""
    asked = "Binlog_group_commit_trigger_count"
    before = int(status(database, asked))
    first = threading.Thread(target=run, args=(database, _CHANGE))
    first.start()
    first.join(0.5)
    run(database, "UPDATE account SET balance = balance + 1 WHERE id = 2")
    first.join(30)
    return int(status(database, asked)) - before


def inner_reads(database: MariaDb) -> int:
    """How often the inner table of a join without an index is read: once for each filling of the buffer."""
    asked = (
        "ANALYZE FORMAT=JSON SELECT COUNT(*) FROM (SELECT id FROM account LIMIT 400) a"
        " JOIN account b IGNORE INDEX (PRIMARY) ON a.id + b.balance < 0 WHERE b.id < 50"
    )
    text = run(database, asked)[0][0]

    def loops(node: Any) -> list[int]:
        if isinstance(node, dict):
            own = [int(node["block-nl-join"]["table"]["r_loops"])] if "block-nl-join" in node else []
            return own + [each for part in node.values() for each in loops(part)]
        return [each for part in node for each in loops(part)] if isinstance(node, list) else []

    return max(loops(json.loads(text)))


def sees_others_commits(database: MariaDb) -> bool:
    endpoint = database.endpoint()
    with client.connect(endpoint) as one, client.connect(endpoint) as other:
        client.query(one, "BEGIN")
        before = client.query(one, "SELECT balance FROM account WHERE id = 7")
        client.query(other, "UPDATE account SET balance = balance + 1 WHERE id = 7")
        return client.query(one, "SELECT balance FROM account WHERE id = 7") != before


def late_change(database: MariaDb) -> int:
    """The error of a change to a row that another transaction changed after the snapshot."""
    endpoint = database.endpoint()
    with client.connect(endpoint) as one, client.connect(endpoint) as other:
        client.query(one, "BEGIN")
        client.query(one, "SELECT balance FROM account WHERE id = 7")
        client.query(other, "UPDATE account SET balance = balance + 1 WHERE id = 7")
        try:
            client.query(one, "UPDATE account SET balance = 0 WHERE id = 7")
        except pymysql.Error as refused:
            return int(refused.args[0])
        finally:
            client.query(one, "ROLLBACK")
    return 0


def locked_row(database: MariaDb) -> int:
    """The error of a change to a row that stays locked until the wait for it is seen; 0 when it waits to the end."""
    endpoint = database.endpoint()
    found: list[int] = []

    def change() -> None:
        found.append(refusal(database, "UPDATE account SET balance = 1 WHERE id = 3"))

    with client.connect(endpoint) as holder:
        client.query(holder, "BEGIN")
        client.query(holder, "UPDATE account SET balance = 1 WHERE id = 3")
        thread = threading.Thread(target=change)
        thread.start()
        wait_for(lambda: bool(found) or int(status(database, "Innodb_row_lock_current_waits")) > 0)
        client.query(holder, "ROLLBACK")
        thread.join(30)
    return found[0]


def end_of_a_deadlock(database: MariaDb) -> int:
    """What ends two sessions that wait for each other: the larger of the server's codes."""
    endpoint = database.endpoint()
    codes: list[int] = [0]

    def second(connection: Any, row: int) -> None:
        try:
            client.query(connection, f"UPDATE account SET balance = 1 WHERE id = {row}")
        except pymysql.Error as error:
            codes.append(int(error.args[0]))
        client.query(connection, "ROLLBACK")

    with client.connect(endpoint, timeout=60) as one, client.connect(endpoint, timeout=60) as other:
        for connection, row in ((one, 1), (other, 2)):
            client.query(connection, "SET innodb_lock_wait_timeout = 1")
            client.query(connection, "BEGIN")
            client.query(connection, f"UPDATE account SET balance = 1 WHERE id = {row}")
        thread = threading.Thread(target=second, args=(one, 2))
        thread.start()
        second(other, 1)
        thread.join(30)
    return max(codes)


def dirty_pages(database: MariaDb) -> int:
    """Changed pages that stay in the cache; 0 when all are written ahead."""
    asked = "Innodb_buffer_pool_pages_dirty"
    run(database, "UPDATE account SET balance = balance + 1")
    if float(run(database, "SELECT innodb_max_dirty_pages_pct")[0][0]) > 50:
        return int(status(database, asked))
    wait_for(lambda: int(status(database, asked)) == 0)
    return int(status(database, asked))


def written_twice(database: MariaDb) -> int:
    """Pages written by way of the doublewrite buffer when the changed pages of a table are flushed."""
    count = "Innodb_dblwr_pages_written"
    return int(grown(count, "UPDATE account SET balance = balance + 1", "FLUSH TABLES account FOR EXPORT")(database))


def tables_open(database: MariaDb) -> int:
    for number in range(30):
        run(database, f"CREATE TABLE IF NOT EXISTS small_{number} (id INT)")
    run(database, "FLUSH TABLES")
    run(database, *(f"SELECT * FROM small_{number}" for number in range(30)))
    return int(status(database, "Open_tables"))


def prepared(database: MariaDb) -> int:
    """Statements that can be prepared, of 12."""
    with client.connect(database.endpoint()) as connection:
        for number in range(12):
            try:
                client.query(connection, f"PREPARE leadline_{number} FROM 'SELECT 1'")
            except pymysql.Error as refused:
                return number if refused.args[0] == 1461 else -1
    return 12


def threads_kept(database: MariaDb) -> int:
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(client.connect(database.endpoint()))
    run(database, "SELECT 1")
    wait_for(lambda: int(status(database, "Threads_connected")) == 1)
    return int(status(database, "Threads_cached"))


def connections(database: MariaDb) -> tuple[int, str]:
    """As many as the database takes, and what it says to the next."""
    with ExitStack() as stack:
        for count in range(1000):
            try:
                stack.enter_context(client.connect(database.endpoint()))
            except client.QueryError as refused:
                return count, str(refused)
    raise AssertionError("a thousand sessions and no end")


def opened_with(flag: int) -> Measure:
    """Whether the table's file is open with a flag of open(2)."""

    def measure(database: MariaDb) -> bool:
        run(database, "SELECT COUNT(*) FROM account")
        [file] = [fd for fd in _open_files(database) if str(_target(fd)).endswith("/account.ibd")][:1]
        info = Path(str(file).replace("/fd/", "/fdinfo/")).read_text()
        flags = int(info.split("flags:")[1].split()[0], 8)
        return bool(flags & flag == flag)

    return measure


def _open_files(database: MariaDb) -> list[Path]:
    found = []
    for pid in database.process.pids():
        found += list(Path(f"/proc/{pid}/fd").iterdir())
    return found


def _target(fd: Path) -> str:
    try:
        return str(fd.readlink())
    except OSError:
        return ""


def native_io(database: MariaDb) -> bool:
    """Whether the kernel holds rings of asynchronous requests for it."""
    maps = "".join(Path(f"/proc/{pid}/maps").read_text() for pid in database.process.pids())
    return "[aio]" in maps or any("io_uring" in str(_target(fd)) for fd in _open_files(database))


def log_file_size(database: MariaDb) -> int:
    return (database.context.directory / "data" / "ib_logfile0").stat().st_size


def id_after_mixed_insert(database: MariaDb) -> int:
    run(database, "DROP TABLE IF EXISTS ids", "CREATE TABLE ids (id INT AUTO_INCREMENT PRIMARY KEY, name CHAR(1))")
    run(database, "INSERT INTO ids VALUES (1, 'a'), (NULL, 'b'), (5, 'c'), (NULL, 'd')")
    run(database, "INSERT INTO ids VALUES (NULL, 'e')")
    return int(run(database, "SELECT MAX(id) FROM ids")[0][0])


def reads_of_the_second_scan(database: MariaDb) -> int:
    scan = "SELECT SUM(LENGTH(filler)) FROM wide"
    run(database, scan)
    return int(grown("Innodb_buffer_pool_reads", scan)(database))


def log_writes(database: MariaDb) -> int:
    """Writes of the log during one change larger than the small buffer."""
    run(database, "DROP TABLE IF EXISTS large", "CREATE TABLE large (text LONGTEXT)")
    return int(grown("Innodb_log_writes", "INSERT INTO large VALUES (REPEAT('x', 12000000))")(database))


def pages_loaded(database: MariaDb) -> bool:
    wait_for(lambda: "ompleted" in str(status(database, "Innodb_buffer_pool_load_status")), 5)
    return "ompleted" in str(status(database, "Innodb_buffer_pool_load_status"))


def rows_of(table: str) -> Measure:
    return lambda database: int(run(database, f"SELECT COUNT(*) FROM {table}")[0][0])


def _off_in_the_second(first: Any, second: Any) -> bool:
    return bool(first) and not second


def _on_in_the_second(first: Any, second: Any) -> bool:
    return bool(second) and not first


_SORT = "SELECT SQL_NO_CACHE balance FROM account ORDER BY MD5(id)"
_GROUPS = "SELECT SQL_NO_CACHE COUNT(*) FROM (SELECT MD5(id) m, COUNT(*) FROM account GROUP BY MD5(id)) a"
_HEAP = (
    "DROP TABLE IF EXISTS memory_table",
    "CREATE TABLE memory_table (id INT, name CHAR(100)) ENGINE = MEMORY",
    "INSERT INTO memory_table SELECT seq, 'x' FROM seq_1_to_5000",
)
_POINTS = tuple(f"SELECT SQL_NO_CACHE balance FROM account WHERE id = {1 + n % 10}" for n in range(400))
_TWICE = ("SELECT COUNT(*) FROM account WHERE id < 100",) * 2

LIVE: dict[str, Witness[MariaDb]] = {
    "database.innodb_adaptive_hash_index": Witness(
        (False, True), grown("Innodb_adaptive_hash_hash_searches", *_POINTS), _on_in_the_second
    ),
    "database.sort_buffer_size": Witness((KB, 64 * MB), grown("Sort_merge_passes", _SORT), _off_in_the_second),
    "database.join_buffer_size": Witness((128 * 2, 256 * KB), inner_reads, lambda small, large: small > large == 1),
    "database.tmp_table_size": Witness(
        (16 * KB, 64 * MB),
        grown("Created_tmp_disk_tables", _GROUPS),
        _off_in_the_second,
        {"database.max_heap_table_size": 64 * MB},
    ),
    "database.max_heap_table_size": Witness(
        (16 * KB, 64 * MB), lambda database: refusal(database, *_HEAP), lambda small, large: (small, large) == (1114, 0)
    ),
    "database.innodb_flush_log_at_trx_commit": Witness(
        (1, 2), grown("Innodb_data_fsyncs", *[_CHANGE] * 20), lambda each, rarely: each >= 20 > rarely
    ),
    "database.sync_binlog": Witness((1, 0), flushes("wait/io/file/sql/binlog"), lambda each, none: each >= 20 > none),
    "database.binlog_commit_wait_count": Witness(
        (0, 3),
        grown("Binlog_group_commit_trigger_timeout", _CHANGE),
        lambda none, one: (none, one) == (0, 1),
        {"database.binlog_commit_wait_usec": 10000},
    ),
    "database.binlog_commit_wait_usec": Witness(
        (0, 20_000_000), shared_flush, lambda none, one: (none, one) == (0, 1), {"database.binlog_commit_wait_count": 2}
    ),
    "database.innodb_doublewrite": Witness(("on", "off"), written_twice, _off_in_the_second),
    "database.innodb_max_dirty_pages_pct": Witness((90.0, 0.0), dirty_pages, _off_in_the_second, longer=True),
    "database.transaction_isolation": Witness(
        ("READ-COMMITTED", "REPEATABLE-READ"), sees_others_commits, _off_in_the_second
    ),
    "database.innodb_snapshot_isolation": Witness((False, True), late_change, lambda off, on: (off, on) == (0, 1020)),
    "database.innodb_lock_wait_timeout": Witness(
        (0.0, 50.0), locked_row, lambda at_once, late: (at_once, late) == (1205, 0)
    ),
    "database.innodb_deadlock_detect": Witness(
        (True, False), end_of_a_deadlock, lambda on, off: (on, off) == (1213, 1205)
    ),
    "database.table_open_cache": Witness((10, 2000), tables_open, lambda few, many: few <= 10 and many >= 30),
    "database.max_prepared_stmt_count": Witness((5, 100), prepared, lambda few, many: (few, many) == (5, 12)),
    "database.thread_cache_size": Witness((0, 3), threads_kept, lambda none, some: none == 0 < some),
    "database.query_cache_type": Witness(("off", "on"), grown("Qcache_hits", *_TWICE), lambda off, on: off == 0 < on),
    "database.query_cache_size": Witness(
        (0, MB), grown("Qcache_hits", *_TWICE), lambda none, some: none == 0 < some, {"database.query_cache_type": "on"}
    ),
    "database.max_connections": Witness(
        (10, 13),
        connections,
        lambda few, many: many[0] - few[0] == 3 and few[0] in (10, 11) and "Too many connections" in few[1],
    ),
}

# one instance, started once with the first levels and once with the second
RESTARTED: dict[str, Witness[MariaDb]] = {
    "database.innodb_buffer_pool_size": Witness(
        (6 * MB, 64 * MB), reads_of_the_second_scan, lambda small, large: small > large == 0
    ),
    "database.innodb_log_file_size": Witness(
        (8 * MB, 24 * MB), log_file_size, lambda small, large: (small, large) == (8 * MB, 24 * MB)
    ),
    "database.innodb_log_buffer_size": Witness((2 * MB, 64 * MB), log_writes, lambda small, large: small > large),
    "database.innodb_flush_method": Witness(("O_DIRECT", "fsync"), opened_with(os.O_DIRECT), _off_in_the_second),
    "database.innodb_use_native_aio": Witness((True, False), native_io, _off_in_the_second),
    "database.innodb_autoinc_lock_mode": Witness((0, 1), id_after_mixed_insert, lambda exact, gap: exact < gap),
    "database.thread_handling": Witness(
        ("one-thread-per-connection", "pool-of-threads"),
        lambda database: int(status(database, "Threadpool_threads")),
        _on_in_the_second,
    ),
    "database.thread_pool_size": Witness(
        (2, 3),
        rows_of("information_schema.THREAD_POOL_GROUPS"),
        lambda none, three: (none, three) == (0, 3),  # without and with the pool
    ),
    "database.innodb_buffer_pool_load_at_startup": Witness((True, False), pages_loaded, _off_in_the_second),
    "database.performance_schema": Witness((False, True), rows_of("performance_schema.threads"), _on_in_the_second),
    "database.log_bin": Witness(
        (False, True),
        grown("Binlog_commits", _CHANGE),
        lambda off, on: (off, on) == (0, 1),
    ),
}

# Knobs of which no figure can tell two levels apart without a clock.
WITHOUT: dict[str, str] = {
    "database.innodb_io_capacity": "only the pace of writes in the background",
    "database.innodb_io_capacity_max": "only the pace of writes in the background",
    "database.innodb_flush_neighbors": "only which pages are written together",
    "database.innodb_max_dirty_pages_pct_lwm": "only the pace of writes in the background",
    "database.innodb_read_io_threads": "bounds requests under way; the threads are of one pool",
    "database.innodb_write_io_threads": "bounds requests under way; the threads are of one pool",
    "database.innodb_purge_threads": "bounds tasks under way; the threads are of one pool",
    "database.innodb_stats_auto_recalc": "the server looks for changed tables at its own pace",
}
