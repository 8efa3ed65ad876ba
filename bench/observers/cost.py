"""What the polling observers cost: CPU of this process while they record, against the same process without them.

    python bench/observers/cost.py [--seconds 40] [--interval 1.0] [--threads 120] [--backends 40]

The observed groups are stand-ins of the size of a real stack: a "server" with many sleeping threads, a "database" of
many forked processes, a "driver". Prints one line per observer: CPU seconds an hour (user + system, getrusage), MB an
hour of raw files, the largest lateness.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

from leadline.host.base import Process, ProcessSpec
from leadline.host.local import LocalHost
from leadline.observe.base import Observer, ObserverContext, ObserverSet
from leadline.observe.host import HostObserver
from leadline.observe.processes import ProcessObserver

THREADS = "import threading, time\nfor _ in range({n}):\n threading.Thread(target=time.sleep, args=(9e4,)).start()"
FORKS = "import os, time\nfor _ in range({n}):\n if os.fork() == 0:\n  time.sleep(9e4)\ntime.sleep(9e4)"


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(
    observers: list[Observer], processes: dict[str, Process], seconds: float, interval: float
) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        group = ObserverSet(observers)
        before, began = cpu_seconds(), time.monotonic()
        group.start(ObserverContext(directory, processes, interval=interval))
        time.sleep(seconds)
        group.stop()
        hours = (time.monotonic() - began) / 3600
        used = cpu_seconds() - before
        raw = sum(file.stat().st_size for file in directory.glob("raw/*"))
        late = [0.0]
        for path in group.collect().values():
            rows = pl.read_parquet(path).filter(pl.col("metric") == "observer.lateness_ms")
            late += rows["value"].to_list()
        decode = cpu_seconds() - before - used
        if group.warnings:
            sys.exit("\n".join(group.warnings))
    return {
        "cpu_s_per_hour": round(used / hours, 2),
        "raw_mb_per_hour": round(raw / hours / 1e6, 2),
        "largest_lateness_ms": round(max(late), 2),
        "decode_cpu_s_per_hour_recorded": round(decode / hours, 2),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=40)
    options.add_argument("--interval", type=float, default=1.0)
    options.add_argument("--threads", type=int, default=120)
    options.add_argument("--backends", type=int, default=40)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        host = LocalHost(state=Path(scratch))
        programs = {
            "server": THREADS.format(n=chosen.threads),
            "database": FORKS.format(n=chosen.backends),
            "driver": THREADS.format(n=2),
        }
        started: dict[str, Process] = {}
        try:
            for role, program in programs.items():
                output = Path(scratch) / f"{role}.log"
                started[role] = host.start(ProcessSpec(role, [sys.executable, "-c", program], output))
            time.sleep(2)
            cases: dict[str, list[Observer]] = {
                "none": [],
                "host": [HostObserver(host.files)],
                "processes": [ProcessObserver(host.files)],
                "processes, all of it every sample": [ProcessObserver(host.files, threads_every=1, members_every=1)],
                "host and processes": [HostObserver(host.files), ProcessObserver(host.files)],
            }
            for name, observers in cases.items():
                got = measure(observers, started, chosen.seconds, chosen.interval)
                print(json.dumps({"observers": name, **got}), flush=True)
        finally:
            for process in started.values():
                process.stop()


if __name__ == "__main__":
    main()
