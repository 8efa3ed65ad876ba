"""The lab: plans studies, runs trials, stores everything."""
