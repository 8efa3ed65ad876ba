"""Fuzzing of everything leadline reads: `python -m bench.fuzz study --minutes 60` (docs/guides/fuzzing.md)."""
