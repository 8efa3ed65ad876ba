"""What a study will take and find, before it is run."""

from __future__ import annotations

from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned, cost, setup_for, worst_cost
from leadline.checks.subject import subject_of
from leadline.experiments.layouts import compare_layouts
from leadline.experiments.pilot import hosting_for, noise_for, overhead_for
from leadline.experiments.tuning.check import steps_left_out
from leadline.experiments.tuning.outline import Outline, outline
from leadline.experiments.twin import aa_twin
from leadline.load.scenario import sent_variables
from leadline.places.testbed import Testbed
from leadline.stack.registry import download_seconds, downloads
from leadline.trial.looks import check_looks
from leadline.trial.progress import Progress, Watcher, together, treatment_label

__all__ = [
    "Outline",
    "Planned",
    "Progress",
    "StudyFile",
    "Testbed",
    "Watcher",
    "aa_twin",
    "check_looks",
    "compare_layouts",
    "cost",
    "download_seconds",
    "downloads",
    "hosting_for",
    "noise_for",
    "outline",
    "overhead_for",
    "sent_variables",
    "setup_for",
    "steps_left_out",
    "subject_of",
    "together",
    "treatment_label",
    "worst_cost",
]
