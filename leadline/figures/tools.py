"""Runs that other tools recorded, with the responses that their files say. Text in, runs out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leadline.figures.foreign import COLUMNS, document_of, finite, numbered
from leadline.model.errors import UsageError, nearest, quoted

_PERCENTILES = {50.0: "p50", 90.0: "p90", 95.0: "p95", 99.0: "p99", 99.9: "p999"}
_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}
_K6 = {"avg": "mean", "med": "p50", "p(90)": "p90", "p(95)": "p95", "p(99)": "p99", "p(99.9)": "p999", "max": "max"}
_GATLING = {"meanResponseTime": "mean", "percentiles3": "p95", "percentiles4": "p99", "maxResponseTime": "max"}
_REFUSED = 400  # status of an answer, from which on the request has failed
_MIXED = "times of failed requests are among the others"
_MISSING = ("", "-", "na", "n/a", "nan", "null", "none")
_TIMES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}

Floats = NDArray[np.float64]


class OfHyperfine(Exception):
    """A text is hyperfine's, whose files ``leadline.experiments.command_files`` reads."""


@dataclass(frozen=True)
class ToolRun:
    """A run: ``level`` is what was run, empty where the file does not say; ``responses`` in the units of
    ``model.result``, those of other names as they are; ``failure`` why it does not count. ``block``: what it is
    compared within.
    """

    level: str
    responses: Mapping[str, float] = field(default_factory=dict)
    failure: str = ""
    block: str = ""


@dataclass(frozen=True)
class Results:
    """``tool`` that wrote the file; ``notes``: what limits its runs, without their stops; ``factor``: what its levels
    are of.
    """

    tool: str
    runs: Sequence[ToolRun]
    notes: Sequence[str] = ()
    factor: str = "version"


def results_of(
    text: str, source: str, by: str | None = None, responses: Sequence[str] = (), block: str | None = None
) -> Results:
    """The runs of a file. ``by``, ``responses`` and ``block`` name columns of a table, or keys of its rows.

    Raises UsageError with the place for a text that is none of the formats, or without a run; OfHyperfine.
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
    document = document_of(text, source)
    for tool, fits, read in _JSON:
        try:
            if fits(document):
                return read(document, source)
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise UsageError(f"{source}: as a result of {tool} it lacks {error}, or has it in another form") from error
    raise UsageError(f"{source}: unknown JSON format; results of JMH, hyperfine, k6, oha and Gatling are read")


def _jmh(document: Any, source: str) -> Results:
    forks: list[dict[str, float]] = []
    for benchmark in document:
        metric, name = benchmark["primaryMetric"], str(benchmark["benchmark"]).split(".")
        parameters = ",".join(f"{key}={value}" for key, value in sorted((benchmark.get("params") or {}).items()))
        response = ".".join(name[-2:]) + (f"[{parameters}]" if parameters else "")
        if any(response in fork for fork in forks[:1]):
            response += f" ({benchmark['mode']})"
        for at, iterations in enumerate(metric["rawData"]):
            values = [finite(value, source, "an iteration") for value in iterations]
            if not values:
                raise UsageError(f"{source}: a fork of {response} without an iteration")
            if at == len(forks):
                forks.append({})
            forks[at][response] = _seconds(float(np.mean(values)), str(metric["scoreUnit"]), source)
    notes = ["a fork of JMH is a run, the mean of its iterations; times are seconds per operation"]
    if len(forks) == 1:
        notes.append("one fork: what differs from JVM to JVM is not in the intervals")
    return Results("JMH", [ToolRun("", fork) for fork in forks], notes)


def _seconds(value: float, unit: str, source: str) -> float:
    """Per operation, whatever the mode."""
    rate, time = re.fullmatch(r"ops/(\w+)", unit), re.fullmatch(r"(\w+)/op", unit)
    of = (rate or time or [None, ""])[1]
    if of not in _TIMES or value <= 0:
        raise UsageError(f"{source}: a score of {value:g} {unit} is no time per operation")
    return _TIMES[of] / value if rate else value * _TIMES[of]


def _k6(document: Any, source: str) -> Results:
    metrics = {name: metric.get("values", metric) for name, metric in document["metrics"].items()}
    succeeded = metrics.get("http_req_duration{expected_response:true}")
    duration = succeeded or metrics["http_req_duration"]
    responses = {ours: finite(duration[k6], source, k6) for k6, ours in _K6.items() if k6 in duration}
    failed = metrics.get("http_req_failed", {})
    share = failed.get("rate", failed.get("value"))
    if share is None:
        return Results(
            "k6", [ToolRun("", responses)], [f"{source} does not say how many requests failed: it has no rate"]
        )
    responses["errors"] = finite(share, source, "http_req_failed")
    if "http_reqs" in metrics:
        responses["throughput"] = finite(metrics["http_reqs"]["rate"], source, "http_reqs") * (1 - responses["errors"])
    notes = [f"{source}: {_MIXED}"] if share and not succeeded else []
    return Results("k6", [ToolRun("", responses)], notes)


def _oha(document: Any, source: str) -> Results:
    """To oha every answer is a success, whatever its status."""
    summary, percentiles = document["summary"], document.get("latencyPercentiles") or {}
    responses = {"mean": 1000 * finite(summary["average"], source, "average")}
    for name, value in percentiles.items():
        ours = name.replace(".", "")
        if value is not None and ours in _PERCENTILES.values():
            responses[ours] = 1000 * finite(value, source, name)
    statuses = {int(code): finite(count, source, code) for code, count in document["statusCodeDistribution"].items()}
    good = sum(count for code, count in statuses.items() if code < _REFUSED)
    succeeded = finite(summary["successRate"], source, "successRate") * good / (sum(statuses.values()) or 1)
    responses["errors"] = 1 - succeeded
    responses["throughput"] = finite(summary["requestsPerSec"], source, "requestsPerSec") * succeeded
    refused = good < sum(statuses.values())
    return Results("oha", [ToolRun("", responses)], [f"{source}: {_MIXED}"] if refused else [])


def _gatling(document: Any, source: str) -> Results:
    stats = document.get("stats", document)
    responses = {
        ours: finite(stats[name]["ok"], source, name)
        for name, ours in _GATLING.items()
        if str(stats.get(name, {}).get("ok", "-")) != "-"
    }
    rate = stats["meanNumberOfRequestsPerSecond"]
    responses["throughput"] = finite(rate["ok"], source, "meanNumberOfRequestsPerSecond")
    total = finite(stats["numberOfRequests"]["total"], source, "numberOfRequests")
    if total:
        responses["errors"] = finite(stats["numberOfRequests"]["ko"], source, "numberOfRequests") / total
    return Results("Gatling", [ToolRun("", responses)], ["times are those of requests that succeeded"])


def _hyperfine(_document: Any, _source: str) -> Results:
    raise OfHyperfine


def _rows_with(key: str, document: Any) -> bool:
    return isinstance(document, list) and bool(document) and isinstance(document[0], dict) and key in document[0]


def _holds(key: str, document: Any, *part: str) -> bool:
    """Whether an object has a key, or an object in it at ``part``."""
    for name in part:
        document = document.get(name) if isinstance(document, dict) else None
    return isinstance(document, dict) and key in document


_JSON: tuple[tuple[str, Callable[[Any], bool], Callable[[Any, str], Results]], ...] = (
    ("JMH", partial(_rows_with, "primaryMetric"), _jmh),
    ("hyperfine", lambda it: _holds("results", it) or _rows_with("times", it), _hyperfine),
    ("k6", lambda it: _holds("http_req_duration", it, "metrics"), _k6),
    ("oha", lambda it: _holds("requestsPerSec", it, "summary"), _oha),
    ("Gatling", lambda it: _holds("meanResponseTime", it) or _holds("meanResponseTime", it, "stats"), _gatling),
)


def _of_wrk(text: str, source: str) -> Results:
    """Of wrk's text; its rate counts answers of every status."""

    def first(pattern: str) -> float:
        match = re.search(pattern, text, re.MULTILINE)
        return finite(match[1], source, match[0].strip()) if match else 0.0

    responses: dict[str, float] = {}
    for percent, value, unit in re.findall(r"^\s+([\d.]+)%\s+([\d.]+)(us|ms|s|m)\s*$", text, re.MULTILINE):
        if name := _PERCENTILES.get(finite(percent, source, "a percentile")):
            responses[name] = finite(value, source, name) * _MS[unit]
    if mean := re.search(r"^\s+Latency\s+([\d.]+)(us|ms|s|m)\s", text, re.MULTILINE):
        responses["mean"] = finite(mean[1], source, "Latency") * _MS[mean[2]]
    answers, refused = first(r"^\s*(\d+) requests in"), first(r"Non-2xx or 3xx responses: (\d+)")
    lost = sum(first(rf"Socket errors:.*{kind} (\d+)") for kind in ("connect", "read", "write", "timeout"))
    good = answers - refused
    if answers:
        responses["errors"] = 1 - good / (answers + lost)
        responses["throughput"] = first(r"^Requests/sec:\s*(\S+)") * good / answers
    notes = [] if answers else [f"{source} does not say how many requests there were: it has no rate"]
    return Results("wrk", [ToolRun("", responses)], notes + ([f"{source}: {_MIXED}"] if refused else []))


def _of_table(text: str, source: str, by: str | None, responses: Sequence[str], block: str | None) -> Results:
    first = text.removeprefix("\ufeff").split("\n", 1)[0]
    try:
        lines = [
            (number, row) for number, row in numbered(text, max(",;\t", key=first.count)) if any(map(str.strip, row))
        ]
    except UsageError as error:
        raise UsageError(f"{source}, {error}") from error
    head = [cell.strip() for cell in lines[0][1]] if lines else []
    for number, row in lines:
        if len(row) != len(head):
            raise UsageError(f"{source}, line {number}: {len(row)} cells where the head has {len(head)}")
    table = [(number, dict(zip(head, row, strict=True))) for number, row in lines[1:]]
    if {"timeStamp", "elapsed", "success"} <= set(head):
        return _jmeter(table, source)
    for name in (by, block, *responses):
        if name is not None and name not in head:
            near = nearest(name, head)
            raise UsageError(f"{source}, line 1: no column {quoted(name)}; {f'did you mean {near}?' if near else head}")
    failure = _called("failure", head)
    numeric = [name for name in head if name != failure and _of_numbers([cells[name] for _, cells in table])]
    words = [name for name in head if name not in (*numeric, block, failure)]
    by = by or _called("level", head) or (words[0] if len(words) == 1 else None)
    block = block or _called("block", head)
    no_response = {by, block, *(name for name in head if name.lower() in COLUMNS["replicate"])}
    chosen = list(responses) or [name for name in numeric if name not in no_response]
    if not chosen:
        raise UsageError(f"{source}: no column of numbers{_nearly(table)}; the columns are {', '.join(head) or 'none'}")
    runs: list[ToolRun] = []
    notes: list[str] = []
    for number, cells in table:
        lacking = [name for name in chosen if _is_missing(cells[name])]
        why = cells[failure].strip() if failure else ""
        if lacking and not why:
            where = f"no {', '.join(lacking)} in line {number}"
            if len(lacking) == len(chosen):
                why = where
            else:
                notes.append(f"{source}: {where}")
        values = {
            name: finite(cells[name], f"{source}, line {number}", name)
            for name in chosen
            if not why and name not in lacking
        }
        level = (cells[by].strip() or "baseline") if by else ""
        runs.append(ToolRun(level, values, why, cells[block].strip() if block else ""))
    factor = _called("factor", head)
    names = {cells[factor].strip() for _, cells in table} - {""} if factor and factor != by else set()
    name = names.pop() if len(names) == 1 else by or "version"
    within = f", within {block}" if block else ""
    return Results("table", runs, [f"{source}: {', '.join(chosen)} by {by or 'file'}{within}", *notes], name)


def _called(what: str, head: Sequence[str]) -> str | None:
    return next((name for name in head if name.lower() in COLUMNS[what]), None)


def _of_numbers(cells: Sequence[str]) -> bool:
    """Whether each has a number or says that it has none, and some have one."""
    return any(map(_is_number, cells)) and all(_is_number(cell) or _is_missing(cell) for cell in cells)


def _nearly(table: Sequence[tuple[int, Mapping[str, str]]]) -> str:
    """The first cell without a number in the column that has most of them."""
    others = {
        name: [(number, cells[name]) for number, cells in table if not _is_number(cells[name])]
        for name in (table[0][1] if table else ())
    }
    name = min(others, key=lambda name: len(others[name]), default="")
    return f": {name} is {quoted(others[name][0][1])} in line {others[name][0][0]}" if name and others[name] else ""


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in _MISSING


def _jmeter(samples: Sequence[tuple[int, Mapping[str, str]]], source: str) -> Results:
    if not samples:
        return Results("JMeter", [])

    def column(name: str) -> Floats:
        return np.array([finite(cells[name], f"{source}, line {number}", name) for number, cells in samples])

    began, took = column("timeStamp"), column("elapsed")
    good = took[[cells["success"].strip().lower() == "true" for _, cells in samples]]
    if not len(good):
        return Results("JMeter", [ToolRun("", failure="no sample succeeded")])
    p50, p90, p95, p99 = np.percentile(good, [50, 90, 95, 99]).tolist()
    responses = {"mean": float(good.mean()), "p50": p50, "p90": p90, "p95": p95, "p99": p99}
    responses["errors"] = 1 - len(good) / len(samples)
    if (span := float((began + took).max() - began.min())) > 0:
        responses["throughput"] = 1000 * len(good) / span
    return Results(
        "JMeter", [ToolRun("", responses)], ["times are those of samples that succeeded, from their sending"]
    )
