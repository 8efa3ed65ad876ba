"""What the series say about a window of time, for a trial's responses. Times are unix seconds.

What the machine did beside a study: the CPU of other programs is what user and kernel code used on all CPUs, less the
study's processes and kernel threads. Interrupts and kernel threads work for whoever asked (loopback, reclaim, writing
back), so they are nobody else's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from leadline.model.disturbance import MachineUse
from leadline.model.ownstack import COMPANIONS
from leadline.model.received import ReceivedError
from leadline.observe.processes import KERNEL, OWN, PROGRAM
from leadline.observe.table import read_series, schema


@dataclass(frozen=True)
class CpuUse:
    """CPU of one role in a window. ``covered`` is the share of the window that the samples cover."""

    seconds: float
    share: float  # of one CPU, over the covered part
    covered: float


ROLES = ("server", "database", "web")  # of services
DRIVER = "driver"  # role of the load driver
# Counters of the database, PostgreSQL's and MariaDB's, and the response that each is by transaction.
_DATABASE = {
    "database_commits_per_transaction": ("xact_commit", "Com_commit"),
    "database_rows_per_transaction": ("tup_returned",),
    "statement_time": ("active_time",),  # ms
}
_MODES = ("user", "system")  # of CPU
_KINDS_OF_SWITCH = ("voluntary", "involuntary")
_FEWEST_SAMPLES = 2
_SAMPLE = 2.0  # seconds between two samples of the agent, at most


def series(series_dir: Path, observer: str, metric: str, subject: str | None = None) -> pl.DataFrame:
    """Rows of one metric, by time; empty where the observer recorded nothing."""
    path = series_dir / f"{observer}.parquet"
    if not path.exists():
        return pl.DataFrame(schema=schema())
    wanted = pl.col("metric") == metric
    if subject is not None:
        wanted &= pl.col("subject") == subject
    return read_series(path, wanted).sort("time_ns")


class CpuLines:
    """CPU that each role had used by the time of each sample, read once for many windows.

    The one rule for CPU of a window: use is even between two samples; a window that the samples cover in part is taken
    to be like that part; and the last sample inside ends it, where that leaves half of it, since a sample after its end
    holds work that is not the window's (the ramp-down, or a slot under other levels).
    """

    def __init__(self, series_dir: Path, metric: str = "cpu.seconds") -> None:
        rows = series(series_dir, "processes", metric)
        self.named = frozenset(rows["subject"])
        self._lines = {
            str(role): (part["time_ns"].to_numpy() / 1e9, part["value"].to_numpy())
            for (role,), part in rows.partition_by("subject", as_dict=True).items()
            if part.height > 1
        }

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(self._lines)

    def between(self, role: str, from_s: float, until_s: float) -> CpuUse | None:
        """None where the samples cover less than half of the window. ValueError for one that ends before it begins."""
        _check(from_s, until_s)
        if role not in self._lines:
            return None
        times, used = self._lines[role]
        begin, end = max(from_s, float(times[0])), min(until_s, float(times[-1]))
        last = float(times[max(0, int(np.searchsorted(times, until_s, side="right")) - 1)])
        if last - begin >= (until_s - from_s) / 2:
            end = min(end, last)
        if end <= begin or 2 * (end - begin) < until_s - from_s:
            return None
        seconds = float(np.interp(end, times, used) - np.interp(begin, times, used))
        return CpuUse(seconds, seconds / (end - begin), (end - begin) / (until_s - from_s))

    def ended(self, role: str, from_s: float, until_s: float) -> CpuUse | None:
        """Of a role whose samples end before or in a window that leadline's own cover: it uses nothing any more."""
        if role not in self._lines or (recorded := self.between(OWN, from_s, until_s)) is None:
            return None
        begin, end = np.interp([from_s, until_s], *self._lines[role])
        return CpuUse(float(end - begin), float(end - begin) / (until_s - from_s), recorded.covered)


def _services(lines: CpuLines) -> list[str]:
    """An application of one's own may have no database that leadline knows, and services beside it."""
    without = "server" in lines.named and not lines.named & {"database", *COMPANIONS}
    web = ["web"] if "web" in lines.roles else []
    return ["server", *([] if without else ["database"]), *web, *services_among(lines.named)]


def services_among(roles: Collection[str]) -> list[str]:
    """Names of a stack file's services among the roles of processes."""
    return sorted({*roles} - {OWN, DRIVER, *ROLES, *COMPANIONS})


def services_cpu(lines: CpuLines, from_s: float, until_s: float) -> float | None:
    """CPU of all services in a window, as a share of one CPU, none of what has ended; None where one of them is not
    known.
    """
    uses = [lines.between(role, from_s, until_s) or lines.ended(role, from_s, until_s) for role in _services(lines)]
    return None if None in uses else sum(use.share for use in uses if use is not None)


Windows = Sequence[tuple[float, float]]
Line = tuple[NDArray[np.float64], NDArray[np.float64]]  # unix seconds, values


def line_of(rows: pl.DataFrame) -> Line:
    return rows["time_ns"].to_numpy() / 1e9, rows["value"].to_numpy()


@dataclass(frozen=True)
class Recorded:
    """What the observers of a trial recorded, read when it is first asked for."""

    series_dir: Path

    @cached_property
    def cpu(self) -> CpuLines:
        return CpuLines(self.series_dir)

    @cached_property
    def threads(self) -> CpuLines:
        """Of the server by kind of thread."""
        return CpuLines(self.series_dir, "threads.cpu_seconds")

    @cached_property
    def delays(self) -> CpuLines:
        """Time in which these threads were runnable without a CPU."""
        return CpuLines(self.series_dir, "threads.delay_seconds")

    @cached_property
    def pools(self) -> dict[str, Line]:
        """Sums over all pools and executors of the server, by metric."""
        metrics = ("pool.waiting", "pool.wait_ms_total", "threads.queue")
        tables = {metric: series(self.series_dir, "pools", metric) for metric in metrics}
        return {
            metric: line_of(rows.group_by("time_ns").agg(pl.col("value").sum()).sort("time_ns"))
            for metric, rows in tables.items()
            if rows.height
        }

    @cached_property
    def switches_of_host(self) -> Line:
        """Context switches a second."""
        return line_of(series(self.series_dir, "host", "context_switches", "host"))

    @cached_property
    def switches(self) -> dict[str, Line]:
        """The same of each role: sums of voluntary ones and others, which are sampled together."""
        return self._by_role(*(f"context_switches.{kind}" for kind in _KINDS_OF_SWITCH))

    @cached_property
    def modes(self) -> dict[str, dict[str, Line]]:
        """CPU of each role in user mode and in the kernel, as a share of one CPU."""
        return {mode: self._by_role(f"cpu.{mode}") for mode in _MODES}

    @cached_property
    def memory(self) -> dict[str, Line]:
        """Bytes of each role: private ones, and shared ones once."""
        return self._by_role("rss.anon", "rss.shared")

    @cached_property
    def swap(self) -> dict[str, Line]:
        """Bytes of each role that are in swap."""
        return self._by_role("swap")

    @cached_property
    def idle(self) -> Line:
        """Share of all CPUs that had nothing to run."""
        kinds = [series(self.series_dir, "host", f"cpu.{kind}", "host") for kind in ("idle", "iowait")]
        return line_of(pl.concat(kinds).group_by("time_ns").agg(pl.col("value").sum()).sort("time_ns"))

    @cached_property
    def database(self) -> dict[str, Line]:
        """Counters of the database a second, by response."""
        lines = {
            name: [line_of(series(self.series_dir, "database", f"{counter}.per_s", "database")) for counter in counters]
            for name, counters in _DATABASE.items()
        }
        return {name: line for name, lines_of in lines.items() for line in lines_of if len(line[0])}

    def statements(self, windows: Windows) -> dict[str, tuple[float, float]]:
        """Calls and ms a second of each statement of the database, by its text; none where they were not tracked."""
        rates = {}
        for metric in ("calls", "ms"):
            rows = series(self.series_dir, "statements", f"{metric}.per_s")
            seconds = pl.col("time_ns") / 1e9
            inside = rows.filter(pl.any_horizontal([(seconds > begin) & (seconds <= end) for begin, end in windows]))
            sums = inside.group_by("subject", maintain_order=True).agg(pl.col("value").sum())
            count = inside["time_ns"].n_unique()
            rates[metric] = {subject: value / count for subject, value in sums.iter_rows()}
        return {text: (rates["calls"].get(text, 0.0), ms) for text, ms in sorted(rates["ms"].items())}

    def _by_role(self, *metrics: str) -> dict[str, Line]:
        """Sums of metrics that are sampled together."""
        kinds = [series(self.series_dir, "processes", metric) for metric in metrics]
        rows = pl.concat(kinds).group_by("subject", "time_ns").agg(pl.col("value").sum()).sort("time_ns")
        return {str(role): line_of(part) for (role,), part in rows.partition_by("subject", as_dict=True).items()}


def cpu_per_transaction(recorded: Recorded, windows: Windows, throughput: float) -> dict[str, float]:
    """Milliseconds of CPU a transaction in some windows, by role, the driver's too, and of the services together: the
    web server's too, where there was one; the same without the JIT compiler's. A window that is not known is as the
    others; a role that is not known leaves the sums out.
    """
    roles = _services(recorded.cpu)
    by_name = {}
    parts = [(recorded.cpu, role) for role in (*roles, *([DRIVER] if DRIVER in recorded.cpu.roles else []))]
    for lines, role in (*parts, *((recorded.threads, kind) for kind in recorded.threads.roles)):
        uses = [(lines.between(role, begin, end), end - begin) for begin, end in windows]
        measured = [(use.share * seconds, seconds) for use, seconds in uses if use is not None]
        if measured and throughput > 0:
            share = sum(used for used, _ in measured) / sum(seconds for _, seconds in measured)
            by_name[f"{role}_cpu_per_transaction"] = 1000 * share / throughput
    by_role = [by_name[name] for role in roles if (name := f"{role}_cpu_per_transaction") in by_name]
    for role in services_among(roles):  # no responses: other applications have none of that name
        by_name.pop(f"{role}_cpu_per_transaction", None)
    if len(by_role) == len(roles):
        by_name["cpu_per_transaction"] = together = sum(by_role)
        steady = together - by_name.get("compiler_cpu_per_transaction", 0.0)
        if steady > 0:  # clocks that are read apart
            by_name["steady_cpu_per_transaction"] = steady
    return by_name


def context_switches(recorded: Recorded, windows: Windows, throughput: float) -> dict[str, float]:
    """Switches a second of the host in some windows, and by transaction: of the host (``/proc/stat``) and of all
    threads of each role, voluntary and not. What has no sample in any of the windows is left out.
    """
    host = mean_over(recorded.switches_of_host, windows)
    switches = {"context_switches": host} if host is not None else {}
    if throughput <= 0:
        return switches
    if host is not None:
        switches["context_switches_per_transaction"] = host / throughput
    for role, line in recorded.switches.items():
        if role in (*ROLES, DRIVER) and (mean := mean_over(line, windows)) is not None:
            switches[f"{role}_context_switches_per_transaction"] = mean / throughput
    return switches


def modes_and_memory(recorded: Recorded, windows: Windows, throughput: float) -> dict[str, float]:
    """Milliseconds of CPU a transaction of all services in user mode and in the kernel, the share of the host's CPUs
    that was not idle, the services' memory in MiB and their swap. What is not known of one of them is left out.
    """
    roles, modes = _services(recorded.cpu), {}
    for mode, lines in recorded.modes.items():
        if throughput > 0 and (share := _together(lines, roles, windows)) is not None:
            modes[f"{mode}_cpu_per_transaction"] = 1000 * share / throughput
    if (idle := mean_over(recorded.idle, windows)) is not None:
        modes["host_cpu"] = max(0.0, 1 - idle)
    for name, lines in (("memory", recorded.memory), ("swap", recorded.swap)):
        if (size := _together(lines, roles, windows)) is not None:
            modes[name] = size / 2**20
    return modes


def _together(lines: dict[str, Line], roles: Sequence[str], windows: Windows) -> float | None:
    """Sum of the roles' means; None where one is not known."""
    means = [mean_over(lines[role], windows) if role in lines else None for role in roles]
    return None if None in means else sum(mean for mean in means if mean is not None)


def database_work(recorded: Recorded, windows: Windows, throughput: float) -> dict[str, float]:
    """Commits, rows and ms of statements of the database by transaction; nothing where it was not sampled in the
    windows.
    """
    if throughput <= 0:
        return {}
    means = {name: mean_over(line, windows) for name, line in recorded.database.items()}
    return {name: mean / throughput for name, mean in means.items() if mean is not None}


def mean_over(line: Line, windows: Windows) -> float | None:
    """Mean of the samples in the windows; a sample is the rate since the one before."""
    times, values = line
    inside = np.zeros(len(times), dtype=np.bool_)
    for begin, end in windows:
        inside |= (times > begin) & (times <= end)
    return float(values[inside].mean()) if inside.any() else None


def waits(recorded: Recorded, windows: Windows, throughput: float, mean: float) -> dict[str, float]:
    """Ms that a transaction waits for a connection, for a thread, for a CPU, and for the end of pauses. ``mean``: its
    response time in ms. What waits on average, by transactions a second, is the time that each waits (Little's law).
    """
    if throughput <= 0:
        return {}
    pools, seconds = recorded.pools, sum(end - begin for begin, end in windows)
    shares: dict[str, float | None] = {
        "connection_wait": _growth(pools.get("pool.wait_ms_total"), windows),
        "thread_wait": mean_over(pools["threads.queue"], windows) if "threads.queue" in pools else None,
    }
    if shares["connection_wait"] is None and "pool.waiting" in pools:
        shares["connection_wait"] = mean_over(pools["pool.waiting"], windows)
    uses = [(recorded.delays.between("application", begin, end), end - begin) for begin, end in windows]
    if known := [(use.share * length, length) for use, length in uses if use is not None]:
        shares["run_delay"] = sum(share for share, _ in known) / sum(length for _, length in known)
    by_name = {name: 1e3 * value / throughput for name, value in shares.items() if value is not None}
    pauses = [pause for window in windows if (pause := _pauses(recorded.series_dir, *window, stops=True)) is not None]
    if len(pauses) == len(windows):  # of those in flight when one begins, and of those that come while it lasts
        by_name["pause_wait"] = (
            sum(mean * float(pause.sum()) + 500 * float(pause @ pause) for pause in pauses) / seconds
        )
    return by_name


def _growth(line: Line | None, windows: Windows) -> float | None:
    """Of a counter in ms, as a share of the windows; None where it is not known there, or was set back."""
    if line is None or len(line[0]) < _FEWEST_SAMPLES or any(begin < line[0][0] for begin, _ in windows):
        return None
    grown = [float(np.diff(np.interp(window, *line))[0]) for window in windows]
    return None if min(grown) < 0 else sum(grown) / 1e3 / sum(end - begin for begin, end in windows)


def gc_share(recorded: Recorded, windows: Windows, _throughput: float = 0.0) -> dict[str, float]:
    """Share of some windows spent in collection pauses; nothing where there is no log."""
    paused = [pauses for window in windows if (pauses := _pauses(recorded.series_dir, *window)) is not None]
    if len(paused) < len(windows):
        return {}
    return {"gc_share": sum(float(pauses.sum()) for pauses in paused) / sum(end - begin for begin, end in windows)}


def compiling(recorded: Recorded, from_s: float, until_s: float) -> float | None:
    """Time that the compiler of the server's JVM worked, or waited for a CPU while it had work, in a window by its
    length (java.lang.management.CompilationMXBean); None where samples do not cover it.
    """
    grown = _grown(recorded, "jit.time_ms", from_s, until_s)
    return None if grown is None else grown / 1e3


def deoptimised(recorded: Recorded, from_s: float, until_s: float) -> float | None:
    """Methods a second that lost their optimised code in a window; None where samples do not cover it."""
    return _grown(recorded, "jit.deoptimised", from_s, until_s)


def _grown(recorded: Recorded, metric: str, from_s: float, until_s: float) -> float | None:
    _check(from_s, until_s)
    rows = series(recorded.series_dir, "pools", metric)
    times = rows["time_ns"].to_numpy() / 1e9
    if len(times) < _FEWEST_SAMPLES or times[0] > from_s or times[-1] < until_s - _SAMPLE:
        return None
    before, after = np.interp([from_s, until_s], times, rows["value"].to_numpy())
    return float(after - before) / (until_s - from_s)


def waiting_to_compile(recorded: Recorded, from_s: float, until_s: float) -> tuple[float, float] | None:
    """Share of a window's samples in which methods waited for the compiler, and how many did on average; None where no
    sample tells.
    """
    _check(from_s, until_s)
    rows = series(recorded.series_dir, "pools", "jit.queue")
    inside = rows.filter(pl.col("time_ns").is_between(int(from_s * 1e9), int(until_s * 1e9)))["value"].to_numpy()
    return (float((inside > 0).mean()), float(inside.mean())) if len(inside) else None


def pauses_of(series_dir: Path, stops: bool = True) -> NDArray[np.float64]:
    """Begin and end (2, n) of pauses of all threads, unix seconds: ``stops`` of the JVM, each from the request of its
    safepoint on, where the log has them, else of the collector.
    """
    rows = series(series_dir, "gc", "safepoint") if stops else pl.DataFrame()
    if not rows.height:
        rows = series(series_dir, "gc", "gc.pause")
    ends = rows["time_ns"].to_numpy() / 1e9  # a pause is logged when it ends
    return np.stack([ends - rows["value"].to_numpy() / 1e3, ends])


def _pauses(series_dir: Path, from_s: float, until_s: float, stops: bool = False) -> NDArray[np.float64] | None:
    """Seconds of each pause in a window, one that straddles an end counted in part; None when there is no log."""
    _check(from_s, until_s)
    if not (series_dir / "gc.parquet").exists():
        return None
    begins, ends = pauses_of(series_dir, stops)
    inside = np.minimum(ends, until_s) - np.maximum(begins, from_s)
    return np.asarray(np.maximum(inside, 0.0))


def _check(from_s: float, until_s: float) -> None:
    if until_s <= from_s:
        raise ValueError(f"the window ends ({until_s}) before it begins ({from_s})")


_MEANS = {  # of the host's samples in the windows
    "steal": "cpu.steal",
    "cpu_pressure": "psi.cpu.some",
    "memory_pressure": "psi.memory.some",
    "io_pressure": "psi.io.some",
    "frequency": "cpu.frequency",
}
_BUSY = ("cpu.user", "cpu.nice", "cpu.system")
_OWN_DISK = ("read_bytes", "write_bytes")
_DISK, _NETWORK = ("disk.read_bytes", "disk.write_bytes"), ("net.rx_bytes", "net.tx_bytes")
_HOST = (*_MEANS.values(), *_BUSY, *_DISK, *_NETWORK, "cpu.idle")
TOLD_ROLES = frozenset({"server", "database", "driver"})  # without which it is not known what the study used
_PROGRAMS = 5  # kept, those that used most


class MachineLines:
    """The series of one trial, read once for many windows. ``beside``: those of instances that ran beside it, whose
    processes are the study's, too. ``elsewhere``: roles of the study that this machine does not run.
    """

    def __init__(self, series_dir: Path, beside: Sequence[Path] = (), elsewhere: Sequence[str] = ()) -> None:
        self._elsewhere = frozenset(elsewhere)
        self._dir = series_dir
        self._lines = [CpuLines(path) for path in (series_dir, *beside)]

    def use(self, windows: Windows) -> MachineUse | None:
        """None where nothing was recorded in these windows."""
        figures = {name: value for name, metric in _MEANS.items() if (value := self._mean(metric, windows)) is not None}
        if (others := self._others(windows)) is not None:
            figures["others_cpu"] = others
        disk, own_disk = self._sum(_DISK, windows), self._own_disk(windows)
        if disk is not None and own_disk is not None:
            figures["others_disk"] = max(0.0, disk - own_disk)
        if (network := self._sum(_NETWORK, windows)) is not None:
            figures["others_network"] = network
        return MachineUse(figures, self._programs(windows)) if figures else None

    @cached_property
    def _host(self) -> pl.DataFrame:
        return _read(self._dir / "host.parquet").filter(pl.col("metric").is_in(_HOST))

    @cached_property
    def _processes(self) -> pl.DataFrame:
        metrics = [PROGRAM, KERNEL, *_OWN_DISK]
        return _read(self._dir / "processes.parquet").filter(pl.col("metric").is_in(metrics))

    @cached_property
    def _cpus(self) -> int:
        idle = self._host.filter(pl.col("metric") == "cpu.idle")["subject"]
        return int(idle.filter(idle.str.contains(r"^cpu\d+$")).n_unique()) or 1

    def _mean(self, metric: str, windows: Windows) -> float | None:
        wanted = (pl.col("metric") == metric) & (pl.col("subject") == "host")
        values = _inside(self._host.filter(wanted), windows)["value"]
        return float(values.to_numpy().mean()) if len(values) else None

    def _others(self, windows: Windows) -> float | None:
        busy = [self._mean(metric, windows) for metric in _BUSY]
        if not TOLD_ROLES - self._elsewhere <= set(self._lines[0].roles) or busy[0] is None or busy[2] is None:
            return None
        length = sum(end - begin for begin, end in windows)
        own_use = 0.0
        for at, lines in enumerate(self._lines):
            for role in lines.roles:
                if role in self._elsewhere or (at and role == OWN):  # the same process in all
                    continue
                uses = [
                    (lines.between(role, begin, end) or lines.ended(role, begin, end), (end - begin) / length)
                    for begin, end in windows
                ]
                own_use += sum(use.share * part for use, part in uses if use is not None)
        kernel = self._looks(KERNEL, windows).get("kernel", 0.0)
        return max(0.0, sum(share for share in busy if share is not None) - own_use / self._cpus - kernel)

    def _programs(self, windows: Windows) -> dict[str, float]:
        looks = self._looks(PROGRAM, windows)
        return {name: looks[name] for name in sorted(looks, key=lambda one: -looks[one])[:_PROGRAMS]}

    def _looks(self, metric: str, windows: Windows) -> dict[str, float]:
        """Mean share of all CPUs by subject, over the looks at all processes in the windows, or the nearest one."""
        rows = self._processes.filter(pl.col("metric").is_in([PROGRAM, KERNEL]))
        inside = _inside(rows, windows)
        if not inside.height and rows.height:
            middle = (windows[0][0] + windows[-1][1]) / 2 * 1e9
            times = rows["time_ns"].to_numpy()
            inside = rows.filter(pl.col("time_ns") == int(times[int(np.argmin(np.abs(times - middle)))]))
        looks = max(1, inside["time_ns"].n_unique())
        rows = inside.filter(pl.col("metric") == metric)
        sums = rows.group_by("subject", maintain_order=True).agg(pl.col("value").sum())
        return {str(name): float(value) / looks / self._cpus for name, value in sums.iter_rows()}

    def _sum(self, metrics: Sequence[str], windows: Windows) -> float | None:
        """Bytes a second of all devices but loopback."""
        rows = self._host.filter(pl.col("metric").is_in(metrics))
        if not rows.height:
            return None
        rows = rows.filter(pl.col("subject") != "lo")
        return _rate(_inside(rows, windows), _inside(self._host, windows))

    def _own_disk(self, windows: Windows) -> float | None:
        here = ~pl.col("subject").is_in(sorted(self._elsewhere))
        rows = self._processes.filter(pl.col("metric").is_in(_OWN_DISK) & here)
        return _rate(_inside(rows, windows), _inside(rows, windows)) if rows.height else None


def _rate(rows: pl.DataFrame, samples: pl.DataFrame) -> float:
    """Sum of the values a sample."""
    return float(rows["value"].sum()) / max(1, samples["time_ns"].n_unique())


def _inside(rows: pl.DataFrame, windows: Windows) -> pl.DataFrame:
    spans = [pl.col("time_ns").is_between(int(begin * 1e9), int(end * 1e9)) for begin, end in windows]
    return rows.filter(pl.any_horizontal(spans))


def _read(path: Path) -> pl.DataFrame:
    """Empty where the observer recorded nothing or its file cannot be read, which the report names."""
    try:
        return read_series(path).sort("time_ns")
    except (OSError, ReceivedError):
        return pl.DataFrame(schema=schema())
