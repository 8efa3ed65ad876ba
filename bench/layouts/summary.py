"""Tables of the studies of a bench: widths of intervals by layout, planted costs found, where the noise comes from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from leadline.model.record import StudyRecord
from leadline.model.result import Component, Effect, Interval, ResponseAnalysis, StudyAnalysis

CPU, WAIT, STATEMENTS, TWIN = "app.extra_cpu", "app.extra_wait", "app.extra_statements", "twin"
FACTORS = (CPU, WAIT, STATEMENTS, TWIN)
REFERENCE = 10.0  # minutes of machine time to which widths are scaled
RUN = 600.0  # seconds of steady state of a run of the published protocol


@dataclass(frozen=True)
class Case:
    """One study. ``minutes`` of machine time; ``cycle``: seconds from the start of one slot to the next, None for
    trials without.
    """

    layout: str
    where: str
    number: int
    minutes: float
    trials: int
    users: int
    cycle: float | None
    others: float | None  # mean share of the CPUs that others used
    responses: Mapping[str, ResponseAnalysis]

    @classmethod
    def of(cls, record: StudyRecord, analysis: StudyAnalysis) -> Case:
        layout, where, number = record.study.study.split("-")
        trials = [trial for trial in record.trials if trial.responses or trial.slots]
        design = record.study.design
        slots = design.switchback or design.rotation
        shares = list(analysis.disturbance.shares.values()) if analysis.disturbance else []
        return cls(
            *(layout, where, int(number), (record.seconds_per_trial or 0.0) * len(trials) / 60, len(trials)),
            *(record.study.workload.users or 0, slots.slot if slots else None, fmean(shares) if shares else None),
            {response.response: response for response in analysis.responses},
        )

    def effects(self) -> Iterator[tuple[ResponseAnalysis, Effect]]:
        for factor in FACTORS:
            for response in self.responses.values():
                for effect in response.effects:
                    if effect.factor == factor:
                        yield response, effect


def log_width(interval: Interval) -> float:
    """Of an interval in percent, on the scale of logarithms."""
    return math.log1p(interval.high / 100) - math.log1p(interval.low / 100)


def scaled(width: float, minutes: float) -> float:
    """A width as it would be after ``REFERENCE`` minutes: it shrinks with the root of the time."""
    return width * math.sqrt(minutes / REFERENCE)


def planted(case: Case, effect: Effect) -> float | None:
    """What an effect must be, percent, where that is known without measuring it; ``None`` elsewhere.

    CPU time adds to what a transaction costs; waiting adds to the cycle of a closed user, whose length is users by
    throughput. One request a transaction is assumed.
    """
    if effect.factor == TWIN:
        return 0.0
    base = case.responses[effect.response].baseline_mean
    if base is None:
        return None
    micros = float(effect.level)
    if effect.factor == CPU and effect.response.endswith("cpu_per_transaction"):
        return 100 * micros / 1000 / base
    if effect.factor == WAIT and effect.response == "throughput":
        waited = micros / 1e6
        return -100 * waited / (case.users / base + waited)
    return None


def judged(effect: Effect, truth: float | None) -> str:
    """What the 95 % interval says of a planted cost, or of none."""
    if effect.interval is None or truth is None:
        return ""
    told = not effect.interval.contains(0.0)
    if truth == 0:
        return "something" if told else "nothing, right"
    if not told:
        return "not found"
    return "found" if (effect.interval.low > 0) == (truth > 0) else "wrong sign"


def _text(effect: Effect) -> str:
    if effect.interval is None or effect.percent is None:
        return "none"
    return f"{effect.percent:+.1f} % [{effect.interval.low:+.1f}, {effect.interval.high:+.1f}]"


def effects_table(cases: Sequence[Case]) -> Iterator[str]:
    """A row an effect."""
    yield "| layout | where | minutes, trials | others' CPU | cost | response | planted | 95 % interval | says |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for case in cases:
        others = "" if case.others is None else f"{case.others:.0%}"
        for response, effect in case.effects():
            truth = planted(case, effect)
            size = "" if truth is None else f"{truth:+.1f} %"
            yield (
                f"| {case.layout} | {case.where} {case.number} | {case.minutes:.1f}, {case.trials} | {others} "
                f"| {effect.factor} | {response.response} | {size} | {_text(effect)} | {judged(effect, truth)} |"
            )


def widths(cases: Iterable[Case]) -> dict[tuple[str, str, str, str], list[float]]:
    """(where, factor, response, layout) -> scaled log widths, one a study."""
    found: dict[tuple[str, str, str, str], list[float]] = {}
    for case in cases:
        for response, effect in case.effects():
            if effect.interval is not None and effect.interval.low > -100:
                key = (case.where, effect.factor, response.response, case.layout)
                found.setdefault(key, []).append(scaled(log_width(effect.interval), case.minutes))
    return found


def widths_table(cases: Sequence[Case]) -> Iterator[str]:
    """Geometric means over studies, percent of the log scale at ten minutes; how many times wider plain trials are."""
    layouts = ("plain", "switchback", "rotation")
    yield "| where | cost | response | plain | switchback | rotation | plain to switchback | plain to rotation |"
    yield "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |"
    known = widths(cases)
    for where, factor, response in dict.fromkeys(key[:3] for key in known):
        means = [_geometric(known.get((where, factor, response, layout), [])) for layout in layouts]
        ratios = [means[0] / other for other in means[1:]]
        cells = [*(f"{100 * mean:.1f}" for mean in means), *(f"{ratio:.1f}" for ratio in ratios)]
        yield f"| {where} | {factor} | {response} | " + " | ".join("" if c == "nan" else c for c in cells) + " |"


def _geometric(values: Sequence[float]) -> float:
    return math.exp(fmean(map(math.log, values))) if values else math.nan


def within_share(instances: float, slots: float, correlation: float, cycle: float, run: float = RUN) -> float:
    """Share of the variance of a run's mean that comes from inside the server instance, 0 to 1.

    ``instances``, ``slots``: variances of logarithms; ``correlation`` of neighbouring slots, one every ``cycle``
    seconds, taken as none where few slots make it negative; ``run``: seconds of steady state.
    """
    kept = max(correlation, 0.0)
    inside = slots * cycle / run * (1 + kept) / (1 - kept)
    return inside / (inside + max(instances, 0.0)) if inside > 0 else 0.0


def _share(between: Component, slots: Component, correlation: float, cycle: float) -> str:
    """With the ends that the interval of the noise between instances leaves."""
    if between.interval is None:
        return "not determined"
    ends = [math.log1p((percent / 100) ** 2) for percent in (between.interval.high, between.interval.low)]
    low, share, high = (
        within_share(variance, slots.variance, correlation, cycle) for variance in (ends[0], between.variance, ends[1])
    )
    return f"{share:.1%} [{low:.1%}, {high:.1%}]"


def components_table(cases: Sequence[Case]) -> Iterator[str]:
    """Of studies with slots: noise between instances and slots, and the share from inside an instance over a run."""
    yield f"| layout | where | response | between instances | between slots | correlation | inside, of {RUN:.0f} s |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for case in cases:
        for response in case.responses.values():
            parts = {component.name: component for component in response.components}
            if case.cycle is None or not {"slots", "trials"} <= parts.keys():
                continue
            between, slots = parts["trials"], parts["slots"]
            correlation = response.correlation or 0.0
            sizes = [_sd(part) for part in (between, slots)]
            yield (
                f"| {case.layout} | {case.where} {case.number} | {response.response} | {sizes[0]} | {sizes[1]} "
                f"| {correlation:.2f} | {_share(between, slots, correlation, case.cycle)} |"
            )


def _sd(component: Component) -> str:
    if component.percent is None:
        return "none seen"
    if component.interval is None:
        return "not determined"
    ends = component.interval
    return f"{component.percent:.2f} %" + ("" if ends is None else f" [{ends.low:.2f}, {ends.high:.2f}]")
