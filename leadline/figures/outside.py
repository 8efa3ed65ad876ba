"""Results that other tools wrote: a run a row, with the responses that the file says. Text in, rows out."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from leadline.figures.foreign import COLUMNS
from leadline.model.errors import UsageError, nearest, quoted
from leadline.model.received import from_json

IN_ORDER = "one after the other"
_MOST_ROWS = 2_000_000
_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}
_K6 = {"avg": "mean", "med": "p50", "p(90)": "p90", "p(95)": "p95", "p(99)": "p99", "p(99.9)": "p999", "max": "max"}
_GATLING = {"meanResponseTime": "mean", "percentiles3": "p95", "percentiles4": "p99", "maxResponseTime": "max"}
_TIMES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}


@dataclass(frozen=True)
class Run:
    """A run: ``group`` is what was run, empty where the file does not say; ``responses`` in the units of
    ``model.result``, those of other names as they are; ``failure`` why it does not count. ``block``: what it is
    compared within.
    """

    group: str
    responses: Mapping[str, float] = field(default_factory=dict)
    failure: str = ""
    block: str = ""


@dataclass(frozen=True)
class Results:
    """``tool`` that wrote the file; ``notes``: sentences on what its runs are and are not."""

    tool: str
    runs: Sequence[Run]
    notes: Sequence[str] = ()


def results_of(
    text: str, source: str, by: str | None = None, responses: Sequence[str] = (), block: str | None = None
) -> Results:
    """The runs of a file. ``by``, ``responses`` and ``block`` name columns of a table, or keys of its rows.

    Raises UsageError with the place for a text that is none of the formats, or without a run.
    """
    begin = text.lstrip("\ufeff \r\n\t")[:1]
    results = (
        _of_json(text, source)
        if begin and begin in "[{"
        else _of_wrk(text, source)
        if re.search(r"^Requests/sec:", text, re.MULTILINE)
        else _of_table(text, source, by, responses, block)
    )
    if not results.runs:
        raise UsageError(f"{source}: {results.tool} recorded no run")
    return results


def _of_json(text: str, source: str) -> Results:
    try:
        document = from_json(text)
    except ValueError as error:
        raise UsageError(f"{source}: not JSON: {error}") from error
    for tool, fits, read in _JSON:
        try:
            if fits(document):
                return read(document, source)
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise UsageError(f"{source}: as a result of {tool} it lacks {error}, or has it in another form") from error
    raise UsageError(f"{source}: JSON of no tool that is known: JMH, hyperfine, k6, oha and Gatling are read")


def _number(value: Any, source: str, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise UsageError(f"{source}: {what} is {quoted(str(value))}, not a number")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{source}: {what} is {quoted(str(value))}, not a number")
    return number


def _hyperfine(document: Any, source: str) -> Results:
    runs = []
    for result in document["results"]:
        command, times = str(result["command"]), result.get("times") or []
        codes = result.get("exit_codes") or [0] * len(times)
        if len(codes) != len(times):
            raise UsageError(f"{source}: {len(times)} times and {len(codes)} exit codes of {quoted(command)}")
        for time, code in zip(times, codes, strict=True):
            failure = "" if code == 0 else "ended by a signal" if code is None else f"exit code {code}"
            runs.append(Run(command, {} if failure else {"wall": _number(time, source, "a time")}, failure))
        if not times:
            raise UsageError(f"{source}: no times of {quoted(command)}: only its mean was exported")
    return Results("hyperfine", runs, [f"hyperfine runs a command's repetitions {IN_ORDER}"])


def _jmh(document: Any, source: str) -> Results:
    forks: list[dict[str, float]] = []
    modes = set()
    for benchmark in document:
        metric, name = benchmark["primaryMetric"], str(benchmark["benchmark"]).split(".")
        parameters = ",".join(f"{key}={value}" for key, value in sorted((benchmark.get("params") or {}).items()))
        modes.add(str(benchmark["mode"]))
        unit = str(metric["scoreUnit"])
        response = ".".join(name[-2:]) + (f"[{parameters}]" if parameters else "")
        if any(response in fork for fork in forks[:1]):
            response += f" ({benchmark['mode']})"
        for at, iterations in enumerate(metric["rawData"]):
            values = [_number(value, source, "an iteration") for value in iterations]
            if not values:
                raise UsageError(f"{source}: a fork of {response} without an iteration")
            if at == len(forks):
                forks.append({})
            forks[at][response] = _seconds(float(np.mean(values)), unit, source)
    notes = ["a fork of JMH is a run, the mean of its iterations", "times are seconds per operation"]
    if len(forks) == 1:
        notes.append("one fork: what differs from JVM to JVM is not in the intervals")
    return Results("JMH", [Run("", fork) for fork in forks], notes)


def _seconds(value: float, unit: str, source: str) -> float:
    """Per operation, whatever the mode."""
    rate, time = re.fullmatch(r"ops/(\w+)", unit), re.fullmatch(r"(\w+)/op", unit)
    of = (rate or time or [None, ""])[1]
    if of not in _TIMES or value <= 0:
        raise UsageError(f"{source}: a score of {value:g} {unit} is no time per operation")
    return _TIMES[of] / value if rate else value * _TIMES[of]


def _k6(document: Any, source: str) -> Results:
    metrics = {name: metric.get("values", metric) for name, metric in document["metrics"].items()}
    duration = metrics["http_req_duration"]
    responses = {ours: _number(duration[k6], source, k6) for k6, ours in _K6.items() if k6 in duration}
    if "http_reqs" in metrics:
        responses["throughput"] = _number(metrics["http_reqs"]["rate"], source, "http_reqs")
    failed = metrics.get("http_req_failed", {})
    share = failed.get("rate", failed.get("value"))
    notes = ["k6's rate counts failed requests"]
    if share is not None:
        responses["errors"] = _number(share, source, "http_req_failed")
        if "throughput" in responses:
            responses["throughput"] *= 1 - responses["errors"]
            notes = []
    return Results("k6", [Run("", responses)], notes)


def _oha(document: Any, source: str) -> Results:
    summary, percentiles = document["summary"], document.get("latencyPercentiles") or {}
    responses = {"mean": 1000 * _number(summary["average"], source, "average")}
    for name, value in percentiles.items():
        ours = name.replace(".", "")
        if value is not None and ours in ("p50", "p90", "p95", "p99", "p999"):
            responses[ours] = 1000 * _number(value, source, name)
    responses["errors"] = 1 - _number(summary["successRate"], source, "successRate")
    rate = _number(summary["requestsPerSec"], source, "requestsPerSec")
    responses["throughput"] = rate * (1 - responses["errors"])
    return Results("oha", [Run("", responses)])


def _gatling(document: Any, source: str) -> Results:
    stats = document.get("stats", document)
    responses = {
        ours: _number(stats[name]["ok"], source, name)
        for name, ours in _GATLING.items()
        if str(stats.get(name, {}).get("ok", "-")) != "-"
    }
    rate = stats["meanNumberOfRequestsPerSecond"]
    responses["throughput"] = _number(rate["ok"], source, "meanNumberOfRequestsPerSecond")
    total = _number(stats["numberOfRequests"]["total"], source, "numberOfRequests")
    if total:
        responses["errors"] = _number(stats["numberOfRequests"]["ko"], source, "numberOfRequests") / total
    return Results("Gatling", [Run("", responses)], ["times are those of requests that succeeded"])


_JSON: tuple[tuple[str, Callable[[Any], bool], Callable[[Any, str], Results]], ...] = (
    (
        "JMH",
        lambda it: isinstance(it, list) and bool(it) and isinstance(it[0], dict) and "primaryMetric" in it[0],
        _jmh,
    ),
    ("hyperfine", lambda it: isinstance(it, dict) and isinstance(it.get("results"), list), _hyperfine),
    ("k6", lambda it: isinstance(it, dict) and "http_req_duration" in (it.get("metrics") or {}), _k6),
    ("oha", lambda it: isinstance(it, dict) and "requestsPerSec" in (it.get("summary") or {}), _oha),
    ("Gatling", lambda it: isinstance(it, dict) and "meanResponseTime" in it.get("stats", it), _gatling),
)


def _of_wrk(text: str, source: str) -> Results:
    responses = {"throughput": _number(re.findall(r"^Requests/sec:\s*(\S+)", text, re.MULTILINE)[0], source, "rate")}
    for name, value, unit in re.findall(r"^\s+(50|75|90|99|99\.9\d*)%\s+([\d.]+)(us|ms|s|m)\s*$", text, re.MULTILINE):
        ours = "p" + name.rstrip("0").replace(".", "") if "." in name else f"p{name}"
        if ours in ("p50", "p90", "p99", "p999"):
            responses[ours] = _number(value, source, name) * _MS[unit]
    mean = re.search(r"^\s+Latency\s+([\d.]+)(us|ms|s|m)\s", text, re.MULTILINE)
    if mean:
        responses["mean"] = _number(mean[1], source, "latency") * _MS[mean[2]]
    lost = re.search(r"Socket errors: .*|Non-2xx or 3xx responses: .*", text)
    notes = [f"{source}: {lost[0]}: they are in wrk's rate"] if lost else []
    return Results("wrk", [Run("", responses)], notes)


def _of_table(text: str, source: str, by: str | None, responses: Sequence[str], block: str | None) -> Results:
    rows = _rows(text, source)
    head = [cell.strip() for cell in next(rows, (0, []))[1]]
    if {"timeStamp", "elapsed", "success"} <= set(head):
        return _jmeter(head, rows, source)
    for name in (by, block, *responses):
        if name is not None and name not in head:
            near = nearest(name, head)
            raise UsageError(f"{source}, line 1: no column {quoted(name)}; {f'did you mean {near}?' if near else head}")
    table = [(number, dict(zip(head, row, strict=True))) for number, row in rows]
    numeric = [name for name in head if table and all(_is_number(cells[name]) for _, cells in table)]
    words = [name for name in head if name not in numeric and name != block]
    by = by or _called("level", head) or (words[0] if len(words) == 1 else None)
    block = block or _called("block", head)
    no_response = {by, block, *(name for name in head if name.lower() in COLUMNS["replicate"])}
    chosen = list(responses) or [name for name in numeric if name not in no_response]
    if not chosen:
        raise UsageError(f"{source}: no column of numbers; the columns are {', '.join(head) or 'none'}")
    runs = [
        Run(
            (cells[by].strip() or "baseline") if by else "",
            {name: _number(cells[name], f"{source}, line {number}", name) for name in chosen},
            block=cells[block].strip() if block else "",
        )
        for number, cells in table
    ]
    within = f", within {block}" if block else ""
    return Results("table", runs, [f"{source}: {', '.join(chosen)} by {by or 'file'}{within}"])


def _called(what: str, head: Sequence[str]) -> str | None:
    return next((name for name in head if name.lower() in COLUMNS[what]), None)


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _rows(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of each row that is not blank, all as long as the head."""
    first = text.removeprefix("\ufeff").split("\n", 1)[0]
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")), delimiter=max(",;\t", key=first.count))
    width = 0
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            width = width or len(row)
            if len(row) != width or reader.line_num > _MOST_ROWS:
                raise UsageError(f"{source}, line {reader.line_num}: {len(row)} cells where the head has {width}")
            yield reader.line_num, row
    except csv.Error as error:
        raise UsageError(f"{source}, line {reader.line_num} is no CSV: {error}") from error


def _jmeter(head: Sequence[str], rows: Iterator[tuple[int, list[str]]], source: str) -> Results:
    began, took, succeeded = (head.index(name) for name in ("timeStamp", "elapsed", "success"))
    samples = [
        (_number(row[began], f"{source}, line {n}", "timeStamp"), _number(row[took], f"{source}, line {n}", "elapsed"),
         row[succeeded].strip().lower() == "true")
        for n, row in rows
    ]  # fmt: skip
    times = np.array([elapsed for _, elapsed, good in samples if good])
    if not len(times):
        return Results("JMeter", [Run("", failure="no sample succeeded")] if samples else [])
    seconds = (max(start + elapsed for start, elapsed, _ in samples) - min(start for start, _, _ in samples)) / 1000
    p50, p90, p95, p99 = np.percentile(times, [50, 90, 95, 99]).tolist()
    responses = {"mean": float(times.mean()), "p50": p50, "p90": p90, "p95": p95, "p99": p99}
    responses["errors"] = 1 - len(times) / len(samples)
    if seconds > 0:
        responses["throughput"] = len(times) / seconds
    return Results("JMeter", [Run("", responses)], ["times are those of samples that succeeded, from their sending"])
