"""Printing for people and for machines."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console

console = Console()
errors = Console(stderr=True)


def print_json(document: Any) -> None:
    """One JSON document on standard output, nothing else."""
    json.dump(document, sys.stdout, indent=2, default=str, allow_nan=False)
    sys.stdout.write("\n")
