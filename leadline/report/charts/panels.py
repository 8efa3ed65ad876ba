"""What the panels of a trial show: metrics of the observers, on one pair of axes or several."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """One metric of one observer. ``label`` may hold ``{}`` for the subject."""

    label: str
    observer: str
    metric: str
    subject: str | None = None
    scale: float = 1.0
    keep: str = "mean"  # of a bin when a long series is thinned: its mean, its "most", or its "extremes"


@dataclass(frozen=True)
class Track:
    """One pair of axes in a panel."""

    unit: str
    mark: str  # line, area, step, stem; span: of time, each kind in a row of its own
    sources: tuple[Source, ...]
    height: int = 105


@dataclass(frozen=True)
class Panel:
    """``part``: of something that a stack may lack or not tell of; without figures there is no such panel."""

    name: str
    title: str
    tracks: tuple[Track, ...]
    top: float | None = None
    part: bool = False


_MIB = 1 / 2**20
SERVICES = "*"  # the subjects that are services of a stack file


def _host(label: str, metric: str, scale: float = 1.0, subject: str | None = None) -> Source:
    return Source(label, "host", metric, subject, scale)


def _database(label: str, postgres: str, mariadb: str, scale: float = 1.0) -> tuple[Source, ...]:
    """The same of either database: a counter of its own, a second."""
    names = [name for name in (postgres, mariadb) if name]
    return tuple(Source(label, "database", f"{name}.per_s", None, scale) for name in names)


def _gc(label: str, metric: str, keep: str, scale: float = 1.0) -> Source:
    return Source(label, "gc", metric, None, scale, keep)


PANELS: tuple[Panel, ...] = (
    Panel(
        "throughput",
        "Throughput and response time",
        (
            Track("transactions/s", "line", (Source("ok", "driver", "ok"), Source("failed", "driver", "failed"))),
            Track(
                "ms",
                "line",
                (
                    Source("mean response time", "driver", "response_mean_ms", keep="most"),
                    Source("mean service time", "driver", "service_mean_ms", keep="most"),
                ),
                70,
            ),
            Track("in flight", "line", (Source("transactions in flight", "driver", "in_flight"),), 50),
        ),
    ),
    Panel(
        "pool",
        "Connection pool",
        (
            Track(
                "connections",
                "step",
                (
                    Source("{} in use", "pools", "pool.in_use"),
                    Source("{} size", "pools", "pool.size"),
                    Source("{} max", "pools", "pool.max"),
                ),
            ),
            Track("callers waiting", "step", (Source("{} waiting", "pools", "pool.waiting", keep="most"),), 60),
            Track("wait, ms", "line", (Source("{} mean wait", "pools", "pool.wait_ms_mean", keep="most"),), 60),
        ),
    ),
    Panel(
        "statements",
        "Statement cache",
        (
            Track("statements kept", "step", (Source("{} kept", "pools", "statements.kept"),), 60),
            Track(
                "so far",
                "line",
                (
                    Source("{} used", "pools", "statements.uses"),
                    Source("{} prepared", "pools", "statements.prepared"),
                    Source("{} discarded", "pools", "statements.discarded"),
                ),
                70,
            ),
        ),
        part=True,
    ),
    Panel(
        "database",
        "Database",
        (
            Track("commits/s", "line", _database("commits", "xact_commit", "Com_commit"), 60),
            Track("blocks/s", "line", _database("read into its cache", "blks_read", "Innodb_buffer_pool_reads"), 60),
            Track("log, MiB/s", "line", _database("written", "wal_bytes", "Innodb_os_log_written", _MIB), 60),
            Track(
                "waits/s",
                "line",
                (
                    *_database("row locks", "", "Innodb_row_lock_waits"),
                    *_database("deadlocks", "deadlocks", "Innodb_deadlocks"),
                ),
                50,
            ),
        ),
        part=True,
    ),
    Panel(
        "web",
        "Web server",
        (
            Track("requests/s", "line", (Source("requests", "web", "requests.per_s"),)),
            Track(
                "connections",
                "step",
                (
                    Source("of clients", "web", "connections", keep="most"),
                    Source("to the application server", "web", "upstream_connections", keep="most"),
                ),
                60,
            ),
            Track(
                "threads",
                "step",
                (
                    Source("busy", "web", "workers_busy", keep="most"),
                    Source("idle", "web", "workers_idle"),
                ),
                50,
            ),
        ),
        part=True,
    ),
    Panel(
        "processes",
        "CPU of the processes",
        (
            Track(
                "CPUs",
                "line",
                (
                    Source("server", "processes", "cpu", "server"),
                    Source("database", "processes", "cpu", "database"),
                    Source("web server", "processes", "cpu", "web"),
                    Source("supplier", "processes", "cpu", "supplier"),
                    Source("{}", "processes", "cpu", SERVICES),
                    Source("driver", "processes", "cpu", "driver"),
                ),
            ),
        ),
    ),
    Panel(
        "cpu",
        "CPU of the host",
        (
            Track(
                "% of all CPUs",
                "area",
                (
                    _host("user", "cpu.user", 100, "host"),
                    _host("nice", "cpu.nice", 100, "host"),
                    _host("system", "cpu.system", 100, "host"),
                    _host("softirq", "cpu.softirq", 100, "host"),
                    _host("iowait", "cpu.iowait", 100, "host"),
                    _host("steal", "cpu.steal", 100, "host"),
                ),
            ),
        ),
        100.0,
    ),
    Panel(
        "gc",
        "Collector",
        (
            Track("pause, ms", "stem", (_gc("{}", "gc.pause", "most"), _gc("stall: {}", "gc.stall", "most"))),
            Track(
                "MiB",
                "line",
                (
                    _gc("heap after collection", "heap.after", "extremes", _MIB),
                    _gc("before", "heap.before", "most", _MIB),
                    _gc("committed", "heap.total", "most", _MIB),
                    _gc("limit", "heap.limit", "most", _MIB),
                ),
            ),
        ),
    ),
    Panel(
        "safepoints",
        "Stops of all threads, by operation",
        (Track("stop, ms", "stem", (_gc("{}", "safepoint", "most"),), 70),),
        part=True,
    ),
    Panel(
        "gc-rates",
        "Allocation and promotion",
        (
            Track(
                "MiB/s",
                "line",
                (
                    _gc("allocated", "gc.allocation_rate", "extremes", _MIB),
                    _gc("promoted", "gc.promotion_rate", "most", _MIB),
                ),
                70,
            ),
        ),
        part=True,
    ),
    Panel(
        "gc-phases",
        "Collecting beside the application",
        (Track("phase", "span", (_gc("{}", "gc.phase", "most"),), 90),),
        part=True,
    ),
    Panel(
        "threads",
        "Threads of the server",
        (
            Track(
                "threads",
                "step",
                (
                    Source("{} active", "pools", "threads.active"),
                    Source("{} size", "pools", "threads.size"),
                    Source("{} max", "pools", "threads.max"),
                ),
            ),
            Track("tasks waiting", "step", (Source("{} queue", "pools", "threads.queue", keep="most"),), 50),
        ),
    ),
    Panel(
        "writeback",
        "Dirty memory and writeback",
        (
            Track(
                "MiB",
                "line",
                (_host("dirty", "memory.dirty", _MIB), _host("writeback", "memory.writeback", _MIB)),
            ),
        ),
    ),
    Panel(
        "disk",
        "Disk",
        (
            Track(
                "MiB/s",
                "line",
                (_host("{} read", "disk.read_bytes", _MIB), _host("{} write", "disk.write_bytes", _MIB)),
            ),
        ),
    ),
    Panel(
        "memory",
        "Memory",
        (
            Track(
                "MiB",
                "line",
                (
                    _host("available", "memory.available", _MIB),
                    _host("cached", "memory.cached", _MIB),
                    Source("{} resident", "processes", "rss", None, _MIB),
                ),
            ),
        ),
    ),
    Panel(
        "scheduler",
        "Scheduler",
        (
            Track("run queue", "line", (_host("runnable", "runqueue"),), 60),
            Track("switches/s", "line", (_host("context switches", "context_switches"),), 60),
        ),
    ),
    Panel(
        "pressure",
        "Pressure",
        (
            Track(
                "% of time stalled",
                "line",
                (
                    _host("cpu", "psi.cpu.some", 100),
                    _host("memory", "psi.memory.some", 100),
                    _host("io", "psi.io.some", 100),
                ),
            ),
        ),
    ),
    Panel(
        "network",
        "Network",
        (
            Track("MiB/s", "line", (_host("{} in", "net.rx_bytes", _MIB), _host("{} out", "net.tx_bytes", _MIB))),
            Track("segments/s", "line", (_host("TCP retransmits", "tcp.retransmits"),), 50),
        ),
    ),
    Panel(
        "paging",
        "Paging and swap",
        (
            Track("MiB/s", "line", (_host("paged in", "paging.in", _MIB), _host("paged out", "paging.out", _MIB))),
            Track("pages/s", "line", (_host("swapped in", "swap.in"), _host("swapped out", "swap.out")), 60),
        ),
    ),
)

GC_PANELS = tuple(panel for panel in PANELS if panel.tracks[0].sources[0].observer == "gc")
