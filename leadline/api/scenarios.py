"""Scenarios from what other tools saved, and as scripts of other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from leadline.host.textfile import read_text
from leadline.load.convert.har import from_har
from leadline.load.convert.openapi import from_openapi
from leadline.load.convert.write import Draft, Names
from leadline.load.export.write import export_scenario
from leadline.model.errors import UsageError

__all__ = ["export_scenario", "of_har", "of_openapi"]

LARGEST_RECORDING = 256 * 1024**2  # bytes


def of_har(file: Path, resources: bool = False) -> str:
    """A scenario file from a HAR file; with images, styles and scripts if ``resources``. Raises UsageError."""
    return _converted(file, lambda text, name: from_har(text, name, resources))


def of_openapi(file: Path) -> str:
    """A scenario file from an OpenAPI description, JSON or YAML. Raises UsageError."""
    return _converted(file, from_openapi)


def _converted(file: Path, convert: Callable[[str, str], Draft]) -> str:
    text = read_text(file, LARGEST_RECORDING)
    try:
        return convert(text, Names().make(file.stem, "scenario")).text()
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None
    except RecursionError:
        raise UsageError(f"{file}: nested too deeply") from None
