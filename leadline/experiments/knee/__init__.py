"""The largest load at which a study's system keeps its limits: whole trials, steps, bisection, an interval."""

from __future__ import annotations
