"""Which frames carry the difference between two kinds of recordings of a user's own."""

from __future__ import annotations

from leadline.observe.stacks import Kind
from leadline.report.explain import explain

__all__ = ["Kind", "explain"]
