"""Files for other programs: tables as CSV, figures as PNG and SVG, the whole study as one JSON document."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from leadline.experiments.results import profiles_of
from leadline.model.disturbance import FIGURES, MachineUse
from leadline.model.errors import UsageError, nearest
from leadline.model.record import StudyRecord
from leadline.model.result import AtLeast, Effect, ResponseAnalysis, StudyAnalysis
from leadline.observe import stacks
from leadline.report import view, words
from leadline.report.charts.theme import Figure
from leadline.report.document import document, with_simulated
from leadline.report.view import View

FORMATS = ("csv", "png", "svg", "json", "folded", "pprof")


def check_formats(formats: Iterable[str]) -> list[str]:
    """Each format once. Raises UsageError for one that is not known."""
    wanted = list(dict.fromkeys(formats))
    for name in wanted:
        if name not in FORMATS:
            near = nearest(name, list(FORMATS))
            raise UsageError(f"unknown format {name!r}; " + (f"did you mean {near}?" if near else ", ".join(FORMATS)))
    return wanted


def export(record: StudyRecord, analysis: StudyAnalysis, out_dir: Path, formats: Iterable[str] = FORMATS) -> list[Path]:
    """Write the study to ``out_dir``; returns the files.

    ``csv``: trials.csv (a row a trial), effects.csv (a row an effect and response),
    interactions.csv (the same of pairs of levels, where the design has them), latency.csv (a row a treatment,
    transaction and percentile), readings.csv and, where trials have slots, slots.csv (a row a slot). ``json``:
    study.json (docs/reference/json.md). ``png`` and ``svg``: the figures. ``folded``, ``pprof``: the server's
    stacks of each setting, where profiles were taken.
    Raises UsageError for an unknown format, OSError when ``out_dir`` cannot be written.
    """
    wanted = check_formats(formats)
    out_dir.mkdir(parents=True, exist_ok=True)
    written = [write_json(out_dir / "study.json", document(record, analysis))] if "json" in wanted else []
    if {"folded", "pprof"} & set(wanted):
        written += _stacks(record, out_dir, wanted)
    if set(wanted) - {"json", "folded", "pprof"}:
        content = view.gather(record, analysis, figures=bool({"png", "svg"} & set(wanted)))
        if "csv" in wanted:
            written += [
                write_csv(out_dir / "trials.csv", _trials(content), analysis.simulated),
                write_csv(out_dir / "effects.csv", _effects(content, lambda one: one.effects), analysis.simulated),
                write_csv(out_dir / "latency.csv", _latency(content), analysis.simulated),
                write_csv(out_dir / "readings.csv", _readings(content), analysis.simulated),
            ]
            if any(response.interactions for response in analysis.responses):
                crossed = _effects(content, lambda one: one.interactions)
                written.append(write_csv(out_dir / "interactions.csv", crossed, analysis.simulated))
            if any(trial.slots for trial in record.trials):
                written.append(write_csv(out_dir / "slots.csv", _slots(content), analysis.simulated))
        written += write_figures(out_dir, content.figures(), wanted)
    return written


def _stacks(record: StudyRecord, out_dir: Path, formats: Sequence[str]) -> list[Path]:
    """``stacks-SETTING.folded``: lines of stack and CPU samples; ``stacks-SETTING.pb.gz``: the same for pprof."""
    profiles = profiles_of(record).profiles
    settings: dict[str, Counter[str]] = {}
    for trial in record.trials:
        for slot in (*trial.slots, None):
            treatment = slot.treatment if slot else trial.planned.treatment
            if profile := profiles.get((trial.id, slot.index if slot else None)):
                counts = settings.setdefault(words.treatment_text(record.study, record.plan, treatment), Counter())
                counts.update({stack: round(samples) for stack, samples in profile.items()})
    names = [re.sub(r"[^A-Za-z0-9._=-]+", "-", setting.replace(" = ", "=")) for setting in settings]
    paths = list[Path]()
    for name, counts in zip(names, settings.values(), strict=True):
        if "folded" in formats:
            paths.append(out_dir / f"stacks-{name}.folded")
            text = "".join(f"{stack} {count}\n" for stack, count in sorted(counts.items()))
            paths[-1].write_text(text, encoding="utf-8")
        if "pprof" in formats:
            paths.append(out_dir / f"stacks-{name}.pb.gz")
            rows = {stack: (count,) for stack, count in sorted(counts.items())}
            paths[-1].write_bytes(stacks.encode(rows, [("samples", "count")]))
    return paths


Cell = str | int | float | bool | None


def write_csv(path: Path, rows: Iterable[Sequence[Cell]], simulated: bool) -> Path:
    """A table with its head; nothing stands where there is no figure."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [["" if c is None else c for c in row] for row in with_simulated(rows, simulated)]
        )
    return path


def write_json(path: Path, document: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return path


def write_figures(folder: Path, figures: Iterable[Figure], formats: Collection[str] = ("svg", "png")) -> list[Path]:
    """The figures as those of ``formats`` that are pictures."""
    paths = list[Path]()
    for figure in figures:
        for ending in ("svg", "png"):
            if ending in formats:
                paths.append(folder / f"{figure.name}.{ending}")
                paths[-1].write_bytes(figure.png() if ending == "png" else figure.svg().encode())
    return paths


def _trials(content: View) -> Iterable[Sequence[Cell]]:
    record = content.record
    factors = [factor.name for factor in record.plan.factors]
    names = list(
        dict.fromkeys(
            [
                *(response.response for response in content.analysis.responses),
                *(name for trial in record.trials for name in trial.responses),
            ]
        )
    )
    head = ["trial", "position", "block", "replicate", "role", "treatment", "treatment_key", "seed"]
    tail = ["state", "attempt", "failure", "failure_message", "started", "ended", "steady_verdict", "warm_up_cut_s"]
    used = _machine(trial.machine for trial in record.trials)
    yield [*head, *factors, *tail, "audits_passed", "audits_failed", *names, *used, "others", "at_least"]
    for trial in record.trials:
        planned = trial.planned
        levels = planned.held().as_dict()
        passed = sum(audit.passed for audit in trial.audits)
        yield [
            trial.id,
            planned.position,
            planned.block,
            planned.replicate,
            planned.role.value,
            content.labels[trial.id],
            planned.treatment.key,
            planned.seed,
            *(words.level_text(record.study, name, levels[name]) if name in levels else None for name in factors),
            trial.state,
            trial.attempt,
            trial.failure.value if trial.failure else None,
            trial.failure_message or None,
            trial.started,
            trial.ended,
            trial.steady.verdict if trial.steady else None,
            trial.steady.cut if trial.steady else None,
            passed,
            len(trial.audits) - passed,
            *(None if trial.failure else trial.responses.get(name) for name in names),
            *_used(trial.machine, used),
            "; ".join(words.lower_bounds(trial.responses)) or None,
        ]


def _effects(content: View, chosen: Callable[[ResponseAnalysis], Sequence[Effect]]) -> Iterable[Sequence[Cell]]:
    yield [
        *("response", "unit", "factor", "level", "baseline", "verdict", "change_percent", "low_95", "high_95"),
        *("low_simultaneous", "high_simultaneous", "p", "p_adjusted", "trials", "failures", "reason"),
        *("baseline_mean", "baseline_low_95", "baseline_high_95", "baseline_trials", "luck_expected", "luck_95"),
        *("at_least", "baseline_at_least"),
    ]
    study = content.record.study
    for response in content.analysis.responses:
        for effect in chosen(response):
            plain, wide, base = effect.interval, effect.simultaneous, response.baseline_interval
            yield [
                *(response.response, words.kind_of(response.response).unit, effect.factor),
                words.level_text(study, effect.factor, effect.level),
                words.level_text(study, effect.factor, effect.baseline),
                *(effect.verdict.value, effect.percent),
                *((plain.low, plain.high) if plain else (None, None)),
                *((wide.low, wide.high) if wide else (None, None)),
                *(effect.p_value, effect.p_adjusted, effect.trials, effect.failures, effect.reason or None),
                response.baseline_mean,
                *((base.low, base.high) if base else (None, None)),
                response.baseline_trials,
                *((response.luck.expected_gain, response.luck.gain_95) if response.luck else (None, None)),
                *(isinstance(value, AtLeast) for value in (effect.percent, response.baseline_mean)),
            ]


def _latency(content: View) -> Iterable[Sequence[Cell]]:
    yield [
        *("treatment", "transaction", "kind", "percentile", "ms", "lowest_trial_ms", "highest_trial_ms"),
        *("trials", "transactions", "source", "at_least"),
    ]
    for row in content.latency.rows:
        source = "merged histograms" if row.merged else "median trial"
        for name, figure in row.figures.items():
            yield [
                *(row.treatment, row.transaction, row.kind, name, figure.value, figure.low, figure.high),
                *(row.trials, row.count, source, isinstance(figure.value, AtLeast)),
            ]


def _slots(content: View) -> Iterable[Sequence[Cell]]:
    record = content.record
    factors = [factor.name for factor in record.plan.factors]
    slots = [(trial, slot) for trial in record.trials for slot in trial.slots]
    names = list(dict.fromkeys(name for _, slot in slots for name in slot.responses))
    head = ["trial", "slot", "role", "begin_s", "seconds", "due", "set_from", "set_at", "matches"]
    used = _machine(slot.machine for _, slot in slots)
    tail = ["failure", "failure_message", "left_out", "measured_from", "measured_until"]
    yield [*head, *tail, *factors, *names, *used, "others", "at_least"]
    for trial, slot in slots:
        yield [
            *(trial.id, slot.index, slot.role.value, slot.begin, slot.seconds, slot.due, slot.set_from, slot.set_at),
            *(slot.matches, slot.failure.value if slot.failure else None, slot.failure_message or None),
            *(slot.left_out or None, slot.measured_from, slot.measured_until),
            *(words.level_text(record.study, name, slot.treatment[name]) for name in factors),
            *(None if slot.failure else slot.responses.get(name) for name in names),
            *_used(slot.machine, used),
            "; ".join(words.lower_bounds(slot.responses)) or None,
        ]


def _machine(uses: Iterable[MachineUse | None]) -> list[str]:
    """Names of the figures of the machine that were recorded."""
    names = {name for use in uses if use for name in use.figures}
    return [name for name in FIGURES if name in names]


def _used(use: MachineUse | None, names: Sequence[str]) -> list[Cell]:
    """Figures of the machine, and who used most with shares of all CPUs."""
    if use is None:
        return [None] * (len(names) + 1)
    programs = "; ".join(f"{name} {100 * share:.1f} %" for name, share in use.programs.items())
    return [*(use.figures.get(name) for name in names), programs or None]


def _readings(content: View) -> Iterable[Sequence[Cell]]:
    yield ["trial", "knob", "phase", "wanted", "found", "matches"]
    for trial in content.record.trials:
        for reading in trial.readings:
            yield [trial.id, reading.knob, reading.phase, reading.wanted, reading.found, reading.matches]
