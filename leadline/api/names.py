"""Names of a lab's studies for completion, read without the libraries of the lab, which take seconds to load."""

from __future__ import annotations

from leadline.store.labfile import SIMULATED
from leadline.store.names import names_in

__all__ = ["SIMULATED", "names_in"]
