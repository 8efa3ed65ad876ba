"""kill -9 at random moments of a real study, and what else may befall one: is anything altered, left or lost?

    python -m bench.kill --servers tomcat,liberty --rounds 100 [--as-user NAME] [--scenarios all]

A round goes on with the server's study (or begins the next), kills leadline, its watchdog or both at a random moment,
waits for the watchdog or calls `leadline restore`, and compares the machine with what it was. Ends with code 1 for any
difference. Full and read-only file systems are mounted, so those scenarios need root.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from bench.kill.machine import PATIENCE, Leadline, gone, kill, leftovers, settings, until
from bench.kill.scenarios import SCENARIOS
from leadline.host import procfs

VICTIMS = ("leadline", "leadline", "leadline and watchdog", "watchdog, then leadline")


def kill_round(leadline: Leadline, chance: random.Random, longest: float) -> tuple[str, list[str]]:
    """One kill; what was killed when, and what is wrong afterwards."""
    before, kept = settings(), leadline.finished()
    run = leadline.run()
    moment = chance.uniform(0.1, longest)
    until(lambda: run.poll() is not None, moment)
    kept = {**kept, **leadline.finished()}
    victim, restores = chance.choice(VICTIMS), chance.random() < 0.5
    watchdogs = leadline.watchdogs()
    if run.poll() is not None:
        what = f"ended by itself with {run.returncode}"
    else:
        what = f"killed {victim} after {moment:.1f} s of {len(kept)} finished trials"
        first = [run.pid] if victim == "leadline" else [run.pid, *watchdogs]
        for pid in reversed(first) if victim.startswith("watchdog") else first:
            kill(pid)
        run.wait()
    problems = []
    if restores or victim != "leadline":
        what += ", restore"
        done = leadline.call("restore")
        if done.returncode:
            problems.append(f"restore ended with {done.returncode}: {done.stderr.strip()}")
    if not until(lambda: all(map(gone, watchdogs)), PATIENCE):
        problems.append("the watchdog did not end")
    return what, problems + leadline.problems(before, kept)


def kills(server: str, place: Path, options: argparse.Namespace, chance: random.Random) -> list[str]:
    """All rounds of a server, then its study to the end."""
    leadline = Leadline(place, server, options.as_user)
    first = leadline.run()
    until(lambda: leadline.finished() or first.poll() is not None)  # so that there is something to lose
    kill(first.pid)
    first.wait()
    longest, wrong = options.longest, []
    for number in range(1, options.rounds + 1):
        what, problems = kill_round(leadline, chance, longest)
        print(f"{server} {number}/{options.rounds}: {what}: {'; '.join(problems) or 'as it was'}", flush=True)
        wrong += problems
    before, kept = settings(), leadline.finished()
    code = leadline.run().wait()
    problems = leadline.problems(before, kept) + ([f"exit code {code}"] if code else [])
    print(f"{server}: gone on to the end, {len(leadline.finished())} trials: {'; '.join(problems) or 'as it was'}")
    return wrong + problems


def scenario(name: str, server: str, place: Path, user: str) -> list[str]:
    """One scenario in a lab of its own."""
    leadline = Leadline(place, server, user, short=True)
    before = settings()
    problems = SCENARIOS[name](leadline)
    until(lambda: not leadline.watchdogs())
    problems += leadline.problems(before, {})
    print(f"{server}, {name}: {'; '.join(problems) or 'as it should'}", flush=True)
    return problems


def _end_all(folder: Path) -> None:
    """Of a bench that is ended early: its leadlines put the host back."""
    for pid in procfs.all_processes():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"leadline.cli" in command and bytes(folder) in command:
            kill(pid, signal.SIGTERM)
            until(lambda pid=pid: gone(pid))  # type: ignore[misc]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.kill", description=__doc__.splitlines()[0])
    parser.add_argument("--servers", default="tomcat", help="separated by commas")
    parser.add_argument("--rounds", type=int, default=10, help="kills of each server")
    parser.add_argument("--as-user", default="", help="run leadline as this user (needs root)")
    parser.add_argument("--scenarios", default="", help=f"all, or some of: {'; '.join(SCENARIOS)}")
    parser.add_argument("--longest", type=float, default=30.0, help="seconds into a run at which it is killed at last")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
    ):  # not ignored in what is started, whatever starts this
        signal.signal(number, lambda *_: sys.exit(1))
    seed = options.seed if options.seed is not None else int(time.time())
    names = list(SCENARIOS) if options.scenarios == "all" else [n for n in options.scenarios.split(";") if n]
    print(f"seed {seed}", flush=True)
    chance, wrong = random.Random(seed), Counter[str]()
    with (
        tempfile.TemporaryDirectory(prefix="leadline-kill-", ignore_cleanup_errors=True) as folder,
        ExitStack() as stack,
    ):
        Path(folder).chmod(0o755)
        stack.callback(_end_all, Path(folder))
        for server in options.servers.split(","):
            place = Path(folder) / server
            if options.rounds:
                wrong[server] += len(kills(server, place, options, chance))
            for number, name in enumerate(names):
                wrong[server] += len(scenario(name.strip(), server, place / str(number), options.as_user))
            for what in leftovers(place, None) if place.exists() else []:
                print(f"left at the end: {what}")
    print("; ".join(f"{server}: {number} problems" for server, number in wrong.items()))
    return 1 if sum(wrong.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
