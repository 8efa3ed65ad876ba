"""Studies whose stack runs in guests: in virtual time, where every instruction counts the same, or in real time."""
