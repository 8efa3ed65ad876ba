"""Comparisons of programs as files: hyperfine's format, and what it has no place for under ``leadline``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from leadline.host.textfile import read_text
from leadline.model.errors import UsageError, quoted, wanted
from leadline.model.received import from_json
from leadline.trial.command import Cache, Command, CommandComparison, Order, Run, Timing, compared, plan_of_runs

_LARGEST = 64 * 1024**2  # bytes of a file
_Number = Annotated[float, Field(allow_inf_nan=False)]
_Index = Annotated[int, Field(ge=0, le=10**6)]


class _Result(BaseModel):
    """A command of hyperfine's with its times in seconds, and 0, another exit code or null (a signal) for each."""

    command: str
    mean: _Number | None = None
    times: list[_Number] = []
    exit_codes: list[int | None] = []
    parameters: dict[str, str | int | float] | None = None


class _Run(BaseModel):
    command: _Index
    block: _Index = 0
    started: _Number = math.nan
    figures: dict[str, _Number] = {}
    failed: str = ""


class _Own(BaseModel):
    order: Order
    cache: Cache = "unknown"
    seed: int | None = None
    runs: list[_Run]


class _File(BaseModel):
    results: list[_Result]
    leadline: _Own | None = None


def document(found: CommandComparison) -> dict[str, Any]:
    """What hyperfine's ``--export-json`` writes, and under ``leadline`` the order, all figures and the conclusions.
    What is not known is absent.
    """
    results: list[dict[str, Any]] = []
    for at, command in enumerate(found.commands):
        times = found.of(at, "wall")
        if not times:
            results.append({"command": command.text, "times": [], "parameters": dict(command.parameters)})
            continue
        peaks = found.of(at, "peak_memory")
        results.append(
            {
                "command": command.text,
                "mean": fmean(times),
                "stddev": stdev(times) if len(times) > 1 else None,
                "median": median(times),
                "user": fmean(found.of(at, "user")) if found.of(at, "user") else None,
                "system": fmean(found.of(at, "system")) if found.of(at, "system") else None,
                "min": min(times),
                "max": max(times),
                "times": times,
                **({"memory_usage_byte": [int(1048576 * peak) for peak in peaks]} if peaks else {}),
                "parameters": dict(command.parameters),
            }
        )
    document_ = {
        "order": found.how.order,
        "cache": found.how.cache,
        **({} if found.unordered else {"seed": found.how.seed}),
        "margin_percent": found.how.margin,
        "runs": [
            {"command": run.command}
            | ({} if found.unordered else {"block": run.block, "started": run.started})
            | ({"failed": run.why} if run.why else {"figures": dict(run.figures)})
            for run in found.runs
        ],
    }
    return {"results": results, "leadline": document_}


def compared_files(paths: Sequence[Path], margin: float, ignore_failure: bool = False) -> CommandComparison:
    """The comparison of the commands in files that hyperfine or :func:`document` wrote. A run that ended by a signal or
    with another exit code than 0 has failed, unless ``ignore_failure``. The order is known where a single file holds
    it. Raises UsageError.
    """
    commands: list[Command] = []
    runs: list[Run] = []
    how = Timing(order="unknown", cache="unknown")
    for path in paths:
        file_commands, file_runs, how = runs_of_file(path, ignore_failure)
        runs += [
            replace(run, position=len(runs) + at, command=len(commands) + run.command)
            for at, run in enumerate(file_runs)
        ]
        commands += file_commands
    if len(paths) > 1:
        how = Timing(order="unknown", cache="unknown")
    if how.order == "unknown":
        runs = [replace(run, block=0, started=math.nan) for run in runs]
    return compared(commands, replace(how, margin=margin), plan_of_runs(len(commands), runs), runs, False, ())


def runs_of_file(path: Path, ignore_failure: bool = False) -> tuple[list[Command], list[Run], Timing]:
    """The commands of a file, their runs, and in which order these were, as far as it says. Raises UsageError."""
    file = _file(path)
    commands = [
        Command(result.command, (), False, {name: str(value) for name, value in (result.parameters or {}).items()})
        for result in file.results
    ]
    own = file.leadline
    if own is None:
        runs = _runs_of_hyperfine(path, file.results, ignore_failure)
        return commands, runs, Timing(order="unknown", cache="unknown")
    how = Timing(order=own.order, cache=own.cache, seed=own.seed or 0)
    return commands, _runs_of_own(path, own, len(commands)), how


def _file(path: Path) -> _File:
    wrong = f"{path}: not what `hyperfine --export-json` writes"
    try:
        document_ = from_json(read_text(path, _LARGEST), finite=False)
    except ValueError as error:
        raise UsageError(f"{wrong}: no JSON: {error}") from None
    if isinstance(document_, list):
        document_ = {"results": document_}  # the commands alone, as scripts keep them
    if not isinstance(document_, dict):
        raise UsageError(f"{wrong}: an object with `results`, a list of commands, is wanted")
    try:
        file = _File.model_validate(document_)
    except ValidationError as error:
        raise UsageError(f"{wrong}: {_sentence(error)}") from None
    if not file.results:
        raise UsageError(f"{path}: it holds no command")
    return file


def _sentence(error: ValidationError) -> str:
    """The first problem: where it is, and what is there."""
    problem = error.errors(include_url=False)[0]
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]).lstrip(".")
    if problem["type"] == "missing":
        return f"{name} is missing"
    return f"{name} is {quoted(problem['input'])}: {wanted(problem)}"


def _runs_of_hyperfine(path: Path, results: Sequence[_Result], ignore_failure: bool) -> list[Run]:
    runs: list[Run] = []
    for number, result in enumerate(results):
        name = f"{path}: results[{number}]"
        times = result.times or ([result.mean] if result.mean is not None else [])
        codes = result.exit_codes or [0] * len(times)
        if len(codes) != len(times):
            raise UsageError(f"{name}: {len(times)} times and {len(codes)} exit codes; each time has one")
        for at, (time, code) in enumerate(zip(times, codes, strict=True)):
            if code != 0 and not ignore_failure:
                why = "ended by a signal" if code is None else f"exit code {code}"
                runs.append(Run(at, 0, number, math.nan, {}, why))
            elif time <= 0:
                raise UsageError(
                    f"{name}.times[{at}] ({quoted(result.command)}) is {time:g} s, not more than 0: hyperfine takes "
                    "the start of the shell off; time a program so short without a shell (`hyperfine -N`)"
                )
            else:
                runs.append(Run(at, 0, number, math.nan, {"wall": time}))
    if not runs:
        raise UsageError(f"{path}: it holds no time of a run")
    return runs


def _runs_of_own(path: Path, own: _Own, commands: int) -> list[Run]:
    """Raises UsageError also where the blocks contradict the order."""
    places_seen: set[tuple[int, int]] = set()
    for at, run in enumerate(own.runs):
        name = f"{path}: leadline.runs[{at}]"
        if run.command >= commands:
            raise UsageError(f"{name}.command is {run.command}; the file has {commands} commands, from 0")
        if not run.failed and not run.figures.get("wall", 0) > 0:
            raise UsageError(f"{name}: `figures.wall` is not a time of more than 0 s")
        if own.order != "unknown" and math.isnan(run.started):
            raise UsageError(f'{name}: `started` is missing; write "order": "unknown" if the order is not known')
        if own.order == "random" and commands > 1 and (run.block, run.command) in places_seen:
            raise UsageError(
                f"{name}: block {run.block} has command {run.command} twice, so the order was not random blocks; "
                'write "order": "unknown" if it is not known'
            )
        places_seen.add((run.block, run.command))
    return [Run(at, run.block, run.command, run.started, run.figures, run.failed) for at, run in enumerate(own.runs)]
