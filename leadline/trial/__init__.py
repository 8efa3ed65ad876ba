"""The life cycle of a trial and its steps, and the run of all trials of a plan."""
