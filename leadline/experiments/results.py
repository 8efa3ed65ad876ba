"""From a stored study to its conclusion: the trials' series are read, ``leadline.conclude`` does the rest."""

from __future__ import annotations

from leadline.conclude import Series, conclude
from leadline.model.record import StudyRecord
from leadline.model.result import StudyAnalysis
from leadline.trial.slotmeasure import slots_of


def analysis_of(record: StudyRecord) -> StudyAnalysis:
    """The conclusion of what has been run so far."""
    return conclude(record, Series(slots_of(record)))
