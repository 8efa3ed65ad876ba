"""Trials per minute of each kind of host: the same trial of `Service.java` again and again, one at a time.

A trial is a start, a warm-up and the measured requests; a fork is the measured requests alone, after one warm-up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from bench.kernels.guests import tell
from bench.virtual.service import Bench, Load, Measured
from bench.virtual.text import table
from leadline.host import here
from leadline.places.guest import machine


def row(words: str, seconds: Sequence[float], together: float, at_once: int, before: float) -> list[str]:
    """``seconds`` of each trial alone; ``together``: of as many trials, ``at_once`` side by side."""
    alone = 60 * len(seconds) / sum(seconds)
    side = f"{60 * len(seconds) / together:.1f}" if together else "disturb each other"
    return [words, f"{before:.0f}", f"{sum(seconds) / len(seconds):.1f}", f"{alone:.1f}", side, str(at_once)]


def run(bench: Bench, trials: int) -> str:
    """The table."""
    load, cpus = Load(warm_up=300, requests=300), here.cpu_count()
    found = machine.probe(bench.host, bench.boot, bench.place())
    real = replace(bench.boot, time="real", accelerator=found.name)
    kinds: dict[str, tuple[Callable[[], Measured], bool]] = {
        "`here`": (partial(bench.native, load), False),
        f"`vm`, {'KVM' if found.name == 'kvm' else 'emulation'}": (partial(bench.booted, load, real), False),
        "`virtual-time`, from boot": (partial(bench.booted, load, bench.boot), True),
    }
    rows = [_kind(words, trial, trials, cpus if side else 1, 0.0) for words, (trial, side) in kinds.items()]
    saved = bench.warmed(load, bench.boot.seed)
    rows.append(_kind("`virtual-time`, a fork", partial(bench.fork, saved, load), trials, cpus, saved.wall_seconds))
    saved.remove(bench.host)
    head = ["host", "before (s)", "a trial (s)", "trials per minute", "side by side", "at once"]
    return table(head, rows)


def _kind(words: str, trial: Callable[[], Measured], trials: int, at_once: int, before: float) -> list[str]:
    seconds = [_timed(trial) for _ in range(trials)]
    together = 0.0
    if at_once > 1:
        begin = time.monotonic()
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(lambda _: trial(), range(trials)))
        together = time.monotonic() - begin
    cells = row(words, seconds, together, at_once, before)
    tell(" ".join(cells))
    return cells


def _timed(trial: Callable[[], Measured]) -> float:
    begin = time.monotonic()
    trial()
    return time.monotonic() - begin
