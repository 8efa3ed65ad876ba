"""What a file to be converted is, told by its content."""

from __future__ import annotations

import re
from pathlib import Path

from leadline.load.convert.har import from_har
from leadline.load.convert.log import from_log, is_log
from leadline.load.convert.openapi import from_openapi
from leadline.load.convert.write import Draft, converted
from leadline.load.convert.written import from_curl, from_http, from_postman
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
    if re.search(r"""^[ \t{]*["']?(openapi|swagger)["']?\s*:""", head, re.MULTILINE):
        return from_openapi(text, name, folder)
    if re.match(r"\{", head) and re.search(r'"item"\s*:', head) and re.search(r'"info"\s*:', head):
        return from_postman(text, name, resources)
    if re.search(r"\A(?:#[^\n]*\n\s*)*curl\s", head):
        return from_curl(text, name, resources)
    if re.search(r"^(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)\s+(?:https?://|\{\{|/)", head, re.MULTILINE):
        return from_http(text, name, resources)
    if is_log(head):
        return from_log(text, name, resources)
    raise UsageError(
        "it is none of these: HAR, OpenAPI, Postman collection, curl commands (copied for bash), .http file, access log"
    )
