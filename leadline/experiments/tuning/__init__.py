"""Runs a tuning: its file, each comparison as an ordinary study, the record that joins them."""

from __future__ import annotations
