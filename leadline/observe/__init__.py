"""Observers: what records a layer during a trial."""
