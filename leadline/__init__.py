"""leadline: what the layers beneath a Java application do to it, measured by designed experiments.

The public names are those of ``leadline.api``; they are imported when they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leadline.api import (
        FailureClass,
        Lab,
        LeadlineError,
        RestoreError,
        Run,
        Study,
        StudyResult,
        TrialFailure,
        Tuning,
        TuningResult,
        UsageError,
        analyse,
        load_lab,
        open_testbed,
        plan,
        read,
        run,
    )

__version__ = "0.1.0"
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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'leadline' has no attribute {name!r}")
    from leadline import api

    return getattr(api, name)
