"""Java homes on this host."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from leadline.model.errors import UsageError


@dataclass(frozen=True)
class JavaHome:
    """``major``: 17, 21, 25; ``jdk``: whether it has the compiler and tools."""

    path: Path
    version: str
    major: int
    jdk: bool


def _candidates(folder: Path) -> Iterator[Path]:
    if named := os.environ.get("JAVA_HOME"):
        yield Path(named)
    if found := shutil.which("java"):
        yield Path(found).resolve().parent.parent
    if folder.is_dir():
        yield from sorted(path for path in folder.iterdir() if path.is_dir())


def _version(home: Path) -> str:
    """As its ``release`` file says, or the program itself; empty when neither does."""
    try:
        match = re.search(r'^JAVA_VERSION="([^"]+)"', (home / "release").read_text(), re.MULTILINE)
    except OSError:
        match = None
    if match is None:
        try:
            done = subprocess.run(
                [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        match = re.search(r'version "([^"]+)"', done.stderr)
    return match[1] if match else ""


def java_homes(folder: Path = Path("/usr/lib/jvm")) -> list[JavaHome]:
    """Of JAVA_HOME, the PATH and ``folder``, in this order, each once."""
    found: dict[Path, JavaHome] = {}
    for path in _candidates(folder):
        home = path.resolve()
        if home in found or not (home / "bin" / "java").is_file():
            continue
        version = _version(home)
        numbers = re.findall(r"\d+", version)
        if not numbers:
            continue
        major = int(numbers[1]) if numbers[0] == "1" and len(numbers) > 1 else int(numbers[0])
        found[home] = JavaHome(home, version, major, (home / "bin" / "javac").exists())
    return list(found.values())


def find_java(minimum: int = 17, folder: Path = Path("/usr/lib/jvm")) -> Path:
    """The first JDK of at least this version. Raises UsageError saying which were found."""
    homes = java_homes(folder)
    for home in homes:
        if home.major >= minimum and home.jdk:
            return home.path
    have = ", ".join(f"{home.path} ({home.version}{'' if home.jdk else ', no compiler'})" for home in homes)
    raise UsageError(
        f"no JDK {minimum} or newer: {'found only ' + have if have else 'no Java found'};"
        f" install one and set JAVA_HOME to it"
    )
