"""How often a gate alarms, on a recording of two sides that are the same."""
