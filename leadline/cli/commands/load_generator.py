"""``load --generator``: another tool on its own script, its results as leadline-load's."""

from __future__ import annotations

import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path

from leadline.api.loads import OUT, Job, Plan, check_bounds, judge, read_document, read_summary, run_generator
from leadline.cli.output import errors, print_json, say
from leadline.model.errors import UsageError, nearest
from leadline.model.units import parse_duration

_OPTIONS = ("--url", "--out", "--replace", "--options", "--program", "--ramp-up", "--steady", "--seed")


def run(name: str, script: str | None, arguments: list[str], bounds: list[str], as_json: bool) -> int:
    """Runs the tool, prints what it found and what its latencies mean; exit code 1 when the run did not pass.
    Raises UsageError, LeadlineError.
    """
    options = _given(arguments)
    if "--url" not in options:
        raise UsageError("--url is missing: the server's address, e.g. --url http://127.0.0.1:9080/brokerage")
    out = Path(options.get("--out", OUT))
    ramp_up, steady = _time(options, "--ramp-up", "0s"), _time(options, "--steady", "10s")
    seed = options.get("--seed", "1")
    if not seed.isdecimal():
        raise UsageError(f"--seed {seed}: not a whole number")
    try:
        words = shlex.split(options.get("--options", ""))
    except ValueError as error:
        raise UsageError(f"--options {options['--options']}: {str(error).lower()}") from None
    job = Job(
        options["--url"], out.resolve() / "raw", ramp_up + steady, int(seed), script, words, options.get("--program")
    )
    cut = steady if "--steady" in options and name not in ("wrk", "httperf") else None
    plan = Plan(name, job, out, ramp_up, cut, "--replace" in options)
    check_bounds(bounds)
    with redirect_stdout(sys.stderr):
        run_generator(plan)
    passed, text = judge(out, bounds)
    note = read_summary(out).generator
    if as_json:
        errors.print(text, end="", soft_wrap=True)
        print_json(read_document(out))
    else:
        say(text.rstrip("\n"))
        for line in (note.sentence, note.missing) if note is not None else ():
            if line:
                say(line)
    return int(not passed)


def _given(arguments: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
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
            options[name] = ""
            continue
        if not equals:
            value = next(rest, "")
        if not value:
            raise UsageError(f"{name} needs a value")
        options[name] = value
    return options


def _time(given: dict[str, str], name: str, otherwise: str) -> float:
    try:
        return parse_duration(given.get(name, otherwise))
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
