"""A stack without a study: up, left running, down."""

from __future__ import annotations

from leadline.places.running import RunningStack, choice_of, settings_of, start, stop
from leadline.stack.registry import DATABASES, SERVERS

__all__ = ["DATABASES", "SERVERS", "RunningStack", "choice_of", "settings_of", "start", "stop"]
