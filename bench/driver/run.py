"""leadline-load against other generators on the same target in the same run: CPU per request, sessions at equal rates,
start, memory, and response times against the truth. Loopback only.
`python bench/driver/run.py [--rounds 5] [--seconds 2] [--only accuracy ...]`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import accuracy
import sessions
from common import PORT, RELEASE, ROOT, URL, Target, child, ratio

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


def oha(seconds: float) -> Measured:
    argv = [str(sessions.cache() / "oha"), "--no-tui", "--output-format", "json", "-c", str(CONNECTIONS)]
    text, cpu, wall = child([*argv, "-z", f"{seconds:g}s", f"{URL}/"], {"TOKIO_WORKER_THREADS": "1"})
    found = json.loads(text)
    return Measured(sum(found["statusCodeDistribution"].values()), cpu, wall, {})


def compare_cpu(rounds: int, seconds: float) -> None:
    """Saturated, closed, kept connections: rounds of all generators one after the other."""
    closed = ["--users", str(CONNECTIONS), "--priority", "normal"]  # as the others run
    tools = {"leadline-load": lambda: leadline(seconds, *closed), "wrk": lambda: wrk(seconds)}
    if shutil.which("ab"):
        tools["ab"] = lambda: ab(seconds)
    if (sessions.cache() / "oha").exists():
        tools["oha"] = lambda: oha(seconds)
    else:
        print("oha is not there: `cargo install oha --version 1.16.0 --locked`, then copy it to the bench's cache")
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


def compare_sessions(rounds: int, rate: float) -> None:
    """Sessions at equal rates; CPU of the steady state and of a whole run of 10 s with its start."""
    print(f"\nSessions with pauses, {rate:g} requests/s, {rounds} rounds: CPU seconds per 100,000 requests\n")
    steady: dict[str, sessions.Run] = {"leadline-load": sessions.leadline()}
    steady["leadline-load, tick 500us"] = sessions.leadline("--tick", "500us")
    whole = dict(steady)
    for name, found, cold in (
        ("k6", sessions.k6(), sessions.k6()),
        ("Hyperfoil, warm", sessions.hyperfoil(10), sessions.hyperfoil(0)),
    ):
        if isinstance(found, str) or isinstance(cold, str):
            print(f"{found}\n")
        else:
            steady[name], whole[name] = found, cold
    print(
        "Gatling is not among them: this bench has no simulation for it. wrk, ab and oha know no sessions.\n\n"
        "| generator | steady, median (least, most) | leadline-load : this | whole 10 s, median "
        "| leadline-load : this |\n"
        "| --- | --- | --- | --- | --- |"
    )
    steadily: dict[str, list[float]] = {name: [] for name in steady}
    entirely: dict[str, list[float]] = {name: [] for name in steady}
    with Target(example="session_server"):
        for turn in range(rounds):
            order = list(steady)
            for name in order[turn % len(order) :] + order[: turn % len(order)]:
                try:
                    cost, run = _steady(name, steady[name], rate), whole[name](rate, 10)
                except SystemExit as error:
                    print(f"{name} is left out: {str(error).splitlines()[0]}")
                    del steady[name]
                    continue
                steadily[name].append(cost)
                entirely[name].append(1e5 * run.cpu / run.requests)
    ours, all_ours = steadily["leadline-load"], entirely["leadline-load"]
    for name in steady:
        cost, total = steadily[name], entirely[name]
        spread = f"{statistics.median(cost):.2f} ({min(cost):.2f}, {max(cost):.2f})"
        against = ("", "") if name == "leadline-load" else (ratio(ours, cost), ratio(all_ours, total))
        print(f"| {name} | {spread} | {against[0]} | {statistics.median(total):.2f} | {against[1]} |", flush=True)


def _steady(name: str, run: sessions.Run, rate: float) -> float:
    """CPU seconds per 100,000 requests without the start: warmed up in the process, or the difference of two runs."""
    longer = run(rate, 8)
    if "warm" in name:
        return 1e5 * longer.cpu / longer.requests
    shorter = run(rate, 2)
    return 1e5 * (longer.cpu - shorter.cpu) / (longer.requests - shorter.requests)


def compare_start(rounds: int) -> None:
    """From the start of the process to its first connection."""
    print("\nSeconds from start to first connection, median\n\n| generator | seconds |\n| --- | --- |")
    with tempfile.TemporaryDirectory() as scratch:
        files = {name: Path(scratch, name) for name in ("s.yaml", "s.js", "h.yaml")}
        files["s.yaml"].write_text(sessions.leadline_scenario())
        files["s.js"].write_text(sessions.K6 % (900, 5000, URL, json.dumps(sessions.STEPS)))
        files["h.yaml"].write_text(sessions.hyperfoil_benchmark(900, 5))
        out, classes = str(Path(scratch, "out")), sessions.cache() / "hyperfoil"
        argvs = {
            "leadline-load": [str(RELEASE / "leadline-load"), "run", str(files["s.yaml"]), "--url", URL, "--out", out],
            "wrk": ["wrk", "-t1", "-c1", "-d5s", URL],
            "k6": [str(sessions.cache() / "k6"), "run", "-q", "--no-usage-report", str(files["s.js"])],
            "Hyperfoil": ["java", "-cp", f"{classes}:{classes}/*", "Run", str(files["h.yaml"])],
        }
        for name, argv in argvs.items():
            if shutil.which(argv[0]) and (name != "Hyperfoil" or classes.exists()):
                print(f"| {name} | {statistics.median(sessions.first_request(argv) for _ in range(rounds)):.3f} |")


def compare_memory() -> None:
    """Resident memory of 10,000 sessions that have logged in and think."""
    text = sessions.leadline_scenario().replace(f"mean: {sessions.THINK_MS}ms", "mean: 60s")
    peaks = {}
    with Target(example="session_server"), tempfile.TemporaryDirectory() as scratch:
        scenario = Path(scratch, "s.yaml")
        scenario.write_text(text)
        for users in (1, 10_000):
            argv = [
                str(RELEASE / "leadline-load"),
                "run",
                str(scenario),
                "--url",
                URL,
                "--out",
                str(Path(scratch, "o")),
            ]
            argv += ["--users", str(users), "--max-sessions", "10000", "--ramp-up", "4s", "--steady", "2s"]
            process = subprocess.Popen(argv)
            # The peak that wait4 tells would be that of this interpreter before the program was loaded.
            time.sleep(5)
            status = Path(f"/proc/{process.pid}/status").read_text()
            peaks[users] = int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024
            if process.wait():
                raise SystemExit(f"leadline-load ended with {process.returncode}")
    print(
        f"\nMemory of leadline-load: {peaks[1]:.1f} MB with one session, {peaks[10_000]:.1f} MB with 10,000 idle "
        f"sessions, each with its connection; {peaks[10_000] - peaks[1]:.1f} MB per 10,000",
        flush=True,
    )


PARTS = ("cpu", "rate", "sessions", "start", "memory", "accuracy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--frozen-seconds", type=float, default=8.0, help="of each round of accuracy")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    if not shutil.which("wrk"):
        raise SystemExit("wrk is not installed (Debian: apt-get install wrk)")
    build = ["cargo", "build", "--release", "--locked", "--bins", "--examples"]
    subprocess.run([*build, "--manifest-path", str(ROOT / "driver" / "Cargo.toml")], check=True)
    print(f"{os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f} before the first run", flush=True)
    rounds = options.rounds
    parts = {
        "cpu": lambda: compare_cpu(rounds, options.seconds),
        "rate": lambda: compare_rate(options.seconds),
        "sessions": lambda: compare_sessions((rounds + 1) // 2, 2000),
        "start": lambda: compare_start(rounds),
        "memory": compare_memory,
        "accuracy": lambda: accuracy.compare(rounds, options.frozen_seconds),
    }
    for name in options.only:
        parts[name]()
    print(f"\nload average {os.getloadavg()[0]:.1f} after the last run")


if __name__ == "__main__":
    main()
