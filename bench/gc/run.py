"""leadline gc beside GCViewer and GCToolkit on the same real logs: pauses first, then CPU, memory.

    python bench/gc/run.py [--mb 20] [--rounds 5] [--heap 96m] [--keep DIR]

Runs a small program under every collector of the JDKs of this host with its log and the flight recorder on. A reader
is exact where count and sum are those of the log's own lines; the recorder is asked whether these lines are all.
Needs Maven once, for the peers (bench/gc/peers/pom.xml).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logs import HERE, Real, jdks, lengthen, make
from scipy.stats import t as student

PEERS = HERE / "peers"
MODULES = "com.microsoft.gctoolkit.api,com.microsoft.gctoolkit.parser,com.microsoft.gctoolkit.vertx"


@dataclass(frozen=True)
class Read:
    pauses: dict[str, float]  # empty: it gave up
    cpu: float  # s, user and system
    wall: float  # s
    memory: float  # MB, largest resident set


def readers() -> dict[str, list[str]]:
    """Commands that print count, sum_ms and max_ms; the log's path goes last."""
    java = str(jdks()[0].path / "bin" / "java")
    needed = PEERS / "target" / "dependency"
    if not needed.is_dir():
        subprocess.run(["mvn", "-B", "-q", "-f", PEERS / "pom.xml", "dependency:copy-dependencies"], check=True)
    classes = PEERS / "target" / "classes"
    javac = [java.removesuffix("java") + "javac", "-cp", f"{needed}/*", "-d", str(classes)]
    subprocess.run([*javac, *map(str, PEERS.glob("*.java"))], check=True)
    modules = ["--module-path", str(needed), "--add-modules", MODULES, "-cp", str(classes)]
    return {
        "leadline": [sys.executable, "-m", "leadline.cli", "gc", "--json"],
        "GCViewer": [java, "-cp", f"{classes}:{needed}/*", "peers.Viewer"],
        "GCToolkit": [java, *modules, "peers.Toolkit"],
    }


def read(command: list[str], path: Path) -> Read:
    """One run, by itself."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([*command, str(path)], stdout=output, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode()
    pauses: dict[str, Any] = {}
    if process.returncode == 0:
        try:
            pauses = json.loads(text)
        except ValueError:  # a peer that prints other things before
            last = text.strip().splitlines()[-1:]
            pauses = json.loads(last[0]) if last and last[0].startswith("{") else {}
    pauses = pauses.get("pauses", pauses)
    return Read(pauses, usage.ru_utime + usage.ru_stime, time.monotonic() - began, usage.ru_maxrss / 1e3)


def against_the_recorder(real: Real) -> str:
    """Collections that both have, and how the sums differ; those at the ends of a recording are in one only."""
    from leadline.observe.gclog.files import parse

    logged: dict[int, list[float]] = {}
    for pause in parse(real.path).pauses:
        logged.setdefault(pause.gc_id or 0, []).append(pause.ms)
    both = logged.keys() & real.jfr.keys()
    same = sum(len(logged[number]) == len(real.jfr[number]) for number in both)
    ours, theirs = (sum(sum(one[number]) for number in both) for one in (logged, real.jfr))
    only = len(logged.keys() ^ real.jfr.keys())
    return f"{same} of {len(both)} | {only} | {100 * (ours - theirs) / theirs:+.1f} %"


def correctness(reals: list[Real], commands: dict[str, list[str]]) -> None:
    print("| log | pauses | sum ms | " + " | ".join(commands) + " | collections as recorded | in one only | sum |")
    print("| --- " * (len(commands) + 6) + "|")
    for real in reals:
        count, total = len(real.scan), math.fsum(real.scan)
        cells = []
        for command in commands.values():
            got = read(command, real.path).pauses
            if not got:
                cells.append("fails")
            elif got["count"] == count and math.isclose(got["sum_ms"], total, abs_tol=0.002 * count):
                cells.append("exact")
            else:
                cells.append(f"{got['count']:.0f}, {got['sum_ms']:.1f} ms")
        row = [real.name, str(count), f"{total:.1f}", *cells, against_the_recorder(real)]
        print(f"| {' | '.join(row)} |", flush=True)


def interval(ratios: list[float]) -> str:
    """Geometric mean with a 95 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return f"{math.exp(mean):.2f}"
    half = student.ppf(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(mean):.2f} ({math.exp(mean - half):.2f} to {math.exp(mean + half):.2f})"


def speed(reals: list[Real], commands: dict[str, list[str]], folder: Path, size: int, rounds: int) -> None:
    print("\n| log | MB | reader | MB/CPU s | CPU s | MB of memory | CPU, leadline : this |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for real in reals:
        path = folder / f"long-{real.path.name}"
        megabytes = lengthen(real.path, path, size) / 1e6
        found: dict[str, list[Read]] = {name: [] for name in commands}
        names = list(commands)
        for turn in range(rounds):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                found[name].append(read(commands[name], path))
        for name, got in found.items():
            cpu = statistics.median(one.cpu for one in got)
            pairs = [ours.cpu / theirs.cpu for ours, theirs in zip(found["leadline"], got, strict=True)]
            ratio = "" if name == "leadline" else interval(pairs)
            memory = max(one.memory for one in got)
            row = (real.name, f"{megabytes:.1f}", name, f"{megabytes / cpu:.1f}", f"{cpu:.2f}", f"{memory:.0f}", ratio)
            print(f"| {' | '.join(row)} |", flush=True)
        path.unlink()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--mb", type=float, default=20, help="size of the logs whose reading is timed")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--heap", default="96m")
    options.add_argument("--blocks", type=int, default=300_000)
    options.add_argument("--only", default="", help="time only logs whose name begins so: '25 '")
    options.add_argument("--keep", type=Path, help="where the logs stay")
    chosen = options.parse_args()
    commands = readers()
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        reals = make(folder, chosen.heap, chosen.blocks, 6000)
        if not reals:
            sys.exit("no JDK 17 or newer with its tools was found")
        correctness(reals, commands)
        timed = [real for real in reals if real.name.startswith(chosen.only)]
        speed(timed, commands, folder, round(chosen.mb * 1e6), chosen.rounds)


if __name__ == "__main__":
    main()
