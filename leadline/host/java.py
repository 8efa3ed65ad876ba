"""Java homes on this host."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from leadline.host import privilege
from leadline.model.errors import UsageError

_PATIENCE = 120.0  # seconds for a JVM to say its version beside whatever else runs


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
    if java := shutil.which("java"):
        yield Path(java).resolve().parent.parent
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
            done = java_says(home)
        except OSError:
            return ""
        match = re.search(r'version "([^"]+)"', done.stderr)
    return match[1] if match else ""


def java_says(home: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """What ``java OPTIONS -version`` prints. Raises OSError, TimeoutError among them, UsageError."""
    try:
        return privilege.run([str(home / "bin" / "java"), *options, "-version"], [home], timeout=_PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"{home} does not answer within {_PATIENCE:g} s") from error


def java_homes(folder: Path = Path("/usr/lib/jvm")) -> list[JavaHome]:
    """Of JAVA_HOME, the PATH and ``folder``, in this order, each once."""
    homes: dict[Path, JavaHome] = {}
    for path in _candidates(folder):
        home = path.resolve()
        if home in homes or not (home / "bin" / "java").is_file():
            continue
        version = _version(home)
        numbers = re.findall(r"\d+", version)
        if not numbers:
            continue
        homes[home] = JavaHome(home, version, _major(numbers), (home / "bin" / "javac").exists())
    return list(homes.values())


def java_home(path: Path) -> JavaHome:
    """The Java home ``path``. Raises UsageError where none is."""
    numbers = re.findall(r"\d+", _version(path)) if (path / "bin" / "java").is_file() else []
    if not numbers:
        raise UsageError(f"no JDK in {path}: {path / 'bin' / 'java'} is not there or tells no version")
    return JavaHome(path, _version(path), _major(numbers), (path / "bin" / "javac").exists())


def _major(numbers: list[str]) -> int:
    return int(numbers[1]) if numbers[0] == "1" and len(numbers) > 1 else int(numbers[0])


def find_java(minimum: int = 17, folder: Path = Path("/usr/lib/jvm"), newest: int | None = None) -> Path:
    """The first JDK from version ``minimum`` to ``newest``. Raises UsageError saying which were found."""
    homes = java_homes(folder)
    for home in homes:
        if minimum <= home.major <= (newest or home.major) and home.jdk:
            return home.path
    have = ", ".join(f"{home.path} ({home.version}{'' if home.jdk else ', no compiler'})" for home in homes)
    wanted = f"{minimum} to {newest}" if newest else f"{minimum} or newer"
    versions = f"found only {have}" if have else "no Java found"
    raise UsageError(f"no JDK {wanted}: {versions}; install one and set JAVA_HOME to it")
