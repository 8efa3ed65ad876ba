"""Scenarios from what other tools saved, and as scripts of other tools."""

from __future__ import annotations

from leadline.load.convert.sources import of_har, of_openapi, of_recording, recorder
from leadline.load.export.write import export_scenario
from leadline.load.record import Recorder

__all__ = ["Recorder", "export_scenario", "of_har", "of_openapi", "of_recording", "recorder"]
