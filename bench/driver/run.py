"""Compares leadline-load with wrk and ab on the same target in the same run: CPU per request, and latencies of a
server whose answers are known. Loopback only. `python bench/driver/run.py [--rounds 5] [--seconds 3]`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import t as student
from truth import Server, Truth, of_cycling_users, of_open_arrivals

ROOT = Path(__file__).parents[2]
RELEASE = ROOT / "driver" / "target" / "release"
PORT = 16000
CONNECTIONS = 32
PLAIN = "scenario: plain\n{more}mix: {{ get: 1 }}\ntransactions:\n  get: [{{ get: / }}]\n"


@dataclass(frozen=True)
class Measured:
    requests: int
    cpu: float  # seconds
    seconds: float
    latency: dict[str, float]  # ms

    @property
    def cpu_us(self) -> float:
        return 1e6 * self.cpu / self.requests


class Target:
    """The server with known answers, alone on the first CPU."""

    def __init__(self, *options: str) -> None:
        self._argv = [str(RELEASE / "examples" / "known_answers"), "--port", str(PORT), *options]

    def __enter__(self) -> Target:
        self._process = subprocess.Popen(self._argv, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: pin(0))
        assert self._process.stdout is not None
        if "listening" not in self._process.stdout.readline():
            raise SystemExit(f"the target did not start; is port {PORT} in use?")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


def pin(which: int) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[which % len(cpus)]})


def child(argv: list[str]) -> tuple[str, float, float]:
    """Output, CPU seconds and wall seconds of a generator on the second CPU."""
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT, preexec_fn=lambda: pin(1))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(argv)} ended with code {process.returncode}:\n{text}")
    return text, usage.ru_utime + usage.ru_stime, time.monotonic() - begin


def leadline(seconds: float, *options: str, more: str = "") -> Measured:
    with tempfile.TemporaryDirectory() as scratch:
        scenario, out = Path(scratch, "plain.yaml"), Path(scratch, "out")
        scenario.write_text(PLAIN.format(more=more))
        argv = [str(RELEASE / "leadline-load"), "run", str(scenario), "--url", f"http://127.0.0.1:{PORT}/"]
        argv += ["--out", str(out), "--steady", f"{seconds}s", "--max-sessions", "4000", *options]
        _, cpu, wall = child(argv)
        found = json.loads((out / "summary.json").read_text())
    if found["errors"] or found["dropped"]:
        raise SystemExit(f"leadline-load saw errors {found['errors']} and dropped {found['dropped']}")
    latency = {**found["steady"]["all"]["response_ms"], "lag": found["driver"]["lag_ms"]["mean"]}
    return Measured(found["requests"]["count"], cpu, wall, latency)


def wrk(seconds: float) -> Measured:
    argv = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds:g}s", "--latency", f"http://127.0.0.1:{PORT}/"]
    text, cpu, wall = child(argv)
    units = {"us": 0.001, "ms": 1.0, "s": 1000.0}
    pairs = re.findall(r"^ +(Latency|50%|99%) +([\d.]+)(us|ms|s)\b", text, re.M)
    found = {name: float(value) * units[unit] for name, value, unit in pairs}
    requests = re.search(r"(\d+) requests in", text)
    assert requests, text
    return Measured(int(requests[1]), cpu, wall, {"mean": found["Latency"], "p50": found["50%"], "p99": found["99%"]})


def ab(seconds: float) -> Measured:
    argv = ["ab", "-k", "-q", "-c", str(CONNECTIONS), "-t", f"{seconds:g}", "-n", "10000000"]
    text, cpu, wall = child([*argv, f"http://127.0.0.1:{PORT}/"])
    requests, mean = re.search(r"Complete requests: +(\d+)", text), re.search(r"^Total: +\d+ +(\d+)", text, re.M)
    assert requests, text
    assert mean, text
    found = {f"p{p}": float(value) for p, value in re.findall(r"^ +(50|95|99)% +(\d+)", text, re.M)}
    return Measured(int(requests[1]), cpu, wall, {"mean": float(mean[1]), **found})


def ratio(ours: list[float], theirs: list[float]) -> str:
    """Geometric mean of the paired ratios with its 95 % interval (Student's t on the logarithms)."""
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    middle = statistics.mean(logs)
    if len(logs) < 2:
        return f"{math.exp(middle):.2f}"
    half = float(student.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(middle):.2f} ({math.exp(middle - half):.2f} to {math.exp(middle + half):.2f})"


def compare_cpu(rounds: int, seconds: float) -> None:
    """Saturated, closed, kept connections: rounds of all generators one after the other."""
    closed = ["--users", str(CONNECTIONS), "--priority", "normal"]  # as the others run
    tools = {"leadline-load": lambda: leadline(seconds, *closed), "wrk": lambda: wrk(seconds)}
    if shutil.which("ab"):
        tools["ab"] = lambda: ab(seconds)
    found: dict[str, list[Measured]] = {name: [] for name in tools}
    with Target("--service-us", "0"):
        for name in tools:
            tools[name]() if rounds > 1 else None  # warm
        for turn in range(rounds):
            order = list(tools)
            for name in order[turn % len(order) :] + order[: turn % len(order)]:
                found[name].append(tools[name]())
    print(f"\nCPU per request, {CONNECTIONS} connections, saturated, {rounds} rounds of {seconds:g} s\n")
    print("| generator | CPU us/request, median (least, most) | requests/s, median | CPU, leadline-load : this |")
    print("| --- | --- | --- | --- |")
    ours = [m.cpu_us for m in found["leadline-load"]]
    for name, runs in found.items():
        cpu = [m.cpu_us for m in runs]
        rate = statistics.median(m.requests / m.seconds for m in runs)
        against = "" if name == "leadline-load" else ratio(ours, cpu)
        spread = f"{statistics.median(cpu):.2f} ({min(cpu):.2f}, {max(cpu):.2f})"
        print(f"| {name} | {spread} | {rate:,.0f} | {against} |")


def compare_rate(seconds: float) -> None:
    """Open arrivals at a fixed rate; wrk and ab have none."""
    print("\nCPU per request at 2,000 requests/s, constant arrivals, target answers after 1 ms\n")
    print("| leadline-load | CPU us/request | mean ms | p99 ms |\n| --- | --- | --- | --- |")
    more = "arrivals: { unit: transaction }\n"
    with Target():
        for tick in ("0us", "500us", "1ms"):
            run = leadline(seconds, "--arrivals", "constant", "--rate", "2000", "--tick", tick, more=more)
            mean, p99 = run.latency["mean"], run.latency["p99"]
            print(f"| tick {tick} | {run.cpu_us:.1f} | {mean:.3f} | {p99:.3f} |")


def compare_accuracy(rounds: int, seconds: float) -> None:
    """A server with known answers. Medians over the rounds; all generators take turns."""
    server = Server()
    frozen = ["--service-us", f"{server.service * 1e6:.0f}", "--freeze-ms", f"{server.freeze * 1e3:.0f}"]
    frozen += ["--period-ms", f"{server.period * 1e3:.0f}"]
    whole = server.period * max(1, round(seconds / server.period))
    unit = "arrivals: { unit: transaction }\n"
    cycle = "pause: { kind: cycle, shape: exponential, mean: 100ms }\n"
    ramp = ["--ramp-up", f"{server.period}s", "--ramp-down", "1s"]
    rate = ["--rate", "1000", *ramp]
    opened, cycled = of_open_arrivals(server), of_cycling_users(server, 0.1)
    tools: dict[str, tuple[Truth, Callable[[], Measured]]] = {
        "leadline-load, constant, 1,000/s": (
            opened,
            lambda: leadline(whole, "--arrivals", "constant", *rate, more=unit),
        ),
        "leadline-load, Poisson, 1,000/s": (opened, lambda: leadline(whole, "--arrivals", "poisson", *rate, more=unit)),
        "leadline-load, 100 users, exponential cycles of 100 ms": (
            cycled,
            lambda: leadline(whole, "--users", "100", *ramp, more=cycle),
        ),
        f"wrk, closed, {CONNECTIONS} connections": (opened, lambda: wrk(whole)),
    }
    if shutil.which("ab"):
        tools[f"ab, closed, {CONNECTIONS} connections"] = (opened, lambda: ab(whole))
    found: dict[str, list[Measured]] = {name: [] for name in tools}
    with Target(*frozen):
        for _ in range(rounds):
            for name, (_, tool) in tools.items():
                found[name].append(tool())
    print(
        f"\nA server of 1 ms that freezes for 200 ms every 2 s; {rounds} rounds of {whole:g} s, medians in ms, "
        "in brackets the computed truth; lag: how late the generator says it was on average\n"
    )
    print("| generator | mean | p50 | p95 | p99 | p99.9 | lag |\n| --- | --- | --- | --- | --- | --- | --- |")
    for name, (truth, _) in tools.items():
        cells = []
        for key in ("mean", "p50", "p95", "p99", "p999", "lag"):
            values = [m.latency[key] for m in found[name] if key in m.latency]
            right = f" ({getattr(truth, key):.2f})" if key != "lag" else ""
            cells.append(f"{statistics.median(values):.2f}{right}" if values else "-")
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    if not shutil.which("wrk"):
        raise SystemExit("wrk is not installed (Debian: apt-get install wrk)")
    build = ["cargo", "build", "--release", "--locked", "--bins", "--examples"]
    subprocess.run([*build, "--manifest-path", str(ROOT / "driver" / "Cargo.toml")], check=True)
    print(f"{os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f} before the first run")
    compare_cpu(options.rounds, options.seconds)
    compare_rate(options.seconds)
    compare_accuracy((options.rounds + 1) // 2, max(8.0, options.seconds))
    print(f"\nload average {os.getloadavg()[0]:.1f} after the last run")


if __name__ == "__main__":
    main()
