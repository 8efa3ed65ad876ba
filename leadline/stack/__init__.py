"""Stacks: how databases, servers and applications are provisioned, configured, started and read back."""
