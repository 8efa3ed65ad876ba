"""Virtual time beside real time: `python -m bench.virtual NAME`."""
