"""Two loads compared: results that are there, or two servers loaded in turns."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leadline.host import here
from leadline.host.bystanders import Bystanders, Others
from leadline.load.command import OUT, disturbance, keep_others, read_others, server_of
from leadline.load.driver import as_own_user, find_binary, option_value
from leadline.load.result import DriverResult, read_summary
from leadline.load.scenario import find_scenario
from leadline.load.series import SecondResponses, WindowResult, responses_in_windows, seconds_between
from leadline.model import distributions
from leadline.model.disturbance import BOUND
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.result import AtLeast
from leadline.model.units import parse_duration

SLOT, WASH_OUT = 5, 1  # seconds of a slot, and of its beginning that is not measured
SECONDS = 100  # of all slots together, unless --steady says otherwise
FEWEST = 5  # blocks
_START = 10.0  # seconds from the command to the first slot: both drivers have read their files, on a busy host too
_END = 60.0  # seconds for what is under way at the end
_MEASURES = (("throughput", "per_second"), ("mean", "ms"), ("p50", "ms"), ("p90", "ms"), ("p99", "ms"))
_OWN = ("--url", "--windows", "--start-at", "--out", "--steady", "--ramp-up", "--ramp-down", "--progress")


def run_alternately(scenario: str, urls: tuple[str, str], options: Sequence[str]) -> LoadComparison:
    """Loads both servers with ``options`` of leadline-load and compares them. Raises UsageError, LeadlineError."""
    out = Path(option_value("--out", options, OUT))
    order = blocks_of(_seconds(options), int(option_value("--seed", options, "1")))
    start = str(time.time_ns() + int(_START * 1e9))
    options_left, path = _other_options(options), find_scenario(scenario)
    beside = Bystanders({pid for url in urls for pid in server_of(url)})
    with ExitStack() as stack, ThreadPoolExecutor(len(urls)) as pool:
        runs = []
        for side, (name, url) in enumerate(zip("ab", urls, strict=True)):
            windows = ",".join(f"{at}s-{at + SLOT}s" for at in slots_of(order, side))
            arguments = ["--url", url, "--windows", windows, "--start-at", start, "--out", str(out / name)]
            arguments += ["--steady", f"{2 * SLOT * len(order)}s", "--progress", "none", "--verdict", "file"]
            argv = [str(find_binary()), "run", str(path), *options_left, *arguments]
            command = stack.enter_context(as_own_user(argv, out / name, path))
            runs.append(pool.submit(here.run, command, timeout=_START + 2 * SLOT * len(order) + _END))
        done = [run.result() for run in runs]
    for url, process in zip(urls, done, strict=True):
        if process.returncode:
            message = process.stderr.strip().removeprefix("leadline-load: ") or f"code {process.returncode}"
            raise (UsageError if process.returncode == 2 else LeadlineError)(f"{url}: {message}")
    keep_others(out, beside.used())
    measured = [[(at + WASH_OUT, at + SLOT) for at in slots_of(order, side)] for side in (0, 1)]
    first, second = (responses_in_windows(out / name, spans) for name, spans in zip("ab", measured, strict=True))
    seconds = len(order) * (SLOT - WASH_OUT)
    return LoadComparison(*urls, (seconds, seconds), paired_changes(first, second), _weakens(out, order))


def blocks_of(seconds: float, seed: int) -> list[bool]:
    """For each block of two slots whether the second server comes first. Raises UsageError for too few blocks."""
    count = round(seconds / (2 * SLOT))
    if count < FEWEST:
        raise UsageError(f"--alternate has blocks of two {SLOT} s slots: give --steady at least {2 * SLOT * FEWEST}s")
    order = [False] * (count // 2) + [True] * (count - count // 2)
    random.Random(seed).shuffle(order)
    return order


def slots_of(order: Sequence[bool], side: int) -> list[int]:
    """The seconds at which the slots of a server begin."""
    return [2 * SLOT * block + SLOT * (swapped != bool(side)) for block, swapped in enumerate(order)]


def paired_changes(
    first: Sequence[WindowResult | None], second: Sequence[WindowResult | None]
) -> tuple[LoadChange, ...]:
    """From the first server to the second, by Student's t over the blocks; intervals hold for all measures together
    (Bonferroni). Blocks in which one of both had no success count for errors alone. Of lower bounds there is no change.
    """
    pairs = [(pair, other) for pair, other in zip(first, second, strict=True) if pair is not None and other is not None]
    level = 1 - (1 - LEVEL) / (len(_MEASURES) + 1)
    changes = []
    for measure, unit in _MEASURES:
        values = [(getattr(block_pair, measure), getattr(other, measure)) for block_pair, other in pairs]
        good = np.array([pair for pair in values if min(pair) > 0 and math.isfinite(sum(pair))]).reshape(-1, 2)
        if len(good) < FEWEST:
            changes.append(
                LoadChange(measure, unit, None, None, reason=f"only {len(good)} blocks have a figure of both")
            )
            continue
        before, now = (float(value) for value in good.mean(axis=0))
        if bounds := [word for at, word in enumerate(SIDES) if any(isinstance(pair[at], AtLeast) for pair in values)]:
            reason = LOWER_BOUND.format(" and ".join(bounds))
            changes.append(LoadChange(measure, unit, before, now, reason=reason, at_least=tuple(bounds)))
            continue
        change, low, high = (100 * math.expm1(value) for value in _interval(np.log(good[:, 1] / good[:, 0]), level))
        changes.append(LoadChange(measure, unit, before, now, change, low, high))
    if len(pairs) < FEWEST:
        return (*changes, LoadChange("errors", "share", None, None, reason=f"only {len(pairs)} blocks have figures"))
    errors = np.array([(block_pair.errors, other.errors) for block_pair, other in pairs])
    change, low, high = (100 * value for value in _interval(errors[:, 1] - errors[:, 0], level))
    first_mean, second_mean = (float(value) for value in errors.mean(axis=0))
    return (*changes, LoadChange("errors", "share", first_mean, second_mean, change, low, high))


def _interval(differences: np.ndarray, level: float) -> tuple[float, float, float]:
    """Mean and ends."""
    count, middle = len(differences), float(differences.mean())
    reach = float(distributions.t.ppf((1 + level) / 2, count - 1)) * float(differences.std(ddof=1)) / math.sqrt(count)
    return middle, middle - reach, middle + reach


def _seconds(options: Sequence[str]) -> float:
    text = option_value("--steady", options, f"{SECONDS}s")
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--steady: {error}") from None


def _other_options(options: Sequence[str]) -> list[str]:
    """The options without those that are this layout's own. Raises UsageError for one that it sets by itself."""
    options_left, skip = list[str](), False
    for word in options:
        name, equals, _ = word.partition("=")
        if skip:
            skip = False
        elif name in ("--out", "--steady"):
            skip = not equals
        elif name in _OWN:
            raise UsageError(f"{name} cannot stand beside --alternate, which sets it by itself")
        else:
            options_left.append(word)
    return options_left


def _weakens(out: Path, order: Sequence[bool]) -> tuple[str, ...]:
    others = read_others(out)
    reasons = [f"other programs took {others} of the CPUs; both servers met them"] if others is not None else []
    return (f"{len(order)} blocks of two slots of {SLOT} s, the first {WASH_OUT} s of each left out", *reasons)


FORMAT = "leadline-against/1"
LEVEL = 0.95
SIDES = ("before", "now")
LOWER_BOUND = "{} only known to be at least so long: transactions got no answer"
_RESAMPLES = 2000
_FEWEST = 5  # seconds of a steady phase
_MOST = 400  # seconds that stand alone; of longer runs neighbours are taken together
_TAIL = 5  # responses beyond a percentile that must be there in both
_QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))


@dataclass(frozen=True)
class LoadChange:
    """One measure of the steady phase in both loads. ``change`` with ``low`` and ``high``: percent, of errors
    percentage points; None where ``reason`` says why.
    """

    measure: str  # throughput, mean, p50, ..., p999 or errors
    unit: str  # per_second, ms or share
    before: float | None
    now: float | None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    at_least: tuple[str, ...] = ()  # "before", "now": those of which only a lower bound is known

    @property
    def distinguishable(self) -> bool:
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


@dataclass(frozen=True)
class LoadComparison:
    """``differs``: a sentence for each fact that differs besides the server, or weakens the comparison. ``refused``:
    why there is no verdict, else empty.
    """

    before: str
    now: str
    seconds: tuple[int, int]
    changes: tuple[LoadChange, ...]
    differs: tuple[str, ...]
    refused: str = ""
    level: float = LEVEL  # at which the intervals hold for all measures together


@dataclass(frozen=True)
class MeasuredLoad:
    """Results of one load: its directory, its summary, whole seconds of its steady phase."""

    directory: Path
    summary: DriverResult
    seconds: Sequence[SecondResponses]
    others: Others | None = None


def read_load(directory: Path) -> MeasuredLoad:
    """Raises UsageError where there is nothing that can be compared, LeadlineError where it is damaged."""
    if not (directory / "summary.json").is_file():
        raise UsageError(f"{directory} holds no results of a load (no summary.json)")
    summary = read_summary(directory)
    if not (directory / "response.hlog").is_file():
        name = summary.generator.name if summary.generator else "this load"
        raise UsageError(f"{directory} cannot be compared: of {name} there are no seconds, only totals")
    begin, end = summary.phases.steady
    whole = math.floor(end + 1e-6) - math.ceil(begin - 1e-6)
    if whole < _FEWEST:
        raise UsageError(
            f"{directory} cannot be compared: its steady phase has {max(whole, 0)} whole seconds, an interval needs at "
            f"least {_FEWEST}: lengthen --steady"
        )
    return MeasuredLoad(directory, summary, seconds_between(directory, begin, end), read_others(directory))


def compare(before: MeasuredLoad, now: MeasuredLoad, seed: int = 1) -> LoadComparison:
    """The change from ``before`` to ``now``."""
    return LoadComparison(
        str(before.directory),
        str(now.directory),
        (len(before.seconds), len(now.seconds)),
        changes(before.seconds, now.seconds, _same_arrivals(before, now), seed),
        (*_differences(before.summary, now.summary), *_others(before, now)),
        disturbance(before.others, now.others),
    )


def _others(before: MeasuredLoad, now: MeasuredLoad) -> list[str]:
    words = [word for word, load in (("before", before), ("now", now)) if load.others is None]
    if words:
        return [f"what other programs did was not recorded {' and '.join(words)}: it may differ"]
    if max(load.others.taken for load in (before, now) if load.others is not None) <= BOUND:
        return []
    return [f"the host was not quiet: other programs took {before.others} of the CPUs before and {now.others} now"]


def comparison_document(found: LoadComparison) -> dict[str, Any]:
    """The comparison as JSON (docs/reference/load.md)."""
    rows = [asdict(row) | {"distinguishable": row.distinguishable and not found.refused} for row in found.changes]
    return {"format": FORMAT, **asdict(found), "changes": rows}


def _same_arrivals(before: MeasuredLoad, now: MeasuredLoad) -> bool:
    """Whether second i of both had the same arrivals: open ones of one seed and scenario."""
    first, other = before.summary, now.summary
    facts = [(run.arrivals, run.seed, run.scenario_sha256, run.phases.steady) for run in (first, other)]
    return first.arrivals.model != "closed" and first.generator is other.generator is None and facts[0] == facts[1]


@dataclass(frozen=True)
class _Draws:
    """Figures of a run (measure -> value) and of its resamples (measure -> R values)."""

    value: dict[str, float]
    drawn: dict[str, np.ndarray]
    count: float
    failed: float
    blocks: float  # of seconds that count as independent
    unanswered_from: float = math.inf  # ms: times from here on are lower bounds

    def is_bound(self, measure: str) -> bool:
        """Whether the figure is only known to be at least so long."""
        if measure == "mean":
            return self.unanswered_from < math.inf
        return measure in dict(_QUANTILES) and self.value[measure] >= self.unanswered_from


def changes(
    before: Sequence[SecondResponses], now: Sequence[SecondResponses], paired: bool = False, seed: int = 1
) -> tuple[LoadChange, ...]:
    """Changes with simultaneous intervals: a circular block bootstrap over the seconds of each run (Politis and Romano
    1992) gives the standard errors of the log ratios and the critical value of their largest |t|, widened by Student's
    t for the number of blocks. ``paired``: second i of both is drawn together, since both had the same arrivals.
    """
    tables = [_Table.of(seconds) for seconds in (before, now)]
    blocks = [table.block() for table in tables]
    if paired := paired and len(before) == len(now):
        blocks = [max(blocks)] * 2
    generators = np.random.default_rng(seed).spawn(2)
    if paired:
        generators = [np.random.default_rng(seed) for _ in tables]
    one, other = (table.draws(block, rng) for table, block, rng in zip(tables, blocks, generators, strict=True))
    names = [name for name in one.value if name in other.value]
    ratios = {name: np.log(other.drawn[name] / one.drawn[name]) for name in names}
    ratios["errors"] = other.drawn["errors"] - one.drawn["errors"]
    small = max(math.sqrt(run.blocks / (run.blocks - 1)) for run in (one, other))
    deviations = {name: (small * float(drawn.std()), drawn - drawn.mean()) for name, drawn in ratios.items()}
    scaled = [np.abs(centred) * small / error for error, centred in deviations.values() if error > 0]
    df = one.blocks - 1 if paired else one.blocks + other.blocks - 2
    wider = float(distributions.t.ppf((1 + LEVEL) / 2, df) / distributions.norm.ppf((1 + LEVEL) / 2))
    critical = wider * float(np.quantile(np.max(scaled, axis=0), LEVEL)) if scaled else 0.0
    changes_ = []
    for measure, unit in (("throughput", "per_second"), ("mean", "ms"), *((name, "ms") for name, _ in _QUANTILES)):
        first, second = one.value.get(measure), other.value.get(measure)
        if first is None or second is None:
            changes_.append(LoadChange(measure, unit, first, second, reason=_why(one, other, measure)))
            continue
        bounds = tuple(word for word, run in zip(SIDES, (one, other), strict=True) if run.is_bound(measure))
        if bounds:
            reason = LOWER_BOUND.format(" and ".join(bounds))
            changes_.append(LoadChange(measure, unit, first, second, reason=reason, at_least=bounds))
            continue
        centre, half = math.log(second / first), critical * deviations[measure][0]
        change, low, high = (100 * math.expm1(value) for value in (centre, centre - half, centre + half))
        changes_.append(LoadChange(measure, unit, first, second, change, low, high))
    return (*changes_, _errors(one, other, critical * deviations["errors"][0]))


def _why(one: _Draws, other: _Draws, measure: str) -> str:
    if min(one.count, other.count) == 0:
        return "no transaction succeeded"
    share = dict(_QUANTILES).get(measure, 0.0)
    return f"too few responses: {_TAIL / (1 - share):.0f} needed in each"


def _errors(one: _Draws, other: _Draws, half: float) -> LoadChange:
    """In percentage points; the wider of the bootstrap's interval and Newcombe's (1998, method 10)."""
    counts = [run.count + run.failed for run in (one, other)]
    if min(counts) == 0:
        return LoadChange("errors", "share", None, None, reason="no transaction ended")
    first, second = (run.failed / count for run, count in zip((one, other), counts, strict=True))
    difference = second - first
    (low_one, high_one), (low_other, high_other) = (
        _wilson(run.failed, count) for run, count in zip((one, other), counts, strict=True)
    )
    low = difference - max(half, math.hypot(second - low_other, high_one - first))
    high = difference + max(half, math.hypot(high_other - second, first - low_one))
    return LoadChange("errors", "share", first, second, 100 * difference, 100 * low, 100 * high)


def _wilson(failed: float, count: float) -> tuple[float, float]:
    from scipy import stats  # half a second

    interval = stats.binomtest(round(failed), round(count)).proportion_ci(LEVEL, method="wilson")
    return float(interval.low), float(interval.high)


@dataclass(frozen=True)
class _Table:
    """Responses by second (of long runs by several) and value: ``counts`` is seconds x values."""

    values: np.ndarray  # ms, ascending
    counts: np.ndarray
    ok: np.ndarray
    failed: np.ndarray
    lengths: np.ndarray  # seconds in each row
    unanswered_from: float

    @classmethod
    def of(cls, seconds: Sequence[SecondResponses]) -> _Table:
        values = np.array(sorted({value for second in seconds for value in second.values_ms}))
        together = math.ceil(len(seconds) / _MOST)
        rows = math.ceil(len(seconds) / together)
        bound = min((second.unanswered_from for second in seconds), default=math.inf)
        table = cls(values, np.zeros((rows, len(values))), np.zeros(rows), np.zeros(rows), np.zeros(rows), bound)
        for at, second in enumerate(seconds):
            np.add.at(table.counts[at // together], np.searchsorted(values, second.values_ms), second.counts)
            table.ok[at // together] += second.ok
            table.failed[at // together] += second.failed
            table.lengths[at // together] += 1
        return table

    def block(self) -> int:
        """Rows in a block: what is best for the mean of an autoregression of this first autocorrelation (Carlstein
        1986), of the throughput or of the mean response time, at most a fourth of the run.
        """
        rows, counts = len(self.counts), self.counts.sum(axis=1)
        means = np.divide(self.counts @ self.values, counts, out=np.zeros(rows), where=counts > 0)
        rho = max(_autocorrelation(counts), _autocorrelation(means))
        if rho <= 1 / math.sqrt(rows):  # within what independent seconds show
            return 1
        rho = min(rho + (1 + 3 * rho) / rows, 0.95)  # Kendall 1954: it is estimated too small
        best = (math.sqrt(6) * rho / (1 - rho**2)) ** (2 / 3) * rows ** (1 / 3)
        return max(1, min(math.ceil(float(best)), rows // 4))

    def draws(self, block: int, generator: np.random.Generator) -> _Draws:
        """Figures of the run and of resamples of its blocks, which go round its end."""
        rows = len(self.counts)
        starts = generator.integers(0, rows, (_RESAMPLES, math.ceil(rows / block)))
        picked = ((starts[:, :, None] + np.arange(block)) % rows).reshape(_RESAMPLES, -1)[:, :rows]
        weights = np.zeros((_RESAMPLES + 1, rows))
        weights[0] = 1
        np.add.at(weights, (np.arange(1, _RESAMPLES + 1)[:, None], picked), 1.0)
        counts, ok, failed = weights @ self.counts.sum(axis=1), weights @ self.ok, weights @ self.failed
        figures: dict[str, np.ndarray] = {}
        if ok.min() > 0:
            figures["throughput"] = ok / (weights @ self.lengths)
            figures["mean"] = (weights @ (self.counts @ self.values)) / counts
            sums = np.cumsum(weights @ self.counts, axis=1)
            for name, share in _QUANTILES:
                if counts[0] * (1 - share) >= _TAIL:
                    figures[name] = self.values[(sums < share * counts[:, None] - 1e-9).sum(axis=1)]
        drawn = {name: figure[1:] for name, figure in figures.items()}
        drawn["errors"] = failed[1:] / np.maximum(ok[1:] + failed[1:], 1.0)
        value = {name: float(figure[0]) for name, figure in figures.items()}
        blocks = max(rows / block, 2.0)
        return _Draws(value, drawn, float(ok[0]), float(failed[0]), blocks, self.unanswered_from)


def _autocorrelation(series: np.ndarray) -> float:
    centred = series - series.mean()
    spread = float(centred @ centred)
    return float(centred[1:] @ centred[:-1]) / spread if spread > 0 else 0.0


def _differences(before: DriverResult, now: DriverResult) -> tuple[str, ...]:
    facts: list[tuple[str, object, object]] = [
        ("scenario", before.scenario, now.scenario),
        ("content of the scenario", before.scenario_sha256[:12], now.scenario_sha256[:12]),
        ("url", before.url, now.url),
        ("version of the driver", before.version, now.version),
        ("generator", _generator(before), _generator(now)),
    ]
    one, other = asdict(before.arrivals), asdict(now.arrivals)
    facts += [(name, one[name], other[name]) for name in one]
    names = sorted({*before.variables, *now.variables})
    facts += [(f"--var {name}", before.variables.get(name), now.variables.get(name)) for name in names]
    differences = [
        f"{name}: {_told(first)} before, {_told(second)} now" for name, first, second in facts if first != second
    ]
    for word, run in (("before", before), ("now", now)):
        if run.driver.limit:
            differences.append(f"the driver was the limit {word}: its figures are not the server's")
        if not run.completed:
            differences.append(f"the load {word} ended before its plan was over")
    return tuple(differences)


def _generator(run: DriverResult) -> str:
    return run.generator.name if run.generator else "leadline-load"


def _told(value: object) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
