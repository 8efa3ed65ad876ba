"""Reported response times against the truth of the same run: a server of 1 ms that freezes for 200 ms every 2 s."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import truth
from common import RELEASE, URL, Busy, Target, child, ratio

FROZEN = ["--service-us", "1000", "--freeze-ms", "200", "--period-ms", "2000"]
RAMP_MS = 2000
OPEN = """scenario: open
arrivals: { unit: transaction }
feeds: { n: { sequence: { from: 1 } } }
mix: { get: 1 }
transactions: { get: [{ get: "/${n}" }] }
"""
USERS = """scenario: users
pause: { kind: cycle, shape: exponential, mean: 100ms }
mix: { get: 1 }
transactions: { get: [{ get: "/${session}/${seq}" }] }
"""
Found = Mapping[str, float]


@dataclass(frozen=True)
class Kind:
    """A model of arrivals: options of the driver and of `planned`, the scenario, and how its truth is computed."""

    name: str
    options: tuple[str, ...]
    planned: tuple[str, ...]
    scenario: str
    of: Callable[[truth.Log, Mapping[str, float], float], list[tuple[float, float]]]


KINDS = (
    Kind("constant", ("--arrivals", "constant", "--rate", "1000"), ("constant", "--rate", "1000"), OPEN, truth.of_open),
    Kind("Poisson", ("--arrivals", "poisson", "--rate", "1000"), ("poisson", "--rate", "1000"), OPEN, truth.of_open),
    Kind("users", ("--users", "100"), ("users", "--users", "100", "--cycle-ms", "100"), USERS, truth.of_users),
)


def run(kind: Kind, seconds: float, seed: int, busy: bool, *more: str) -> tuple[Found, Found, Found]:
    """Reported, true (ms), and what the driver says about itself (ms)."""
    phases = ["--ramp-ms", str(RAMP_MS), "--steady-ms", f"{seconds * 1000:.0f}", "--seed", str(seed)]
    planned = subprocess.run(
        [str(RELEASE / "examples" / "planned"), *kind.planned, *phases], check=True, capture_output=True, text=True
    )
    with tempfile.TemporaryDirectory() as scratch:
        scenario, out, log = Path(scratch, "s.yaml"), Path(scratch, "out"), Path(scratch, "log")
        scenario.write_text(kind.scenario)
        argv = [str(RELEASE / "leadline-load"), "run", str(scenario), "--url", URL, "--out", str(out), *kind.options]
        argv += ["--ramp-up", f"{RAMP_MS}ms", "--steady", f"{seconds}s", "--ramp-down", "1s", "--seed", str(seed)]
        with Target(*FROZEN, "--log", str(log)), Busy(busy):
            child([*argv, "--max-sessions", "4000", *more])
        found = json.loads((out / "summary.json").read_text())
        served = truth.read_log(log)
    if found["errors"] or found["dropped"]:
        raise SystemExit(f"leadline-load saw errors {found['errors']} and dropped {found['dropped']}")
    zero = found["started_unix_ns"]
    begin, end = zero + RAMP_MS * 1e6, zero + RAMP_MS * 1e6 + seconds * 1e9
    due = {name: zero + float(moment) for name, moment in map(str.split, planned.stdout.splitlines())}
    right = [response for moment, response in kind.of(served, due, end) if begin <= moment < end]
    driver = found["driver"]
    own = {name: driver[f"{name}_ms"]["mean"] or 0.0 for name in ("lag", "timer", "reading")}
    own["cpu"] = 1e6 * (driver["cpu_user_s"] + driver["cpu_system_s"]) / found["requests"]["count"]
    return found["steady"]["all"]["response_ms"], truth.summary(right), own


def compare(rounds: int, seconds: float) -> None:
    """Each model of arrivals with the driver's CPU to itself and beside a process that never rests."""
    whole = 2.0 * max(1, round(seconds / 2))
    print(
        f"\nA server of 1 ms that freezes for 200 ms every 2 s, {rounds} rounds of {whole:g} s: reported against the "
        "truth of the same run, geometric mean of the ratios with 95 % interval; in brackets below the medians in ms\n"
    )
    print("| arrivals | driver's CPU | mean | p50 | p95 | p99 | p99.9 |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    notes = []
    for busy in (False, True):
        for kind in KINDS:
            runs = [run(kind, whole, seed, busy) for seed in range(1, rounds + 1)]
            cells, medians = [], []
            for key in truth.STATISTICS:
                ours, right = [one[0][key] for one in runs], [one[1][key] for one in runs]
                cells.append(ratio(ours, right, 3))
                medians.append(f"({statistics.median(ours):.3f}, truth {statistics.median(right):.3f})")
            state = "busy" if busy else "its own"
            print(f"| {kind.name} | {state} | {' | '.join(cells)} |\n| | | {' | '.join(medians)} |", flush=True)
            own = {key: statistics.median(one[2][key] for one in runs) for key in runs[0][2]}
            notes.append(
                f"| {kind.name} | {state} | {own['lag']:.3f} | {own['timer']:.3f} | {own['reading']:.3f} "
                f"| {own['cpu']:.0f} |"
            )
    print("\nWhat the driver says about itself in those runs, means in ms, median over the rounds\n")
    print("| arrivals | driver's CPU | starts late | woken late | answers read late | CPU us/request |")
    print("| --- | --- | --- | --- | --- | --- |")
    print("\n".join(notes), flush=True)
