"""The public names, listed here alone: ``import leadline`` has them."""

from __future__ import annotations

from leadline.api.results import Lab, StudyResult, TuningResult, analyse, load_lab
from leadline.api.running import Run, open_testbed, plan, run
from leadline.api.studies import Study, Tuning, read
from leadline.model.errors import FailureClass, LeadlineError, RestoreError, TrialFailure, UsageError

__all__ = [
    "FailureClass",
    "Lab",
    "LeadlineError",
    "RestoreError",
    "Run",
    "Study",
    "StudyResult",
    "TrialFailure",
    "Tuning",
    "TuningResult",
    "UsageError",
    "analyse",
    "load_lab",
    "open_testbed",
    "plan",
    "read",
    "run",
]
