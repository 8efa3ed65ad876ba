"""Load drivers and the reading of their results."""
