"""``load --generator``: another tool on its own script, its results as leadline-load's."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path

from leadline.cli.output import console, print_json
from leadline.load.generators.base import Job
from leadline.load.generators.run import Plan, run_generator
from leadline.load.result import DriverResult, Latency, read_summary
from leadline.model.errors import UsageError, nearest
from leadline.model.units import parse_duration

_OPTIONS = ("--url", "--out", "--replace", "--options", "--program", "--ramp-up", "--steady", "--seed")


def run(name: str, script: str | None, arguments: list[str], as_json: bool) -> None:
    """Runs the tool, prints what it found and what its latencies mean. Raises UsageError, LeadlineError."""
    given = _given(arguments)
    if "--url" not in given:
        raise UsageError("--url is missing: the server's address, e.g. --url http://127.0.0.1:9080/brokerage")
    out = Path(given.get("--out", "leadline-load.out"))
    ramp_up, steady = _time(given, "--ramp-up", "0s"), _time(given, "--steady", "10s")
    seed = given.get("--seed", "1")
    if not seed.isdecimal():
        raise UsageError(f"--seed {seed}: not a whole number")
    try:
        words = shlex.split(given.get("--options", ""))
    except ValueError as error:
        raise UsageError(f"--options {given['--options']}: {str(error).lower()}") from None
    job = Job(given["--url"], out.resolve() / "raw", ramp_up + steady, int(seed), script, words, given.get("--program"))
    cut = steady if "--steady" in given and name not in ("wrk", "httperf") else None
    plan = Plan(name, job, out, ramp_up, cut, "--replace" in given)
    with redirect_stdout(sys.stderr):
        run_generator(plan)
    result = read_summary(out)
    if as_json:
        print_json(json.loads((out / "summary.json").read_text(encoding="utf-8")))
        return
    for line in lines(result):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def lines(result: DriverResult) -> list[str]:
    """The result for people; the last lines say what its latencies mean and what is not known."""
    found = []
    for name, part in [*result.transactions.items(), ("all", result.all)]:
        found.append(
            f"{name}: {part.per_second:.1f}/s, {part.ok} ok, {part.failed} failed; ms: {_figures(part.response_ms)}"
        )
    if result.errors:
        found.append("errors: " + ", ".join(f"{kind} {count}" for kind, count in result.errors.items()))
    found += [f"the generator was the limit: {sentence}" for sentence in result.driver.evidence]
    note = result.generator
    if note is not None:
        found += [text for text in (note.sentence, note.missing) if text]
    return found


def _figures(latency: Latency) -> str:
    figures = {"mean": latency.mean, "p50": latency.p50, "p90": latency.p90, "p99": latency.p99, "max": latency.max}
    return ", ".join(f"{name} {'-' if value is None else f'{value:.2f}'}" for name, value in figures.items())


def _given(arguments: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name not in _OPTIONS:
            close = nearest(name, list(_OPTIONS))
            hint = f"did you mean {close}?" if close else "the tool's own go into --options '...'"
            raise UsageError(f"unknown option {name} of load --generator; {hint}")
        if name == "--replace":
            if equals:
                raise UsageError("--replace takes no value")
            found[name] = ""
            continue
        if not equals:
            value = next(rest, "")
        if not value:
            raise UsageError(f"{name} needs a value")
        found[name] = value
    return found


def _time(given: dict[str, str], name: str, otherwise: str) -> float:
    try:
        return parse_duration(given.get(name, otherwise))
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
