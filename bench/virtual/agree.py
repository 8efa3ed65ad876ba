"""Do virtual and real time agree on effects that are large in both? Rank correlation over microbenchmarks and settings.

An effect is the ratio of two median times: of the two ways of a pair in `Pairs.java`, or of a request of `Service.java`
under a setting and without. In real time both programs have one CPU of this machine and a file system in memory, as in
the guest. Kernels differ: a guest has its own.
"""

from __future__ import annotations

import math
import os
import platform
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
from scipy import stats

from bench.kernels.guests import tell
from bench.virtual.service import LIMIT, OPTIONS, Bench, Load
from bench.virtual.text import table
from leadline.host import here
from leadline.model.errors import LeadlineError
from leadline.places.guest import machine

PROGRAM = Path(__file__).with_name("Pairs.java")
ROUNDS = 9
LARGE = 0.10  # a smaller effect is none that both times must agree on
_BASE = Load(warm_up=300, requests=300)
_COMPILED = tuple(option for option in OPTIONS if "Tiered" not in option)
SETTINGS = {
    "half the loop": replace(_BASE, rounds=_BASE.rounds // 2),
    "responses of 64 KiB": replace(_BASE, size=65_536),
    "4 clients": replace(_BASE, clients=4),
    "16 clients": replace(_BASE, clients=16),
    "-Xint": replace(_BASE, options=(*OPTIONS, "-Xint"), warm_up=20, requests=40),
    "with the C2 compiler": replace(_BASE, options=_COMPILED),
    "-XX:+UseG1GC": replace(_BASE, options=tuple(one.replace("Serial", "G1") for one in OPTIONS)),
}
_RESAMPLES = 2000

Ratios = Mapping[str, Sequence[float]]  # logarithms by name, one of each run


@dataclass(frozen=True)
class Agreement:
    """Kendall's tau with its interval of 95 % over resampled effects, and how many signs agree of how many."""

    tau: float
    low: float
    high: float
    same: int
    of: int

    def __str__(self) -> str:
        return f"tau {self.tau:+.2f} [{self.low:+.2f}, {self.high:+.2f}], same direction in {self.same} of {self.of}"


def agreement(virtual: Sequence[float], real: Sequence[float], seed: int = 1) -> Agreement:
    """Of two effects (logarithms) for each thing. Raises ValueError for fewer than three."""
    if len(virtual) != len(real) or len(virtual) < 3:
        raise ValueError(f"{len(virtual)} and {len(real)} effects have no rank correlation")
    pairs = np.array([virtual, real])
    draws = np.random.default_rng(seed).integers(0, len(virtual), (_RESAMPLES, len(virtual)))
    found = [_tau(pairs[0, draw], pairs[1, draw]) for draw in draws]
    low, high = np.nanquantile(found, [0.025, 0.975])
    same = sum(one * other > 0 for one, other in zip(virtual, real, strict=True))
    return Agreement(_tau(*pairs), float(low), float(high), same, len(virtual))


def _tau(one: np.ndarray, other: np.ndarray) -> float:
    return float(stats.kendalltau(one, other).statistic)


def read(text: str) -> dict[str, float]:
    """Logarithms of second way to first, as `Pairs.java` prints them."""
    rows = [line.split() for line in text.splitlines()]
    return {name: math.log(float(second) / float(first)) for name, first, second in rows}


def large(real: Sequence[float]) -> bool:
    """Whether real time tells an effect of that size: all its runs lie on one side of it."""
    bound = math.log1p(LARGE)
    return min(real) > bound or max(real) < -bound


def report(virtual: Ratios, real: Ratios, what: str) -> str:
    """The table, and the agreement over all effects and over the large ones."""
    rows, large_ones = [], []
    for name, logs in virtual.items():
        if is_large := large(real[name]):
            large_ones.append(name)
        cells = [_range(logs), _range(real[name]), "yes" if is_large else "no"]
        rows.append(
            [name.replace("_", " "), *cells, "" if median(logs) * median(real[name]) > 0 else "other direction"]
        )
    head = [what, "virtual time", "real time", "large", ""]
    lines = [table(head, rows), "", f"All {len(virtual)}: {_agreement(virtual, real, list(virtual))}."]
    lines.append(f"The {len(large_ones)} large ones: {_agreement(virtual, real, large_ones)}.")
    return "\n".join(lines)


def _agreement(virtual: Ratios, real: Ratios, names: Sequence[str]) -> str:
    if len(names) < 3:
        return "too few for a rank correlation"
    return str(agreement([median(virtual[name]) for name in names], [median(real[name]) for name in names]))


def _range(logs: Sequence[float]) -> str:
    low, middle, high = (f"{math.exp(value):.3g}" for value in (min(logs), median(logs), max(logs)))
    return f"{middle} [{low}, {high}]"


# -- measured


def run(bench: Bench, seeds: int, trials: int) -> str:
    """``seeds`` guests in virtual time and ``trials`` in real time for each thing."""
    with ThreadPoolExecutor(here.cpu_count()) as pool:
        guests = list(pool.map(lambda seed: _pairs_in_guest(bench, seed), range(1, seeds + 1)))
        jobs = [(name, seed) for seed in range(1, seeds + 1) for name in ("", *SETTINGS)]
        times = dict(zip(jobs, pool.map(lambda job: _service_in_guest(bench, *job), jobs), strict=True))
    pairs = report(_together(guests), _together([_pairs_here(bench) for _ in range(trials)]), "microbenchmark")
    virtual = {
        name: [math.log(times[name, seed] / times["", seed]) for seed in range(1, seeds + 1)] for name in SETTINGS
    }
    settings: dict[str, list[float]] = {name: [] for name in SETTINGS}
    for trial in range(trials):
        found = {name: _service_here(bench, name) for name in ("", *SETTINGS)}
        for name in SETTINGS:
            settings[name].append(math.log(found[name] / found[""]))
        tell(f"real time, trial {trial + 1}: request {found[''] / 1e6:.3f} ms")
    about = f"guests: {bench.kernel.release}, {seeds} seeds; this machine: {platform.release()}, {trials} trials"
    return f"{about}; median ratio [lowest, highest]\n\n{pairs}\n\n{report(virtual, settings, 'setting of a service')}"


def _together(runs: Sequence[Mapping[str, float]]) -> Ratios:
    return {name: [one[name] for one in runs] for name in runs[0]}


def _words(java: str, classes: str, directory: str) -> list[str]:
    return [java, *OPTIONS, "-cp", classes, "Pairs", directory, str(ROUNDS)]


def _pairs_in_guest(bench: Bench, seed: int) -> dict[str, float]:
    words = " ".join(_words("/jre/bin/java", "/app", "/tmp/pairs"))
    job = f'mkdir /tmp/pairs; {words} >/tmp/out 2>/tmp/err || fail workload "$(head -n 3 /tmp/err)"\nput out /tmp/out\n'
    outcome = machine.run(bench.host, replace(bench.boot, seed=seed), job, bench.place(), LIMIT)
    tell(f"seed {seed}: microbenchmarks, {outcome.wall_seconds:.0f} s")
    return read((outcome.files / "out").read_text())


def _service_in_guest(bench: Bench, name: str, seed: int) -> float:
    measured = bench.booted(SETTINGS.get(name, _BASE), replace(bench.boot, seed=seed))
    tell(f"seed {seed}, {name or 'as is'}: median {measured.typical / 1e6:.4f} ms, {measured.wall_seconds:.0f} s")
    return measured.typical


def _pairs_here(bench: Bench) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=_in_memory()) as directory:
        done = here.run([*_one_cpu(), *_words(bench.java, bench.classes, directory)], timeout=LIMIT)
    if done.returncode:
        raise LeadlineError(f"the microbenchmarks ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return read(done.stdout)


def _service_here(bench: Bench, name: str) -> float:
    return bench.native(SETTINGS.get(name, _BASE), before=_one_cpu()).typical


def _one_cpu() -> list[str]:
    """As a guest has: taskset on the last CPU, where it is installed."""
    found = shutil.which("taskset")
    return [found, "-c", str(max(os.sched_getaffinity(0)))] if found else []


def _in_memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
