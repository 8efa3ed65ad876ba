"""Two servers loaded in turns: slots in random order inside blocks of two, and the changes of the pairs.

What a neighbour does meets both servers alike, which two loads one after the other cannot promise. Two drivers run at
the same time, each in its own windows, so connections and sessions are kept from slot to slot.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from leadline.host import here
from leadline.host.bystanders import Bystanders
from leadline.load.against import LEVEL, LOWER_BOUND, SIDES, LoadChange, LoadComparison
from leadline.load.command import OUT, keep_others, option_value, read_others, server_of
from leadline.load.driver import as_own_user, find_binary
from leadline.load.scenario import find_scenario
from leadline.load.series import WindowResult, responses_in_windows
from leadline.model import distributions
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.result import AtLeast
from leadline.model.units import parse_duration

SLOT, WASH_OUT = 5, 1  # seconds of a slot, and of its beginning that is not measured
SECONDS = 100  # of all slots together, unless --steady says otherwise
FEWEST = 5  # blocks
_START = 10.0  # seconds from the command to the first slot: both drivers have read their files, on a busy host too
_END = 60.0  # seconds for what is under way at the end
_MEASURES = (("throughput", "per_second"), ("mean", "ms"), ("p50", "ms"), ("p90", "ms"), ("p99", "ms"))
_OWN = ("--url", "--windows", "--start-at", "--out", "--steady", "--ramp-up", "--ramp-down", "--progress")


def run_alternately(scenario: str, urls: tuple[str, str], options: Sequence[str]) -> LoadComparison:
    """Loads both servers with ``options`` of leadline-load and compares them. Raises UsageError, LeadlineError."""
    out = Path(option_value("--out", options, OUT))
    order = blocks_of(_seconds(options), int(option_value("--seed", options, "1")))
    start = str(time.time_ns() + int(_START * 1e9))
    options_left, path = _others(options), find_scenario(scenario)
    beside = Bystanders({pid for url in urls for pid in server_of(url)})
    with ExitStack() as stack, ThreadPoolExecutor(len(urls)) as pool:
        runs = []
        for side, (name, url) in enumerate(zip("ab", urls, strict=True)):
            windows = ",".join(f"{at}s-{at + SLOT}s" for at in slots_of(order, side))
            arguments = ["--url", url, "--windows", windows, "--start-at", start, "--out", str(out / name)]
            arguments += ["--steady", f"{2 * SLOT * len(order)}s", "--progress", "none", "--verdict", "file"]
            argv = [str(find_binary()), "run", str(path), *options_left, *arguments]
            command = stack.enter_context(as_own_user(argv, out / name, path))
            runs.append(pool.submit(here.run, command, timeout=_START + 2 * SLOT * len(order) + _END))
        done = [run.result() for run in runs]
    for url, process in zip(urls, done, strict=True):
        if process.returncode:
            message = process.stderr.strip().removeprefix("leadline-load: ") or f"code {process.returncode}"
            raise (UsageError if process.returncode == 2 else LeadlineError)(f"{url}: {message}")
    keep_others(out, beside.used())
    measured = [[(at + WASH_OUT, at + SLOT) for at in slots_of(order, side)] for side in (0, 1)]
    first, second = (responses_in_windows(out / name, spans) for name, spans in zip("ab", measured, strict=True))
    seconds = len(order) * (SLOT - WASH_OUT)
    return LoadComparison(*urls, (seconds, seconds), paired_changes(first, second), _weakens(out, order))


def blocks_of(seconds: float, seed: int) -> list[bool]:
    """For each block of two slots whether the second server comes first. Raises UsageError for too few blocks."""
    count = round(seconds / (2 * SLOT))
    if count < FEWEST:
        raise UsageError(f"--alternate has blocks of two {SLOT} s slots: give --steady at least {2 * SLOT * FEWEST}s")
    order = [False] * (count // 2) + [True] * (count - count // 2)
    random.Random(seed).shuffle(order)
    return order


def slots_of(order: Sequence[bool], side: int) -> list[int]:
    """The seconds at which the slots of a server begin."""
    return [2 * SLOT * block + SLOT * (swapped != bool(side)) for block, swapped in enumerate(order)]


def paired_changes(
    first: Sequence[WindowResult | None], second: Sequence[WindowResult | None]
) -> tuple[LoadChange, ...]:
    """From the first server to the second, by Student's t over the blocks; intervals hold for all measures together
    (Bonferroni). Blocks in which one of both had no success count for errors alone. Of lower bounds there is no change.
    """
    pairs = [(pair, other) for pair, other in zip(first, second, strict=True) if pair is not None and other is not None]
    level = 1 - (1 - LEVEL) / (len(_MEASURES) + 1)
    changes = []
    for measure, unit in _MEASURES:
        values = [(getattr(block_pair, measure), getattr(other, measure)) for block_pair, other in pairs]
        good = np.array([pair for pair in values if min(pair) > 0 and math.isfinite(sum(pair))]).reshape(-1, 2)
        if len(good) < FEWEST:
            changes.append(
                LoadChange(measure, unit, None, None, reason=f"only {len(good)} blocks have a figure of both")
            )
            continue
        before, now = (float(value) for value in good.mean(axis=0))
        if bounds := [word for at, word in enumerate(SIDES) if any(isinstance(pair[at], AtLeast) for pair in values)]:
            reason = LOWER_BOUND.format(" and ".join(bounds))
            changes.append(LoadChange(measure, unit, before, now, reason=reason, at_least=tuple(bounds)))
            continue
        change, low, high = (100 * math.expm1(value) for value in _interval(np.log(good[:, 1] / good[:, 0]), level))
        changes.append(LoadChange(measure, unit, before, now, change, low, high))
    if len(pairs) < FEWEST:
        return (*changes, LoadChange("errors", "share", None, None, reason=f"only {len(pairs)} blocks have figures"))
    errors = np.array([(block_pair.errors, other.errors) for block_pair, other in pairs])
    change, low, high = (100 * value for value in _interval(errors[:, 1] - errors[:, 0], level))
    first_mean, second_mean = (float(value) for value in errors.mean(axis=0))
    return (*changes, LoadChange("errors", "share", first_mean, second_mean, change, low, high))


def _interval(differences: np.ndarray, level: float) -> tuple[float, float, float]:
    """Mean and ends."""
    count, middle = len(differences), float(differences.mean())
    reach = float(distributions.t.ppf((1 + level) / 2, count - 1)) * float(differences.std(ddof=1)) / math.sqrt(count)
    return middle, middle - reach, middle + reach


def _seconds(options: Sequence[str]) -> float:
    text = option_value("--steady", options, f"{SECONDS}s")
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--steady: {error}") from None


def _others(options: Sequence[str]) -> list[str]:
    """The options without those that are this layout's own. Raises UsageError for one that it sets by itself."""
    options_left, skip = list[str](), False
    for word in options:
        name, equals, _ = word.partition("=")
        if skip:
            skip = False
        elif name in ("--out", "--steady"):
            skip = not equals
        elif name in _OWN:
            raise UsageError(f"{name} cannot stand beside --alternate, which sets it by itself")
        else:
            options_left.append(word)
    return options_left


def _weakens(out: Path, order: Sequence[bool]) -> tuple[str, ...]:
    others = read_others(out)
    reasons = [f"other programs took {others} of the CPUs; both servers met them"] if others is not None else []
    return (f"{len(order)} blocks of two slots of {SLOT} s, the first {WASH_OUT} s of each left out", *reasons)
