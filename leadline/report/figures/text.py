"""Study A's figures in the terminal: the sentences, and the tables people compare with the paper."""

from __future__ import annotations

from leadline.figures.everything import StudyFigures
from leadline.model.result import Interval
from leadline.report import words

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
