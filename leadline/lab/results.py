"""From a stored study to its conclusion: the trials' series are read, ``leadline.conclude`` does the rest."""

from __future__ import annotations

from leadline.conclude import Series, conclude
from leadline.conclude.disturbance import OtherPrograms
from leadline.lab.slotmeasure import slots_of
from leadline.model.record import StudyRecord
from leadline.model.result import StudyAnalysis
from leadline.observe.window import other_programs_between


def analysis_of(record: StudyRecord) -> StudyAnalysis:
    """The conclusion of what has been run so far."""
    return conclude(record, series_of(record))


def series_of(record: StudyRecord) -> Series:
    """What the conclusion needs of the files of a study's trials; what is missing there is left out."""
    done = [trial for trial in record.trials if trial.state == "done" and trial.directory is not None]
    others = {}
    for trial in done:
        if trial.directory is None or trial.phases is None:
            continue
        phases = trial.phases
        found = other_programs_between(trial.directory / "series", phases.steady_from, phases.steady_until)
        if found is not None:
            others[trial.id] = OtherPrograms(found.share, found.programs)
    return Series(slots_of(record), others)
