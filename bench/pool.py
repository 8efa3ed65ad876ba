"""A study over the nodes of a Slurm that is started on this machine: what a pool costs, and whether it loses anything.

    python -m bench.pool speed [NODES ...]      trials that sleep over 1, 2, 4, 8, 16 nodes, --sleep SECONDS each
    python -m bench.pool faults [REPETITIONS]   nodes, leadline killed at random, failing restores; --first N goes on

``speed``: the efficiency is what the trials sleep, over what nodes times wall time would hold; the cost is what a trial
takes beside. All nodes share this machine's CPUs, as no pool's do. ``faults`` ends with code 1 where a trial is lost or
counted twice, or the verdict is another one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "stack")]

from naps import naps  # noqa: E402
from slurm_nodes import Slurm, missing, slurm  # noqa: E402

NODES = (1, 2, 4, 8, 16)
ROUNDS, SLEEP = 2, 30.0  # blocks for each node; seconds of a trial
FAULT_NODES, FAULT_BLOCKS = 4, 6
LONGEST = 600


def run(home: Path, nodes: Slurm, *more: str) -> subprocess.Popen[bytes]:
    """Run the study of a directory."""
    command = [sys.executable, "-m", "leadline", "run", "naps.yaml", "--pool", "slurm:pool.yaml", *more]
    with (home / "out").open("ab") as told:
        return subprocess.Popen(
            command,
            cwd=home,
            stdout=told,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **nodes.environment, "PYTHONPATH": str(ROOT)},
        )


def lay_out(home: Path, nodes: Slurm, blocks: int, short: float, long: float) -> None:
    """The files of a study."""
    (home / "pool.yaml").write_text(f"leadline: {nodes.leadline}\n")
    (home / "naps.yaml").write_text(naps(blocks, short, long, runs=1))


def ask(home: Path, query: str) -> list[tuple[object, ...]]:
    """Of the lab, empty while there is none."""
    try:
        with sqlite3.connect(f"file:{home / 'lab' / 'lab.sqlite'}?mode=ro", uri=True) as lab:
            return lab.execute(query).fetchall()
    except sqlite3.Error:
        return []


def speed(counts: list[int], sleep: float) -> int:
    """Efficiency and cost for each number of nodes."""
    print(f"{ROUNDS} blocks for each node, each of two trials that sleep {sleep:g} s")
    print(f"{'nodes':>5}  {'trials':>6}  {'wall':>7}  {'efficiency':>10}  {'beside a trial':>14}")
    for count in counts:
        with tempfile.TemporaryDirectory(prefix="pool-") as folder:
            home = Path(folder)
            with slurm(home / "slurm", count) as nodes:
                lay_out(home, nodes, ROUNDS * count, sleep, sleep)
                began = time.monotonic()
                code = run(home, nodes).wait(LONGEST + 4 * ROUNDS * sleep)
            (ended, since) = ask(home, "select max(ended), min(begun) from blocks")[0]
            done = ask(home, "select count(*) from trials where state = 'done'")[0][0]
            if code or done != 2 * ROUNDS * count:
                print((home / "out").read_text())
                return 1
            wall = float(str(ended)) - float(str(since))
            slept = 2 * ROUNDS * sleep
            whole = time.monotonic() - began
            print(
                f"{count:5d}  {2 * ROUNDS * count:6d}  {wall:5.1f} s  {slept / wall:10.3f}"
                f"  {(wall - slept) / (2 * ROUNDS):12.2f} s   ({whole:.1f} s with the report)",
                flush=True,
            )
    return 0


def fault(nodes: Slurm, chance: random.Random, hurt: set[str]) -> str:
    """Something that happens to a node; at least one is left alone."""
    whole = [name for name in nodes.nodes if name not in hurt]
    if len(whole) < 2:
        return "nothing"
    name = chance.choice(whole)
    hurt.add(name)
    kind = chance.choice(["dies", "is cut off", "cannot be put back"])
    if kind == "cannot be put back":
        nodes.broken(name).touch()
    else:
        nodes.kill(name, steps=kind == "dies")
    return f"{name} {kind}"


def faults(repetitions: int, first: int = 1) -> int:
    """Studies in which something happens every few seconds. Those before ``first`` are left out."""
    wrong = 0
    for number in range(first, repetitions + 1):
        chance = random.Random(number)
        happened: list[str] = []
        with tempfile.TemporaryDirectory(prefix="pool-") as folder:
            home = Path(folder)
            with slurm(home / "slurm", FAULT_NODES) as nodes:
                lay_out(home, nodes, FAULT_BLOCKS, 0.4, 0.6)
                hurt: set[str] = set()
                began, process = time.monotonic(), run(home, nodes)
                until = [time.monotonic() + chance.uniform(2, 12) for _ in range(4)]
                while process.poll() is None and time.monotonic() - began < LONGEST:
                    if until and time.monotonic() > min(until):
                        until.remove(min(until))
                        if chance.random() < 1 / 3:
                            process.send_signal(signal.SIGKILL)
                            process.wait(10)
                            time.sleep(chance.uniform(0, 3))
                            process = run(home, nodes)
                            happened.append("leadline is killed")
                        else:
                            happened.append(fault(nodes, chance, hurt))
                    for name in hurt:
                        if nodes.states()[name].startswith("down") and not (home / f"back.{name}").exists():
                            (home / f"back.{name}").touch()
                            nodes.start(name)  # and whatever ran there would still write
                    time.sleep(0.2)
                process.kill()
                problems = check(home, process.wait(10))
            took = time.monotonic() - began
        wrong += bool(problems)
        print(f"{number:3d}  {took:4.0f} s  {problems or 'right'}: {'; '.join(happened) or 'nothing'}", flush=True)
    done = repetitions - first + 1
    print(f"{done - wrong} of {done} right")
    return 1 if wrong else 0


def check(home: Path, code: int) -> str:
    """What is wrong with a study that has ended."""
    if code:
        return f"exit code {code}: {(home / 'out').read_text()[-2000:]}"
    states = ask(home, "select state, count(*) from trials group by state")
    if states != [("done", 2 * FAULT_BLOCKS)]:
        return f"trials {states}"
    if ask(home, "select trial_id from attempts where failure is null group by trial_id having count(*) != 1"):
        return "a trial is counted twice"
    counted = {token for (token,) in ask(home, "select token from attempts where failure is null")}
    whole = {token for (token,) in ask(home, "select token from blocks where state = 'ended'")}
    if counted - whole:
        return "a trial is counted that was given up"
    shown = subprocess.run(
        [sys.executable, "-m", "leadline", "show", "naps", "--json"],
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    (effect,) = json.loads(shown.stdout)["analysis"]["responses"][0]["effects"]
    return "" if effect["verdict"] == "worse" else f"verdict {effect['verdict']}"


def main() -> int:
    """The command line."""
    told = argparse.ArgumentParser(prog="python -m bench.pool", description=__doc__.split("\n")[0] if __doc__ else "")
    told.add_argument("what", choices=["speed", "faults"])
    told.add_argument("numbers", nargs="*", type=int, help="nodes; of faults how many repetitions")
    told.add_argument("--first", type=int, default=1, help="repetition of faults to begin with")
    told.add_argument("--sleep", type=float, default=SLEEP, help="seconds of a trial")
    asked = told.parse_args()
    if why := missing():
        print(why)
        return 2
    if asked.what == "speed":
        return speed(asked.numbers or list(NODES), asked.sleep)
    return faults(asked.numbers[0] if asked.numbers else 100, asked.first)


if __name__ == "__main__":
    sys.exit(main())
