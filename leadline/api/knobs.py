"""Every knob of this host and of the programs, or those of one server or database."""

from __future__ import annotations

from leadline.places.knobs import asks_flags, every_knob, flags, knobs_of, knobs_of_stack, machine, present
from leadline.stack.servers.jvm import PREFIX as FLAGS

__all__ = ["FLAGS", "asks_flags", "every_knob", "flags", "knobs_of", "knobs_of_stack", "machine", "present"]
