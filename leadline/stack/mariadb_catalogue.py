"""MariaDB's knobs, as its documentation gives them."""

from __future__ import annotations

from leadline.model.knob import ApplyCost, Kind, Knob, Level, Risk

_KB, _MB = 1024, 1024**2
_MANUAL = "MariaDB Server 11.4 documentation, "
_INNODB = "InnoDB System Variables"
_SERVER = "Server System Variables"
_BINLOG = "Replication and Binary Log System Variables"
_QUERY_CACHE = "Query Cache System Variables"
_INSTRUMENTS = "Performance Schema System Variables"
_POOL = "Thread Pool System Variables"


def _knob(parameter: str, kind: Kind, summary: str, default: Level | None, page: str = _INNODB, **rest: object) -> Knob:
    return Knob(
        f"database.{parameter}",
        kind,
        rest.pop("cost", ApplyCost.LIVE),  # type: ignore[arg-type]
        summary,
        default=default,
        names={"mariadb": parameter},
        source=f"{_MANUAL}{page}: {parameter}",
        **rest,  # type: ignore[arg-type]
    )


def _size(parameter: str, summary: str, default: int, minimum: int, page: str = _INNODB, **rest: object) -> Knob:
    return _knob(parameter, Kind.SIZE, summary, default, page, **{"minimum": minimum, **rest})


def _count(
    parameter: str,
    summary: str,
    default: int | None,
    minimum: int,
    maximum: int | None,
    page: str = _INNODB,
    **rest: object,
) -> Knob:
    return _knob(parameter, Kind.INTEGER, summary, default, page, minimum=minimum, maximum=maximum, **rest)


def _switch(parameter: str, summary: str, default: bool, page: str = _INNODB, **rest: object) -> Knob:
    return _knob(parameter, Kind.BOOLEAN, summary, default, page, **rest)


def _choice(
    parameter: str, summary: str, default: str, choices: tuple[str, ...], page: str = _INNODB, **rest: object
) -> Knob:
    return _knob(parameter, Kind.CHOICE, summary, default, page, choices=choices, **rest)


_RESTART = {"cost": ApplyCost.RESTART}
_CAUTION = {"risk": Risk.CAUTION}

KNOBS: tuple[Knob, ...] = (
    # memory
    _size(
        "innodb_buffer_pool_size",
        "the database's own page cache, in steps of 1m",
        128 * _MB,
        5 * _MB,  # with pages of 16 KiB
        **_CAUTION,
    ),
    _switch("innodb_buffer_pool_load_at_startup", "read the pages that were cached at the last stop", True, **_RESTART),
    _switch("innodb_adaptive_hash_index", "hash index over pages that are read often", False),
    _size("sort_buffer_size", "memory of one sort", 2 * _MB, _KB, _SERVER, **_CAUTION),
    _size("join_buffer_size", "memory of one join without an index, in steps of 128 bytes", 256 * _KB, 128, _SERVER),
    _size("tmp_table_size", "temporary table held in memory, in steps of 16k", 16 * _MB, 0, _SERVER),
    _size("max_heap_table_size", "bound of any table in memory, in steps of 1k", 16 * _MB, 16 * _KB, _SERVER),
    # the log and commits
    _count(
        "innodb_flush_log_at_trx_commit",
        "1: a commit waits for its log on disk; 2: written, flushed each second; 0: neither; 3: flushed twice with the"
        " binary log. 0 and 2 may lose the last second in a crash",
        1,
        0,
        3,
        **_CAUTION,
    ),
    _size("innodb_log_file_size", "redo log; a larger one needs fewer checkpoints, in steps of 4k", 96 * _MB, 4 * _MB),
    _size(
        "innodb_log_buffer_size",
        "log not yet written, in steps of 4k",
        16 * _MB,
        2 * _MB,
        maximum=2**31 - 4 * _KB,
        **_RESTART,
    ),
    _switch("log_bin", "the binary log for replication and point-in-time recovery", False, _BINLOG, **_RESTART),
    _count(
        "sync_binlog",
        "flush the binary log to disk after so many commits; 0 leaves it to the kernel; counts with log_bin only",
        0,
        0,
        2**32 - 1,
        _BINLOG,
        unit="commits",
        **_CAUTION,
    ),
    _count(
        "binlog_commit_wait_count",
        "commits that should share one flush of the binary log; with log_bin only",
        0,
        0,
        None,
        _BINLOG,
        unit="commits",
    ),
    _count(
        "binlog_commit_wait_usec",
        "longest wait for binlog_commit_wait_count; with a count never reached it stands in for a slow disk",
        100000,
        0,
        None,
        _BINLOG,
        unit="us",
    ),
    # the data files
    _choice(
        "innodb_flush_method",
        "how files are opened and flushed; O_DIRECT passes the kernel's page cache by. nosync loses data in a crash",
        "O_DIRECT",
        ("fsync", "O_DSYNC", "littlesync", "nosync", "O_DIRECT", "O_DIRECT_NO_FSYNC"),
        **_RESTART,
        **_CAUTION,
    ),
    _choice(
        "innodb_doublewrite",
        "pages are written twice against torn ones; fast leaves the flush between out. off risks torn pages in a crash",
        "on",
        ("off", "on", "fast"),
        **_CAUTION,
    ),
    _count("innodb_io_capacity", "writes a second in the background", 200, 100, None, unit="writes/s"),
    _count(
        "innodb_io_capacity_max",
        "the same when flushing falls behind; 2000 or twice innodb_io_capacity if not set",
        None,
        100,
        None,
        unit="writes/s",
    ),
    _count("innodb_flush_neighbors", "also write changed pages of the same extent: 0 no, 1 adjacent, 2 all", 1, 0, 2),
    _knob(
        "innodb_max_dirty_pages_pct",
        Kind.NUMBER,
        "share of changed pages from which flushing is hurried",
        90.0,
        minimum=0,
        maximum=99.999,
        unit="%",
    ),
    _knob(
        "innodb_max_dirty_pages_pct_lwm",
        Kind.NUMBER,
        "share of changed pages from which pages are flushed ahead; 0: only when idle or forced",
        0.0,
        minimum=0,
        maximum=99.999,
        unit="%",
    ),
    _count("innodb_read_io_threads", "threads for reads ahead", 4, 1, 64, unit="threads"),
    _count("innodb_write_io_threads", "threads for writes of pages", 4, 2, 64, unit="threads"),
    _switch(
        "innodb_use_native_aio",
        "the kernel's asynchronous input and output; the server turns it off where the kernel refuses",
        True,
        **_RESTART,
    ),
    _count("innodb_purge_threads", "threads that remove old row versions", 4, 1, 32, unit="threads"),
    # transactions and locks
    _choice(
        "transaction_isolation",
        "of sessions that ask for none",
        "REPEATABLE-READ",
        ("READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"),
        _SERVER,
    ),
    _switch(
        "innodb_snapshot_isolation",
        "refuse to lock a row that changed after the transaction's snapshot (error 1020)",
        False,
    ),
    _knob(
        "innodb_lock_wait_timeout",
        Kind.DURATION,
        "longest wait for a row lock, whole seconds; 0 refuses at once",
        50.0,
        minimum=0,
        maximum=100_000_000,
    ),
    _switch("innodb_deadlock_detect", "look for cycles at every lock wait; off leaves them to the timeout", True),
    _count(
        "innodb_autoinc_lock_mode",
        "how long the counter of ids is locked: 0 to the end of the statement, 1 for bulk inserts only, 2 never",
        1,
        0,
        2,
        **_RESTART,
    ),
    # connections and statements
    _count(
        "max_connections",
        "sessions at one time; one more for an administrator",
        151,
        10,
        100_000,
        _SERVER,
        unit="connections",
    ),
    _choice(
        "thread_handling",
        "a thread for each connection, or a pool of threads",
        "one-thread-per-connection",
        ("one-thread-per-connection", "pool-of-threads"),
        _POOL,
        **_RESTART,
    ),
    _count(
        "thread_pool_size",
        "groups of the thread pool, about as many threads run at one time; the number of CPUs if not set",
        None,
        1,
        100_000,
        _POOL,
        unit="groups",
    ),
    _count(
        "thread_cache_size",
        "threads kept for new connections; the smaller of 256 and max_connections if not set",
        None,
        0,
        16384,
        _SERVER,
        unit="threads",
    ),
    _count("table_open_cache", "tables held open over all sessions", 2000, 10, 1_048_576, _SERVER, unit="tables"),
    _count(
        "max_prepared_stmt_count",
        "statements prepared at one time over all connections: pool size times its statement cache must fit",
        16382,
        0,
        2**32 - 1,
        _SERVER,
        unit="statements",
    ),
    _choice(
        "query_cache_type",
        "results of whole queries kept until a table changes",
        "off",
        ("off", "on", "demand"),
        _QUERY_CACHE,
    ),
    _size("query_cache_size", "its memory, in steps of 1k", _MB, 0, _QUERY_CACHE),
    # statistics
    _switch("innodb_stats_auto_recalc", "gather a table's statistics anew after a tenth of it changed", True),
    _switch(
        "performance_schema",
        "the server's own instrumentation",
        False,
        "Performance Schema System Variables",
        **_RESTART,
    ),
)

# What sizes are rounded to; nothing where nothing is said.
STEPS = {
    "innodb_buffer_pool_size": _MB,
    "join_buffer_size": 128,
    "tmp_table_size": 16 * _KB,
    "max_heap_table_size": _KB,
    "query_cache_size": _KB,
    "innodb_log_file_size": 4 * _KB,
    "innodb_log_buffer_size": 4 * _KB,
}
