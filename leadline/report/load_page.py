"""The page of one load alone, from the files that leadline-load wrote (docs/reference/load.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leadline.model.errors import UsageError
from leadline.model.result import AtLeast
from leadline.model.units import rounded
from leadline.report import latency, words
from leadline.report.charts.latency import Load, curve, heat_map, percentiles, throughput
from leadline.report.charts.theme import BLUE, Figure
from leadline.report.files import read_json, read_seconds
from leadline.report.latency import Latency
from leadline.report.page import render_page, write_page

_NAME = "this load"
_QUANTILES = ("p50", "p90", "p95", "p99", "p999", "max")
_FILES = {
    "summary.json": "the whole run, JSON",
    "seconds.csv": "every second and transaction, CSV",
    "outcomes.csv": "status codes and errors by second, CSV",
    "response.hlog": "response times, HdrHistogram log",
    "service.hlog": "service times, HdrHistogram log",
    "connect.hlog": "times of new connections, HdrHistogram log",
}


@dataclass(frozen=True)
class Row:
    """A transaction in the steady phase; ``ms`` by percentile, as text."""

    name: str
    ok: int
    failed: int
    per_second: float
    ms: Mapping[str, str]


@dataclass(frozen=True)
class Limit:
    """A condition of ``--fail``, or a limit that the scenario states, with what was measured."""

    condition: str
    value: str
    kept: bool


def build_load(directory: Path, out: Path, kept: Path | None = None) -> Path:
    """Write the self-contained page of the load in ``directory``. Raises UsageError where there is none, OSError."""
    problems: list[str] = []
    summary = read_json(directory / "summary.json", problems)
    if summary.get("format") != "leadline-load/1":
        raise UsageError(f"{directory} holds no load: {'; '.join(problems) or 'summary.json is not there'}")
    drawn = {figure.name: figure for figure in _figures(directory, summary, problems) if figure is not None}
    steady = summary.get("steady") or {}
    transactions = steady.get("transactions") or {}
    started = float(summary.get("started_unix_ns") or 0) / 1e9
    page = render_page(
        "load.html.j2",
        {name: figure.spec for name, figure in drawn.items()},
        kept,
        title=f"load of {summary['scenario']['name']}",
        simulated=False,
        s=summary,
        whole=_row("all transactions", steady["all"]) if steady.get("all") else None,
        rows=[_row(name, transaction) for name, transaction in transactions.items()],
        limits=list(_limits(summary)),
        errors=list(_errors(summary)),
        quantiles=_QUANTILES,
        figures=drawn,
        started=words.moment(started),
        seconds=float(steady.get("duration_s") or 0),
        directory=str(directory),
        files=[(name, words_) for name, words_ in _FILES.items() if (directory / name).is_file()],
        problems=problems,
    )
    return write_page(page, out)


def _figures(directory: Path, summary: Mapping[str, Any], problems: list[str]) -> Iterator[Figure | None]:
    started = float(summary.get("started_unix_ns") or 0) / 1e9
    begin, end = (summary.get("phases") or {}).get("steady") or (0.0, float("inf"))
    curves = {}
    for kind in ("response", "service"):
        tags = latency.read_histograms(directory / f"{kind}.hlog", started + begin, started + end)
        whole = latency.merge(tags.values())
        if whole.total:
            curves[_NAME, kind] = (whole,)
    drawn = curve(Latency((), curves), [_NAME], {_NAME: BLUE})
    if drawn is not None:
        caption = (
            "All transactions of the steady phase. Response time (solid) counts from the moment a transaction was due, "
            "service time (dashed) from the moment it was sent."
        )
        spec = {**drawn.spec, "description": f"{drawn.title}. {caption}"}
        yield replace(drawn, caption=caption, spec=spec)
    seconds = read_seconds(directory / "seconds.csv", problems)
    if seconds is not None:
        yield throughput(seconds)
        yield percentiles(seconds)
    yield heat_map([Load("", started, latency.over_time(directory / "response.hlog"))])


def _row(name: str, one: Mapping[str, Any]) -> Row:
    times, least = one.get("response_ms") or {}, one.get("response_at_least") or ()
    ms = {quantile: _ms(times.get(quantile), quantile in least) for quantile in _QUANTILES}
    return Row(name, int(one["ok"]), int(one["failed"]), float(one["per_second"]), ms)


def _ms(value: float | None, at_least: bool = False) -> str:
    return "–" if value is None else rounded(AtLeast(value) if at_least else value, 4)


def _limits(summary: Mapping[str, Any]) -> Iterator[Limit]:
    for threshold in (summary.get("verdict") or {}).get("thresholds") or ():
        yield Limit(f"--fail {threshold['condition']}", _measured(threshold), bool(threshold["kept"]))
    for limit in summary.get("limits") or ():
        bound = words.share(limit["bound"]) if limit["unit"] == "share" else f"{limit['bound']:g} ms"
        # what was not measured fails no run here, as the verdict has it
        yield Limit(
            f"{limit['transaction']}: {limit['measure']} at most {bound}", _measured(limit), limit["kept"] is not False
        )


def _measured(one: Mapping[str, Any]) -> str:
    value = one["value"]
    if value is None:
        return "not measured"
    time = f"{_ms(value, bool(one.get('at_least')))} ms"
    units = {"share": words.share(value), "ms": time, "per_second": f"{value:.1f} transactions/s"}
    return units[one["unit"]]


def _errors(summary: Mapping[str, Any]) -> Iterator[tuple[str, str, int, str]]:
    """Transaction, kind, how many in the whole run, and the words of one."""
    samples = summary.get("error_samples") or {}
    for name, transaction in (summary.get("total") or {}).items():
        for kind, count in (transaction.get("errors") or {}).items():
            sample = samples.get(kind, "")
            if isinstance(sample, list):
                sample = sample[0] if sample else ""
            yield name, kind, int(count), str(sample)
