"""What a file to be converted is, told by its content; access logs as scenarios."""

from __future__ import annotations

import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from leadline.load.convert.har import STATIC, from_har
from leadline.load.convert.openapi import from_openapi
from leadline.load.convert.write import Draft, Names, converted, literal
from leadline.load.convert.written import from_curl, from_http, from_postman
from leadline.model.errors import UsageError
from leadline.model.received import from_json

_HEAD = 20  # lines by which a log is recognised
_MOST = 5_000_000  # lines
_MOST_PATHS = 20  # of one transaction: those asked most
_MOST_COUNTED = 2_000  # different paths of one transaction
_MOST_TRANSACTIONS = 200
_MANY = 50  # different segments at one place: they are values
_REQUEST = re.compile(r'"(?P<method>[A-Z]{3,7}) (?P<path>[^ "]{1,8000})(?: HTTP/[\d.]+)?" (?P<status>\d{3})\b')
_CLF = re.compile(r"\[(\d{1,2}/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?:\.\d+)? [-+]\d{4})\]")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[-+]\d\d:?\d\d)?")
_VALUE = re.compile(r"\d+|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|(?=\D*\d)[0-9a-fA-F]{8,}|(?=\D*\d)[\w.~=-]{16,}")
_KEYS = {
    "method": ("method", "request_method", "RequestMethod", "http_method", "httpMethod", "verb"),
    "path": ("request_uri", "uri", "path", "RequestPath", "url", "url_path", "requestUrl"),
    "status": ("status", "status_code", "DownstreamStatus", "response_code", "statusCode", "code"),
    "time": ("time_iso8601", "@timestamp", "timestamp", "time", "ts", "StartUTC", "start_time", "msec", "time_local"),
}


@dataclass(frozen=True)
class _Line:
    time: float | None  # seconds
    method: str
    path: str
    status: int


def is_log(head: str) -> bool:
    """Whether most of the first lines are of an access log."""
    lines = [line for line in head.splitlines()[:_HEAD] if line.strip() and not line.startswith("#")]
    return bool(lines) and 2 * sum(_read(line) is not None for line in lines) > len(lines)


def from_log(text: str, name: str, resources: bool = False) -> Draft:
    """The mix of reads, ids in their paths grouped, and the times at which they came. Raises UsageError."""
    lines, omitted = [], Counter[str]()
    for number, row in enumerate(io.StringIO(text), 1):
        if number > _MOST:
            raise UsageError(f"line {number:,}: at most {_MOST:,} lines are read")
        line = _read(row) if row.strip() else None
        if line is None:
            omitted["lines of another form"] += bool(row.strip())
        elif line.method not in ("GET", "HEAD"):
            omitted[f"by {line.method}, whose bodies no log holds"] += 1
        elif line.status >= 400:
            omitted[f"answered with {line.status}"] += 1
        elif not resources and STATIC.search(line.path.partition("?")[0]):
            omitted["for images, styles and scripts"] += 1
        else:
            lines.append(line)
    if not lines:
        raise UsageError("the log has no GET or HEAD that succeeded")
    return _draft(name, lines, omitted)


def _draft(name: str, lines: list[_Line], omitted: Counter[str]) -> Draft:
    many = _many([line.path for line in lines])
    groups: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    counts = Counter[tuple[str, ...]]()
    for line in lines:
        key = (line.method.lower(), *_grouped(line.path, many))
        counts[key] += 1
        if line.path in groups[key] or len(groups[key]) < _MOST_COUNTED:
            groups[key][line.path] += 1
    names, mix, transactions = Names(), {}, {}
    fewer = 0
    for key, count in counts.most_common(_MOST_TRANSACTIONS):
        template, used = _template(groups[key])
        title = names.make(" ".join(part for part in key[1:] if part != "{}") or "home", "page")
        mix[title], transactions[title] = count, [{key[0]: template}]
        fewer += len(groups[key]) > used
    omitted["of rarer kinds"] += len(lines) - sum(mix.values())
    notes = [f"Made from {len(lines):,} requests of an access log: the mix is theirs; give the server as --url."]
    notes += [f"Requests left out, {what}: {count:,}." for what, count in omitted.most_common() if count]
    if fewer:
        notes.append(f"Only the {_MOST_PATHS} most frequent paths are taken, equally often, of transactions: {fewer}.")
    times = _times(lines)
    if times:
        notes.append(
            "With --out the arrivals stand beside it: leadline load FILE --arrivals replay --replay FILE.times."
        )
        notes.append("Arrivals of one second are spread evenly over it where the log has no fractions.")
    else:
        notes.append("The log has no times that are read here: there are no arrivals.")
    notes.append("A log does not say who logged in, what was sent, nor which requests make a visit.")
    return Draft(
        {"scenario": name, "arrivals": {"unit": "transaction"}, "mix": mix, "transactions": transactions}, notes, times
    )


def _read(line: str) -> _Line | None:
    if line.lstrip().startswith("{"):
        return _read_json(line)
    if (match := _REQUEST.search(line)) is None:
        return None
    return _Line(_seconds(line), match["method"], _path(match["path"]), int(match["status"]))


def _read_json(line: str) -> _Line | None:
    with suppress(ValueError, TypeError):
        row = from_json(line)
        row = {**row, **row["request"]} if isinstance(row.get("request"), dict) else row
        values = {what: next((row[key] for key in keys if key in row), None) for what, keys in _KEYS.items()}
        if isinstance(row.get("request"), str) and (match := re.match(r"([A-Z]+) (\S+)", row["request"])):
            values |= {"method": match[1], "path": match[2]}
        if values["method"] and values["path"]:
            time = values["time"]
            seconds = float(str(time)) if _is_number(time) else _seconds(f"[{time}]")
            if seconds is not None and seconds > 1e11:
                seconds /= 1000
            return _Line(seconds, str(values["method"]).upper(), _path(str(values["path"])), int(values["status"] or 0))
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and bool(re.fullmatch(r"\d+(\.\d+)?", value)))


def _path(target: str) -> str:
    """Path and query of a request's target."""
    path = re.sub(r"^https?://[^/]*", "", target).partition("#")[0]
    return path if path.startswith("/") else f"/{path}"


def _seconds(line: str) -> float | None:
    with suppress(ValueError):
        if match := _CLF.search(line):
            fraction = re.search(r"\.\d+", match[1])
            text = match[1].replace(fraction[0], "", 1) if fraction else match[1]
            moment = datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z").timestamp()
            return moment + (float(fraction[0]) if fraction else 0.0)
        if match := _ISO.search(line):
            return datetime.fromisoformat(match[0].replace(",", ".").replace("Z", "+00:00")).timestamp()
    return None


def _many(paths: list[str]) -> set[tuple[str, ...]]:
    """Beginnings of paths after which so many different segments stand that they are values."""
    segments: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for path in set(paths):
        above: tuple[str, ...] = ()
        for segment in path.partition("?")[0].split("/")[1:]:
            part = "{}" if _VALUE.fullmatch(segment) else segment
            if len(segments[above]) <= _MANY:
                segments[above].add(part)
            above = (*above, part)
    return {above for above, parts in segments.items() if above and len(parts) > _MANY}


def _grouped(path: str, many: set[tuple[str, ...]]) -> Iterator[str]:
    above: tuple[str, ...] = ()
    for segment in path.partition("?")[0].split("/")[1:]:
        part = "{}" if _VALUE.fullmatch(segment) else segment
        yield "{}" if above in many else part
        above = (*above, part)


def _template(paths: Counter[str]) -> tuple[str, int]:
    """A path that draws one of the most frequent, and how many there are."""
    listed = [path for path, _ in paths.most_common(_MOST_PATHS) if not re.search(r"[:{}$]", path)]
    if len(listed) < 2:
        return literal(next(iter(listed or paths))), 1
    same = len(_common(listed))
    return f"{listed[0][:same]}${{choice:{':'.join(path[same:] for path in listed)}}}", len(listed)


def _common(paths: list[str]) -> str:
    """The folder that all are in."""
    first, last = min(paths), max(paths)
    end = next((at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    return first[: first.rfind("/", 0, end) + 1]


def _times(lines: list[_Line]) -> list[float]:
    """Seconds from the first arrival on; those of one whole second spread evenly. Empty where one has no time."""
    moments = sorted(line.time for line in lines if line.time is not None)
    if len(moments) < len(lines):
        return []
    if all(moment == int(moment) for moment in moments):
        runs = (list(run) for _, run in groupby(moments))
        moments = [second + at / len(run) for run in runs for at, second in enumerate(run)]
    return [moment - moments[0] for moment in moments]


_START = 1 << 20  # characters by which a file is recognised


def of_file(file: Path, resources: bool = False) -> Draft:
    """A scenario from a file of any format that is read here; images, styles and scripts only with ``resources``.
    Raises UsageError with the file.
    """
    return converted(file, lambda text, name: _converted(text, name, resources, file.parent))


def _converted(text: str, name: str, resources: bool, folder: Path) -> Draft:
    head = text[:_START].removeprefix("\ufeff").lstrip()
    if re.match(r'\{\s*"log"\s*:', head) or re.search(r'"entries"\s*:', head):
        return from_har(text, name, resources)
    if re.search(r"""^[ \t{]*["']?(openapi|swagger)["']?\s*:""", head, re.MULTILINE):
        return from_openapi(text, name, folder)
    if re.match(r"\{", head) and re.search(r'"item"\s*:', head) and re.search(r'"info"\s*:', head):
        return from_postman(text, name, resources)
    if re.search(r"\A(?:#[^\n]*\n\s*)*curl\s", head):
        return from_curl(text, name, resources)
    if re.search(r"^(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)\s+(?:https?://|\{\{|/)", head, re.MULTILINE):
        return from_http(text, name, resources)
    if is_log(head):
        return from_log(text, name, resources)
    raise UsageError(
        "it is none of these: HAR, OpenAPI, Postman collection, curl commands (copied for bash), .http file, access log"
    )
