"""What the polling observers cost: CPU of this process while they record, against the same process without them.

    python bench/observers/cost.py [--seconds 40] [--interval 1.0] [--threads 120] [--backends 40]
    python bench/observers/cost.py --profile light|full [--server tomcat] [--pairs 40] [--java HOME]

The observed groups are stand-ins of the size of a real stack: a "server" with many sleeping threads, a "database" of
many forked processes, a "driver". Prints one line per observer: CPU seconds an hour (user + system, getrusage), MB an
hour of raw files, the largest lateness.

``--profile``: what a profile costs a server's JVM instead, percent of its CPU per transaction with its 95 % interval:
the brokerage at a fixed rate, in pairs of stretches of 4.5 s, one with samples and one without, in random order.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl
from scipy import stats

from leadline.host.base import Process, ProcessSpec
from leadline.host.foreign import ForeignProcess
from leadline.host.java import find_java
from leadline.host.local import LocalHost
from leadline.observe.base import Observer, ObserverContext, ObserverSet
from leadline.observe.host import HostObserver
from leadline.observe.processes import ProcessObserver, kind_of_thread
from leadline.observe.profile import Detail, ProfileObserver

LEADLINE = (sys.executable, "-m", "leadline")
THREADS = "import threading, time\nfor _ in range({n}):\n threading.Thread(target=time.sleep, args=(9e4,)).start()"
FORKS = "import os, time\nfor _ in range({n}):\n if os.fork() == 0:\n  time.sleep(9e4)\ntime.sleep(9e4)"


STUDY = """
study: cost
question: What does a profile cost?
stack: {{ app: brokerage, mode: direct, server: {server}, database: postgres, java: {java} }}
workload: {{ scenario: brokerage-json, users: 10, ramp_up: 5s, steady: 10s, ramp_down: 1s }}
factors: {{ server.threads.max: [50, 20] }}
settings: {{ jvm.heap: 256m }}
design: {{ kind: one-at-a-time, replicates: 2 }}
responses: [throughput]
"""
# Two kinds of transactions alone: more would make the CPU of a slot differ by which it happens to have.
SCENARIO = """
scenario: cost
identities: 200
variables: { account: "user-${zpad:6:${user}}", password: "pw-${zpad:6:${user}}" }
login: login
arrivals: { unit: session, session_length: 1000000 }
mix: { quote: 2, home: 1 }
transactions:
  login:
    - post: /api/login
      json: { user: "${account}", password: "${password}" }
  quote: [{ get: "/api/quotes?symbols=S00001,S00002" }]
  home: [{ get: /api/home }]
"""
RATE, WARM, SETTLE, SLOT = 200, 25.0, 0.5, 4.5  # transactions a second; seconds


def profile_cost(detail: Detail, server: str, java: Path, pairs: int) -> dict[str, Any]:
    """Percent of CPU per transaction of the brokerage on ``server``, its JIT compiler's left out."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        folder, host = Path(scratch), LocalHost(state=Path(scratch) / "state")
        folder.chmod(0o755)  # the server's user reads the recorder's settings
        (study := folder / "cost.yaml").write_text(STUDY.format(server=server, java=java))
        (scenario := folder / "cost.scenario.yaml").write_text(SCENARIO)
        lab = ["--lab", str(folder / "lab")]
        stack.callback(_leadline, "down", *lab)
        url = json.loads(_leadline("up", str(study), "--json", *lab))["url"]
        jvm = ForeignProcess(host.files, _pid_of(folder))
        steady = f"{WARM + (2 * pairs + 4) * (SLOT + SETTLE + 1):.0f}s"
        rate = ["--rate", str(RATE), "--arrivals", "constant", "--ramp-up", "1s", "--steady", steady]
        load = subprocess.Popen(
            [*LEADLINE, "load", str(scenario), "--url", url, *rate, "--out", str(folder / "out")],
            stdout=subprocess.DEVNULL,
        )
        stack.callback(load.wait)
        stack.callback(load.terminate)
        observer = ProfileObserver(host, detail)
        observer.start(ObserverContext(folder, {"server": jvm}, java))
        time.sleep(WARM)
        ratios = []
        for at in range(pairs + 1):
            by_kind = {}
            for on in random.sample([False, True], 2):
                observer.sample(on)
                time.sleep(SETTLE)
                by_kind[on] = _used(jvm.pid, host, SLOT)
            if at:  # the first recording loads the recorder's classes
                ratios.append(math.log(by_kind[True] / by_kind[False]))
        observer.stop()
        problems = [text for text in observer.warnings if text.startswith("no profile")]
        if problems or load.poll() is not None:
            sys.exit("\n".join([*problems, f"load: {load.poll()}"]))
    deviation = statistics.stdev(ratios)
    reach = float(stats.t.ppf(0.975, pairs - 1)) * deviation / math.sqrt(pairs)
    figures = {"cpu_percent": 100 * statistics.mean(ratios), "plus_minus": 100 * reach, "of_pair": 100 * deviation}
    return {"profile": detail, "server": server, **{name: round(value, 2) for name, value in figures.items()}}


def _leadline(*words: str) -> str:
    return subprocess.run([*LEADLINE, *words], check=True, capture_output=True, text=True).stdout


def _pid_of(folder: Path) -> int:
    """The JVM that has a folder in its command line."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"/bin/java\0" in (words := file.read_bytes()) and str(folder).encode() in words:
                return int(file.parent.name)
    raise SystemExit("the server's JVM is not there")


def _used(pid: int, host: LocalHost, seconds: float) -> float:
    """CPU by second of the JVM, its JIT compiler's left out."""
    before, began = _steady_ns(pid, host), time.monotonic_ns()
    time.sleep(seconds)
    return (_steady_ns(pid, host) - before) / (time.monotonic_ns() - began)


def _steady_ns(pid: int, host: LocalHost) -> int:
    used = host.files.cpu_ns(pid) or 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if kind_of_thread((thread / "comm").read_text().strip()) == "compiler":
                used -= int((thread / "schedstat").read_text().split()[0])
    return used


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
    options.add_argument("--server", default="tomcat")
    options.add_argument("--pairs", type=int, default=40)
    options.add_argument("--java", type=Path, default=None)
    chosen = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended
    if chosen.profile:
        print(json.dumps(profile_cost(chosen.profile, chosen.server, chosen.java or find_java(), chosen.pairs)))
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
