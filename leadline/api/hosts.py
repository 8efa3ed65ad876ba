"""This host, or one over SSH: what it can do, and putting it back."""

from __future__ import annotations

from leadline.host.checks import HostFinding
from leadline.places.hosts import before_a_run, doctor, restore, today

__all__ = ["HostFinding", "before_a_run", "doctor", "restore", "today"]
