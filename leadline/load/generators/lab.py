"""A generator in a trial: the process a host starts in place of leadline-load."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from leadline.host.base import ProcessSpec
from leadline.host.textfile import expanded, is_file
from leadline.load.generators.base import Job
from leadline.load.generators.run import Plan, find_generator, plan_text, tool_reads
from leadline.model.errors import UsageError
from leadline.model.workload import Generator, Workload


@dataclass(frozen=True)
class GeneratorRun:
    """As ``leadline.load.driver.DriverRun``."""

    generator: Generator
    workload: Workload
    url: str
    seed: int
    out: Path
    cpus: str | None = None

    @property
    def seconds(self) -> float:
        return self.workload.ramp_up + self.workload.steady + self.workload.ramp_down

    def spec(self, output: Path) -> ProcessSpec:
        """The process: a small parent of the tool, which writes the tool's results as leadline-load's."""
        self.out.mkdir(parents=True, exist_ok=True)
        tool = self.generator
        script = tool.script
        if script is not None and is_file(expanded(script)):
            script = str(expanded(script).resolve())
        job = Job(
            self.url,
            self.out.resolve() / "raw",
            self.seconds,
            self.seed,
            script,
            tuple(tool.options),
            tool.program,
        )
        plan = Plan(tool.name, job, self.out.resolve(), self.workload.ramp_up, self.workload.steady)
        file = self.out / "plan.json"
        file.write_text(plan_text(plan), encoding="utf-8")
        argv = [sys.executable, "-m", "leadline.load.generators.run", str(file)]
        python = [Path(name) for name in dict.fromkeys([sys.prefix, sys.base_prefix, *filter(None, sys.path)])]
        return ProcessSpec(
            "driver",
            argv,
            output,
            env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            cpus=self.cpus,
            owns=(self.out,),
            reads=(*python, file, *tool_reads(plan)),
        )


def check_generator(generator: Generator) -> None:
    """Before anything starts: the tool is there, its script too, and its results carry a study. Raises UsageError or
    LeadlineError.
    """
    tool = find_generator(generator.name)
    if not tool.per_second:
        raise UsageError(
            f"{generator.name} keeps no time of single requests, so a study could judge no warm-up: use oha, k6, "
            f"jmeter, gatling or leadline-load (`leadline load --generator {generator.name}` runs it alone)"
        )
    job = Job("http://localhost", Path(), 1.0, 1, generator.script, tuple(generator.options), generator.program)
    tool.check(job)
    _ = job.words  # an unknown placeholder is an error
