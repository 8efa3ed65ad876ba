"""What a tuning found: bars before and after, a waterfall of the steps, interactions; page, text and JSON."""

from __future__ import annotations
