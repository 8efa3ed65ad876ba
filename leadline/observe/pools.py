"""Observer "pools": the server's connection pools, executors, heap and collections, sampled by the agent inside it.

What servers tell differs, and what a server does not tell is absent, never zero:

* Open Liberty (feature monitor-1.0) counts only the requests that had to wait. ``pool.wait_ms_mean`` divides what all
  of them waited in the interval by the connections given back in it, so it is a mean over all requests. There is no
  maximum of its executor.
  Its statement caches are read by reflection, as no MBean tells of them: discards and what is kept, not the uses.
* WildFly (statistics-enabled) tells no present number of waiters: ``pool.waiting`` is the mean over the interval, the
  time waited in it divided by its length (Little's law), and ``pool.wait_ms_mean`` a mean over those that waited.
* Tomcat's pool (Commons DBCP 2) tells a mean over its last hundred requests, with the check or the opening of the
  connection, in whole milliseconds; neither a count of the requests that waited nor a total.
* GlassFish (its monitoring levels) times every request for a connection in whole milliseconds: ``pool.wait_ms_mean`` is
  the mean over all requests of the interval. All of it is read by reflection from the collectors behind its beans.
  Statements prepared and no longer kept count as discarded.
* Spring Boot: its HikariCP pools, by reflection from their data sources. They time nothing:
  ``pool.waiting`` is the number of waiters at the sample.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from leadline.host.base import Host
from leadline.host.java import java_pid, load_agent
from leadline.host.received import csv_file, read
from leadline.host.textfile import write_private
from leadline.model.errors import LeadlineError
from leadline.model.received import ReceivedError
from leadline.observe.base import ObserverContext
from leadline.observe.table import schema

if TYPE_CHECKING:
    import polars as pl

# "so far" marks counters that grow from the start of the server.
UNITS = {
    "pool.in_use": "connections",
    "pool.free": "connections",
    "pool.size": "connections",
    "pool.max": "connections",
    "pool.waiting": "requests",
    "pool.wait_ms_mean": "milliseconds a request",
    "pool.wait_ms_total": "milliseconds so far",
    "pool.waits": "requests that waited so far",
    "pool.requests": "requests so far",
    "pool.use_ms_mean": "milliseconds a use",
    "pool.created": "connections so far",
    "pool.destroyed": "connections so far",
    "statements.uses": "statements so far",
    "statements.prepared": "statements so far",
    "statements.discarded": "statements so far",
    "statements.kept": "statements",
    "threads.active": "threads",
    "threads.size": "threads",
    "threads.max": "threads",
    "threads.queue": "tasks",
    "http.connections": "connections",
    "heap.used": "bytes",
    "heap.committed": "bytes",
    "gc.count": "collections so far",
    "gc.time_ms": "milliseconds so far",
    "jit.time_ms": "milliseconds so far",
    "jit.code": "bytes",
    "jit.code_share": "share of the space for it",
    "jit.queue": "methods that wait",
    "jit.deoptimised": "methods that lost their optimised code since the first sample",
    "jvm.threads": "threads",
    "agent.pools": "pools found",
    "agent.errors": "probes that failed",
    "agent.sample_us": "microseconds a sample",
    "agent.sample_cpu_us": "microseconds of CPU a sample",
}
_FEWEST_SAMPLES = 2
_FIRST_SAMPLE = 3.0  # seconds to wait for it


class PoolsObserver:
    """Loads the agent into the server's JVM; samples go to ``raw/agent.csv``."""

    name = "pools"

    def __init__(self, host: Host) -> None:
        self._host = host
        self._directory: Path | None = None
        self._problem = ""

    @property
    def warnings(self) -> Sequence[str]:
        """What a reader of the series must know: the agent was refused, or statistics are off."""
        return [self._problem] if self._problem else []

    def start(self, context: ObserverContext) -> None:
        """Starts sampling and checks that the pools' statistics are on. Never fails a trial: see ``warnings``."""
        self._directory, self._problem = context.directory, ""
        raw = context.directory / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        server = context.processes.get("server")
        if server is None:
            self._problem = "no server to load the agent into: no series of its pools"
            return
        options = _options(context.directory)
        samples, compilations = raw / "agent.csv", _compilations(context.directory)
        files = {"samples": samples, "compilations": compilations}
        for file in files.values():
            write_private(file, "")
        lines = [f"{name}={_escaped(file)}" for name, file in files.items()]
        options.write_text("\n".join([*lines, f"interval_ms={max(1, round(context.interval * 1000))}", ""]))
        options.chmod(0o644)  # the server's user reads it, whatever the mask
        try:
            java = java_pid(self._host.files, server)
            for file in files.values():
                self._host.give(file, java)
            load_agent(self._host, context.java_home, java, options)
        except (LeadlineError, ProcessLookupError) as error:
            options.unlink(missing_ok=True)
            compilations.unlink(missing_ok=True)
            self._problem = f"no series of the server's pools: {error}"
            return
        self._problem = _statistics_problem(samples)

    def stop(self) -> None:
        if self._directory is None:
            return
        _options(self._directory).unlink(missing_ok=True)  # the sampler ends when its options are gone
        _compilations(self._directory).unlink(missing_ok=True)  # its lines were counted
        if self._problem and _has_pools(self._directory / "raw" / "agent.csv"):
            self._problem = ""  # the pool came with the first request

    def collect(self) -> Path | None:
        return self.collect_from(self._directory) if self._directory else None

    def collect_from(self, directory: Path) -> Path | None:
        """``collect`` for a trial's directory that another, ended process has recorded."""
        raw = directory / "raw" / "agent.csv"
        frame = read_samples(raw)
        if frame.is_empty():
            return None
        path = directory / "series" / f"{self.name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        frame.sort("metric", "subject", "time_ns").write_parquet(partial, compression="zstd")
        partial.replace(path)
        return path


def read_samples(file: Path) -> pl.DataFrame:
    """The agent's rows; a last line that was cut off by a kill is dropped. Empty if there is no file. Raises
    ReceivedError.
    """
    try:
        return csv_file(file, schema())
    except FileNotFoundError:
        import polars as pl

        return pl.DataFrame(schema=schema())


def _whole_lines(file: Path) -> bytes:
    try:
        text = read(file)
    except (FileNotFoundError, ReceivedError):  # the latter is told when it is collected
        return b""
    return text[: text.rfind(b"\n") + 1]


def compiled_since(directory: Path, from_s: float) -> tuple[float, float] | None:
    """Seconds that the compiler worked since a moment (unix seconds) and the methods that wait for it now, from what
    the agent has written so far; None where it tells of no compiler, or not of that time.
    """
    import numpy as np
    import polars as pl

    rows = read_samples(directory / "raw" / "agent.csv")
    times, work = (rows.filter(pl.col("metric") == "jit.time_ms")[name].to_numpy() for name in ("time_ns", "value"))
    waiting = rows.filter(pl.col("metric") == "jit.queue")["value"]
    if len(times) < _FEWEST_SAMPLES or times[0] > from_s * 1e9 or times[-1] <= from_s * 1e9:
        return None
    return float(work[-1] - np.interp(from_s * 1e9, times, work)) / 1e3, float(waiting[-1]) if len(waiting) else 0.0


def _options(directory: Path) -> Path:
    return directory / "raw" / "agent.properties"


def _compilations(directory: Path) -> Path:
    return directory / "raw" / "compilations.log"


def _escaped(path: Path) -> str:
    return str(path.absolute()).replace("\\", "\\\\")


def _statistics_problem(samples: Path) -> str:
    deadline = time.monotonic() + _FIRST_SAMPLE
    while time.monotonic() < deadline:
        if b",agent.sample_us," in _whole_lines(samples):
            if _has_pools(samples):
                return ""
            return (
                "the server shows no statistics of a connection pool: no series of its pools"
                " (on Open Liberty, WildFly and GlassFish they need server.monitoring on; of an application of your own"
                " only HikariCP's in Spring Boot are known)"
            )
        time.sleep(0.02)
    return f"the agent was loaded but wrote no sample in {_FIRST_SAMPLE:g} s: no series of the server's pools"


def _has_pools(samples: Path) -> bool:
    rows = (line.split(b",") for line in _whole_lines(samples).splitlines())
    return any(row[1:2] == [b"agent.pools"] and row[-1].strip() not in (b"0", b"0.0") for row in rows)
