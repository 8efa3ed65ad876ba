"""Plain requests: CPU of each against the tools that know nothing else, saturated and at an equal rate, and the
instructions of a request.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from common import RELEASE, URL, Lengths, Target, Unfit, Verdicts, child, ratio, spread, turns
from generators import cache

CONNECTIONS = 32
RATE = 2000
PLAIN = "scenario: plain\n{more}mix: {{ get: 1 }}\ntransactions:\n  get: [{{ get: / }}]\n"
CLOSED = ("--users", str(CONNECTIONS))
OPEN = ("--arrivals", "constant", "--rate", str(RATE))
OHA = "oha is not there: `cargo install oha --version 1.16.0 --locked`, then copy it to the bench's cache"


@dataclass(frozen=True)
class Measured:
    requests: int
    cpu: float  # seconds
    seconds: float

    @property
    def us(self) -> float:
        """CPU of a request, microseconds."""
        return 1e6 * self.cpu / self.requests


Tool = Callable[[float], Measured]


def leadline(seconds: float, *options: str, more: str = "", under: Sequence[str] = ()) -> Measured:
    with tempfile.TemporaryDirectory() as scratch:
        scenario, out = Path(scratch, "plain.yaml"), Path(scratch, "out")
        scenario.write_text(PLAIN.format(more=more))
        argv = [*under, str(RELEASE / "leadline-load"), "run", str(scenario), "--url", f"{URL}/", "--out", str(out)]
        argv += ["--steady", f"{seconds}s", "--priority", "normal", "--verdict", "file", *options]
        _, cpu, wall = child(argv)
        found = json.loads((out / "summary.json").read_text())
    if set(found["errors"]) - {"unfinished"} or found["dropped"]:
        raise Unfit(f"leadline-load saw errors {found['errors']} and dropped {found['dropped']}")
    return Measured(found["requests"]["count"], cpu, wall)


def wrk(seconds: float, under: Sequence[str] = ()) -> Measured:
    argv = [*under, "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds:g}s", f"{URL}/"]
    text, cpu, wall = child(argv)
    requests = re.search(r"(\d+) requests in", text)
    if not requests or "Socket errors" in text or "Non-2xx" in text:
        raise Unfit(f"wrk: {text.strip()[-300:]}")
    return Measured(int(requests[1]), cpu, wall)


def oha(seconds: float, *options: str) -> Measured:
    argv = [str(cache() / "oha"), "--no-tui", "--output-format", "json", "-c", str(CONNECTIONS), *options]
    text, cpu, wall = child([*argv, "-z", f"{round(1000 * seconds)}ms", f"{URL}/"], {"TOKIO_WORKER_THREADS": "1"})
    found = json.loads(text[text.index("{") :])
    if set(found["statusCodeDistribution"]) != {"200"}:
        raise Unfit(f"oha: {found['statusCodeDistribution']}")
    return Measured(found["statusCodeDistribution"]["200"], cpu, wall)


def vegeta(seconds: float, *options: str) -> Measured:
    """Its own form of saturation is a rate of 0 with a bound on workers."""
    with tempfile.TemporaryDirectory() as scratch:
        targets, out = Path(scratch, "targets"), Path(scratch, "out")
        targets.write_text(f"GET {URL}/\n")
        argv = [str(cache() / "vegeta"), "-cpus", "1", "attack", "-targets", str(targets), "-output", str(out)]
        argv += ["-duration", f"{round(1000 * seconds)}ms", "-connections", str(CONNECTIONS), *options]
        _, cpu, wall = child(argv)
        report = [str(cache() / "vegeta"), "report", "-type", "json", str(out)]
        found = json.loads(subprocess.run(report, capture_output=True, text=True, check=True).stdout)
    if set(found["status_codes"]) != {"200"}:
        raise Unfit(f"vegeta: {found['status_codes']} {found['errors'][:3]}")
    return Measured(found["requests"], cpu, wall)


def vegeta_missing() -> str:
    """Built with Go where it is not there; "" or why not."""
    if (cache() / "vegeta").exists():
        return ""
    if not shutil.which("go"):
        return "vegeta is built with Go, which is not installed"
    argv = ["go", "install", "github.com/tsenart/vegeta/v12@v12.13.0"]
    made = subprocess.run(argv, env={**os.environ, "GOBIN": str(cache())}, capture_output=True, text=True, check=False)
    return f"vegeta could not be built: {made.stderr.strip().splitlines()[-1]}" if made.returncode else ""


WRK2 = "wrk2 is left out: Debian, PyPI and the Go proxy have no package of it"


def measured(tools: dict[str, Tool], rounds: int, seconds: float) -> dict[str, list[Measured]]:
    """All tools in every round; one that fails is left out, with the reason."""
    found: dict[str, list[Measured]] = {name: [] for name in tools}
    for turn, name in [(-1, name) for name in tools] + turns(list(tools), rounds):  # the first are to warm up
        if name in found:
            try:
                run = tools[name](seconds)
            except Unfit as error:
                print(f"{name} is left out: {error}\n")
                del found[name]
            else:
                found[name] += [run] if turn >= 0 else []
    return found


def compare_saturated(lengths: Lengths, verdicts: Verdicts) -> None:
    """Closed, kept connections, no pauses."""
    rounds = lengths.rounds + 2
    tools: dict[str, Tool] = {
        "leadline-load": lambda seconds: leadline(seconds, *CLOSED),
        "leadline-load, --stamps loop": lambda seconds: leadline(seconds, *CLOSED, "--stamps", "loop"),
        "wrk": wrk,
    }
    if (cache() / "oha").exists():
        tools["oha"] = oha
    absent = vegeta_missing()
    if not absent:
        workers = str(CONNECTIONS)
        tools["vegeta"] = lambda seconds: vegeta(seconds, "-rate", "0", "-workers", workers, "-max-workers", workers)
    with Target("--service-us", "0"):
        found = measured(tools, rounds, lengths.saturated)
    print(
        f"{CONNECTIONS} kept connections, no pauses, answers of 100 bytes at once, {rounds} rounds of "
        f"{lengths.saturated:g} s. The highest rate on one core is a second of CPU over the CPU of a request; the rate "
        "seen is lower where the server, on the other core, was the limit.\n"
    )
    for line in filter(None, (absent, WRK2)):
        print(f"{line}.\n")
    if "oha" not in tools:
        print(f"{OHA}\n")
    print("| generator | CPU us/request, median (least, most) | highest rate on one core | seen | CPU, ours : this |")
    print("| --- | --- | --- | --- | --- |")
    ours = [run.us for run in found["leadline-load"]]
    for name, runs in found.items():
        us, rate = [run.us for run in runs], statistics.median(run.requests / run.seconds for run in runs)
        against = "" if name == "leadline-load" else ratio(ours, us).text()
        print(f"| {name} | {spread(us)} | {1e6 / statistics.median(us):,.0f}/s | {rate:,.0f}/s | {against} |")
    wrks = ratio(ours, [run.us for run in found["wrk"]]) if "wrk" in found else None
    verdicts.most("plain requests, saturated: CPU at most wrk's", wrks, 1.0)


def compare_rate(lengths: Lengths, _: Verdicts) -> None:
    """Open arrivals at a fixed rate; wrk has none."""
    more = "arrivals: { unit: transaction }\n"
    tools: dict[str, Tool] = {
        "leadline-load": lambda seconds: leadline(seconds, *OPEN, more=more),
        "leadline-load, --grid 1ms": lambda seconds: leadline(seconds, *OPEN, "--grid", "1ms", more=more),
    }
    if (cache() / "oha").exists():
        tools["oha"] = lambda seconds: oha(seconds, "-q", str(RATE), "--latency-correction")
    absent = vegeta_missing()
    if not absent:
        tools["vegeta"] = lambda seconds: vegeta(seconds, "-rate", f"{RATE}/1s")
    with Target():
        found = measured(tools, lengths.rounds, lengths.rate)
    print(
        f"{RATE:,} requests/s, constant arrivals, answers after 1 ms, {lengths.rounds} rounds of {lengths.rate:g} s, "
        "whole runs. wrk has no rate.\n"
    )
    for line in filter(None, (absent, WRK2)):
        print(f"{line}.\n")
    if "oha" not in tools:
        print(f"{OHA}\n")
    print("| generator | CPU s per 100,000 requests, median (least, most) | rate seen | CPU, ours : this |")
    print("| --- | --- | --- | --- |")
    ours = [run.us for run in found["leadline-load"]]
    for name, runs in found.items():
        us, rate = [run.us for run in runs], statistics.median(run.requests / run.seconds for run in runs)
        against = "" if name == "leadline-load" else ratio(ours, us).text()
        print(f"| {name} | {spread([each / 10 for each in us])} | {rate:,.0f}/s | {against} |")


def compare_instructions(_: Lengths, __: Verdicts) -> None:
    """Instructions of a request outside the kernel, as callgrind counts them: those of a longer run less those of a
    shorter one.
    """
    if not shutil.which("valgrind"):
        print("valgrind is not installed.")
        return
    tools: dict[str, Callable[[float, Sequence[str]], Measured]] = {
        "leadline-load": lambda seconds, under: leadline(seconds, *CLOSED, under=under),
        "leadline-load, --stamps loop": lambda seconds, under: leadline(
            seconds, *CLOSED, "--stamps", "loop", under=under
        ),
        "wrk": wrk,
    }
    print("| generator | instructions of a request |\n| --- | --- |")
    with Target("--service-us", "0"), tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "callgrind")
        under = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        for name, tool in tools.items():
            try:
                counted = []
                for seconds in (1, 2):
                    requests = tool(seconds, under).requests
                    total = re.search(r"^(?:totals|summary): (\d+)", out.read_text(errors="replace"), re.M)
                    assert total
                    counted.append((requests, int(total[1])))
            except (Unfit, AssertionError, OSError) as error:
                print(f"| {name} | not counted: {error} |")
                continue
            (few, less), (many, more) = counted
            print(f"| {name} | {(more - less) / (many - few):,.0f} |", flush=True)
