"""Results of others, as rows: one run (or mean) a row, or one system's best gain and worst loss a row.

Of results that other tools wrote: a run a row, with the responses that the file says. Text in, rows out.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leadline.figures.extremes import Extremes
from leadline.figures.table import AT_DEFAULT, Parameter, ResultTable, Run, ordered
from leadline.model.errors import FailureClass, UsageError, did_you_mean, nearest, quoted
from leadline.model.received import from_json
from leadline.model.result import RESPONSES, ResponseKind

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "system": ("system", "kernel", "server"),
    "factor": ("factor", "parameter", "knob"),
    "level": ("level", "value"),
    "response": ("response", "mean", "result"),
    "replicate": ("replicate", "repeat", "run", "fork", "iteration"),
    "block": ("block",),
    "failure": ("failure", "failure_class"),
    "gain": ("gain", "gain_pct", "best_gain"),
    "loss": ("loss", "loss_pct", "worst_loss"),
}
BASELINE = ("", "baseline", "default", "defaults")
INNOCENT = {FailureClass.INFRASTRUCTURE.value, FailureClass.INTERRUPTED.value, FailureClass.BOTTLENECK.value}
HEAD = (
    "system,factor,level,response (and, if you have them, replicate, block, failure), or a column for each factor and "
    "one of the results (--response NAME says which), or system,gain,loss"
)
OWN = "="  # in front of the name of a column that is a factor


@dataclass(frozen=True)
class Row:
    """One row with the canonical column names, and those of columns that are factors behind ``OWN``; ``place`` says
    where it stands, for messages; ``kind`` what its response is, where the file says it.
    """

    place: str
    cells: Mapping[str, str]
    kind: ResponseKind | None = None

    def number(self, column: str) -> float:
        return finite(self.cells[column], self.place, column)


def finite(value: Any, place: str, what: str) -> float:
    """A number, or the text of one. Raises UsageError."""
    number = math.nan
    with suppress(ValueError, TypeError, OverflowError):
        number = math.nan if isinstance(value, bool) else float(value)
    if not math.isfinite(number):
        raise UsageError(f"{place}: {what} is {quoted(str(value))}, not a number")
    return number


def document_of(text: str, source: str) -> Any:
    """A JSON text. Raises UsageError."""
    try:
        return from_json(text)
    except ValueError as error:
        raise UsageError(f"{source}: not JSON: {error}") from error


def rows_of_csv(text: str, source: str, response: str | None = None) -> list[Row]:
    """The rows of a CSV text with a head. ``response`` names the column of the response, if not one of the usual.

    Raises UsageError for a head without the columns needed and for a row of another length.
    """
    lines = [(number, row) for number, row in numbered(text) if any(cell.strip() for cell in row)]
    if len(lines) < 2:
        raise UsageError(f"{source}: no rows below a head; the head is {HEAD}")
    head = lines[0][1]
    names = _canonical(head, source, response)
    rows = []
    for number, row in lines[1:]:
        if len(row) != len(head):
            raise UsageError(f"{source}, line {number}: {len(row)} cells where the head has {len(head)}")
        cells = {name: cell.strip() for name, cell in zip(names, row, strict=True) if name}
        rows.append(Row(f"{source}, line {number}", cells, _kind(head, names)))
    return rows


def numbered(text: str, delimiter: str = ",") -> list[tuple[int, list[str]]]:
    """The rows of a CSV text, each with the number of its last line. Raises UsageError."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")), delimiter=delimiter)
    try:
        return [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise UsageError(f"line {reader.line_num} is no CSV: {error}") from error


def rows_of_json(text: str, source: str, response: str | None = None) -> list[Row]:
    """The first list of objects with a system and results in a JSON text, wherever it stands. Raises UsageError."""
    document = document_of(text, source)
    objects = _find(document, response)
    if objects is None:
        raise UsageError(f"{source}: no list of objects with the keys {HEAD}")
    rows = []
    for number, entry in enumerate(objects, 1):
        names = _canonical(list(entry), source, response)
        cells = {name: _text(value) for name, value in zip(names, entry.values(), strict=True) if name}
        rows.append(Row(f"{source}, row {number}", cells, _kind(list(entry), names)))
    return rows


def _find(document: Any, response: str | None) -> list[dict[str, Any]] | None:
    if isinstance(document, list) and document and all(isinstance(item, dict) for item in document):
        names = set(_names(list(map(str, document[0])), response))
        plain = not any(isinstance(value, dict | list) for value in document[0].values())
        if names & {"gain", "response"} and ("system" in names or plain):
            return document
    parts = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    return next((rows for part in parts if (rows := _find(part, response)) is not None), None)


def _text(value: Any) -> str:
    return "" if value is None else ("on" if value else "off") if isinstance(value, bool) else str(value)


def _canonical(head: Sequence[str], source: str, response: str | None) -> list[str]:
    """The canonical name of each column, empty for one that says nothing to us."""
    names = _names(head, response)
    twice = [name for name in names if name and names.count(name) > 1]
    if twice:
        raise UsageError(f"{source}: two columns mean the {twice[0]}; keep one, or name the response by --response")
    if response is not None and "response" not in names:
        hint = did_you_mean(response, [cell.strip() for cell in head]) or f"it is none of {len(head)}"
        raise UsageError(f"{source}: no column {response!r}; {hint}")
    if "gain" not in names and "response" not in names:
        several = [cell.strip() for cell in head if cell.strip().lower() in RESPONSES]
        if len(several) > 1:
            raise UsageError(f"{source}: the results are in one of {', '.join(several)}: --response {several[0]}")
        cells = [cell for cell, name in zip(head, names, strict=True) if name]  # no more: it may be any other file
        raise UsageError(
            f"{source}: no column for the results (of ours: {', '.join(cells) or 'none'}); the head is {HEAD}"
        )
    if "factor" not in names and "gain" not in names:
        names = [
            name or (OWN + cell.strip() if cell.strip().lower() not in RESPONSES else "")
            for name, cell in zip(names, head, strict=True)
        ]
    return names


def _names(head: Sequence[str], response: str | None) -> list[str]:
    """The canonical name of each column, or empty. The only one that is called as a response of ours has the results,
    where none else has.
    """
    names = [_name(cell, response) for cell in head]
    ours = [at for at, cell in enumerate(head) if cell.strip().lower() in RESPONSES]
    if response is None and not {"response", "gain"} & set(names) and len(ours) == 1:
        names[ours[0]] = "response"
    return names


def _kind(head: Sequence[str], names: Sequence[str]) -> ResponseKind | None:
    """What a column of results is that is called as a response of ours and by no word of ``COLUMNS``."""
    cell = next((cell.strip().lower() for cell, name in zip(head, names, strict=True) if name == "response"), "")
    return None if cell in COLUMNS["response"] else RESPONSES.get(cell)


def _name(cell: str, response: str | None) -> str:
    word = cell.strip().lower().replace(" ", "_")
    if response is not None and cell.strip() == response:
        return "response"
    for name, words in COLUMNS.items():
        if word in words and not (name == "response" and response is not None):
            return name
    return ""


def is_gains(rows: Sequence[Row]) -> bool:
    """Whether the rows hold best gains and worst losses instead of results."""
    return "gain" in rows[0].cells


def read_gains(rows: Sequence[Row]) -> list[Extremes]:
    """Rows of a published table: system, gain and loss in percent. Raises UsageError."""
    gains: list[Extremes] = []
    for row in rows:
        for column in ("system", "gain", "loss"):
            if column not in row.cells:
                raise UsageError(f"{row.place}: no {column}; the head is system,gain,loss")
        name = row.cells["system"]
        if name in {extreme.system for extreme in gains}:
            raise UsageError(f"{row.place}: {name} is there twice")
        gains.append(Extremes(name, row.number("gain"), row.number("loss")))
    return gains


def read_rows(rows: Sequence[Row], kind: ResponseKind) -> ResultTable:
    """Rows as a table. A row has a response or a failure class. Settings that a system lacks are named in the notes,
    and so are columns that were taken for factors. Raises UsageError.
    """
    if not rows:
        raise UsageError("the table has no row")
    own_columns = sorted({name for row in rows for name in row.cells if name.startswith(OWN)})
    parameters, levels, notes = _by_columns(rows, own_columns) if own_columns else _by_factor(rows)
    systems = ordered(row.cells.get("system") or "this system" for row in rows)
    blocks = ordered(row.cells.get("block", "") for row in rows)
    runs = []
    for row, at in zip(rows, levels, strict=True):
        failure = row.cells.get("failure", "")
        if not failure and not row.cells.get("response"):
            raise UsageError(f"{row.place}: neither a response nor a failure class")
        runs.append(
            Run(
                system=systems.index(row.cells.get("system") or "this system"),
                levels=at,
                value=None if failure else row.number("response"),
                failure=failure,
                block=blocks.index(row.cells.get("block", "")),
                blamed=failure not in INNOCENT,
            )
        )
    table = ResultTable(kind, systems, parameters, tuple(runs))
    return ResultTable(kind, systems, parameters, tuple(runs), (*notes, *_ragged(table)))


_Read = tuple[tuple[Parameter, ...], list[tuple[int, ...]], list[str]]  # parameters; levels of each row; notes


def _by_factor(rows: Sequence[Row]) -> _Read:
    """One changed factor in each row; a row without one (or called baseline) is a run at the defaults."""
    factors: dict[str, dict[str, int]] = {}
    for row in rows:
        factor, level = row.cells.get("factor", ""), row.cells.get("level", "")
        if factor.lower() in BASELINE:
            continue
        if not level:
            raise UsageError(f"{row.place}: {factor} has no level")
        levels = factors.setdefault(factor, {})
        levels.setdefault(level, len(levels))
    at = [
        tuple(
            known[row.cells["level"]] if row.cells.get("factor", "") == name else AT_DEFAULT
            for name, known in factors.items()
        )
        for row in rows
    ]
    return tuple(Parameter(name, tuple(levels)) for name, levels in factors.items()), at, []


def _by_columns(rows: Sequence[Row], columns: Sequence[str]) -> _Read:
    """A column for each factor, its first level the baseline. One that is the same in all rows, or another in nearly
    each, tells nothing of a level that is repeated, and is left out.
    """
    parameters, chosen, notes = [], [], []
    for column in columns:
        name, levels = column.removeprefix(OWN), ordered(row.cells.get(column, "") for row in rows)
        if 1 < len(levels) <= len(rows) / 2:
            chosen.append(column)
            parameters.append(Parameter(name, levels, 0))
            notes.append(f"The column {name} was taken for a factor, {quoted(levels[0])} for its baseline.")
        elif len(levels) > 1:
            notes.append(f"The column {name} was left out: it differs from row to row.")
    at = [
        tuple(of.levels.index(row.cells.get(column, "")) for of, column in zip(parameters, chosen, strict=True))
        for row in rows
    ]
    return tuple(parameters), at, notes


def _ragged(table: ResultTable) -> list[str]:
    have = {(run.system, number, level) for run in table.runs for number, level in enumerate(run.levels)}
    missing = [
        f"{table.name(setting)} on {name}"
        for setting in table.settings
        for system, name in enumerate(table.systems)
        if (system, setting.parameter, setting.level) not in have
    ]
    if not missing:
        return []
    names = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
    return [f"The table is ragged, without a run of {names}: what is missing somewhere is not ranked."]


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
