"""Designs: pure functions from factors and a budget to a seeded, ordered plan."""
