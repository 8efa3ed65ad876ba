"""What the polling observers cost: CPU of this process while they record, against the same process without them.

    python bench/observers/cost.py [--seconds 40] [--interval 1.0] [--threads 120] [--backends 40]
    python bench/observers/cost.py --profile light|full [--pairs 40] [--java HOME]

The observed groups are stand-ins of the size of a real stack: a "server" with many sleeping threads, a "database" of
many forked processes, a "driver". Prints one line per observer: CPU seconds an hour (user + system, getrusage), MB an
hour of raw files, the largest lateness.

``--profile``: what a profile costs a JVM instead, percent of CPU by unit of work with its 95 % interval: pairs of
stretches of 3 s, one with samples and one without, in random order.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl
from scipy import stats

from leadline.host.base import Process, ProcessSpec
from leadline.host.java import find_java
from leadline.host.local import LocalHost
from leadline.observe.base import Observer, ObserverContext, ObserverSet
from leadline.observe.host import HostObserver
from leadline.observe.processes import ProcessObserver
from leadline.observe.profile import ProfileObserver

THREADS = "import threading, time\nfor _ in range({n}):\n threading.Thread(target=time.sleep, args=(9e4,)).start()"
FORKS = "import os, time\nfor _ in range({n}):\n if os.fork() == 0:\n  time.sleep(9e4)\ntime.sleep(9e4)"


WORK = """
import java.util.concurrent.atomic.LongAdder;
public class Work {
    static final LongAdder units = new LongAdder();
    static int below(int depth, java.util.Map<String, Integer> map) {  // stacks as deep as those of servers
        return depth > 0 ? below(depth - 1, map) : map.merge("k" + units.intValue() % 500, 1, Integer::sum);
    }
    public static void main(String[] args) throws Exception {
        for (int thread = 0; thread < 8; thread++) new Thread(() -> {
            java.util.Map<String, Integer> map = new java.util.HashMap<>();
            while (true) {
                for (int at = 0; at < 300; at++) below(60, map);
                units.increment();
                try { Thread.sleep(1); } catch (InterruptedException e) { return; }
            }
        }).start();
        while (System.in.read() >= 0) System.out.println(units.sum());
    }
}
"""


def profile_cost(detail: str, java: Path, pairs: int) -> tuple[float, float]:
    """Percent of CPU by unit of work, and half of its interval."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "Work.java"
        source.write_text(WORK)
        command = [str(java / "bin" / "java"), "-Xmx128m", str(source)]
        host = LocalHost(state=Path(scratch) / "state")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            observer = ProfileObserver(host, "full" if detail == "full" else "light")
            observer.start(ObserverContext(Path(scratch), {"server": _Jvm(server)}, java))
            time.sleep(20)  # warm

            def used(seconds: float) -> float:
                """CPU by unit, ns."""
                before = _look(server, host)
                time.sleep(seconds)
                units, cpu = (now - then for now, then in zip(_look(server, host), before, strict=True))
                return cpu / units

            ratios = []
            observer.sample(True)
            for _ in range(pairs):
                by_kind = {}
                for on in random.sample([False, True], 2):
                    observer.sample(on)
                    time.sleep(0.5)
                    by_kind[on] = used(3.0)
                ratios.append(math.log(by_kind[True] / by_kind[False]))
            observer.stop()
            server.kill()
        if observer.warnings:
            sys.exit("\n".join(observer.warnings))
    reach = float(stats.t.ppf(0.975, pairs - 1)) * statistics.stdev(ratios) / math.sqrt(pairs)
    return 100 * statistics.mean(ratios), 100 * reach


class _Jvm:
    """A process group that is one JVM."""

    name = "server"

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.pid = process.pid

    def pids(self) -> list[int]:
        return [self.pid]


def _look(server: subprocess.Popen[str], host: LocalHost) -> tuple[int, int]:
    """Units of work, ns of CPU."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write("\n")
    server.stdin.flush()
    return int(server.stdout.readline()), host.files.cpu_ns(server.pid) or 0


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
    options.add_argument("--profile", choices=("light", "full"))
    options.add_argument("--pairs", type=int, default=40)
    options.add_argument("--java", type=Path, default=None)
    chosen = options.parse_args()
    if chosen.profile:
        percent, reach = profile_cost(chosen.profile, chosen.java or find_java(), chosen.pairs)
        print(json.dumps({"profile": chosen.profile, "cpu_percent": round(percent, 2), "plus_minus": round(reach, 2)}))
        return
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
