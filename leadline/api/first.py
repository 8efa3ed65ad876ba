"""A first study file from a few words."""

from __future__ import annotations

from leadline.experiments.first import FIRST_SERVERS, QUESTIONS, first_study

__all__ = ["FIRST_SERVERS", "QUESTIONS", "first_study"]
