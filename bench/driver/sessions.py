"""Sessions: CPU at equal rates and the highest rate, start, memory of idle ones."""

from __future__ import annotations

import re
import select
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from common import (
    PORT,
    RELEASE,
    URL,
    Awake,
    Lengths,
    Ratio,
    Target,
    Unfit,
    Verdicts,
    child,
    on_generators_cpu,
    ratio,
    spread,
    turns,
)
from generators import GRIDDED, WARM_USERS, Generator, Load, cache, present
from watch import PATIENCE, Running, Window, connects, counts, keeps

RATE = 2000.0
LEAST = "least possible"  # driver/examples/least.rs
AWAKE = """All generators with CPUs that do not halt while they are idle: the bench holds /dev/cpu_dma_latency at 0, as
`--cpu-latency 0us` of leadline-load does. Waking up is then cheap.
"""
SLOW_ROUNDS = 2  # of a generator that no target names


class Costs:
    """Of one generator, a value a round: CPU seconds per 100,000 requests, and CPU microseconds of a saturated one."""

    def __init__(self) -> None:
        self.steady: list[float] = []
        self.whole: list[float] = []
        self.full: list[Window] = []


def compare_own(lengths: Lengths, verdicts: Verdicts, awake: bool = False) -> None:
    """Each session opens a connection of its own and closes it."""
    print(
        "Each session opens a connection and closes it: leadline-load and Gatling as they are, k6 with "
        "`noVUConnectionReuse`, Hyperfoil with `connectionStrategy: OPEN_ON_REQUEST`.\n"
    )
    _compare(lengths, verdicts, shared=False, awake=awake)


def compare_shared(lengths: Lengths, verdicts: Verdicts, awake: bool = False) -> None:
    """Connections are kept beyond sessions, for any other."""
    print(
        "Connections outlive the sessions: leadline-load with `--connections shared`, k6 and Hyperfoil as they are (k6 "
        "keeps those of a virtual user, Hyperfoil has one pool).\n"
    )
    _compare(lengths, verdicts, shared=True, awake=awake)


def compare_own_awake(lengths: Lengths, verdicts: Verdicts) -> None:
    """As ``compare_own``, with CPUs that do not halt."""
    print(AWAKE)
    compare_own(lengths, verdicts, awake=True)


def compare_shared_awake(lengths: Lengths, verdicts: Verdicts) -> None:
    """As ``compare_shared``, with CPUs that do not halt."""
    print(AWAKE)
    compare_shared(lengths, verdicts, awake=True)


def _compare(lengths: Lengths, verdicts: Verdicts, shared: bool, awake: bool) -> None:
    """Equal rates, steady and whole run, and no limit; all generators in every round, but for the slow one."""
    found, missing = present(variants=not awake)
    absent = list(missing)
    by_name = {generator.name: generator for generator in found if generator.shares or not shared}
    costs = {name: Costs() for name in by_name}
    floor: list[float] = []
    with Target(example="session_server"), Awake(awake):
        for turn, name in turns([*by_name, LEAST], lengths.rounds):
            if name == LEAST:
                floor.append(least(lengths.least))
            elif name in costs and (by_name[name].shares or turn < SLOW_ROUNDS):
                try:
                    _measure(by_name[name], lengths, costs[name], shared)
                except Unfit as error:
                    absent.append(f"{name} is left out: {error}")
                    del costs[name]
    if "leadline-load" not in costs:
        raise Unfit("; ".join(absent))
    ours = costs["leadline-load"]
    print(
        f"Sessions of nine requests with rests of 20 ms at {RATE:,.0f} requests/s, {lengths.rounds} rounds: CPU s "
        f"per 100,000 requests. Whole: a run of {lengths.whole:g} s from the start of the process to its end. Steady: "
        f"{lengths.window[1] - lengths.window[0]:g} s of that run; Hyperfoil and Gatling, which compile themselves, "
        f"{lengths.warmed_window[1] - lengths.warmed_window[0]:g} s of another process after {lengths.warm} s of work "
        f"without rests by {WARM_USERS} users. The server counted the same requests of each, and none that was wrong. "
        f"The {LEAST}: a loop that only wakes, sends a fixed request and reads what lies there.\n"
    )
    for line in absent:
        print(f"{line}\n")
    print("| generator | steady, median (least, most) | ours : this | whole 10 s, median (least, most) | ours : this |")
    print("| --- | --- | --- | --- | --- |")
    ratios: dict[tuple[str, str], Ratio] = {}
    for name, cost in costs.items():
        rounds = len(cost.steady)
        ratios[name, "steady"] = ratio(ours.steady[:rounds], cost.steady)
        ratios[name, "whole"] = ratio(ours.whole[:rounds], cost.whole)
        same = name == "leadline-load"
        steady, whole = ("" if same else ratios[name, key].text() for key in ("steady", "whole"))
        print(f"| {name} | {spread(cost.steady)} | {steady} | {spread(cost.whole)} | {whole} |")
    print(f"| {LEAST} | {spread(floor)} | {ratio(ours.steady, floor).text()} | | |")
    if "k6" in costs:
        print(f"\nThe {LEAST} takes {ratio(floor, costs['k6'].steady).text()} of k6's CPU.")
    print(
        f"\nThe same sessions without rests, {WARM_USERS} users: highest rate on one core, a second of CPU over the "
        "CPU of a request.\n"
    )
    print("| generator | highest rate on one core, median (least, most) | rate seen | of its core | ours : this |")
    print("| --- | --- | --- | --- | --- |")
    for name, cost in costs.items():
        highest = [window.highest for window in cost.full]
        against = (
            ""
            if name == "leadline-load"
            else ratio([window.highest for window in ours.full[: len(highest)]], highest).text()
        )
        rate, share = (statistics.median(getattr(window, key) for window in cost.full) for key in ("rate", "share"))
        print(f"| {name} | {spread(highest, 0)} | {rate:,.0f}/s | {share:.0%} | {against} |")
    for text, key, limit in (
        ("steady: CPU at most half of warm Hyperfoil's", ("Hyperfoil", "steady"), 0.5),
        ("steady: CPU at most a quarter of k6's", ("k6", "steady"), 0.25),
        ("whole 10 s: CPU at most a quarter of Hyperfoil's", ("Hyperfoil", "whole"), 0.25),
    ):
        condition = f"{'shared' if shared else 'own'} connections{', CPUs awake' if awake else ''}"
        verdicts.most(f"sessions, {condition}, {text}", ratios.get(key), limit)
    if GRIDDED in costs and "k6" in costs:
        text = "starts on a grid of 1 ms, steady: CPU at most a quarter of k6's"
        verdicts.most(f"sessions, {condition}, {text}", ratio(costs[GRIDDED].steady, costs["k6"].steady), 0.25)


def least(seconds: int) -> float:
    """CPU seconds per 100,000 requests of a loop that knows no sessions and looks at no answer."""
    argv = [str(RELEASE / "examples" / "least"), "--port", str(PORT)]
    text, _, _ = child([*argv, "--rate", f"{RATE:.0f}", "--seconds", str(seconds)])
    sent, read, cpu = text.split()
    if int(read) < 1000 * int(sent):  # a page has more
        raise Unfit(f"least sent {sent} requests and read {read} bytes")
    return 1e5 * float(cpu) / int(sent)


def _measure(generator: Generator, lengths: Lengths, costs: Costs, shared: bool) -> None:
    with Running(generator, Load(lengths.whole, rate=RATE, shared=shared)) as running:
        cold = running.window(running.begins(), *lengths.window)
        whole = running.end()
    connects(running.connections, shared)
    if not generator.compiles:
        keeps(cold, RATE)
        with Running(generator, Load(lengths.full, users=WARM_USERS, shared=shared)) as running:
            full = running.window(running.begins(), *lengths.full_window)
            running.end()
        steady = cold
    else:
        with Running(generator, Load(lengths.warmed, rate=RATE, warm=lengths.warm, shared=shared)) as running:
            full = running.window(running.first_request(), 0.65 * lengths.warm, 0.95 * lengths.warm)
            steady = running.window(running.begins(), *lengths.warmed_window)
            running.end()
        keeps(steady, RATE)
    costs.steady.append(steady.per_100k)
    costs.whole.append(whole.per_100k)
    costs.full.append(full)


def compare_start(lengths: Lengths, _: Verdicts) -> None:
    """From the start of the process to its first request."""
    found, absent = present()
    print(f"Seconds from the start of the process to its first request, {lengths.rounds} rounds.\n")
    for line in absent:
        print(f"{line}\n")
    print("| generator | seconds, median (least, most) |\n| --- | --- |")
    with tempfile.TemporaryDirectory() as scratch:
        commands = {one.name: one.argv(Load(5.0, rate=RATE), Path(scratch)) for one in found}
        commands["wrk"] = ["wrk", "-t1", "-c1", "-d5s", URL]
        if (cache() / "oha").exists():
            commands["oha"] = [str(cache() / "oha"), "--no-tui", "-c", "1", "-z", "5s", URL]
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for _, name in turns(list(commands), lengths.rounds):
            taken[name].append(first_request(commands[name], scratch))
    for name, seconds in taken.items():
        print(f"| {name} | {spread(seconds, 3)} |", flush=True)


def first_request(argv: list[str], folder: str) -> float:
    """Seconds from the start of a generator until bytes of a request arrive."""
    with socket.create_server(("127.0.0.1", PORT), backlog=1000) as listener:
        begin = time.monotonic()
        process = subprocess.Popen(
            argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, preexec_fn=on_generators_cpu
        )
        clients: list[socket.socket] = []
        try:
            while time.monotonic() < begin + PATIENCE:
                ready, _, _ = select.select([listener, *clients], [], [], 1.0)
                if any(client in ready for client in clients):
                    return time.monotonic() - begin
                if listener in ready:
                    clients.append(listener.accept()[0])
            raise Unfit(f"{Path(argv[0]).name} sent nothing for {PATIENCE:g} s")
        finally:
            process.kill()
            process.wait()
            for client in clients:
                client.close()


def compare_memory(lengths: Lengths, _: Verdicts) -> None:
    """Resident memory of sessions that have logged in and rest, less that of one session."""
    found, absent = present()
    print("Resident memory, MB, of sessions that have logged in and rest, each with its connection.\n")
    for line in absent:
        print(f"{line}\n")
    print("| generator | one or two | sessions | with those | for 10,000 more |\n| --- | --- | --- | --- | --- |")
    for generator in found:
        # A virtual user of k6 has an interpreter of its own: a part of them is enough.
        many = lengths.idle // 10 if generator.name == "k6" else lengths.idle
        with Target(example="session_server"):
            try:
                few, little = resident(generator, 2, 2.0)
                reached, much = resident(generator, many, 4.0)
            except Unfit as error:
                print(f"| {generator.name} | failed: {error} | | | |", flush=True)
                continue
        each = (much - little) / (reached - few)
        print(f"| {generator.name} | {little:.1f} | {reached:,} | {much:.1f} | {10_000 * each:.1f} |", flush=True)


def resident(generator: Generator, sessions: int, seconds: float) -> tuple[int, float]:
    """Sessions, and MB when nearly all have logged in and asked for the page after it."""
    before = counts().get("form", 0)
    with Running(generator, Load(seconds, idle=sessions)) as running:
        until = running.begins() + PATIENCE
        while counts().get("form", 0) < before + 0.99 * sessions - 1:
            if time.monotonic() > until:
                raise Unfit(f"{counts().get('form', 0) - before} of {sessions} sessions came")
            time.sleep(0.1)
        time.sleep(0.5)
        came = counts()["form"] - before
        status = Path(f"/proc/{running.pid}/status").read_text()
    return came, int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) * 1024 / 1e6
