"""Load without a study: leadline-load alone, several in step, the highest load that keeps limits, other generators."""

from __future__ import annotations

from pathlib import Path

from leadline.load.against import (
    LoadChange,
    LoadComparison,
    MeasuredLoad,
    compare,
    comparison_document,
    read_load,
    run_alternately,
)
from leadline.load.cluster.command import check as check_drivers
from leadline.load.cluster.command import read_drivers
from leadline.load.cluster.command import run as run_together
from leadline.load.command import OUT, check_bounds, judge, of_url, option_value, run_scenario, scenario_schema
from leadline.load.generators.base import Job
from leadline.load.generators.run import Plan, run_generator
from leadline.load.knee import Found, LoadLimits, LoadStep, Range, steps_at_most
from leadline.load.knee_run import find_knee, knee_document
from leadline.load.presets import find_preset, preset_options
from leadline.load.result import read_document, read_summary
from leadline.load.within import Bound, read_bound

__all__ = [
    "OUT",
    "Bound",
    "Found",
    "Job",
    "LoadChange",
    "LoadComparison",
    "LoadLimits",
    "LoadStep",
    "MeasuredLoad",
    "Plan",
    "Range",
    "check_bounds",
    "check_drivers",
    "compare",
    "comparison_document",
    "find_knee",
    "find_preset",
    "judge",
    "knee_document",
    "load_page",
    "of_url",
    "option_value",
    "preset_options",
    "read_bound",
    "read_document",
    "read_drivers",
    "read_load",
    "read_summary",
    "run_alternately",
    "run_generator",
    "run_scenario",
    "run_together",
    "scenario_schema",
    "steps_at_most",
]


def load_page(directory: Path, out: Path) -> Path:
    """Write the report of the load in ``directory``: one HTML file. Raises UsageError where there is none, OSError."""
    from leadline.api.results import kept_parts
    from leadline.report.load_page import build_load

    return build_load(directory, out, kept_parts())
