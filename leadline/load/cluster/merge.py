"""The results of several drivers as one driver would have written them."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leadline.load.cluster import histograms
from leadline.load.cluster.clock import Offset
from leadline.load.cluster.histograms import Interval
from leadline.load.cluster.summary import merged_summary
from leadline.load.result import read_document, write_document
from leadline.load.series import ALL
from leadline.model.drivers import DriverHost
from leadline.model.errors import LeadlineError

_FIGURE = re.compile(r"(?P<log>[a-z]+)_(?P<figure>mean|p\d+|max)_ms")
_SUMS = {"ok", "failed", "skipped", "in_flight"}


@dataclass(frozen=True)
class Part:
    """One driver's results. ``moved_ns``: how far its clock moved against this host's during the run."""

    driver: DriverHost
    directory: Path
    share: str
    cpus: int
    clock: Offset
    moved_ns: float


def merge(parts: Sequence[Part], out: Path, started_unix_ns: int) -> None:
    """Write summary.json, seconds.csv and the interval logs of all drivers together into ``out``.

    Seconds are numbered from the agreed start, which is ``started_unix_ns`` by this host's clock. Raises LeadlineError
    when a driver's results are missing or incomplete, or are not of the same scenario.
    """
    out.mkdir(parents=True, exist_ok=True)
    documents = [read_document(part.directory) for part in parts]
    logs = sorted(path.name for path in parts[0].directory.glob("*.hlog"))
    intervals: dict[str, dict[tuple[int, str], list[Interval]]] = {}
    for log in logs:
        found = _by_second([list(histograms.read(part.directory / log)) for part in parts])
        intervals[log.removesuffix(".hlog")] = found
        histograms.write(out / log, parts[0].directory / log, started_unix_ns, found)
    if "steady" not in intervals:
        raise LeadlineError(f"{parts[0].directory}: steady.hlog is missing: the driver did not end in order")
    tables = [_rows(part.directory / "seconds.csv") for part in parts]
    _write_seconds(out / "seconds.csv", tables, intervals, started_unix_ns)
    if (parts[0].directory / "outcomes.csv").is_file():
        _write_outcomes(
            out / "outcomes.csv", [_rows(part.directory / "outcomes.csv") for part in parts], started_unix_ns
        )
    steady = {tag: histograms.added(one.payload for one in found) for (_, tag), found in intervals["steady"].items()}
    document = merged_summary([part.driver.name for part in parts], documents, steady)
    document["started_unix_ns"] = started_unix_ns
    document["drivers"] = [_driver(part, one) for part, one in zip(parts, documents, strict=True)]
    write_document(out, document)


def _driver(part: Part, document: Mapping[str, Any]) -> dict[str, Any]:
    own = document["driver"]
    return {
        "name": part.driver.name,
        "via": part.driver.via,
        "share": part.share,
        "cpus": part.cpus,
        "clock_offset_ms": part.clock.ns / 1e6,
        "clock_uncertainty_ms": part.clock.uncertainty_ns / 1e6,
        "clock_moved_ms": part.moved_ns / 1e6,
        "url": document["url"],
        "requests": document["requests"]["count"],
        "arrivals_planned": document["arrivals_planned"],
        "arrivals_actual": document["arrivals_actual"],
        "cpu_share": own["cpu_share"],
        "scheduling": own["scheduling"],
        "lag_ms": own["lag_ms"],
        "limit": own["limit"],
    }


def _by_second(logs: Sequence[Sequence[Interval]]) -> dict[tuple[int, str], list[Interval]]:
    """Intervals of one second and tag together, in order of time, then of the scenario."""
    order = {tag: at for at, tag in enumerate(dict.fromkeys(one.tag for log in logs for one in log))}
    found: dict[tuple[int, str], list[Interval]] = {}
    for log in logs:
        for one in log:
            found.setdefault((one.second, one.tag), []).append(one)
    return dict(sorted(found.items(), key=lambda item: (item[0][0], order[item[0][1]])))


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="ascii", newline="") as stream:
            return list(csv.DictReader(stream))
    except FileNotFoundError:
        raise LeadlineError(f"{path} is missing: the driver wrote nothing") from None


def _write_seconds(
    path: Path,
    tables: Sequence[Sequence[Mapping[str, str]]],
    intervals: Mapping[str, Mapping[tuple[int, str], list[Interval]]],
    started_unix_ns: int,
) -> None:
    found: dict[int, dict[str, list[Mapping[str, str]]]] = {}
    names: dict[str, None] = {}
    for table in tables:
        for row in table:
            found.setdefault(int(row["second"]), {}).setdefault(row["transaction"], []).append(row)
            names.setdefault(row["transaction"])
    order = [*(name for name in names if name != ALL), ALL]
    columns = list(tables[0][0]) if tables[0] else []
    grouped = {log: _grouped(merged) for log, merged in intervals.items()}
    with path.open("w", encoding="ascii", newline="") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        for second, rows in sorted(found.items()):
            figures = _figures(columns, {log: seconds.get(second, {}) for log, seconds in grouped.items()})
            in_flight = sum(int(row["in_flight"]) for row in rows.get(ALL, ()))
            for name in (name for name in order if name in rows):
                same = rows[name]
                merged = {column: _cell(column, same, figures.get((column, name), "")) for column in columns}
                merged["time_ns"] = str(started_unix_ns + second * 1_000_000_000)
                merged["in_flight"] = str(in_flight)
                writer.writerow(merged)


def _write_outcomes(path: Path, tables: Sequence[Sequence[Mapping[str, str]]], started_unix_ns: int) -> None:
    """Counts by second, transaction and what happened, added up."""
    counts: dict[tuple[int, str, str, str, str], int] = {}
    for table in tables:
        for row in table:
            key = (int(row["second"]), row["phase"], row["transaction"], row["what"], row["name"])
            counts[key] = counts.get(key, 0) + int(row["count"])
    with path.open("w", encoding="ascii", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["time_ns", "second", "phase", "transaction", "what", "name", "count"])
        for key, count in sorted(counts.items(), key=lambda item: item[0][0]):
            writer.writerow([started_unix_ns + key[0] * 1_000_000_000, *key, count])


def _cell(column: str, rows: Sequence[Mapping[str, str]], figure: str) -> str:
    if _FIGURE.fullmatch(column):
        return figure
    values = [row[column] for row in rows]
    if column in _SUMS or (len(set(values)) > 1 and all(value.isdecimal() for value in values)):
        return str(sum(int(value) for value in values))
    return values[0]


def _grouped(merged: Mapping[tuple[int, str], list[Interval]]) -> dict[int, dict[str, list[Interval]]]:
    """By second, then by tag."""
    found: dict[int, dict[str, list[Interval]]] = {}
    for (second, tag), parts in merged.items():
        found.setdefault(second, {})[tag] = parts
    return found


def _figures(
    columns: Sequence[str], intervals: Mapping[str, Mapping[str, Sequence[Interval]]]
) -> dict[tuple[str, str], str]:
    """(column, transaction) -> text, from the intervals of one second by log and tag."""
    wanted: dict[str, list[tuple[str, str]]] = {}
    for column in columns:
        if match := _FIGURE.fullmatch(column):
            wanted.setdefault(match["log"], []).append((column, match["figure"]))
    found: dict[tuple[str, str], str] = {}
    for log, figures in wanted.items():
        tags = intervals.get(log, {})
        merged = {tag: histograms.added(part.payload for part in parts) for tag, parts in tags.items()}
        merged[ALL] = histograms.total(merged.values())
        for name, histogram in merged.items():
            values = histograms.latency(histogram)
            for column, figure in figures:
                value = values.get(figure)
                found[column, name] = "" if value is None else f"{value:.4f}"
    return found
