"""MBeans in the agent's answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def beans(answer: Mapping[str, Any], part: str) -> list[Mapping[str, Any]]:
    """Attributes of the MBeans whose object name contains ``part``; KeyError if there is none."""
    attributes_found = [attributes for name, attributes in answer["beans"].items() if part in name]
    if not attributes_found:
        raise KeyError(f"MBean {part}")
    return attributes_found
