"""Study A's figures as tables, one for each figure, rows of plain values with a head; and in the terminal: the
sentences, and the tables people compare with the paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from leadline.figures.everything import StudyFigures
from leadline.figures.failing import SystemThroughput
from leadline.model.result import Interval
from leadline.report import words
from leadline.report.charts.theme import marked
from leadline.report.document import plain
from leadline.report.export import Cell, write_csv, write_figures, write_json
from leadline.report.figures.charts import charts

Table = list[list[Cell]]


def tables(figures: StudyFigures) -> Mapping[str, Table]:
    """File name (without ending) -> head and rows, by the keys of the JSON document. None: there is no figure."""
    tables_: dict[str, Table] = {}
    if figures.throughput:
        means = [{"system": row.system, **cells} for row in figures.throughput.systems for cells in _settings(row)]
        tables_["throughput"] = _table(means)
    rows: dict[str, Sequence[Any]] = {
        "gains": figures.extremes.rows if figures.extremes else (),
        "failures": figures.failures.systems if figures.failures else (),
        "sensitivity": figures.sensitivity.rows if figures.sensitivity else (),
        "sensitivity_map": figures.sensitivity.cells if figures.sensitivity else (),
        "ranking": figures.ranking.rows if figures.ranking else (),
        "groups": figures.grouping.groups if figures.grouping else (),
    }
    tables_ |= {name: _table(map(_cells, of)) for name, of in rows.items() if of}
    if figures.ranking:
        places = enumerate(figures.ranking.rows)
        by_system: Table = [[row.setting, *(ranks[place] for ranks in figures.ranking.ranks)] for place, row in places]
        tables_["ranks"] = [["setting", *figures.ranking.systems], *by_system]
    return tables_


def _settings(row: SystemThroughput) -> list[dict[str, Cell]]:
    """The means of a system's settings, after its baseline's with the interval."""
    baseline: dict[str, Cell] = {"setting": "baseline", "mean": row.baseline, "runs": row.baseline_runs}
    baseline |= {} if row.interval is None else _cells(row.interval, "interval")
    return [*([] if row.baseline is None else [baseline]), *map(_cells, row.settings)]


def _table(rows: Iterable[Mapping[str, Cell]]) -> Table:
    """With a column for every key; a value that is divided in some rows has no column of its own."""
    listed = list(rows)
    keys = list(dict.fromkeys(key for row in listed for key in row))
    keys = [key for key in keys if not any(other.startswith(f"{key}_low") for other in keys)]
    return [[*keys], *([row.get(key) for key in keys] for row in listed)]


def _cells(row: Any, name: str = "") -> dict[str, Cell]:
    """A row's fields; those of what it holds by names joined by ``_``, an interval by its ends."""
    if isinstance(row, Interval):
        return {f"{name}_low": row.low, f"{name}_high": row.high}
    if is_dataclass(row):
        row = {field.name: getattr(row, field.name) for field in fields(row)}
    if isinstance(row, Mapping):
        prefix = f"{name}_" if name else ""
        return {key: cell for part, of in row.items() for key, cell in _cells(of, f"{prefix}{part}").items()}
    if isinstance(row, tuple):
        return {name: " ".join(map(str, row)) or None}
    return {name: row.value if isinstance(row, Enum) else None if row == "" else row}


FORMAT = "leadline-figures/1"


def document(figures: StudyFigures, *, simulated: bool = False) -> dict[str, Any]:
    """The figures as JSON types (docs/concepts/study-a.md)."""
    return {"format": FORMAT, "simulated": simulated, "sentences": figures.sentences(), **plain(figures)}


def write(figures: StudyFigures, directory: Path, *, simulated: bool = False) -> list[Path]:
    """Write all files to the directory and return them. Raises OSError when it cannot be written."""
    directory.mkdir(parents=True, exist_ok=True)
    written = [write_csv(directory / f"{name}.csv", rows, simulated) for name, rows in tables(figures).items()]
    written += write_figures(directory, (marked(chart, simulated) for chart in charts(figures)))
    return [*written, write_json(directory / "figures.json", document(figures, simulated=simulated))]


_MOST = 12  # settings of a ranking shown from either end


def lines(figures: StudyFigures) -> list[str]:
    """Plain lines of text."""
    lines_: list[str] = []
    for title, block in (
        ("Throughput", _throughput(figures)),
        ("Best gain and worst loss", _gains(figures)),
        ("Failures", _failures(figures)),
        ("Sensitivity", _sensitivity(figures)),
        ("Ranking", _ranking(figures)),
        ("Grouping", [figures.grouping.sentence] if figures.grouping else []),
    ):
        if block:
            lines_ += [title, *(f"  {line}" for line in block), ""]
    lines_ += [f"Note: {note}" for note in figures.notes]
    for reason in dict.fromkeys(figures.missing.values()):
        names = [name for name, why in figures.missing.items() if why == reason]
        lines_.append(f"No {', '.join(names)}: {reason}.")
    return lines_


def _throughput(figures: StudyFigures) -> list[str]:
    return [figures.throughput.sentence] if figures.throughput else []


def _gains(figures: StudyFigures) -> list[str]:
    extremes = figures.extremes
    if extremes is None:
        return []
    rows = [("system", "best gain, %", "all settings", "worst loss, %", "all settings", "luck alone, %")]
    for row in extremes.rows:
        luck = f"{row.luck.expected_gain:.2f} (95 %: {row.luck.gain_95:.2f})" if row.luck else "–"
        rows.append(
            (
                *(row.system, f"{row.best:+.2f}", words.change_interval(row.best_interval)),
                *(f"{row.worst:+.2f}", words.change_interval(row.worst_interval), luck),
            )
        )
    if len(extremes.rows) > 1:
        mean = "–"
        if extremes.luck_mean is not None:
            mean = f"{extremes.luck_mean:.2f} (95 %: {words.number(extremes.luck_mean_95)})"
        rows.append(
            (
                *("mean", f"{extremes.mean_best:+.2f}", words.change_interval(extremes.best_interval)),
                *(f"{extremes.mean_worst:+.2f}", words.change_interval(extremes.worst_interval), mean),
            )
        )
    return [*words.aligned(rows), extremes.sentence]


def _failures(figures: StudyFigures) -> list[str]:
    failures = figures.failures
    if failures is None:
        return []
    rows = [("system", "runs", "failed", "between repeats, %", "from baseline, %")]
    rows += [
        (
            system.system,
            str(system.runs),
            str(system.failed),
            words.number(system.repeats),
            words.number(system.from_baseline),
        )
        for system in failures.systems
    ]
    return [*words.aligned(rows), failures.sentence]


def _sensitivity(figures: StudyFigures) -> list[str]:
    sensitivity = figures.sensitivity
    if sensitivity is None:
        return []
    rows = [("parameter", "plain formula", "without noise", "95 % interval", "p, adjusted")]
    rows += [
        (
            *(row.parameter, words.number(row.plain), words.number(row.corrected)),
            *(_interval(row.interval), words.probability(row.p_adjusted)),
        )
        for row in sensitivity.rows
    ]
    return [*words.aligned(rows), sensitivity.sentence]


def _ranking(figures: StudyFigures) -> list[str]:
    ranking = figures.ranking
    if ranking is None:
        return []
    rows = [("setting", "mean rank", "all settings", "by ranks", "model, %", "all settings", "by model")]
    rows_ = [*ranking.rows[:_MOST], *ranking.rows[max(_MOST, len(ranking.rows) - _MOST) :]]
    for row in rows_:
        model = row.model
        rows.append(
            (
                *(row.setting, f"{row.mean_rank:.1f}", _interval(row.interval), row.by_rank.value),
                words.signed(model.percent if model else None),
                *(words.change_interval(model.interval if model else None), row.by_model.value),
            )
        )
    left_out = (
        [f"{len(ranking.rows) - len(rows_)} settings between these are in the files."]
        if len(rows_) < len(ranking.rows)
        else []
    )
    return [*words.aligned(rows), *left_out, ranking.sentence]


def _interval(interval: Interval | None) -> str:
    return words.value_interval(interval) or "–"
