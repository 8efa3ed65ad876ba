"""Runs a bisection: its changes, each probe as an ordinary study, what the probes say together."""

from __future__ import annotations
