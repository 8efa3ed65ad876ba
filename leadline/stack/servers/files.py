"""Texts of configuration files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_TEMPLATES = Path(__file__).parent / "templates"


def template(name: str) -> str:
    """A configuration file shipped with leadline."""
    return (_TEMPLATES / name).read_text()


def properties_text(values: Mapping[str, str]) -> str:
    """A Java properties file (UTF-8); backslashes and line ends escaped."""
    escaped = {key: value.replace("\\", "\\\\").replace("\n", "\\n") for key, value in values.items()}
    return "".join(f"{key}={value}\n" for key, value in escaped.items())
