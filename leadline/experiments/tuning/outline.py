"""What a tuning would be before anything runs: its steps, trials, time, and what it can find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from leadline.checks.files.study import StudyFile
from leadline.checks.plan import NO_ROTATION, Planned, cost
from leadline.experiments.pilot import noise_for, overhead_for
from leadline.experiments.tuning.part import part_file
from leadline.model.tuning import Tuning
from leadline.model.units import format_duration, rounded
from leadline.places.testbed import Testbed
from leadline.planning.forecast import setup_of, sigma_of
from leadline.planning.noise import Noise
from leadline.planning.sequence import Part, decision_levels
from leadline.planning.sequence.compare import compare_part
from leadline.planning.sequence.factorial import runs_of
from leadline.planning.sequence.keep import smallest_step, step_part
from leadline.planning.sequence.parts import describe, modes_of


@dataclass(frozen=True)
class Line:
    """One comparison. ``least`` and ``most`` trials: it depends on what is kept before it; ``seconds``: of one."""

    what: str
    detail: str
    least: int
    most: int
    seconds: float


@dataclass(frozen=True)
class Outline:
    """``smallest``: change in percent that a step finds in four of five cases, None where it is not known.
    ``side_by_side``: what the instances of a rotation need, or why there is none.
    """

    tuning: str
    lines_of: tuple[Line, ...]
    left_out: Mapping[str, str]
    level: float
    smallest: float | None
    noise: str
    warnings: tuple[str, ...] = ()  # what trials of some step risk
    side_by_side: tuple[str, ...] = ()

    @property
    def trials(self) -> tuple[int, int]:
        return sum(line.least for line in self.lines_of), sum(line.most for line in self.lines_of)

    @property
    def seconds(self) -> tuple[float, float]:
        """Of the fewest and of the most trials."""
        lines = self.lines_of
        return sum(line.least * line.seconds for line in lines), sum(line.most * line.seconds for line in lines)

    @property
    def per_trial(self) -> float:
        return self.seconds[1] / max(1, self.trials[1])

    def lines(self) -> list[str]:
        """Plain lines of text."""
        wide = max(len(line.what) for line in self.lines_of)
        lines = [
            f"{line.what.ljust(wide)}  {_between(line.least, line.most):>9} trials  {line.detail}"
            for line in self.lines_of
        ]
        lines += [f"step {name} is left out: {why}" for name, why in self.left_out.items()]
        lines += [*self.side_by_side, *self.warnings]
        low, high = (format_duration(seconds) for seconds in self.seconds)
        lines.append(
            f"{_between(*self.trials)} trials of {format_duration(self.per_trial)}: {low} if nothing is kept, {high} "
            "at most"
        )
        lines.append(
            f"a step is kept by its {100 * self.level:.1f} % interval, for all modes and candidates at once: at most 5 "
            "of 100 tunings keep anything where nothing helps"
        )
        if self.smallest is not None:
            lines.append(f"a step finds changes of {rounded(self.smallest, 2)} % (80 % power); noise {self.noise}")
        return lines

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
            "side_by_side": list(self.side_by_side),
        }


def outline(tuning: Tuning, left_out: Mapping[str, str], testbed: Testbed) -> Outline:
    """Nothing is changed. The lab may hold earlier studies of the same stack and load, whose noise is then expected."""
    steps = [step for step in tuning.steps if step.name not in left_out and modes_of(tuning, step)]
    nothing: Mapping[str, Mapping[str, int]] = {mode: {} for mode in tuning.modes}
    everything: dict[str, Mapping[str, int]] = {
        mode: {step.name: 1 for step in steps if mode in modes_of(tuning, step)} for mode in tuning.modes
    }
    parts = [step_part(tuning, step, nothing, left_out) for step in steps]
    count = len(tuning.steps) - len(left_out)
    file = part_file(tuning, parts[0])
    noise = noise_for(file.study, testbed.directory)
    forecast = _Seen(tuning, testbed, overhead_for(file.study, noise))
    lines: list[Line] = []
    for step, part in zip(steps, parts, strict=True):
        modes = modes_of(tuning, step)
        choices = " | ".join(describe(step, at) for at in range(1, step.candidates + 1))
        detail = f"{describe(step, 0)} -> {choices} ({', '.join(modes)})"
        trials, seconds = forecast.of(part)
        lines.append(Line(step.name, detail, trials, trials + 2 * len(modes) * tuning.blocks.confirm, seconds))
    ends = [compare_part(tuning, choice, left_out) for choice in (nothing, everything)]
    (least, _), (most, seconds) = (forecast.of(part) if part else (0, 0.0) for part in ends)
    lines.append(Line("compare", "untuned against tuned, all modes", least, most, seconds))
    if tuning.factorial is not None:
        runs = {mode: runs_of(list(choice), tuning.factorial) for mode, choice in everything.items()}
        trials = sum(runs.values()) * tuning.factorial.replicates
        runs_text = ", ".join(f"{mode} {number}" for mode, number in runs.items())
        fewest = 0 if tuning.factorial.of == "kept" else trials
        lines.append(Line("factorial", f"combinations of steps: {runs_text}", fewest, trials, seconds))
    level, _ = decision_levels(tuning, count)
    return Outline(
        tuning.tuning,
        tuple(lines),
        left_out,
        level,
        _smallest(tuning, parts[0], noise, forecast, level),
        noise.source,
        tuple(forecast.warnings),
        tuple(forecast.told),
    )


@dataclass
class _Seen:
    """The plans of parts, and what they say; ``overhead``: seconds of a trial beside its load."""

    tuning: Tuning
    testbed: Testbed
    overhead: float
    warnings: dict[str, None] = field(default_factory=dict)
    _rooms: dict[str, int] = field(default_factory=dict)

    def plan(self, part: Part) -> tuple[StudyFile, Planned]:
        file = part_file(self.tuning, part)
        return file, self.testbed.plan(file, idle_settings=True)

    def of(self, part: Part) -> tuple[int, float]:
        """Trials, and seconds of one."""
        file, planned = self.plan(part)
        self.warnings |= dict.fromkeys(planned.warnings)
        trials = planned.plan.trials
        if planned.room:
            self._rooms[planned.room] = len(trials)
        return len(trials), cost(file.study, planned.plan, self.overhead) / len(trials)

    @property
    def told(self) -> list[str]:
        """Of the part with most instances; why others are not side by side."""
        alone = [room for room in self._rooms if room.startswith(NO_ROTATION)]
        return alone or sorted(self._rooms, key=lambda room: self._rooms[room])[-1:]


def _smallest(tuning: Tuning, first: Part, noise: Noise, seen: _Seen, level: float) -> float | None:
    """The change that the first step finds."""
    file, planned = seen.plan(first)
    setup = setup_of(planned.design, file.study.workload, seen.overhead)
    sigma = sigma_of(planned.plan, noise, setup)
    return None if sigma is None else smallest_step(tuning, first, sigma, level)


def _between(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"
