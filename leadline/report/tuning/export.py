"""A tuning in the terminal, and its files for other programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from leadline.analysis.contrasts import Change
from leadline.conclude.answer import SIMULATED
from leadline.conclude.tuning import OverModes
from leadline.experiments.tuning import SKIPPED
from leadline.model.result import Interaction, Verdict
from leadline.planning.sequence import Decision
from leadline.report import words
from leadline.report.document import plain
from leadline.report.export import Cell, check_formats, write_csv, write_figures, write_json
from leadline.report.text import one_line
from leadline.report.tuning.page import figures
from leadline.report.tuning.view import TuningView, change_text

FORMAT = "leadline-tuning/1"


def document(view: TuningView) -> dict[str, Any]:
    """Everything that was decided and measured; only JSON types, no NaN. The trials are in the studies it names."""
    record, progress = view.record, view.progress
    return {
        "format": FORMAT,
        "simulated": view.simulated,
        "id": record.id,
        "tuning": record.tuning.model_dump(mode="json"),
        "document": record.document,
        "created": record.created,
        "finished": record.finished,
        "left_out": dict(record.left_out),
        "passed_over": list(record.passed_over),
        "environment": dict(view.environment),
        "studies": [{"study": name, "id": number} for name, number in view.studies],
        "trials": view.trials,
        "done": view.done,
        "failures": [{"failure": text, "trials": count, "first": first} for text, count, first in view.failures],
        "response": view.response,
        "decisions": [plain(decision) for decision in progress.decisions],
        "kept": plain(progress.kept),
        "comparison": plain(progress.comparison),
        "gains": {response: plain(by_mode) for response, by_mode in view.gains.items()},
        "over_modes": {response: [plain(row) for row in rows] for response, rows in view.averages.items()},
        "measured": [plain(measurement) for measurement in view.measured],
        "waterfall": {mode: [plain(bar) for bar in bars] for mode, bars in view.bars.items()},
        "steps_together": plain(view.sums),
        "factorials": [
            {"mode": factorial.mode, "kind": factorial.plan.kind, "analysis": plain(factorial.analysis)}
            for factorial in progress.factorials
        ],
        "next": None if progress.next is None else progress.next.key,
        "notes": list(view.notes),
        "answer": view.answer,
    }


_CHANGE = ("percent", "low", "high", "simultaneous_low", "simultaneous_high", "p", "p_adjusted", "trials", "failures")


def export(view: TuningView, out_dir: Path, formats: Iterable[str]) -> list[Path]:
    """Write to ``out_dir``; returns the files.

    ``csv``: steps.csv (a row a step, mode, candidate and response, and one for a confirmation), over_modes.csv (a row a
    step, candidate and response, where there are several modes), comparison.csv (a row a difference). ``json``:
    tuning.json. ``png`` and ``svg``: the figures. Raises UsageError for an unknown format, OSError when ``out_dir``
    cannot be written.
    """
    wanted = check_formats(formats)
    out_dir.mkdir(parents=True, exist_ok=True)
    written = [write_json(out_dir / "tuning.json", document(view))] if "json" in wanted else []
    if "csv" in wanted:
        tables = {"steps": _steps(view), "over_modes": _over_modes(view), "comparison": _comparison(view)}
        names = [name for name in tables if name != "over_modes" or view.averages]
        written += [write_csv(out_dir / f"{name}.csv", tables[name], view.simulated) for name in names]
    drawn = figures(view).values() if {"svg", "png"} & set(wanted) else ()
    return written + write_figures(out_dir, drawn, wanted)


def _cells(change: Change | None) -> list[Cell]:
    if change is None:
        return [None] * len(_CHANGE)
    plain, wide = change.interval, change.simultaneous
    bounds = [end for of in (plain, wide) for end in ((of.low, of.high) if of else (None, None))]
    return [change.percent, *bounds, change.p_value, change.p_adjusted, change.trials, change.failures]


def _steps(view: TuningView) -> list[list[Cell]]:
    rows: list[list[Cell]] = [["mode", "step", "candidate", "trials_of", "response", *_CHANGE, "kept", "reason"]]
    for decision in view.progress.decisions:
        for number, change in enumerate(decision.tried, 1):
            chosen = number == decision.candidate
            kept_cells: list[Cell] = [decision.kept and chosen, decision.reason if number == decision.best else ""]
            rows.append([decision.mode, decision.step, number, "step", view.response, *_cells(change), *kept_cells])
            for response, by_step in view.tried.items():
                if response != view.response:
                    rows.append(
                        [
                            decision.mode,
                            decision.step,
                            number,
                            "step",
                            response,
                            *_cells(by_step[decision.step, decision.mode, number]),
                            *kept_cells,
                        ]
                    )
            if chosen and decision.confirmed is not None:
                confirmed = _cells(decision.confirmed)
                rows.append(
                    [decision.mode, decision.step, number, "confirmation", view.response, *confirmed, *kept_cells]
                )
    return rows


def _over_modes(view: TuningView) -> list[list[Cell]]:
    rows: list[list[Cell]] = [["step", "candidate", "modes", "response", *_CHANGE]]
    for response, steps in view.averages.items():
        rows += [[step.step, step.candidate, " ".join(step.modes), response, *_cells(step.change)] for step in steps]
    return rows


def _comparison(view: TuningView) -> list[list[Cell]]:
    """A row for each configuration and each it is compared with, once: the first mode's own untuned one is the
    reference of all. Responses after the first have one for each mode: tuned against untuned.
    """
    rows: list[list[Cell]] = [["mode", "configuration", "steps", "against", "response", *_CHANGE]]
    comparison = view.progress.comparison
    for rung in comparison.rungs if comparison else ():
        assert comparison is not None
        gain = comparison.gains.get(rung.mode) if rung.name.endswith(" tuned") else None
        changes = {
            f"{comparison.reference} untuned": rung.relative,
            "the one before": rung.change,
            **({f"{rung.mode} untuned": gain} if gain is not None else {}),
        }
        for against, change in changes.items():
            if change is not None:
                rows.append([rung.mode, rung.name, " ".join(rung.steps), against, view.response, *_cells(change)])
        for response, by_mode in view.gains.items() if gain is not None else ():
            if response != view.response:
                row = [rung.mode, rung.name, " ".join(rung.steps), f"{rung.mode} untuned", response]
                rows.append([*row, *_cells(by_mode[rung.mode])])
    return rows


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    return words.aligned(rows, range(len(rows[0])), "  ")


def lines(view: TuningView) -> list[str]:
    """Plain lines of text, each one line whatever a server said."""
    tuning = view.record.tuning
    stack = tuning.stack
    studies = f"{len(view.studies)} {'study' if len(view.studies) == 1 else 'studies'}"
    lines_ = [
        one_line(view.answer),
        f"{SIMULATED if view.simulated else ''}Tuning {tuning.tuning}@{view.record.id}: {one_line(tuning.question)}",
        f"{stack.title}, modes {', '.join(tuning.modes)}; "
        f"{view.done} of {words.plural(view.trials, 'trial')} done in {studies}",
    ]
    for mode in tuning.modes:
        lines_ += ["", f"{mode}: steps in order, change of {view.response} against the best so far"]
        decisions = [decision for decision in view.progress.of(mode) if decision.reason != SKIPPED]
        lines_ += _table([_HEAD, *(_row(decision) for decision in decisions)])
    if view.over_modes:
        heading = f"Every step over its modes, change of {view.response} against the best so far; {OVER_ALL}"
        lines_ += ["", heading]
        columns = ("step", "setting", "over modes", "95 % interval", "all steps", *tuning.modes)
        lines_ += _table([columns, *(_averaged(row, tuning.modes) for row in view.over_modes)])
    if view.progress.comparison is not None:
        lines_ += ["", f"Untuned against tuned, {view.response}, trials of their own; intervals of all lines together"]
        rows: list[tuple[str, ...]] = [
            ("configuration", f"against {view.progress.comparison.reference} untuned", "step", "gain")
        ]
        for rung in view.progress.comparison.rungs:
            gain = view.progress.comparison.gains.get(rung.mode) if rung.name.endswith(" tuned") else None
            relative = change_text(rung.relative) if rung.relative else "reference"
            rows.append((rung.name, relative, change_text(rung.change), change_text(gain)))
        lines_ += _table(rows)
        if len(tuning.responses) > 1 and view.progress.comparison.gains:
            lines_ += ["", "Tuned against untuned, every response; intervals of all modes together"]
            modes = list(view.progress.comparison.gains)
            gains = [(name, *(change_text(by_mode[mode]) for mode in modes)) for name, by_mode in view.gains.items()]
            lines_ += _table([("response", *modes), *gains])
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
        lines_ += _table(effects)
        if factorial.analysis.interactions:
            lines_ += ["", f"{factorial.mode}: how far two steps together differ from what each alone would give"]
            head = ("pair", "beyond each alone", "95 % interval", "all pairs", "distinguishable")
            lines_ += _table([head, *(_pair(pair) for pair in factorial.analysis.interactions)])
    lines_.append("")
    lines_ += [f"Failed, {count} times, first in {study}: {one_line(text)}" for text, count, study in view.failures]
    lines_ += [f"Note: {one_line(note)}" for note in (*view.warnings, *view.notes)]
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
    kept_text = "yes" if one.kept else f"no: {one_line(one.reason)}"
    return one.step, one_line(one.setting), change_text(one.change), change_text(one.confirmed), kept_text


def _averaged(one: OverModes, modes: Sequence[str]) -> tuple[str, ...]:
    by_mode = [change_text(one.by_mode.get(mode)) for mode in modes]
    change = one.change
    percent = "–" if change.percent is None else f"{words.signed(change.percent)} %"
    intervals = words.change_interval(change.interval), words.change_interval(change.simultaneous)
    return one.step, one_line(one.setting), percent, *intervals, *by_mode
