"""What a study will take and find, before it is run."""

from __future__ import annotations

from leadline.lab.layouts import compare_layouts
from leadline.lab.looking import check_looks
from leadline.lab.pilot import hosting_for, noise_for, overhead_for
from leadline.lab.planning import Planned, cost, setup_for, worst_cost
from leadline.lab.progress import Progress, Watcher, together, treatment_label
from leadline.lab.studyfile import StudyFile
from leadline.lab.subject import subject_of
from leadline.lab.testbed import Testbed
from leadline.lab.tuning.check import steps_left_out
from leadline.lab.tuning.outline import Outline, outline
from leadline.lab.twin import aa_twin
from leadline.load.scenario import sent_variables
from leadline.stack.downloads import download_seconds, downloads

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
