"""Statistics of a study: effects, intervals, luck, drift, steady state. No I/O."""
