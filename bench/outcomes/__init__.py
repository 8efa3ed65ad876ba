"""Is every transaction that was due in a window in its figures, once? Real loads of a server that misbehaves."""
