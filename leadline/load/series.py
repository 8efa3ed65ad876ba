"""What leadline-load wrote second by second: rows, and outcomes of what was due in any window of whole seconds.

``within_limits``: what the limits of a scenario say of such a window, how far each is used, and what ended within them.
"""

from __future__ import annotations

import base64
import math
import struct
import tomllib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from hdrh.codec import V2_ENCODING_COOKIE_BASE, HdrCookieException, HdrLengthException
from hdrh.histogram import HdrHistogram

from leadline.host import received
from leadline.load.result import LONGEST, MOST, LimitResult, read_summary
from leadline.load.scenario import find_scenario, parameters
from leadline.model.errors import LeadlineError, UsageError, nearest
from leadline.model.received import ReceivedError, number, reading, whole
from leadline.model.result import AtLeast


def asked_in(directory: Path, scenario: str) -> dict[str, Any] | None:
    """Of a run in ``directory``: the ``scenario`` with all its ``variables``, how often each transaction was begun
    (``asked``), the mean ``seconds`` that a user was there until nobody began anything, and how many were ``waiting``
    for an answer on average. None for a load whose users are not all of the scenario's populations the whole time.

    Raises UsageError, LeadlineError.
    """
    if not (directory / "summary.json").exists():
        return None  # of a soak, whose load is in segments
    result = read_summary(directory)
    arrivals = result.arrivals
    changing = arrivals.profile or arrivals.bursts or arrivals.replay or arrivals.windows
    if arrivals.model != "closed" or changing or arrivals.users != sum((arrivals.populations or {}).values()):
        return None
    ramp_up, steady = (until - since for since, until in (result.phases.ramp_up, result.phases.steady))
    seconds = steady + ramp_up / 2  # they come evenly over the ramp
    waited = sum(row.in_flight for row in steady_series(directory) if row.phase != "ramp_down")
    return {
        "scenario": result.scenario,
        "variables": {**parameters(find_scenario(scenario)), **result.variables},
        "asked": {name: count.ok + count.failed + count.skipped for name, count in result.total.items()},
        "seconds": seconds,
        "waiting": waited / seconds,
    }


ALL = "all"  # the row of every second that holds all transactions
SECONDS = "seconds.csv"
_LOWEST, _HIGHEST, _DIGITS = 64, 3_600_000_000_000, 3  # nanoseconds; the driver's own histograms
_MS = 1e6  # nanoseconds
_SLACK = 1e-6  # seconds; times in the log have three decimals
_NAMES = 1_000  # transactions of a scenario
_PACKED = 8  # bytes before what is packed of a histogram
_HEAD = struct.Struct(">II4xIQQ8x")  # of it: cookie, bytes of its counts, digits, lowest and highest value
_COUNTS = 1 << 16  # of a histogram; the driver's have half of them
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class SecondRow:
    """All transactions due in one second, numbered from the start of the run. Times in ms; nan where none is known."""

    second: int
    phase: str
    ok_per_s: float
    failed_per_s: float
    response_mean_ms: float
    p50: float
    p99: float
    service_mean_ms: float
    in_flight: int


@dataclass(frozen=True)
class WindowResult:
    """What became of all that was due in a window. Throughput counts the successful transactions a second. ``errors``
    is the share of failed and unanswered transactions and dropped arrivals; skipped ones are left out. Times in ms
    are of the successful and the unanswered ones, ``AtLeast`` where they hang on the latter; nan where there are none.
    """

    seconds: int
    ok: int
    failed: int
    skipped: int
    dropped: int
    unanswered: int  # of the failed ones
    throughput: float
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float
    max: float
    errors: float


@dataclass
class Outcomes:
    """What became of the transactions of one name, or of all, that were due in some seconds. ``histogram``: response
    times in ns of the successful and the unanswered ones; ``unanswered_from``: the shortest of the latter in ms.
    """

    histogram: HdrHistogram
    ok: int = 0
    failed: int = 0
    skipped: int = 0
    dropped: int = 0
    unanswered: int = 0
    unanswered_from: float = math.inf

    @property
    def errors(self) -> float:
        """The share that went wrong of all that was due."""
        wrong = self.failed + self.dropped
        return wrong / (self.ok + wrong) if wrong else 0.0

    def known(self, ms: float) -> float:
        """A figure of the response times; typed as a lower bound where it hangs on unanswered transactions."""
        return AtLeast(ms) if ms >= self.unanswered_from else ms

    def percentile(self, percentile: float) -> float:
        """In ms."""
        return self.known(_value(self.histogram, percentile))

    def over(self, seconds: int) -> WindowResult:
        """The figures: the one way from outcomes to what a lab, a limit or a report says of a window."""
        times = [math.nan] * 7
        if total := self.histogram.get_total_count():
            middles = (count * self.histogram._hdr_median_equiv_value(ns) for ns, count in recorded(self.histogram))
            mean = float(sum(middles)) / total / _MS
            latencies = latencies_of(self.histogram, (50.0, 90.0, 95.0, 99.0, 99.9))
            times = [AtLeast(mean) if self.unanswered else mean, *map(self.known, latencies)]
        mean, p50, p90, p95, p99, p999, longest = times
        return WindowResult(
            seconds=seconds,
            ok=self.ok,
            failed=self.failed,
            skipped=self.skipped,
            dropped=self.dropped,
            unanswered=self.unanswered,
            throughput=self.ok / seconds,
            mean=mean,
            p50=p50,
            p90=p90,
            p95=p95,
            p99=p99,
            p999=p999,
            max=longest,
            errors=self.errors,
        )

    def count(self, row: Mapping[str, str], what: str) -> None:
        """Add those of a row of seconds.csv, the file ``what``."""
        self.ok += whole(row, "ok", what, MOST)
        self.failed += whole(row, "failed", what, MOST)
        self.skipped += whole(row, "skipped", what, MOST, absent=0)
        self.dropped += whole(row, "dropped", what, MOST, absent=0)
        self.unanswered += whole(row, "unanswered", what, MOST, absent=0)
        self.unanswered_from = min(self.unanswered_from, _unanswered_from(row, what))


def steady_series(directory: Path) -> list[SecondRow]:
    """One row a second over the whole run; ``phase`` tells the steady ones. A last, shorter second is left out."""
    with reading(what := str(directory / SECONDS)):
        rows = [_second(row, what) for row in _rows(directory) if row["transaction"] == ALL]
    return rows[:-1] if rows and rows[-1].phase == "ramp_down" else rows


def driver_wait(rows: Sequence[SecondRow], windows: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Ms from the moment a transaction was due to its first request, on average over the whole seconds in windows."""
    inside = {second for window in windows for second in whole_seconds(*window)}
    times = [
        (row.ok_per_s, row.response_mean_ms - row.service_mean_ms)
        for row in rows
        if row.second in inside and row.ok_per_s and math.isfinite(row.response_mean_ms - row.service_mean_ms)
    ]
    return {"driver_wait": sum(ok * ms for ok, ms in times) / sum(ok for ok, _ in times)} if times else {}


def outcomes_in(
    directory: Path, windows: Sequence[Sequence[int]], of: str | None = ALL, log: str = "response"
) -> list[dict[str, Outcomes]]:
    """By transaction the outcomes of all that was due in each window, given as its seconds: ``of`` one name, or all
    together (``ALL``), or, None, all together and each. The files are read once; windows may overlap. ``log`` is
    ``response`` or ``service``.
    """
    holders: dict[int, list[int]] = {}
    for index, seconds in enumerate(windows):
        for second in seconds:
            holders.setdefault(second, []).append(index)
    found = [{of or ALL: Outcomes(new_histogram())} for _ in windows]

    def outcomes(index: int, name: str) -> Outcomes:
        if name not in found[index] and len(found[index]) >= _NAMES:
            raise ReceivedError(str(directory), f"it tells of more than {_NAMES:,} transactions")
        return found[index].setdefault(name, Outcomes(new_histogram()))

    for row in _rows(directory):
        name = row.get("transaction", "")
        for index in holders.get(_second_of(row, directory), ()) if of in (None, name) else ():
            outcomes(index, name).count(row, str(directory / SECONDS))
    for start, tag, payload in _read_log(path := directory / f"{log}.hlog"):
        names = {None: (ALL, tag), ALL: (ALL,), tag: (tag,)}.get(of, ())
        for index in holders.get(math.floor(start + 0.0015), ()):
            for name in names:
                outcomes(index, name).histogram.add(decoded(payload, str(path)))
    return found


def whole_seconds(from_s: float, until_s: float) -> range:
    """The whole seconds inside [from_s, until_s), seconds since the start of the run."""
    return range(math.ceil(from_s - _SLACK), math.floor(until_s + _SLACK))


def some_seconds(from_s: float, until_s: float) -> range:
    """The same; raises LeadlineError where there are none, or more than a load has."""
    if not -_SLACK <= from_s <= until_s <= LONGEST:
        raise LeadlineError(f"no load has seconds from {from_s:g} to {until_s:g}")
    seconds = whole_seconds(from_s, until_s)
    if not seconds:
        raise LeadlineError(f"no whole second lies between {from_s:g} s and {until_s:g} s of the run")
    return seconds


def responses_between(directory: Path, from_s: float, until_s: float) -> WindowResult:
    """Of all that was due in the whole seconds inside [from_s, until_s), seconds since the start."""
    return responses_over(directory, [(from_s, until_s)])


def responses_over(directory: Path, windows: Sequence[tuple[float, float]]) -> WindowResult:
    """Of the whole seconds of all windows together, which do not overlap. Raises LeadlineError where they hold none."""
    inside = sorted({second for window in windows for second in some_seconds(*window)})
    return outcomes_in(directory, [inside])[0][ALL].over(len(inside))


def responses_in_windows(directory: Path, windows: Sequence[tuple[float, float]]) -> list[WindowResult | None]:
    """Of each of many windows, given and rounded inwards as in ``responses_between``; None for a window without a
    whole second.
    """
    seconds = [whole_seconds(*window) for window in windows]
    outcomes = outcomes_in(directory, seconds)
    return [
        outcomes_[ALL].over(len(inside)) if inside else None
        for outcomes_, inside in zip(outcomes, seconds, strict=True)
    ]


def last_second(directory: Path) -> int | None:
    """The last second that was written whole; None where there is none, also without a file."""
    try:
        return max((_second_of(row, directory) for row in _rows(directory)), default=None)
    except LeadlineError:
        return None


def unanswered_from(directory: Path, begin: float, end: float) -> dict[str, float]:
    """By transaction the shortest time in ms of an unanswered one that was due in the seconds from ``begin`` to ``end``
    (unix); of ``ALL`` too. Empty without the file.
    """
    shortest: dict[str, float] = {}
    what = str(directory / SECONDS)
    try:
        for row in _rows(directory):
            ms = _unanswered_from(row, what)
            if ms < math.inf and begin - 0.5 <= number(row, "time_ns", what) / 1e9 < end - 0.5:
                name = row["transaction"]
                shortest[name] = min(shortest.get(name, math.inf), ms)
    except LeadlineError:
        return {}
    return shortest


def new_histogram() -> HdrHistogram:
    """An empty one as the driver's, in ns."""
    return HdrHistogram(_LOWEST, _HIGHEST, _DIGITS)


def recorded(histogram: HdrHistogram) -> list[tuple[int, int]]:
    """Every value in ns with its count; as ``get_recorded_iterator``, which walks over all counts."""
    counts = np.ctypeslib.as_array(histogram.encoder.payload.counts)
    return [
        (int(histogram.get_highest_equivalent_value(histogram.get_value_from_index(int(at)))), int(counts[at]))
        for at in np.flatnonzero(counts)
    ]


def latencies_of(histogram: HdrHistogram, percentiles: Sequence[float]) -> tuple[float, ...]:
    """These percentiles and the largest, in ms, of a histogram that is not empty; as ``get_value_at_percentile``, which
    walks over all counts for each.
    """
    sums = np.cumsum(np.ctypeslib.as_array(histogram.encoder.payload.counts))
    places = [
        int(np.searchsorted(sums, histogram.get_target_count_at_percentile(percentile))) for percentile in percentiles
    ]
    values = [histogram.get_highest_equivalent_value(histogram.get_value_from_index(at)) for at in places]
    return (*(float(value) / _MS for value in values), float(histogram.get_max_value()) / _MS)


def started_unix_ns(directory: Path) -> int | None:
    """Unix nanoseconds at which the run under way (or ended) in ``directory`` began, by its first row; None while it
    has written none. driver.csv has a second as soon as it is over, seconds.csv once all that was due in it is.
    """
    name = "driver.csv" if (directory / "driver.csv").exists() else SECONDS
    try:
        for row in _rows(directory, name):
            return whole(row, "time_ns", name) - _second_of(row, directory) * 1_000_000_000
    except LeadlineError:
        pass
    return None


def by_transaction(directory: Path, from_s: float, until_s: float) -> dict[str, WindowResult]:
    """The same for each transaction that was due there."""
    seconds = some_seconds(from_s, until_s)
    found = outcomes_in(directory, [seconds], None)[0]
    return {name: outcomes.over(len(seconds)) for name, outcomes in found.items() if name != ALL}


def _value(histogram: HdrHistogram, percentile: float) -> float:
    return float(histogram.get_value_at_percentile(percentile)) / _MS


def decoded(payload: str, what: str, most: int = _COUNTS) -> HdrHistogram:
    """A histogram of at most so many counts, as HdrHistogram's V2 in base64. Raises ReceivedError."""
    with reading(what):
        inflater = zlib.decompressobj()
        inner = inflater.decompress(base64.b64decode(payload, validate=True)[_PACKED:], 10 * most)
        if not inflater.eof or len(inner) < _HEAD.size:
            raise ValueError("a histogram is cut off or too large")
        cookie, _, digits, lowest, highest = _HEAD.unpack_from(inner)
        if cookie & ~0xF0 != V2_ENCODING_COOKIE_BASE:
            raise ValueError("a histogram is of another format than V2")
        if _counts_of(lowest, highest, digits) > most:
            raise ValueError("a histogram has too many counts")
        try:
            histogram = HdrHistogram.decode(payload)
        except (HdrCookieException, HdrLengthException) as error:
            raise ValueError(f"a histogram is damaged: {error}") from None
        counts = np.ctypeslib.as_array(histogram.encoder.payload.counts)
        if counts.sum(dtype=np.float64) > MOST:
            raise ValueError("a histogram has more transactions than a load")
        return histogram


@lru_cache(maxsize=64)
def _counts_of(lowest: int, highest: int, digits: int) -> int:
    return int(HdrHistogram(lowest, highest, digits, word_size=2).counts_len)


def _read_log(path: Path) -> Iterator[tuple[float, str, str]]:
    """Start in seconds, tag and payload of each interval (HdrHistogram interval log, version 1.3)."""
    for line in _of_driver(received.lines_of(path), path):
        fields = line.rstrip("\n").split(",")
        if not line.startswith("Tag=") or len(fields) != 5 or not line.endswith("\n"):
            continue  # the last may be cut off where the driver was killed
        start = number({"the start of an interval": fields[1]}, "the start of an interval", str(path), -1, LONGEST)
        yield start, fields[0].removeprefix("Tag="), fields[4]


def _rows(directory: Path, name: str = SECONDS) -> Iterator[Mapping[str, str]]:
    """Whole ones; the last may be cut off where the driver was killed."""
    path = directory / name
    return _of_driver(received.table_file(path, ("time_ns", "second")), path)


def _of_driver(items: Iterator[_Item], path: Path) -> Iterator[_Item]:
    """Of a file of the driver's. Raises LeadlineError where there is none."""
    try:
        yield from items
    except FileNotFoundError:
        raise LeadlineError(f"{path} is missing: the driver wrote nothing") from None


def _second_of(row: Mapping[str, str], directory: Path) -> int:
    return whole(row, "second", str(directory), int(LONGEST))


def _unanswered_from(row: Mapping[str, str], what: str) -> float:
    """The shortest time in ms of an unanswered one in a row; infinite where there is none."""
    return number(row, "unanswered_from_ms", what) if row.get("unanswered_from_ms") else math.inf


def _second(row: Mapping[str, str], what: str) -> SecondRow:
    def time(key: str) -> float:
        return number(row, key, what) if row[key] else math.nan

    return SecondRow(
        second=whole(row, "second", what, int(LONGEST)),
        phase=row["phase"],
        ok_per_s=float(whole(row, "ok", what, MOST)),
        failed_per_s=float(whole(row, "failed", what, MOST)),
        response_mean_ms=time("response_mean_ms"),
        p50=time("response_p50_ms"),
        p99=time("response_p99_ms"),
        service_mean_ms=time("service_mean_ms"),
        in_flight=whole(row, "in_flight", what, MOST),
    )


@dataclass(frozen=True)
class SecondResponses:
    """Outcomes of what was due in one whole second, of all transactions or of one: response times as values (ms) with
    counts, of the successful and the unanswered ones; ``failed`` counts the latter too, and dropped arrivals.
    """

    values_ms: tuple[float, ...]
    counts: tuple[int, ...]
    failed: int
    unanswered: int = 0
    unanswered_from: float = math.inf  # ms, the shortest of them

    @property
    def ok(self) -> int:
        return sum(self.counts) - self.unanswered


def seconds_between(directory: Path, from_s: float, until_s: float, transaction: str = ALL) -> list[SecondResponses]:
    """One entry for each whole second inside [from_s, until_s)."""
    seconds = some_seconds(from_s, until_s)
    entries = []
    for named in outcomes_in(directory, [(second,) for second in seconds], transaction):
        result = named[transaction]
        pairs = [(ns / _MS, count) for ns, count in recorded(result.histogram)]
        values, counts = zip(*pairs, strict=True) if pairs else ((), ())
        wrong = result.failed + result.dropped
        entries.append(SecondResponses(tuple(values), tuple(counts), wrong, result.unanswered, result.unanswered_from))
    return entries


def limit_sets() -> dict[str, dict[str, dict[str, str]]]:
    """Scenario -> name of the set -> parameter -> level."""
    return tomllib.loads((resources.files("leadline") / "scenarios" / "limits.toml").read_text(encoding="utf-8"))


def limit_set(name: str, scenario: str) -> dict[str, str]:
    """The parameters of a set. Raises UsageError naming those that the scenario has."""
    sets = limit_sets().get(scenario, {})
    if name in sets:
        return sets[name]
    near = nearest(name, list(sets))
    hint = f"sets of {scenario}: {', '.join(sets)}" if sets else f"{scenario} has none: limits are in its file"
    raise UsageError(f"--limits {name}: no set of that name; {f'did you mean {near}?' if near else hint}")


QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
WORST, WITHIN = "limit_use", "within_limits"  # responses


@dataclass(frozen=True)
class TypeWithin:
    """One type of transaction. ``within``: successful transactions a second inside the shortest of its limits, of
    ``throughput`` in all; ``uses``: percentile by limit, where there are enough to tell the percentile.
    """

    transaction: str
    throughput: float
    within: float
    uses: dict[str, float]


def within_limits(directory: Path, from_s: float, until_s: float, limits: Sequence[LimitResult]) -> list[TypeWithin]:
    """Every type that was due in the whole seconds inside [from_s, until_s); empty where no percentile is limited."""
    stated: dict[str, list[LimitResult]] = {}
    for limit in limits:
        if limit.measure in QUANTILES:
            stated.setdefault(limit.transaction, []).append(limit)
    if not stated:
        return []
    seconds = some_seconds(from_s, until_s)
    named = outcomes_in(directory, [seconds], None)[0]
    return [
        _type(name, named[name], stated.get(name, []), len(seconds))
        for name in sorted(named)
        if name != ALL and named[name].histogram.get_total_count()
    ]


def responses_of(types: Sequence[TypeWithin]) -> dict[str, float]:
    """The worst use of a limit, and transactions a second within the limits; nothing where there are no limits."""
    if not types:
        return {}
    uses = [use for type_ in types for use in type_.uses.values()]
    return {WITHIN: sum(type_.within for type_ in types), **({WORST: max(uses)} if uses else {})}


def _type(name: str, outcomes: Outcomes, limits: Sequence[LimitResult], seconds: int) -> TypeWithin:
    count = outcomes.histogram.get_total_count()
    uses = {}
    for limit in limits:
        if count * (1 - QUANTILES[limit.measure]) >= 1 - 1e-9:
            value = outcomes.percentile(100 * QUANTILES[limit.measure])
            use = value / limit.bound
            uses[limit.measure] = AtLeast(use) if isinstance(value, AtLeast) else use
    shortest = min((limit.bound for limit in limits), default=None)
    inside = outcomes.ok if shortest is None else _no_longer(outcomes, shortest)
    return TypeWithin(name, outcomes.ok / seconds, inside / seconds, uses)


def _no_longer(outcomes: Outcomes, ms: float) -> int:
    """Successful transactions that took no longer than that."""
    count = sum(count for ns, count in recorded(outcomes.histogram) if ns <= ms * _MS)
    return count if ms < outcomes.unanswered_from else max(0, count - outcomes.unanswered)
