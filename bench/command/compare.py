"""`leadline command` beside hyperfine: cost of a run, the same figures, and a drift that only one of them is fooled by.

hyperfine is looked for on the path: `cargo install hyperfine --version 1.19.0 --locked`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROGRAMS = ("true", "sleep 0.02", "python3 -S -c 'for _ in range(300000): pass'", "find /usr/share/doc -name x")
GROWING = "n=$(cat {count}); echo $((n + 1)) > {count}; sleep 0.0$((20 + n))"
RUNS = 20  # of each of the two equal programs that get slower with every run of either


def hyperfine(commands: list[str], runs: int, shell: bool = False) -> tuple[float, list[dict[str, Any]]]:
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        begun = time.monotonic()
        subprocess.run(
            ["hyperfine", *([] if shell else ["-N"]), "-w", "1", "-r", str(runs), "--export-json", out.name, *commands],
            check=True,
            capture_output=True,
        )
        return time.monotonic() - begun, json.load(out)["results"]


def leadline(commands: list[str], runs: int) -> tuple[float, dict[str, Any]]:
    begun = time.monotonic()
    argv = [sys.executable, "-m", "leadline", "command", *commands, "-r", str(runs), "--json"]
    found = subprocess.run(argv, check=True, capture_output=True, text=True)
    return time.monotonic() - begun, json.loads(found.stdout)


def cost(rounds: int) -> None:
    """Milliseconds that one more run of `true` takes in all."""
    few, many = 100, 3100
    rows: dict[str, list[float]] = {"hyperfine": [], "leadline": []}
    for _ in range(rounds):
        for name, tool in (("hyperfine", hyperfine), ("leadline", leadline)):
            rows[name].append(1000 * (tool(["true"], many)[0] - tool(["true"], few)[0]) / (many - few))
    each = {name: statistics.median(values) for name, values in rows.items()}
    ratios = sorted(own / peer for own, peer in zip(rows["leadline"], rows["hyperfine"], strict=True))
    print(f"one more run of true: hyperfine {each['hyperfine']:.2f} ms, leadline {each['leadline']:.2f} ms;")
    print(f"  ratio {statistics.median(ratios):.2f} [{ratios[0]:.2f} to {ratios[-1]:.2f}] over {rounds} rounds")


def figures(rounds: int) -> None:
    """Medians of the same programs by both, in turns."""
    for program in PROGRAMS:
        pairs = []
        for _ in range(rounds):
            peer = hyperfine([program], RUNS)[1][0]["median"]
            own = leadline([program], RUNS)[1]["results"][0]["median"]
            pairs.append((peer, own))
        ratios = sorted(own / peer for peer, own in pairs)
        peer, own = (1000 * statistics.median(one) for one in zip(*pairs, strict=True))
        print(f"{program}: hyperfine {peer:.2f} ms, leadline {own:.2f} ms, ", end="")
        print(f"ratio {statistics.median(ratios):.3f} [{ratios[0]:.3f} to {ratios[-1]:.3f}]")


def counters() -> None:
    """CPU time, page faults and context switches of the same programs by perf stat and by leadline, means of a run."""
    events = {"task-clock": "cpu", "page-faults": "minor_faults", "context-switches": "switches"}
    for program in PROGRAMS:
        with tempfile.NamedTemporaryFile(mode="r", suffix=".csv") as out:
            argv = [
                "perf",
                "stat",
                "-r",
                str(RUNS),
                "-x,",
                "-e",
                ",".join(events),
                "-o",
                out.name,
                *shlex.split(program),
            ]
            subprocess.run(argv, check=True, capture_output=True)
            rows = [line.split(",") for line in out if line.count(",") > 3]
        peer = {row[2].partition(":")[0]: float(row[0]) for row in rows}
        runs = [run["figures"] for run in leadline([program], RUNS)[1]["leadline"]["runs"]]
        own = {name: statistics.mean(run[name] for run in runs) for name in events.values()}
        told = [f"CPU {peer['task-clock']:.2f} and {1000 * own['cpu']:.2f} ms"]
        told += [f"{event} {peer[event]:.0f} and {own[name]:.0f}" for event, name in list(events.items())[1:]]
        print(f"{program}: perf stat and leadline: {', '.join(told)}")


def drift() -> None:
    """Two equal programs; every run of either makes the next one 1 ms longer."""
    with tempfile.TemporaryDirectory() as scratch:
        count = Path(scratch, "count")
        commands = [GROWING.format(count=count) + f" # {one}" for one in "AB"]
        count.write_text("0")
        first, second = hyperfine(commands, RUNS, shell=True)[1]
        change = 100 * (second["mean"] / first["mean"] - 1)
        error = (first["stddev"] ** 2 + second["stddev"] ** 2) ** 0.5 / RUNS**0.5
        away = (second["mean"] - first["mean"]) / error
        print(f"equal programs that drift: hyperfine B {change:+.0f} % against A, {away:.1f} standard errors from none")
        count.write_text("0")
        print(f"  leadline: {leadline(commands, RUNS)[1]['answer']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    if shutil.which("hyperfine") is None:
        print("hyperfine is not there: `cargo install hyperfine --version 1.19.0 --locked`")
        return 2
    cost(rounds)
    figures(rounds)
    if shutil.which("perf") is not None:
        counters()
    drift()
    return 0


if __name__ == "__main__":
    sys.exit(main())
