"""What a file to be converted is, told by its content."""

from __future__ import annotations

import re
from pathlib import Path

from leadline.load.convert.har import from_har
from leadline.load.convert.openapi import from_openapi
from leadline.load.convert.write import Draft, converted
from leadline.model.errors import UsageError

_HEAD = 1 << 20  # characters by which a file is recognised


def of_file(file: Path, resources: bool = False) -> Draft:
    """A scenario from a file of any format that is read here; images, styles and scripts only with ``resources``.
    Raises UsageError with the file.
    """
    return converted(file, lambda text, name: _converted(text, name, resources, file.parent))


def _converted(text: str, name: str, resources: bool, folder: Path) -> Draft:
    head = text[:_HEAD].removeprefix("\ufeff").lstrip()
    if re.match(r'\{\s*"log"\s*:', head) or re.search(r'"entries"\s*:', head):
        return from_har(text, name, resources)
    if re.search(r"""^[\s{]*["']?(openapi|swagger)["']?\s*:""", head, re.MULTILINE):
        return from_openapi(text, name, folder)
    raise UsageError("neither a HAR file (`log`) nor an OpenAPI description (`openapi`, `swagger`)")
