"""What a tuning would be before anything runs: its steps, trials, time, and what it can find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from leadline.lab.pilot import noise_for, overhead_for
from leadline.lab.testbed import Testbed
from leadline.lab.tuning.part import part_file
from leadline.model.tuning import Tuning
from leadline.model.units import format_duration
from leadline.planning.forecast import setup_of, sigma_of
from leadline.planning.noise import Noise
from leadline.planning.sequence import Part, advance, decision_levels
from leadline.planning.sequence.compare import compare_part
from leadline.planning.sequence.factorial import runs_of
from leadline.planning.sequence.keep import smallest_step, step_part
from leadline.planning.sequence.parts import describe, modes_of


@dataclass(frozen=True)
class Line:
    """One comparison. ``least`` and ``most`` trials: how many depends on what is kept before it."""

    what: str
    detail: str
    least: int
    most: int


@dataclass(frozen=True)
class Outline:
    """``seconds``: of the fewest and of the most trials. ``smallest``: change in percent that a step finds in four of
    five cases, None where it is not known.
    """

    tuning: str
    lines_of: tuple[Line, ...]
    left_out: Mapping[str, str]
    level: float
    per_trial: float
    seconds: tuple[float, float]
    smallest: float | None
    noise: str
    warnings: tuple[str, ...] = ()  # what trials of some step risk

    @property
    def trials(self) -> tuple[int, int]:
        return sum(line.least for line in self.lines_of), sum(line.most for line in self.lines_of)

    def lines(self) -> list[str]:
        """Plain lines of text."""
        wide = max(len(line.what) for line in self.lines_of)
        found = [
            f"{line.what.ljust(wide)}  {_between(line.least, line.most):>9} trials  {line.detail}"
            for line in self.lines_of
        ]
        found += [f"step {name} is left out: {why}" for name, why in self.left_out.items()]
        found += self.warnings
        low, high = (format_duration(each) for each in self.seconds)
        found.append(
            f"{_between(*self.trials)} trials of {format_duration(self.per_trial)}: {low} if nothing is kept, {high} "
            "at most"
        )
        found.append(
            f"a step is kept by its {100 * self.level:.1f} % interval, for all modes and candidates at once: at most 5 "
            "of 100 tunings keep anything where nothing helps"
        )
        if self.smallest is not None:
            found.append(f"a step finds changes of {self.smallest:.2g} % (80 % power); noise {self.noise}")
        return found

    def document(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "tuning": self.tuning,
            "parts": [asdict(line) for line in self.lines_of],
            "left_out": dict(self.left_out),
            "trials": {"least": self.trials[0], "most": self.trials[1]},
            "seconds": {"least": self.seconds[0], "most": self.seconds[1]},
            "seconds_per_trial": self.per_trial,
            "step_level": self.level,
            "smallest": self.smallest,
            "noise": self.noise,
            "warnings": list(self.warnings),
        }


def outline(tuning: Tuning, left_out: Mapping[str, str], testbed: Testbed) -> Outline:
    """Nothing is changed. The lab may hold earlier studies of the same stack and load, whose noise is then expected."""
    steps = [step for step in tuning.steps if step.name not in left_out]
    found: list[Line] = []
    warnings: dict[str, None] = {}
    nothing: Mapping[str, Mapping[str, int]] = {mode: {} for mode in tuning.modes}
    everything: dict[str, Mapping[str, int]] = {
        mode: {step.name: 1 for step in steps if mode in modes_of(tuning, step)} for mode in tuning.modes
    }
    for step in steps:
        modes = modes_of(tuning, step)
        if not modes:
            continue
        part = step_part(tuning, step, nothing, left_out)
        warnings |= dict.fromkeys(testbed.plan(part_file(tuning, part), idle_settings=True).warnings)
        choices = " | ".join(describe(step, at) for at in range(1, step.candidates + 1))
        detail = f"{describe(step, 0)} -> {choices} ({', '.join(modes)})"
        most = part.trials + 2 * len(modes) * tuning.blocks.confirm
        found.append(Line(step.name, detail, part.trials, most))
    parts = [compare_part(tuning, nothing, left_out), compare_part(tuning, everything, left_out)]
    least, most = (0 if part is None else part.trials for part in parts)
    found.append(Line("compare", "untuned against tuned, all modes", least, most))
    if tuning.factorial is not None:
        runs = {mode: runs_of(list(kept), tuning.factorial) for mode, kept in everything.items()}
        count = sum(runs.values()) * tuning.factorial.replicates
        told = ", ".join(f"{mode} {number}" for mode, number in runs.items())
        fewest = 0 if tuning.factorial.of == "kept" else count
        found.append(Line("factorial", f"combinations of steps: {told}", fewest, count))
    first = advance(tuning, {}, left_out).next
    assert first is not None
    noise, per_trial, smallest = _expected(tuning, first, len(steps), testbed)
    counts = sum(line.least for line in found), sum(line.most for line in found)
    level, _ = decision_levels(tuning, len(steps))
    return Outline(
        tuning.tuning,
        tuple(found),
        left_out,
        level,
        per_trial,
        (counts[0] * per_trial, counts[1] * per_trial),
        smallest,
        noise.source,
        tuple(warnings),
    )


def _expected(tuning: Tuning, first: Part, steps: int, testbed: Testbed) -> tuple[Noise, float, float | None]:
    """Noise, seconds of a trial, and the smallest change that the first step finds."""
    file = part_file(tuning, first)
    noise = noise_for(file.study, testbed.directory)
    overhead = overhead_for(file.study, noise)
    load = tuning.workload.before_steady + tuning.workload.steady + tuning.workload.ramp_down
    setup = setup_of(file.study.design, file.study.workload, overhead)
    sigma = sigma_of(testbed.plan(file, idle_settings=True).plan, noise, setup)
    level, _ = decision_levels(tuning, steps)
    smallest = None if sigma is None else smallest_step(tuning, first, sigma, level)
    return noise, load + overhead, smallest


def _between(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"
