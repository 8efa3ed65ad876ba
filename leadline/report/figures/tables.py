"""Study A's figures as tables: one for each figure, rows of plain values with a head."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leadline.figures.everything import StudyFigures
from leadline.figures.ranking import Ranking
from leadline.figures.sensitivity import Sensitivities
from leadline.model.result import Interval
from leadline.report.charts.theme import marked
from leadline.report.document import plain, with_simulated
from leadline.report.figures.charts import charts

Cell = str | int | float | bool | None
Table = list[list[Cell]]


def tables(figures: StudyFigures) -> Mapping[str, Table]:
    """File name (without ending) -> head and rows. None stands where there is no figure."""
    tables_: dict[str, Table] = {}
    if figures.throughput:
        tables_["throughput"] = _throughput(figures)
    if figures.extremes:
        tables_["gains"] = _gains(figures)
    if figures.failures:
        tables_["failures"] = _failures(figures)
    if figures.sensitivity:
        tables_["sensitivity"] = _sensitivity(figures.sensitivity)
        tables_["sensitivity_map"] = _map(figures.sensitivity)
    if figures.ranking:
        tables_["ranking"] = _ranking(figures.ranking)
        tables_["ranks"] = _ranks(figures.ranking)
    if figures.grouping:
        tables_["groups"] = [
            ["group", "parameters", "mean_sensitivity", "statistic", "p", "p_two_sided", "ways", "exact", "corrected"],
            *(
                [
                    *(group.name, " ".join(group.parameters), group.mean, figures.grouping.statistic),
                    *(figures.grouping.p_value, figures.grouping.p_two_sided),
                    *(figures.grouping.ways, figures.grouping.exact, figures.grouping.corrected),
                ]
                for group in figures.grouping.groups
            ),
        ]
    return tables_


def csv_text(table: Sequence[Sequence[Cell]]) -> str:
    """A table as CSV, empty where there is no figure."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([["" if c is None else c for c in row] for row in table])
    return out.getvalue()


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (interval.low, interval.high) if interval else (None, None)


def _throughput(figures: StudyFigures) -> Table:
    rows: Table = [["system", "setting", "mean", "low", "high", "runs", "unit"]]
    for system in figures.throughput.systems if figures.throughput else ():
        if system.baseline is not None:
            rows.append(
                [
                    system.system,
                    "baseline",
                    system.baseline,
                    *_ends(system.interval),
                    system.baseline_runs,
                    figures.unit,
                ]
            )
        rows += [[system.system, s.setting, s.mean, None, None, s.runs, figures.unit] for s in system.settings]
    return rows


def _gains(figures: StudyFigures) -> Table:
    extremes = figures.extremes
    rows: Table = [
        [
            *("system", "best_gain_pct", "low", "high", "setting", "worst_loss_pct", "low_loss", "high_loss"),
            *("setting_loss", "luck_mean_pct", "luck_95_pct", "reason"),
        ]
    ]
    if extremes is None:
        return rows
    for row in extremes.rows:
        rows.append(
            [
                *(row.system, row.best, *_ends(row.best_interval), row.best_setting or None),
                *(row.worst, *_ends(row.worst_interval), row.worst_setting or None),
                *((row.luck.expected_gain, row.luck.gain_95) if row.luck else (None, None)),
                row.reason or None,
            ]
        )
    rows.append(
        [
            *("mean", extremes.mean_best, *_ends(extremes.best_interval), None),
            *(
                extremes.mean_worst,
                *_ends(extremes.worst_interval),
                None,
                extremes.luck_mean,
                extremes.luck_mean_95,
                None,
            ),
        ]
    )
    return rows


def _failures(figures: StudyFigures) -> Table:
    failures = figures.failures
    classes = list(failures.classes) if failures else []
    rows: Table = [
        [
            *("system", "runs", "failed", "share_low", "share_high", "deviation_of_repeats_pct"),
            *("deviation_from_baseline_pct", *classes, "worst_settings"),
        ]
    ]
    for row in failures.systems if failures else ():
        rows.append(
            [
                *(row.system, row.runs, row.failed, *_ends(row.interval), row.repeats, row.from_baseline),
                *(row.classes.get(name, 0) for name in classes),
                " ".join(row.worst_settings) or None,
            ]
        )
    return rows


def _sensitivity(found: Sensitivities) -> Table:
    return [
        [
            *("parameter", "systems", "plain", "share", "corrected", "corrected_share", "low", "high", "p"),
            *("p_adjusted", "more_than_noise", "unit", "reason"),
        ],
        *(
            [
                *(row.parameter, row.systems, row.plain, row.share, row.corrected, row.corrected_share),
                *(*_ends(row.interval), row.p_value, row.p_adjusted, row.told, found.unit, row.reason or None),
            ]
            for row in found.rows
        ),
    ]


def _map(found: Sensitivities) -> Table:
    return [
        ["parameter", "system", "levels", "plain", "percent_of_baseline", "corrected", "low", "high", "p", "reason"],
        *(
            [
                *(cell.parameter, cell.system, cell.levels, cell.plain, cell.percent, cell.corrected),
                *(*_ends(cell.interval), cell.p_value, cell.reason or None),
            ]
            for cell in found.cells
        ),
    ]


def _ranking(found: Ranking) -> Table:
    rows: Table = [
        [
            *(
                "setting",
                "mean_rank",
                "low",
                "high",
                "lowest",
                "highest",
                "systems_above_middle",
                "systems",
                "failed_on",
            ),
            *("by_rank", "by_model", "agree", "model_pct", "model_low", "model_high", "model_p"),
            *("baseline_pct", "baseline_low", "baseline_high", "baseline_p"),
        ]
    ]
    for row in found.rows:
        contrasts: list[Cell] = []
        for ranks in (row.model, row.baseline):
            contrasts += [ranks.percent, *_ends(ranks.interval), ranks.p_adjusted] if ranks else [None] * 4
        rows.append(
            [
                *(row.setting, row.mean_rank, *_ends(row.interval), row.lowest_rank, row.highest_rank, row.above),
                *(row.systems, row.failed_on, row.by_rank.value, row.by_model.value, row.agree, *contrasts),
            ]
        )
    return rows


def _ranks(found: Ranking) -> Table:
    rows: Table = [["setting", *found.systems]]
    for place, row in enumerate(found.rows):
        rows.append([row.setting, *(ranks[place] for ranks in found.ranks)])
    return rows


FORMAT = "leadline-figures/1"


def document(figures: StudyFigures, *, simulated: bool = False) -> dict[str, Any]:
    """The figures as JSON types (docs/concepts/study-a.md)."""
    return {"format": FORMAT, "simulated": simulated, "sentences": figures.sentences(), **plain(figures)}


def write(figures: StudyFigures, directory: Path, *, simulated: bool = False) -> list[Path]:
    """Write all files to the directory and return them. Raises OSError when it cannot be written."""
    written: list[Path] = []

    def save(name: str, data: bytes) -> None:
        (directory / name).write_bytes(data)
        written.append(directory / name)

    directory.mkdir(parents=True, exist_ok=True)
    for name, table in tables(figures).items():
        save(f"{name}.csv", csv_text(with_simulated(table, simulated)).encode())
    for chart in (marked(chart, simulated) for chart in charts(figures)):
        save(f"{chart.name}.svg", chart.svg().encode())
        save(f"{chart.name}.png", chart.png())
    text = json.dumps(document(figures, simulated=simulated), indent=2, allow_nan=False)
    save("figures.json", f"{text}\n".encode())
    return written
