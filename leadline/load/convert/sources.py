"""Scenarios from what other tools saved."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable
from pathlib import Path

from leadline.host.textfile import read_text
from leadline.load.convert.har import from_har
from leadline.load.convert.openapi import from_openapi
from leadline.load.convert.write import Draft, Names
from leadline.load.generators.base import split_url
from leadline.load.record import Recorder
from leadline.model.errors import UsageError, quoted

LARGEST_RECORDING = 256 * 1024**2  # bytes


def of_har(file: Path, resources: bool = False) -> str:
    """A scenario file from a HAR file; with images, styles and scripts if ``resources``. Raises UsageError."""
    return _converted(file, lambda text, name: from_har(text, name, resources))


def of_openapi(file: Path) -> str:
    """A scenario file from an OpenAPI description, JSON or YAML. Raises UsageError."""
    return _converted(file, from_openapi)


def recorder(url: str, port: int = 0, *, mine: bool = False) -> Recorder:
    """A proxy on the loopback that records what is asked of the server at ``url``. Raises UsageError for a server that
    is not on the loopback unless it is said to be the user's (``mine``), and for a port that is taken.
    """
    target = split_url(url)
    if target.scheme not in ("http", "https") or not target.hostname:
        raise UsageError(f"{quoted(url, 200)} is no server's address: write http://127.0.0.1:8080 or http://HOST/shop")
    if target.query or target.fragment or target.username:
        raise UsageError(
            f"{quoted(url, 200)}: write only the server and where the application begins: http://HOST/shop"
        )
    if not (mine or _is_loopback(target.hostname)):
        problem = "is not on the loopback: write --mine to say that the server is yours to ask"
        raise UsageError(f"{target.hostname} {problem}")
    try:
        return Recorder(target, port)
    except OSError as error:
        raise UsageError(f"--port {port}: {error.strerror}; leave --port out to take a free one") from None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def of_recording(recorded: Recorder, name: str, resources: bool = False) -> str:
    """A scenario file from what was recorded until now. Raises UsageError where that is nothing."""
    draft = from_har(json.dumps(recorded.archive()), Names().make(name, "scenario"), resources)
    notes = list(draft.notes)
    if recorded.root:
        notes[0] = notes[0].replace(recorded.origin, recorded.origin + recorded.root, 1)
    if recorded.outside:
        notes.append(f"{recorded.outside} requests beside {recorded.root} were left out.")
    if recorded.unkept:
        notes.append(f"{recorded.unkept} requests were left out, as the recording was full: record less at once.")
    return Draft(draft.scenario, notes).text()


def _converted(file: Path, convert: Callable[[str, str], Draft]) -> str:
    text = read_text(file, LARGEST_RECORDING)
    try:
        return convert(text, Names().make(file.stem, "scenario")).text()
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None
    except RecursionError:
        raise UsageError(f"{file}: nested too deeply") from None
