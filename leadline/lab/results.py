"""From a stored study to its conclusion: the trials' series are read, ``leadline.conclude`` does the rest."""

from __future__ import annotations

from leadline.conclude import Series, conclude
from leadline.conclude.disturbance import OtherPrograms
from leadline.lab.slotmeasure import slots_of
from leadline.model.record import StudyRecord, TrialState
from leadline.model.result import StudyAnalysis
from leadline.observe.window import other_programs


def analysis_of(record: StudyRecord) -> StudyAnalysis:
    """The conclusion of what has been run so far."""
    return conclude(record, series_of(record))


def series_of(record: StudyRecord) -> Series:
    """What the conclusion needs of the files of a study's trials; what is missing there is left out."""
    return Series(slots_of(record), other_programs_of(record))


def other_programs_of(record: StudyRecord) -> dict[int, OtherPrograms]:
    """CPU that others used in the steady states, by trial, where an observer recorded it."""
    others = {}
    for trial in record.trials:
        if trial.state != TrialState.DONE or trial.directory is None or trial.phases is None:
            continue
        found = other_programs(trial.directory / "series", trial.under_load)
        if found is not None:
            others[trial.id] = OtherPrograms(found.share, found.programs)
    return others
