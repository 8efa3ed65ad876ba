"""What a guest sends: facts, files, its failure; and what its console tells of its kernel."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leadline.host import received
from leadline.model.errors import Event, Evidence, FailureClass, Memory, Part, TrialFailure, blamed

KILLED = re.compile(r"[Oo]ut of memory: Killed process (\d+) \((.+?)\)")
PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
UNPACKING = re.compile(r"Initramfs unpacking failed: (.*)")
_FILE = re.compile("([0-9]{1,12}) ([0-9a-f]{64})")  # bytes, SHA-256
_CONSOLE_LINES = 40  # of the evidence of a failure


@dataclass(frozen=True)
class Outcome:
    """What came out of a guest that powered off: ``files`` holds what its job put, by name."""

    files: Path
    facts: Mapping[str, str]
    console: Path
    wall_seconds: float


@dataclass
class Sent:
    """What came over the results' port so far. ``saved``: the save point; ``failed``: class and text."""

    facts: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    saved: str | None = None
    failed: TrialFailure | None = None
    finished: bool = False


def read_sent(raw: bytes) -> Sent:
    """The frames of ``job.sh``. Raises TrialFailure(infrastructure) where they are damaged."""
    sent, offset = Sent(), 0
    while offset < len(raw):
        end = raw.find(b"\n", offset)
        line = raw[offset : end if end >= 0 else len(raw)]
        offset += len(line) + 1
        match line.decode(errors="replace").split(" ", 2):
            case ["say", key, value]:
                sent.facts[key] = value.strip()
            case ["put", name, rest] if frame := _FILE.fullmatch(rest):
                content = raw[offset : offset + int(frame[1])]
                offset += int(frame[1])
                if hashlib.sha256(content).hexdigest() != frame[2] or not _is_path(name):
                    raise TrialFailure(FailureClass.INFRASTRUCTURE, f"the guest's file {name[:60]} arrived damaged")
                sent.files[name] = content
            case ["fail", given, text]:
                is_class = given in {kind.value for kind in FailureClass}
                kind = FailureClass(given) if is_class else FailureClass.CONFIGURATION
                sent.failed = TrialFailure(kind, text)
            case ["save", name]:
                sent.saved = name
            case ["finish"]:
                sent.finished = True
            case _:
                words = line[:80].decode(errors="replace")
                raise TrialFailure(FailureClass.INFRASTRUCTURE, f"the guest's results are damaged at {words!r}")
    return sent


def _is_path(name: str) -> bool:
    try:
        return bool(received.parts_of(name))
    except ValueError:
        return False


def write(sent: Sent, directory: Path) -> Path:
    """``facts.json`` and ``files/NAME``; returns the directory of the files."""
    files = directory / "files"
    files.mkdir(exist_ok=True)
    (directory / "facts.json").write_text(json.dumps(sent.facts, indent=1, sort_keys=True))
    for name, content in sent.files.items():
        with received.beneath(files, name, make=True) as file:
            file.write(content)
    return files


def tail(console: str) -> str:
    """The last lines, as evidence."""
    return "\n".join(console.splitlines()[-_CONSOLE_LINES:])


def kernel_failure(console: str) -> TrialFailure | None:
    """A process that the guest's kernel killed for want of memory, the kernel's own end, files that it has no room
    for.
    """
    if killed := KILLED.search(console):
        message = f"the guest ran out of memory: its kernel killed {killed[2]} (process {killed[1]})"
        return blamed(Evidence(Event.ENDED, Part.KERNEL, memory=Memory.OWN), message, tail(console))
    if panic := PANIC.search(console):
        sentence = f"the guest's kernel panicked: {panic[1].strip()}"
        return blamed(Evidence(Event.ENDED, Part.KERNEL), sentence, tail(console))
    if unpacking := UNPACKING.search(console):
        why = f"its initial file system could not be unpacked ({unpacking[1].strip()}): give `guest` more memory"
        return TrialFailure(FailureClass.CONFIGURATION, f"the guest has not all of its files: {why}", tail(console))
    return None
