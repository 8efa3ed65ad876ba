"""Study A's figures in the terminal: the sentences, and the tables people compare with the paper."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.figures.everything import StudyFigures
from leadline.model.result import Interval
from leadline.report import words

_MOST = 12  # settings of a ranking shown from either end


def lines(figures: StudyFigures) -> list[str]:
    """Plain lines of text."""
    found: list[str] = []
    for title, block in (
        ("Throughput", _throughput(figures)),
        ("Best gain and worst loss", _gains(figures)),
        ("Failures", _failures(figures)),
        ("Sensitivity", _sensitivity(figures)),
        ("Ranking", _ranking(figures)),
        ("Grouping", [figures.grouping.sentence] if figures.grouping else []),
    ):
        if block:
            found += [title, *(f"  {line}" for line in block), ""]
    found += [f"Note: {note}" for note in figures.notes]
    for reason in dict.fromkeys(figures.missing.values()):
        names = [name for name, why in figures.missing.items() if why == reason]
        found.append(f"No {', '.join(names)}: {reason}.")
    return found


def _throughput(figures: StudyFigures) -> list[str]:
    return [figures.throughput.sentence] if figures.throughput else []


def _gains(figures: StudyFigures) -> list[str]:
    found = figures.extremes
    if found is None:
        return []
    rows = [("system", "best gain, %", "all settings", "worst loss, %", "all settings", "luck alone, %")]
    for row in found.rows:
        luck = f"{row.luck.expected_gain:.2f} (95 %: {row.luck.gain_95:.2f})" if row.luck else "–"
        rows.append(
            (
                *(row.system, f"{row.best:+.2f}", words.change_interval(row.best_interval)),
                *(f"{row.worst:+.2f}", words.change_interval(row.worst_interval), luck),
            )
        )
    if len(found.rows) > 1:
        mean = "–"
        if found.luck_mean is not None:
            mean = f"{found.luck_mean:.2f} (95 %: {words.number(found.luck_mean_95)})"
        rows.append(
            (
                *("mean", f"{found.mean_best:+.2f}", words.change_interval(found.best_interval)),
                *(f"{found.mean_worst:+.2f}", words.change_interval(found.worst_interval), mean),
            )
        )
    return [*aligned(rows), found.sentence]


def _failures(figures: StudyFigures) -> list[str]:
    found = figures.failures
    if found is None:
        return []
    rows = [("system", "runs", "failed", "between repeats, %", "from baseline, %")]
    rows += [
        (one.system, str(one.runs), str(one.failed), words.number(one.repeats), words.number(one.from_baseline))
        for one in found.systems
    ]
    return [*aligned(rows), found.sentence]


def _sensitivity(figures: StudyFigures) -> list[str]:
    found = figures.sensitivity
    if found is None:
        return []
    rows = [("parameter", "plain formula", "without noise", "95 % interval", "p, adjusted")]
    rows += [
        (
            *(row.parameter, words.number(row.plain), words.number(row.corrected)),
            *(_interval(row.interval), words.probability(row.p_adjusted)),
        )
        for row in found.rows
    ]
    return [*aligned(rows), found.sentence]


def _ranking(figures: StudyFigures) -> list[str]:
    found = figures.ranking
    if found is None:
        return []
    rows = [("setting", "mean rank", "all settings", "by ranks", "model, %", "all settings", "by model")]
    shown = [*found.rows[:_MOST], *found.rows[max(_MOST, len(found.rows) - _MOST) :]]
    for row in shown:
        model = row.model
        rows.append(
            (
                *(row.setting, f"{row.mean_rank:.1f}", _interval(row.interval), row.by_rank.value),
                words.signed(model.percent if model else None),
                *(words.change_interval(model.interval if model else None), row.by_model.value),
            )
        )
    left = (
        [f"{len(found.rows) - len(shown)} settings between these are in the files."]
        if len(shown) < len(found.rows)
        else []
    )
    return [*aligned(rows), *left, found.sentence]


def _interval(interval: Interval | None) -> str:
    return words.value_interval(interval) or "–"


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of a table: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
