"""Runs a generator in the foreground and leaves the files of leadline-load."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from leadline.host import here
from leadline.host.received import end_of
from leadline.host.textfile import expanded, is_file
from leadline.load import earlier
from leadline.load.driver import scenario_reads
from leadline.load.generators.base import PRINTED, Job, results_of
from leadline.load.generators.files import Ran, write_files
from leadline.load.generators.registry import find_generator
from leadline.load.result import read_summary
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.received import from_json


@dataclass(frozen=True)
class Plan:
    """A run of a generator and where its results go. ``steady`` None: to the end of the tool's own run."""

    generator: str
    job: Job
    out: Path
    ramp_up: float = 0.0
    steady: float | None = None
    replace: bool = False  # results of an earlier run are removed


def run_generator(plan: Plan) -> None:
    """Starts the tool, waits, reads its results and writes them as leadline-load's. What the tool prints goes to
    standard output and ``raw/printed.txt``. Raises UsageError, also where results of an earlier run are, LeadlineError.
    """
    tool = find_generator(plan.generator)
    job = plan.job
    tool.check(job)
    _ = job.words  # an unknown placeholder is an error before anything is written
    if plan.ramp_up > 0 and not tool.per_second:
        raise UsageError(
            f"{tool.name} keeps no time of single requests, so a ramp-up cannot be left out of its figures: leave "
            "--ramp-up out, and let a run of its own warm the server up"
        )
    try:
        if plan.replace:
            earlier.remove(plan.out)
        else:
            earlier.refuse(plan.out)
        job.raw.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {plan.out}: {error.strerror}") from None
    command = tool.command(job)
    env = {**os.environ, **job.environment, **command.env}
    printed = job.raw / PRINTED
    started = job.raw / earlier.STARTED
    started.write_text("", encoding="ascii")
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    with printed.open("w", encoding="utf-8") as output:
        try:
            with here.own_user(command.argv, job.raw, tool_reads(plan), [job.raw], tied=True) as argv:
                code, told = here.foreground(argv, apart=True, output=output, env=env)
        except OSError as error:
            started.unlink()
            raise LeadlineError(f"{tool.name} could not be started: {error}") from None
    ended, after = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    text = end_of(printed)
    sys.stdout.write(text)
    sys.stdout.flush()
    if code and not told and not _left_results(tool.name, code):
        if not _measured(job.raw):
            started.unlink()
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "it printed nothing")
        raise LeadlineError(f"{tool.name} ended with code {code}: {last.strip()}")
    ran = Ran(
        tool.name,
        began,
        ended,
        after.ru_utime - before.ru_utime,
        after.ru_stime - before.ru_stime,
        here.cpu_count(),
        plan.ramp_up,
        plan.steady,
        completed=not told,
    )
    if told:
        with suppress(LeadlineError):  # too little for a summary
            write_files(plan.out, job, ran, results_of(tool, job))
        if not _measured(job.raw):
            started.unlink()
        name = signal.Signals(told[-1]).name
        raise LeadlineError(f"{tool.name} was ended by {name} before its run was over: {plan.out} has what it did")
    write_files(plan.out, job, ran, results_of(tool, job))


def tool_reads(plan: Plan) -> list[Path]:
    """What the tool's user must reach: the program with what it came with, the script, what lies beside it, and files
    that the options name.
    """
    program = shutil.which(plan.job.program or plan.generator)
    found = [] if program is None else [Path(program), Path(program).resolve(), Path(program).resolve().parent.parent]
    if plan.job.script is not None and is_file(script := expanded(plan.job.script)):
        found += scenario_reads(script.resolve())
    found += [Path(word) for word in plan.job.options if word.startswith("/") and Path(word).is_file()]
    return found


def _measured(raw: Path) -> bool:
    """Whether a tool that failed left anything but words."""
    words = (PRINTED, "hook.lua", "jmeter.log")
    return any(path.stat().st_size for path in raw.rglob("*") if path.is_file() and path.name not in words)


def _left_results(tool: str, code: int) -> bool:
    """Codes that mean a broken limit of the script's own, not a broken run: k6 99, Gatling 2."""
    return (tool, code) in (("k6", 99), ("gatling", 2))


def plan_text(plan: Plan) -> str:
    """The plan as JSON, for the process that a host starts."""
    return json.dumps(asdict(plan), default=str)


def plan_from(text: str) -> Plan:
    found = from_json(text)
    job = found.pop("job")
    job["raw"] = Path(job["raw"])
    return Plan(**{**found, "out": Path(found["out"]), "job": Job(**job)})


def main() -> int:
    """``python -m leadline.load.generators.run PLAN.json``: exit code as leadline-load's."""
    try:
        plan = plan_from(Path(sys.argv[1]).read_text(encoding="utf-8"))
        run_generator(plan)
        result = read_summary(plan.out)
        if not any(total.ok for total in result.total.values()):
            raise LeadlineError(f"{plan.generator}: no request succeeded: {dict(result.errors) or 'none was made'}")
    except LeadlineError as error:
        print(f"leadline: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
