"""Stack files: a first one from a jar, and a check that starts the application once."""

from __future__ import annotations

from leadline.experiments.stackfiles import CheckStep, check, first

__all__ = ["CheckStep", "check", "first"]
