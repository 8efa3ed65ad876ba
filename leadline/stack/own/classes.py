"""Which Java an artifact's own classes were compiled for."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from leadline.host import java
from leadline.model.errors import UsageError
from leadline.stack.own.artifact import read_artifact

_MAGIC = b"\xca\xfe\xba\xbe"
_FIRST = 44  # version of class files of Java 1.0; one more with each release
_WITHIN = {"spring-boot": "BOOT-INF/classes/", "war": "WEB-INF/classes/"}


def too_new(artifact: Path, home: Path) -> str:
    """Why the JVM of ``home`` cannot load an artifact; empty where it can, or where neither tells. Raises UsageError
    where ``home`` is none.
    """
    needed, home_ = java_of(artifact), java.java_home(home)
    if needed is None or needed <= home_.major:
        return ""
    newer = [f"{home.path} ({home.version})" for home in java.java_homes() if home.major >= needed]
    where = f"this host has {', '.join(newer)}" if newer else "this host has none"
    return (
        f"{artifact.name} needs Java {needed} (class file version {needed + _FIRST}), and {home_.path} is Java "
        f"{home_.major}: name the home of a newer one by `java`; {where}"
    )


def java_of(artifact: Path) -> int | None:
    """The newest Java that one of its own classes asks for; None where it has none that can be read."""
    with suppress(UsageError, OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return max(_versions(artifact), default=None)
    return None


def _versions(artifact: Path) -> Iterator[int]:
    artifact_ = read_artifact(artifact)
    if artifact_.framework == "quarkus":
        for jar in sorted((artifact_.file.parent / "app").glob("*.jar")):
            with zipfile.ZipFile(jar) as archive:
                yield from _in(archive, "")
        return
    with zipfile.ZipFile(artifact_.file) as archive:
        if within := _WITHIN.get(artifact_.framework):
            yield from _in(archive, within)
        else:  # others in it may be of libraries that are never loaded
            yield from _in(archive, f"{artifact_.main_class.replace('.', '/')}.class")


def _in(archive: zipfile.ZipFile, within: str) -> Iterator[int]:
    for name in archive.namelist():
        if name.startswith(within) and name.endswith(".class") and "META-INF/" not in name:
            with archive.open(name) as stream:
                head = stream.read(8)
            if head[:4] == _MAGIC and len(head) == 8:
                yield int.from_bytes(head[6:8]) - _FIRST
