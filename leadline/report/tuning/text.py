"""A tuning in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.conclude.answer import SIMULATED
from leadline.conclude.over_modes import OverModes
from leadline.experiments.tuning.part import SKIPPED
from leadline.model.result import Interaction, Verdict
from leadline.planning.sequence import Decision
from leadline.report import words
from leadline.report.tuning.view import TuningView, change_text


def lines(view: TuningView) -> list[str]:
    """Plain lines of text, each one line whatever a server said."""
    tuning = view.record.tuning
    stack = tuning.stack
    studies = f"{len(view.studies)} {'study' if len(view.studies) == 1 else 'studies'}"
    lines_ = [
        _line(view.answer),
        f"{SIMULATED if view.simulated else ''}Tuning {tuning.tuning}@{view.record.id}: {_line(tuning.question)}",
        f"{stack.title}, modes {', '.join(tuning.modes)}; "
        f"{view.done} of {words.plural(view.trials, 'trial')} done in {studies}",
    ]
    for mode in tuning.modes:
        lines_ += ["", f"{mode}: steps in order, change of {view.response} against the best so far"]
        decisions = [decision for decision in view.progress.of(mode) if decision.reason != SKIPPED]
        lines_ += _aligned([_HEAD, *(_row(decision) for decision in decisions)])
    if view.over_modes:
        heading = f"Every step over its modes, change of {view.response} against the best so far; {OVER_ALL}"
        lines_ += ["", heading]
        columns = ("step", "setting", "over modes", "95 % interval", "all steps", *tuning.modes)
        lines_ += _aligned([columns, *(_averaged(row, tuning.modes) for row in view.over_modes)])
    if view.progress.comparison is not None:
        lines_ += ["", f"Untuned against tuned, {view.response}, trials of their own; intervals of all lines together"]
        rows: list[tuple[str, ...]] = [
            ("configuration", f"against {view.progress.comparison.reference} untuned", "step", "gain")
        ]
        for rung in view.progress.comparison.rungs:
            gain = view.progress.comparison.gains.get(rung.mode) if rung.name.endswith(" tuned") else None
            relative = change_text(rung.relative) if rung.relative else "reference"
            rows.append((rung.name, relative, change_text(rung.change), change_text(gain)))
        lines_ += _aligned(rows)
        if len(tuning.responses) > 1 and view.progress.comparison.gains:
            lines_ += ["", "Tuned against untuned, every response; intervals of all modes together"]
            modes = list(view.progress.comparison.gains)
            gains = [(name, *(change_text(by_mode[mode]) for mode in modes)) for name, by_mode in view.gains.items()]
            lines_ += _aligned([("response", *modes), *gains])
    for factorial in view.progress.factorials:
        lines_ += ["", f"{factorial.mode}: the steps as factors of a {factorial.plan.kind} design, {view.response}"]
        effects: list[tuple[str, ...]] = [("effect", "change", "95 % interval", "all comparisons", "verdict")]
        effects += [
            (
                *(effect.factor, f"{words.signed(effect.percent)} %", words.change_interval(effect.interval)),
                *(words.change_interval(effect.simultaneous), effect.verdict.value),
            )
            for effect in factorial.analysis.effects
        ]
        lines_ += _aligned(effects)
        if factorial.analysis.interactions:
            lines_ += ["", f"{factorial.mode}: how far two steps together differ from what each alone would give"]
            head = ("pair", "beyond each alone", "95 % interval", "all pairs", "distinguishable")
            lines_ += _aligned([head, *(_pair(pair) for pair in factorial.analysis.interactions)])
    lines_.append("")
    lines_ += [f"Failed, {count} times, first in {study}: {_line(text)}" for text, count, study in view.failures]
    lines_ += [f"Note: {_line(note)}" for note in (*view.warnings, *view.notes)]
    lines_.append("Studies: " + ", ".join(f"{name}@{number}" for name, number in view.studies))
    return lines_


OVER_ALL = "modes with the interval of all steps"
_HEAD = ("step", "setting", "tried", "fresh trials", "kept")


def _pair(pair: Interaction) -> tuple[str, ...]:
    decided = pair.verdict in (Verdict.BETTER, Verdict.WORSE)
    intervals = words.change_interval(pair.interval), words.change_interval(pair.simultaneous)
    return (
        f"{pair.factors[0]} with {pair.factors[1]}",
        f"{words.signed(pair.percent)} %",
        *intervals,
        "yes" if decided else "no",
    )


def _row(one: Decision) -> tuple[str, ...]:
    kept_text = "yes" if one.kept else f"no: {_line(one.reason)}"
    return one.step, _line(one.setting), change_text(one.change), change_text(one.confirmed), kept_text


def _averaged(one: OverModes, modes: Sequence[str]) -> tuple[str, ...]:
    by_mode = [change_text(one.by_mode.get(mode)) for mode in modes]
    change = one.change
    percent = "–" if change.percent is None else f"{words.signed(change.percent)} %"
    intervals = words.change_interval(change.interval), words.change_interval(change.simultaneous)
    return one.step, _line(one.setting), percent, *intervals, *by_mode


def _line(text: str) -> str:
    """One line without control characters: what a server said must not steer the terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
