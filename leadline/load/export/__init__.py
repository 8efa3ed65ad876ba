"""Scenarios as scripts of other load generators."""
