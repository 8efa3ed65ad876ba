"""Scenarios from what other tools saved."""

from __future__ import annotations

from leadline.load.convert.sources import of_har, of_openapi, of_recording, recorder
from leadline.load.record import Recorder

__all__ = ["Recorder", "of_har", "of_openapi", "of_recording", "recorder"]
