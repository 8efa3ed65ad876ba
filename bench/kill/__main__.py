"""kill -9 at random moments of real studies, and what else may befall one: is anything altered, left or lost?

    python -m bench.kill --place DIR --minutes 8 [--ordinary] [--stacks tomcat,liberty/mariadb,tomcat+switchback]
    python -m bench.kill --place DIR --scenarios all [--ordinary]
    python -m bench.kill --place DIR --summary

A round goes on with a stack's study, kills leadline, its watchdog or both at a random moment, waits for the watchdog or
calls `leadline restore`, and compares the machine with what it was. The stack with the fewest rounds is next. What was
found is added to DIR/results.jsonl, so that a bench can be ended and gone on with. Ends with code 1 for any difference.
Needs root: it becomes the ordinary user, and mounts full and read-only file systems.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.kill.machine import HOST_FREE, Leadline, calm_settings, gone, kill, until
from bench.kill.scenarios import SCENARIOS
from leadline.host import procfs

STACKS = (
    "liberty,wildfly,tomcat,tomee,glassfish,tomcat/mariadb,tomcat+switchback,wildfly/mariadb+switchback,liberty+queue,"
    "tomee+queue,tomcat+httpd"
)
VICTIMS = ("leadline", "leadline", "leadline and watchdog", "watchdog, then leadline")


def kill_round(leadline: Leadline, before: Mapping[str, str], chance: random.Random) -> dict[str, object]:
    """One kill; what was killed when, and what is wrong afterwards. Each step of a trial is as likely as any other,
    and each moment of it, however long it takes on this host.
    """
    run, began = leadline.run(), time.monotonic()

    def ended() -> bool:
        return run.poll() is not None

    until(lambda: leadline.done() or ended())  # so that there is something to lose
    if chance.random() < 0.1:
        until(ended, chance.uniform(0.0, 3.0))  # it may not have the host yet
    else:
        until(lambda: leadline.watchdogs() or ended(), HOST_FREE)
        if not ended():
            name, seconds = chance.choice(leadline.steps())
            until(lambda: leadline.step() == name or ended())
            until(ended, chance.uniform(0.0, seconds))
    victim, restores = chance.choice(VICTIMS), chance.random() < 0.5
    found: dict[str, object] = {
        "victim": victim,
        "seconds": round(time.monotonic() - began, 1),
        "step": leadline.step(),
    }
    watchdogs, problems = leadline.watchdogs(), []
    if ended():
        problems.append(f"ended by itself with {run.returncode}: {leadline.said()[-500:]}")
    for pid in {"leadline": [run.pid], "leadline and watchdog": [run.pid, *watchdogs]}.get(
        victim, [*watchdogs, run.pid]
    ):
        kill(pid)
    run.wait()
    kept, made = leadline.finished(), leadline.traces()
    if restores or victim != "leadline":
        found["restore"] = True
        done = leadline.call("restore")
        if done.returncode:
            problems.append(f"restore ended with {done.returncode}: {done.stderr.strip()}")
    if not until(lambda: all(map(gone, watchdogs)), HOST_FREE):
        problems.append("the watchdog did not end")
    return {**found, "finished": len(kept), "problems": problems + leadline.problems(before, kept, made)}


def scenario(name: str, leadline: Leadline, before: Mapping[str, str]) -> dict[str, object]:
    """One scenario in a lab of its own."""
    problems = SCENARIOS[name](leadline)
    until(lambda: not leadline.watchdogs(), HOST_FREE)
    return {"scenario": name, "problems": problems + leadline.problems(before, {})}


@contextmanager
def _ended(folder: Path) -> Iterator[None]:
    """However the bench ends: its leadlines put the host back."""
    try:
        yield
    finally:
        for pid in procfs.all_processes():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if b"leadline.cli" in command and bytes(folder) in Path(f"/proc/{pid}/environ").read_bytes():
                kill(pid, signal.SIGTERM)
                until(lambda pid=pid: gone(pid))  # type: ignore[misc]


class Results:
    """A line of JSON for each round and scenario."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def add(self, stack: str, user: str, found: dict[str, object]) -> None:
        row = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "stack": stack, "user": user, **found}
        self.rows.append(row)
        with self._file.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)

    def kills(self, stack: str, user: str) -> int:
        return sum((row["stack"], row["user"]) == (stack, user) and "victim" in row for row in self.rows)

    def summary(self) -> None:
        for what in ("victim", "scenario"):
            rows = [row for row in self.rows if what in row]
            counts = Counter((row["stack"], row["user"]) for row in rows)
            wrong = Counter((row["stack"], row["user"]) for row in rows if row["problems"])
            print(f"{len(rows)} {'kills' if what == 'victim' else 'scenarios'}, {wrong.total()} with problems")
            for (stack, user), number in sorted(counts.items()):
                print(f"  {stack} as {user}: {number}, {wrong[stack, user]} with problems")
            for by in ("victim", "step"):
                print(
                    "  " + ", ".join(f"{key}: {n}" for key, n in Counter(r[by] for r in rows if by in r).most_common())
                )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.kill", description=__doc__.splitlines()[0])
    parser.add_argument("--place", type=Path, required=True, help="directory of the labs and results, gone on with")
    parser.add_argument(
        "--stacks", default=STACKS, help="SERVER[/DATABASE][+switchback|+queue|+httpd], separated by commas"
    )
    parser.add_argument("--ordinary", action="store_true", help="run leadline as an ordinary user")
    parser.add_argument("--minutes", type=float, default=8.0, help="no round begins later")
    parser.add_argument("--rounds", type=int, default=1000, help="kills at most")
    parser.add_argument("--scenarios", default="", help=f"all, or some of: {'; '.join(SCENARIOS)}")
    parser.add_argument("--summary", action="store_true", help="count what has been found so far")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    place: Path = options.place.absolute()
    place.mkdir(parents=True, exist_ok=True)
    results = Results(place / "results.jsonl")
    if options.summary:
        results.summary()
        return 0
    if os.geteuid() != 0:
        parser.error("needs root")
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
    ):  # not ignored in what is started, whatever starts this
        signal.signal(number, lambda *_: sys.exit(1))
    began, first = time.monotonic(), len(results.rows)
    chance = random.Random(options.seed)
    user = "ordinary user" if options.ordinary else "root"
    folder = place / ("ordinary" if options.ordinary else "root")
    stacks = options.stacks.split(",")
    if options.ordinary:
        stacks = [stack for stack in stacks if "+switchback" not in stack]  # it needs a live knob, which root may set
    names = [*SCENARIOS] if options.scenarios == "all" else [name for name in options.scenarios.split(";") if name]
    before = calm_settings()
    with _ended(folder):
        while time.monotonic() - began < options.minutes * 60 and len(results.rows) - first < options.rounds:
            if options.scenarios:
                if not names:
                    break
                stack, name = stacks[0], names.pop(0)
                own = folder / f"scenario-{name.replace(' ', '-')}-{time.time():.0f}"
                results.add(stack, user, scenario(name, Leadline(own, stack, options.ordinary, short=True), before))
            else:
                stack = min(stacks, key=lambda stack: results.kills(stack, user))
                leadline = Leadline(folder / stack.replace("/", "-"), stack, options.ordinary)
                results.add(stack, user, kill_round(leadline, before, chance))
    return 1 if any(row["problems"] for row in results.rows[first:]) else 0


if __name__ == "__main__":
    raise SystemExit(main())
