"""``leadline load --find-knee``: measures the steps of a staircase with the real driver."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from leadline.host import here
from leadline.host.scratch import Scratch
from leadline.load import result as load_result
from leadline.load.command import OUT
from leadline.load.crossing import BESIDE, next_load
from leadline.load.driver import as_own_user, find_binary
from leadline.load.knee import Found, LoadLimits, LoadStep, Range, Staircase, gave_out, limit_of, measure_step
from leadline.load.result import read_summary
from leadline.load.scenario import FLAGS, find_scenario
from leadline.load.series import ALL, SecondResponses, seconds_between
from leadline.load.within import check_bounds, with_scenario
from leadline.model.errors import LeadlineError, UsageError

FORMAT = "leadline-knee/1"
_OURS = ("--rate", "--users", "--profile", "--bursts", "--replay", "--speed", "--progress")
_STOPPED = 130  # the driver's exit code when it was told to stop
_MOST_RUNS = 10_000  # of a search
_ROUNDS = 2  # a step in doubt is measured this often, its seconds taken together
_BLOCK = 4  # repeats between two estimates of the limit


def find_knee(
    scenario: str,
    options: Sequence[str],
    limits: LoadLimits,
    loads: Range,
    tell: Callable[[LoadStep], None],
    repeats: int = 0,
    budget_s: float = math.inf,
) -> Found:
    """Runs leadline-load step by step; ``options`` go to it as they are. ``tell`` hears each step. The load
    that the search ends at is measured once more; when that run breaks the limits, the search goes on below. Then
    ``repeats`` runs beside the limit give it an interval. No step begins that would, if it takes as long as the longest
    before it, end after ``budget_s`` seconds. Every run has a seed of its own, the next one. Writes ``knee.json`` and a
    directory for each run below ``--out`` (default ``leadline-load.out``), which ``--replace`` clears of an earlier
    run's results once leadline-load has taken scenario and options.

    Raises UsageError for options that the search sets itself and where results of an earlier run are, LeadlineError
    when a run fails.
    """
    values = dict(_pairs(options))
    for option in _OURS:
        if option in values:
            raise UsageError(f"{option} cannot stand beside --find-knee: the search sets the load itself")
    out = Path(values.pop("--out", OUT))
    replace_earlier = values.pop(load_result.REPLACE, None) is not None
    arrivals = values.pop("--arrivals", "poisson")
    if arrivals not in ("closed", "constant", "poisson"):
        raise UsageError(f"--arrivals {arrivals}: --find-knee takes closed, constant or poisson")
    values.setdefault("--ramp-up", "2s")
    # A seed names what a run creates at the server (users who register): the next run must not create it again.
    seeds = itertools.count(_seed(values.pop("--seed", "1")))
    stairs = Staircase(loads)
    path = find_scenario(scenario)
    check_bounds(limits.bounds, path)
    if replace_earlier:
        _Runner(path, values, arrivals, out, loads.first, itertools.repeat(1)).check()
        load_result.remove(out)
    else:
        load_result.refuse(out)

    def measured(load: float, directory: str, rounds: int) -> LoadStep:
        return _Runner(path, values, arrivals, out / directory, load, seeds).measure(limits, rounds)

    steps = _Steps(measured, tell, budget_s)
    for _ in range(_MOST_RUNS):
        kind = "step" if (load := stairs.next()) is not None else "confirm"
        load = stairs.unconfirmed if load is None else load
        if load is None or steps.over():
            break
        stairs.record(steps.measure(load, kind))
    result = stairs.result()
    if stairs.next() is not None or stairs.unconfirmed is not None:
        result = replace(result, limited_by="budget", reason="the budget was used up before the search ended")
    result = _with_interval(result, steps, repeats, loads.whole)
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(knee_document(result, arrivals, limits), indent=2, allow_nan=False)
    (out / "knee.json").write_text(text + "\n", encoding="utf-8")
    return result


class _Steps:
    """The steps that were measured, within a budget of seconds from now. ``measured``: a step at a load, its files in
    a directory of that name, its seconds of that many rounds; ``tell`` hears each step.
    """

    def __init__(
        self, measured: Callable[[float, str, int], LoadStep], tell: Callable[[LoadStep], None], budget_s: float
    ) -> None:
        self.done: list[LoadStep] = []
        self._measured, self._tell = measured, tell
        self._end = time.monotonic() + budget_s
        self._longest = 0.0

    def over(self) -> bool:
        """Whether one more, as long as the longest so far, would end after the budget."""
        return bool(self.done) and time.monotonic() + self._longest > self._end

    def measure(self, load: float, kind: str) -> LoadStep:
        """``kind``: step, confirm or repeat."""
        start = time.monotonic()
        step = self._measured(load, f"{kind}-{len(self.done) + 1:02d}", 1 if kind == "repeat" else _ROUNDS)
        self.done.append(replace(step, confirms=kind == "confirm"))
        self._longest = max(self._longest, time.monotonic() - start)
        self._tell(self.done[-1])
        return self.done[-1]


def _with_interval(found: Found, steps: _Steps, repeats: int, whole: bool) -> Found:
    """``found`` with its limit, after runs beside it."""
    if found.limited_by == "server" and found.highest is not None and found.lowest_failed is not None:
        around, beside = math.sqrt(found.highest * found.lowest_failed), BESIDE
        for at in range(repeats):
            if steps.over():
                break
            if at % _BLOCK == 0 and (limit := limit_of(found, steps.done)) is not None:
                around, beside = limit.load, limit.beside
            load = next_load(around, at, beside)
            if whole:
                load = float(max(1, math.floor(load) if load < around else math.ceil(load)))
            found = replace(found, repeats=(*found.repeats, steps.measure(load, "repeat")))
    limit = limit_of(found, steps.done)
    known = limit.load if limit is not None else found.lowest_failed
    return replace(found, limit=limit, gave_out=None if known is None else gave_out(steps.done, known))


def knee_document(found: Found, arrivals: str, limits: LoadLimits) -> dict[str, Any]:
    """What knee.json holds (docs/reference/load.md)."""
    return {"format": FORMAT, "arrivals": arrivals, "limits": asdict(limits), **asdict(found)}


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"--seed {text}: not a whole number")
    return int(text)


class _Runner:
    """One load, measured once, and once more while its verdict is in doubt."""

    def __init__(
        self, scenario: Path, options: dict[str, str], arrivals: str, out: Path, load: float, seeds: Iterator[int]
    ) -> None:
        self._scenario, self._options, self._arrivals, self._out, self._load = scenario, options, arrivals, out, load
        self._seeds = seeds

    def measure(self, limits: LoadLimits, rounds: int) -> LoadStep:
        seconds: list[SecondResponses] = []
        single: dict[str, list[SecondResponses]] = {}
        runs: list[float | None] = []
        driver_limit = False
        for round_ in range(rounds):
            directory = self._run(round_)
            summary = read_summary(directory)
            limits = replace(limits, bounds=with_scenario(limits.bounds, summary.limits))
            new = seconds_between(directory, *summary.phases.steady)
            quantiles = {
                name: seconds_between(directory, *summary.phases.steady, name)
                for name in {bound.transaction for bound in limits.bounds if bound.transaction != ALL}
            }
            runs.append(measure_step(self._load, new, limits, single=quantiles).ratio)
            seconds += new
            for name, estimate in quantiles.items():
                single.setdefault(name, []).extend(estimate)
            driver_limit |= summary.driver.limit
            evidence = summary.driver.evidence
            step = measure_step(self._load, seconds, limits, driver_limit, evidence, single=single)
            if step.sure or step.driver_limit:
                break
        return replace(step, runs=tuple(runs))

    def _run(self, round_: int) -> Path:
        directory = self._out.with_name(f"{self._out.name}-{round_ + 1}")
        with as_own_user(self._argv(directory, {}), directory, self._scenario) as argv:
            done = here.run(argv)
        if done.returncode:
            raise _failure(done.returncode, done.stderr)
        return directory

    def check(self) -> None:
        """Raises as a run would before its start: the driver is told to stop where it waits for its start."""
        with Scratch(shared=True) as place:
            argv = self._argv(place / "out", {"--start-at": "stdin"})
            with as_own_user(argv, place / "out", self._scenario) as argv:
                done = here.run(argv, b"stop\n")
        if done.returncode not in (0, _STOPPED):
            raise _failure(done.returncode, done.stderr)

    def _argv(self, directory: Path, more: dict[str, str]) -> list[str]:
        options = self._options | {"--seed": str(next(self._seeds))} | more
        load = ["--users", f"{self._load:.0f}"] if self._arrivals == "closed" else ["--rate", repr(self._load)]
        argv = [
            str(find_binary()),
            "run",
            str(self._scenario),
            "--verdict",
            "file",
            "--arrivals",
            self._arrivals,
            *load,
        ]
        for name, value in options.items():
            argv += [
                argument for part in value.split("\0") for argument in ((name,) if name in FLAGS else (name, part))
            ]
        return [*argv, "--out", str(directory)]


def _failure(code: int, said: str) -> LeadlineError:
    if code == 2:
        return UsageError(said.strip().removeprefix("leadline-load: "))
    return LeadlineError(f"leadline-load ended with code {code}: {said.strip()}")


def _pairs(options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Option and value; the values of one that is repeated are joined by NUL."""
    values: dict[str, str] = {}
    rest = iter(options)
    for option in rest:
        name, equals, value = option.partition("=")
        if not equals and name not in FLAGS:
            value = next(rest, "")
        values[name] = f"{values[name]}\0{value}" if name in values else value
    yield from values.items()
