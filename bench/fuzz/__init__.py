"""Fuzzing of everything leadline reads: `python -m bench.fuzz study --minutes 60` (docs/fuzzing.md)."""
