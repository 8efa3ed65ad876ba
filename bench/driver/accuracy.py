"""Reported response times against the truth of the same run: a server of 1 ms that freezes for 200 ms every 2 s."""

from __future__ import annotations

import dataclasses
import json
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import truth
from common import RELEASE, URL, Busy, Lengths, Ratio, Target, Unfit, Verdicts, child, ratio

FROZEN = ["--service-us", "1000", "--freeze-ms", "200", "--period-ms", "2000"]
RAMP_MS = 1000
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
# Of the driver's CPU: how near to the truth it is to be, whether another process is busy there, options of the driver
# and of `planned`.
STATES: Mapping[str, tuple[float, bool, tuple[str, ...], tuple[str, ...]]] = {
    "its own": (0.01, False, (), ()),
    "its own, grid of 1 ms": (0.01, False, ("--grid", "1ms"), ("--grid-us", "1000")),
    "its own, awake": (0.01, False, ("--cpu-latency", "0us"), ()),
    "busy": (0.03, True, (), ()),
}
Found = Mapping[str, float]


@dataclass(frozen=True)
class Kind:
    """A model of arrivals: options of the driver and of `planned`, the scenario, and how its truth is computed."""

    name: str
    options: tuple[str, ...]
    planned: tuple[str, ...]
    scenario: str
    of: Callable[[truth.Log, Mapping[str, int], int], list[tuple[int, int]]]


KINDS = (
    Kind("constant", ("--arrivals", "constant", "--rate", "1000"), ("constant", "--rate", "1000"), OPEN, truth.of_open),
    Kind("Poisson", ("--arrivals", "poisson", "--rate", "1000"), ("poisson", "--rate", "1000"), OPEN, truth.of_open),
    Kind("users", ("--users", "100"), ("users", "--users", "100", "--cycle-ms", "100"), USERS, truth.of_users),
)


@dataclass(frozen=True)
class Result:
    """Reported, true, true but for the way of requests, and what the driver says about itself; ms, CPU in us."""

    reported: Found
    true: Found
    wayless: Found
    own: Found


def run(kind: Kind, seconds: float, seed: int, busy: bool) -> Result:
    phases = ["--ramp-ms", str(RAMP_MS), "--steady-ms", f"{seconds * 1000:.0f}", "--seed", str(seed)]
    planned = subprocess.run(
        [str(RELEASE / "examples" / "planned"), *kind.planned, *phases], check=True, capture_output=True, text=True
    )
    with tempfile.TemporaryDirectory() as scratch:
        scenario, out, log = Path(scratch, "s.yaml"), Path(scratch, "out"), Path(scratch, "log")
        scenario.write_text(kind.scenario)
        argv = [
            str(RELEASE / "leadline-load"),
            "run",
            str(scenario),
            "--url",
            URL,
            "--out",
            str(out),
            "--verdict",
            "file",
        ]
        argv += kind.options
        argv += ["--ramp-up", f"{RAMP_MS}ms", "--steady", f"{seconds}s", "--ramp-down", "500ms", "--seed", str(seed)]
        with Target(*FROZEN, "--log", str(log)), Busy(busy):
            child([*argv, "--max-sessions", "4000"])
        found = json.loads((out / "summary.json").read_text())
        served = truth.read_log(log)
    if found["errors"] or found["dropped"]:
        raise Unfit(f"leadline-load saw errors {found['errors']} and dropped {found['dropped']}")
    zero = found["started_unix_ns"]
    begin = zero + RAMP_MS * 1_000_000
    end = begin + round(seconds * 1e9)
    due = {name: zero + int(moment) for name, moment in map(str.split, planned.stdout.splitlines())}

    def right(log: truth.Log) -> Found:
        return truth.summary(response for moment, response in kind.of(log, due, end) if begin <= moment < end)

    driver = found["driver"]
    own = {name: driver[f"{name}_ms"]["mean"] or 0.0 for name in ("lag", "timer", "reading")}
    own["cpu"] = 1e6 * (driver["cpu_user_s"] + driver["cpu_system_s"]) / found["requests"]["count"]
    own["way"] = served.way / 1e3
    wayless = right(dataclasses.replace(served, way=0))
    return Result(found["steady"]["all"]["response_ms"], right(served), wayless, own)


def compare(lengths: Lengths, verdicts: Verdicts) -> None:
    """Each model of arrivals with the driver's CPU to itself, allowed to halt and not, and beside a process that never
    rests.
    """
    rounds = lengths.rounds + 1
    print(
        f"A server of 1 ms that freezes for 200 ms every 2 s, 1,000 requests/s, {rounds} rounds of {lengths.frozen:g} "
        "s: reported against the truth of the same run, geometric mean of the ratios with 95 % interval; in brackets "
        "below the medians in ms.\n"
    )
    print("| arrivals | driver's CPU | mean | p50 | p95 | p99 | p99.9 |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    notes = []
    for state, (share, busy, options, planned) in STATES.items():
        for plain in KINDS:
            kind = dataclasses.replace(plain, options=(*plain.options, *options), planned=(*plain.planned, *planned))
            target = f"{kind.name} arrivals, driver's CPU {state}: all within {share:.0%} of the truth"
            try:
                runs = [run(kind, lengths.frozen, seed, busy) for seed in range(1, rounds + 1)]
            except (Unfit, KeyError) as error:
                print(f"| {kind.name} | {state} | failed: {error} | | | | |", flush=True)
                verdicts.rows.append((target, "failed", "not shown"))
                continue
            ratios, medians = {}, []
            for key in truth.STATISTICS:
                ours, right = [one.reported[key] for one in runs], [one.true[key] for one in runs]
                ratios[key] = ratio(ours, right)
                medians.append(f"({statistics.median(ours):.3f}, truth {statistics.median(right):.3f})")
            print(f"| {kind.name} | {state} | {' | '.join(one.text(3) for one in ratios.values())} |")
            print(f"| | | {' | '.join(medians)} |", flush=True)
            verdicts.rows.append((target, *judged(ratios, share)))
            own = {key: statistics.median(one.own[key] for one in runs) for key in runs[0].own}
            p50s = sorted(one.reported["p50"] / one.true["p50"] for one in runs)
            without = [
                ratio([one.reported[key] for one in runs], [one.wayless[key] for one in runs]).text(3)
                for key in ("mean", "p50")
            ]
            notes.append(
                f"| {kind.name} | {state} | {own['lag']:.3f} | {own['timer']:.3f} | {own['reading']:.3f} "
                f"| {own['cpu']:.0f} | {own['way']:.1f} | {' | '.join(without)} "
                f"| {statistics.median(p50s):.3f} ({p50s[0]:.3f}, {p50s[-1]:.3f}) |"
            )
    print(
        "\nWhat the driver says about itself in those runs (means in ms, median over the rounds), the way of a "
        "request as the server measured it, reported against a truth that does not allow for that way, and the p50s of "
        "the single rounds against the truth: median (least, most).\n"
    )
    print(
        "| arrivals | driver's CPU | starts late | woken late | answers read late | CPU us/request | way us "
        "| mean, no way | p50, no way | p50 of rounds |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    print("\n".join(notes), flush=True)


def judged(ratios: Mapping[str, Ratio], share: float) -> tuple[str, str]:
    """What lies farthest off, and whether all lie within ``share`` of the truth."""
    found = {key: one.lies(1 - share, 1 + share) for key, one in ratios.items()}
    worst = max(ratios, key=lambda key: abs(ratios[key].middle - 1))
    verdict = next((word for word in ("not met", "not shown") if word in found.values()), "met")
    open_ = [key for key, word in found.items() if word == verdict != "met"]
    return f"farthest: {worst} {ratios[worst].text(3)}", f"{verdict}{': ' if open_ else ''}{', '.join(open_)}"
