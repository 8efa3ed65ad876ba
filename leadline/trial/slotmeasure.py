"""What the load did under each slot of a switchback trial: responses of its window, per-second series, a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from leadline.analysis.steady import steady_state, steady_verdict
from leadline.conclude.washout import SlotSeconds, settled_wash_out
from leadline.layouts import wash_out_of
from leadline.model.disturbance import MachineUse
from leadline.model.errors import Event, Evidence, FailureClass, TrialFailure, blamed
from leadline.model.record import WARMING, Phases, SlotRecord, StudyRecord, TrialRecord, TrialState
from leadline.model.result import SteadyState
from leadline.model.study import Study
from leadline.observe.table import read_series, schema
from leadline.store.lab import Store
from leadline.store.rows import SlotMeasured
from leadline.trial.measure import worst
from leadline.trial.slots import BROKEN, BegunSlot, SlotChanges
from leadline.trial.system import Recording, SecondSeries, Window, WindowMeasured

_LAST = 2.0  # seconds before a slot that tell whether it began healthy
_UNNOTICED = 0.05  # seconds of a measured second that may still have the old levels
_SERIES = "slots"  # series/slots.parquet: metric = response, subject = index of the slot


def measure_slots(
    changes: SlotChanges, recording: Recording, study: Study, directory: Path, phases: Phases
) -> tuple[SteadyState, Phases]:
    """Store every slot's responses and the per-second series; returns the verdict on the trial and its phases.

    The verdict is on the series with each treatment's own level taken out. Slots that begin in the detected warm-up
    are left out, and so are broken ones that began so: the slot that broke the system fails for them. A slot with too
    many errors, or without a transaction, fails as ``workload``.
    """
    wash_out = wash_out_of(study.design)
    series = recording.seconds(directory)
    begun = changes.begun
    _write_series(directory, series, begun)
    verdict = _verdict(series, begun)
    start = begun[0].due_ns / 1e9
    cut = verdict.cut or 0.0
    warming = {slot.slot.index: WARMING for slot in begun if slot.slot.begin < cut}
    _store(changes, recording, study, directory, wash_out, warming)
    return verdict, replace(phases, steady_from=start + cut, steady_until=begun[-1].end_ns / 1e9)


def measure_turn_slots(
    changes: SlotChanges,
    recording: Recording,
    study: Study,
    directory: Path,
    left_out: Mapping[int, str],
    beside: Sequence[Path],
) -> SteadyState:
    """Store every slot of an instance in a rotation; the verdict on its own seconds, with each treatment's own level
    taken out. ``left_out``: slot -> why it has no part in the analysis; ``beside``: directories of the other instances.
    """
    _store(changes, recording, study, directory, wash_out_of(study.design), left_out, beside)
    return _verdict(recording.seconds(directory), changes.begun)


def _store(
    changes: SlotChanges,
    recording: Recording,
    study: Study,
    directory: Path,
    wash_out: float,
    left_out: Mapping[int, str],
    beside: Sequence[Path] = (),
) -> None:
    windows = [
        _window(slot.due_ns / 1e9, slot.done.set_at_ns / 1e9 if slot.done else None, slot.end_ns / 1e9, wash_out)
        for slot in changes.begun
    ]
    measure_windows = recording.measure_windows(directory, windows)
    before = recording.measure_windows(directory, _before(changes.begun))
    limit = study.limits.errors
    wrong = [_wrong(measured, limit) for measured in measure_windows]
    broken = [slot.failure is not None or bool(why) for slot, why in zip(changes.begun, wrong, strict=True)]
    carried = carried_over(broken, [bool(_wrong(measured, limit)) for measured in before])
    machine = _machine(recording, directory, measure_windows, beside)
    findings = _restarts(changes)
    rows = []
    for at, (slot, measured, use) in enumerate(zip(changes.begun, measure_windows, machine, strict=True)):
        why = left_out.get(slot.slot.index, "")
        if slot.without:
            why = why or ("" if slot.failure else slot.without.why)
        elif at in findings:
            reason, restart = findings[at]
            if restart:
                changes.fail(slot, blamed(Evidence(Event.REFUSED), reason))
            else:
                why = why or reason
        elif at in carried:
            why = why or f"the system was not healthy at its start{_since(changes.begun, carried[at])}"
        elif wrong[at]:
            after = [later for later, origin in carried.items() if origin == at]
            beyond = f"; it broke the {len(after)} slots after it, too" if after else ""
            changes.fail(slot, blamed(Evidence(Event.WRONG), wrong[at] + beyond))
        window = measured.window
        rows.append(SlotMeasured(slot.slot.index, window.begin, window.end, measured.responses, why, use))
    changes.store.set_slots_measured(changes.trial, changes.attempt, rows)
    _check_survived(changes, carried, wrong)
    if len(carried) == len(changes.begun):
        raise blamed(Evidence(Event.WRONG), f"no slot counts: {wrong[0]}, before any level was changed")


def _check_survived(changes: SlotChanges, carried: Mapping[int, int | None], wrong: Sequence[str]) -> None:
    """Raises TrialFailure where a level broke the instance, which did not recover before the end."""
    last = len(changes.begun) - 1
    if last not in carried:
        return
    origin = carried[last] or 0
    after = [at for at in carried if at > origin and carried[at] == carried[last]]
    if sum(changes.begun[at].slot.seconds for at in after) >= BROKEN:
        changes.broke = changes.begun[origin]
        if failure := changes.blame(blamed(Evidence(Event.WRONG), wrong[origin] or wrong[last])):
            raise failure


def _restarts(changes: SlotChanges) -> dict[int, tuple[str, bool]]:
    """Slots after whose change the server started the application anew: what is told of it, and whether a level of the
    slot's own brought it about, rather than the way back from another's.
    """
    begun = changes.begun
    # What changed at another time, and nothing happened, is not to blame where something else changed with it.
    innocent = {name for slot in begun[1:] if not slot.restarted for name in changes.changed(slot)}
    restarts = {}
    for at, slot in enumerate(begun):
        if slot.restarted:
            names = changes.changed(slot)
            names = [name for name in names if name not in innocent] or names
            now = {name: slot.slot.treatment[name] for name in names}
            sentence = f"{changes.told(now)} restarts the application: not live here"
            restarts[at] = (sentence, any(level != changes.usual[name] for name, level in now.items()))
    return restarts


def carried_over(broken: Sequence[bool], unhealthy: Sequence[bool]) -> dict[int, int | None]:
    """Slots that are broken and began so, each with the slot that broke the system; None where it was before the first.
    ``unhealthy``: what came just before a slot was wrong. In the order of time.
    """
    carried: dict[int, int | None] = {}
    for at, (wrong, before) in enumerate(zip(broken, unhealthy, strict=True)):
        if wrong and before and (at == 0 or broken[at - 1]):
            carried[at] = carried.get(at - 1, at - 1) if at else None
    return carried


def _wrong(measured: WindowMeasured, limit: float) -> str:
    """Why a window does not count; empty where it does. ``limit``: share of transactions that may fail."""
    if not measured.responses:
        return measured.reason or "nothing was measured"
    errors = measured.responses.get("errors", 0.0)
    return f"{errors:.2%} of the transactions failed; the limit is {limit:.2%}" if errors > limit else ""


def _before(begun: Sequence[BegunSlot]) -> list[Window]:
    """The last seconds of what the instance was loaded with before each slot."""
    ends = [begun[0].due_ns / 1e9, *(slot.end_ns / 1e9 for slot in begun[:-1])] if begun else []
    return [Window(end - min(_LAST, slot.slot.seconds / 2), end) for slot, end in zip(begun, ends, strict=True)]


def _since(begun: Sequence[BegunSlot], origin: int | None) -> str:
    if origin is None:
        return ", before any level was changed"
    return f", since slot {begun[origin].slot.index + 1}"


def remeasure(store: Store, record: StudyRecord, recording: Recording, wash_out: float) -> None:
    """Measure the slots of all finished trials once more with another wash-out (seconds), from their files, and store
    that in place of what was there. Failures found before stay; trials measured with this wash-out are passed over.
    """
    for trial in record.trials:
        if trial.state != TrialState.DONE or not trial.slots or trial.directory is None:
            continue
        slots = [(slot, slot.due) for slot in trial.slots if slot.due is not None]
        windows = [_window(due, slot.set_at, due + slot.seconds, wash_out) for slot, due in slots]
        if all(_begins(window, slot) for window, (slot, _) in zip(windows, slots, strict=True)):
            continue
        rows = []
        measured = recording.measure_windows(trial.directory, windows)
        machine = _machine(recording, trial.directory, measured)
        for (slot, _), windows_, use in zip(slots, measured, machine, strict=True):
            begin, end = windows_.window.begin, windows_.window.end
            rows.append(SlotMeasured(slot.index, begin, end, windows_.responses, slot.left_out, use))
            if not windows_.responses and slot.failure is None and not slot.left_out:
                reason = windows_.reason or "nothing was measured"
                store.fail_slot(trial.id, trial.attempt, slot.index, TrialFailure(FailureClass.WORKLOAD, reason))
        store.set_slots_measured(trial.id, trial.attempt, rows)


def _machine(
    recording: Recording, directory: Path, found: Sequence[WindowMeasured], beside: Sequence[Path] = ()
) -> Sequence[MachineUse | None]:
    return recording.machine_use(directory, [[(window.window.begin, window.window.end)] for window in found], beside)


def slot_series(trial: TrialRecord) -> tuple[SlotSeconds, ...]:
    """Per-second values of every slot of a finished trial, from ``series/slots.parquet``; empty where there are none.

    Slots that failed or belong to the warm-up are left out.
    """
    path = trial.directory / "series" / f"{_SERIES}.parquet" if trial.directory else None
    if path is None or not path.exists():
        return ()
    table = read_series(path).pivot("metric", index=["subject", "time_ns"], values="value").sort("time_ns")
    names = [name for name in table.columns if name not in ("subject", "time_ns")]
    by_slot = table.partition_by("subject", as_dict=True)
    slots = []
    for slot in trial.slots:
        rows = by_slot.get((str(slot.index),))
        if rows is None or slot.failure or slot.left_out or slot.set_at is None:
            continue
        seconds = tuple(float(ns) / 1e9 - slot.set_at for ns in rows["time_ns"].to_list())
        values = {
            name: tuple(math.nan if value is None else float(value) for value in rows[name].to_list()) for name in names
        }
        slots.append(SlotSeconds(slot.index, seconds, values))
    return tuple(slots)


def _begins(window: Window, slot: SlotRecord) -> bool:
    """Whether a slot was measured from the first whole second of a window."""
    return slot.measured_from is not None and -1e-3 <= slot.measured_from - window.begin < 1 - 1e-3


def _window(due: float, set_at: float | None, end: float, wash_out: float) -> Window:
    """Half of the wash-out follows levels that came late, which shortens what is measured."""
    late = (set_at or due) - _UNNOTICED + wash_out / 2
    return Window(max(due + wash_out, late), end)


def _of_slots(series: SecondSeries, begun: Sequence[BegunSlot]) -> list[int | None]:
    """For each second the place in ``begun`` of the slot that holds it whole, from when its levels were in force."""
    places: list[int | None] = []
    at = 0
    for second in series.begins:
        while at < len(begun) and second >= begun[at].end_ns / 1e9 - 0.5:
            at += 1
        inside = False
        if at < len(begun):
            slot = begun[at]
            set_at = slot.done.set_at_ns if slot.done else slot.due_ns
            inside = second >= set_at / 1e9 - _UNNOTICED and second + 1 <= slot.end_ns / 1e9 + 0.001
        places.append(at if inside else None)
    return places


def _write_series(directory: Path, series: SecondSeries, begun: Sequence[BegunSlot]) -> None:
    rows: dict[str, list[object]] = {"time_ns": [], "metric": [], "subject": [], "value": []}
    owners = _of_slots(series, begun)
    for name, values in series.values.items():
        for begin, value, owner in zip(series.begins, values, owners, strict=True):
            if owner is not None and math.isfinite(value):
                rows["time_ns"].append(round(begin * 1e9))
                rows["metric"].append(name)
                rows["subject"].append(str(begun[owner].slot.index))
                rows["value"].append(value)
    path = directory / "series" / f"{_SERIES}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows, schema=schema()).write_parquet(path)


def _verdict(series: SecondSeries, begun: Sequence[BegunSlot]) -> SteadyState:
    """Steady or not, of the seconds of all slots after each treatment's median was taken out."""
    begins = np.asarray(series.begins, dtype=np.float64)
    due = np.array([slot.due_ns / 1e9 for slot in begun])
    ends = np.array([slot.end_ns / 1e9 for slot in begun])
    slots = np.maximum(np.searchsorted(due, begins + 0.001) - 1, 0)
    inside = (begins >= due[slots] - 0.001) & (begins + 1 <= ends[slots] + 0.001)
    keys = np.array([_in_force(slot) for slot in begun])
    levelled = {
        name: _levelled(series.values[name], inside, keys[slots[inside]]) for name in ("throughput", "mean", "p99")
    }
    return worst(
        steady_verdict(levelled["throughput"], levelled["p99"]),
        steady_state(levelled["mean"], higher_is_better=False),
    )


def _in_force(slot: BegunSlot) -> str:
    """Key of the levels that a slot had, its treatment's or others."""
    return slot.slot.treatment.key if slot.done is None or slot.done.matches else repr(slot.done.found)


def _levelled(every: Sequence[float], inside: np.ndarray, keys: np.ndarray) -> list[float]:
    """The seconds inside the slots with each treatment's median (``keys``, one a second) moved to that of all."""
    values = np.asarray(every, dtype=np.float64)[inside]
    whole = _median(values)
    for key in np.unique(keys):
        median = _median(values[keys == key])
        if median > 0 and whole > 0:
            values[keys == key] *= whole / median
    return [float(value) for value in values]


def _median(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else 0.0


def slots_of(record: StudyRecord) -> dict[int, tuple[SlotSeconds, ...]]:
    """The slots' seconds of the finished trials of a study, by trial."""
    return {trial.id: slot_series(trial) for trial in record.trials if trial.state == TrialState.DONE and trial.slots}


def settle(store: Store, study_id: int, recording: Recording) -> str:
    """At the end of a run: estimate the wash-out and measure every slot with it. Returns what was found in a sentence,
    empty for a study that has none to settle. Raises LeadlineError when a trial's files are gone.
    """
    record = store.load(study_id)
    settled = settled_wash_out(record, slots_of(record))
    if settled is None:
        return ""
    remeasure(store, record, recording, settled.seconds)
    return settled.sentence
