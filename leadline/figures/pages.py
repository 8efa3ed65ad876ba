"""Study C's table: pages a second, time, failures and CPU a page of each system. Pure: values in, values out.

``pages_of(plan, observations)`` makes it of a study, ``read_pages(text, source)`` of a published table. CPU a page is
the same in both: of a published table it is CPU share x CPUs / pages a second.
"""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from leadline.figures.table import system_factor
from leadline.model import distributions
from leadline.model.errors import UsageError, nearest
from leadline.model.naming import Describe, plain_level, treatment_name
from leadline.model.plan import Plan
from leadline.model.result import Interval, Observation
from leadline.model.units import rounded

LEVEL = 0.95
USER, SYSTEM = "user_cpu", "system_cpu"  # of the services, in CPUs: from that a page and pages a second


@dataclass(frozen=True)
class Measure:
    """One column. ``response``: of a study's trials; ``scale``: from its unit to the column's."""

    name: str
    title: str
    response: str = ""
    scale: float = 1.0


MEASURES = (
    Measure("cpu", "CPU, %", "host_cpu", 100),
    Measure("cpu_user", "user, %"),
    Measure("cpu_system", "system, %"),
    Measure("user_cpus", "user, CPUs", USER),
    Measure("system_cpus", "system, CPUs", SYSTEM),
    Measure("memory_mib", "memory, MiB", "memory"),
    Measure("swap_mib", "swap, MiB", "swap"),
    Measure("memory", "memory, %"),
    Measure("pages", "pages"),
    Measure("pages_per_s", "pages/s", "throughput"),
    Measure("mean_ms", "mean, ms", "mean"),
    Measure("p50_ms", "p50, ms", "p50"),
    Measure("p90_ms", "p90, ms", "p90"),
    Measure("p99_ms", "p99, ms", "p99"),
    Measure("failed", "failed"),
    Measure("failed_share", "failed, %", "errors", 100),
    Measure("user_ms", "user a page, ms", "user_cpu_per_transaction"),
    Measure("system_ms", "system a page, ms", "system_cpu_per_transaction"),
)
BY_NAME: Mapping[str, Measure] = {one.name: one for one in MEASURES}
COMPARED = ("pages_per_s", "mean_ms", "user_ms", "system_ms")
# Columns of a file beside the names above.
ALIASES: Mapping[str, str] = {
    "kernel": "system",
    "server": "system",
    "user": "cpu_user",
    "cpu_sys": "cpu_system",
    "mem_pct": "memory",
    "mean_time": "mean_ms",
}
HEAD = "system,cpus,cpu_user,cpu_system,pages_per_s (and, if you have them, cpu, memory, pages, mean_ms, failed)"
NEEDED = ("system", "cpus", "cpu_user", "cpu_system", "pages_per_s")


@dataclass(frozen=True)
class Estimate:
    """A mean over trials with its interval, or a published value without. Where all values are above 0 the mean is the
    geometric one and the interval Student's t of the logarithms, as for effects.
    """

    value: float
    interval: Interval | None = None


@dataclass(frozen=True)
class PageRow:
    """One system. ``trials`` 0: published."""

    system: str
    trials: int
    figures: Mapping[str, Estimate]


@dataclass(frozen=True)
class PageTable:
    """``ratios``: system -> measure -> its figure by that of the first system; of a study the geometric mean over
    blocks in which both have one.
    """

    rows: tuple[PageRow, ...]
    ratios: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Those of which some system has a figure."""
        return tuple(measure for measure in MEASURES if any(measure.name in row.figures for row in self.rows))

    def sentences(self) -> list[str]:
        """What the table says, one for each system after the first."""
        first = self.rows[0].system
        words = {
            "pages_per_s": "times the pages",
            "mean_ms": "times the time a page",
            "user_ms": "times the user CPU a page",
            "system_ms": "times the system CPU a page",
        }
        return [
            f"{system} against {first}: {', '.join(f'{_times(ratios[name])} {words[name]}' for name in ratios)}."
            for system, ratios in self.ratios.items()
            if ratios
        ]


def pages_of(
    plan: Plan, observations: Sequence[Observation], system: str | None = None, describe: Describe = plain_level
) -> PageTable:
    """The table of a study: a row for each level of the factor that plays the system, the baseline's first, or where no
    factor does for each treatment. Raises UsageError where no trial has a page.
    """
    chosen = system_factor(plan, system)
    usual = plan.baseline.as_dict()

    def named(one: Observation) -> str:
        if chosen is None:
            return treatment_name(plan, one.treatment, describe)
        return describe(chosen.name, one.treatment.as_dict()[chosen.name])

    first = "baseline" if chosen is None else describe(chosen.name, usual[chosen.name])
    groups: dict[str, list[Observation]] = {first: []}
    failed = 0
    for one in observations:
        if one.failure is not None:
            failed += 1
        elif math.isfinite(one.responses.get("throughput", math.nan)):
            groups.setdefault(named(one), []).append(one)
    groups = {name: trials for name, trials in groups.items() if trials}
    if not groups:
        raise UsageError("no trial of the study has pages a second: there is nothing to put in a table")
    rows = tuple(PageRow(name, len(trials), _of_trials(trials)) for name, trials in groups.items())
    ratios = {row.system: _paired(groups[rows[0].system], groups[row.system]) for row in rows[1:]}
    notes = [f"{failed} trials failed and are in no row."] if failed else []
    lacking = [BY_NAME[name].response for name in COMPARED if all(name not in row.figures for row in rows)]
    if lacking:
        notes.append(f"The study has no {', '.join(lacking)}: add them to its responses.")
    return PageTable(rows, ratios, tuple(notes))


def _responses(one: Observation) -> dict[str, float]:
    """Of a trial, with what follows from them."""
    responses = dict(one.responses)
    for name in (USER, SYSTEM):
        if (cost := responses.get(f"{name}_per_transaction")) is not None:
            responses[name] = cost / 1000 * responses["throughput"]
    return responses


def _of_trials(found: Sequence[Observation]) -> dict[str, Estimate]:
    figures = {}
    trials = [_responses(observation) for observation in found]
    for measure in MEASURES:
        values = [trial[measure.response] * measure.scale for trial in trials if measure.response in trial]
        if values and min(values) > 0:
            figures[measure.name] = _mean([math.log(value) for value in values], math.exp)
        elif values and all(map(math.isfinite, values)):
            figures[measure.name] = _mean(values)
    return figures


def _mean(values: Sequence[float], back: Callable[[float], float] = float) -> Estimate:
    """``back``: what the mean and its ends are put through."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Estimate(back(mean))
    reach = (
        float(distributions.t.ppf((1 + LEVEL) / 2, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    )
    return Estimate(back(mean), Interval(back(mean - reach), back(mean + reach), LEVEL))


def _paired(first: Sequence[Observation], other: Sequence[Observation]) -> dict[str, Estimate]:
    ratios = {}
    for name in COMPARED:
        response = BY_NAME[name].response
        blocks = [_by_block(trials, response) for trials in (first, other)]
        logs = [math.log(blocks[1][block] / blocks[0][block]) for block in blocks[0] if block in blocks[1]]
        if logs:
            ratios[name] = _mean(logs, math.exp)
    return ratios


def _by_block(found: Sequence[Observation], response: str) -> dict[int | None, float]:
    """The geometric mean of each block's trials."""
    values: dict[int | None, list[float]] = {}
    for observation in found:
        if observation.responses.get(response, 0.0) > 0:
            values.setdefault(observation.block, []).append(observation.responses[response])
    return {block: statistics.geometric_mean(block_values) for block, block_values in values.items()}


def _times(ratio: Estimate) -> str:
    ends = f" [{rounded(ratio.interval.low, 3)}, {rounded(ratio.interval.high, 3)}]" if ratio.interval else ""
    return f"{rounded(ratio.value, 3)}{ends}"


# a published table -------------------------------------------------------------------------------------------------


def read_pages(text: str, source: str) -> PageTable:
    """The table of a CSV text with the head ``HEAD``. Raises UsageError with the line."""
    lines = [row for row in csv.reader(io.StringIO(text.removeprefix("\ufeff"))) if any(map(str.strip, row))]
    if len(lines) < 2:
        raise UsageError(f"{source}: no rows below a head; the head is {HEAD}")
    names = [ALIASES.get(word, word) for word in (cell.strip().lower() for cell in lines[0])]
    for needed in NEEDED:
        if needed not in names:
            near = nearest(needed, names)
            hint = f"; did you mean {near}?" if near else ""
            raise UsageError(f"{source}: no column {needed}{hint}; the head is {HEAD}")
    rows = [_row(f"{source}, row {number}", names, cells) for number, cells in enumerate(lines[1:], 1)]
    ratios = {
        row.system: {
            name: Estimate(row.figures[name].value / rows[0].figures[name].value)
            for name in COMPARED
            if name in row.figures and rows[0].figures.get(name, Estimate(0)).value > 0
        }
        for row in rows[1:]
    }
    return PageTable(tuple(rows), ratios, ("A published table has no trials, so its figures have no intervals.",))


def _row(place: str, names: Sequence[str], cells: Sequence[str]) -> PageRow:
    if len(cells) != len(names):
        raise UsageError(f"{place}: {len(cells)} cells where the head has {len(names)}")
    texts = dict(zip(names, (cell.strip() for cell in cells), strict=True))
    numbers = {
        name: _number(place, name, texts[name])
        for name in ("cpus", *BY_NAME)
        if texts.get(name) or (name in NEEDED and name in texts)
    }
    if numbers["cpus"] <= 0 or numbers["pages_per_s"] <= 0:
        raise UsageError(f"{place}: cpus and pages_per_s are above 0")
    milliseconds = 1000 * numbers.pop("cpus") / numbers["pages_per_s"]  # of CPU a page, all CPUs busy
    numbers["user_ms"] = numbers["cpu_user"] / 100 * milliseconds
    numbers["system_ms"] = numbers["cpu_system"] / 100 * milliseconds
    return PageRow(texts["system"], 0, {name: Estimate(value) for name, value in numbers.items()})


def _number(place: str, name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise UsageError(f"{place}: {name} is {text!r}, not a number of at least 0")
    return value
