"""What is sent to another host so that leadline's agent runs there: the package, and the libraries it imports."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path

import leadline
from leadline.host.java import agent_jar
from leadline.host.received import packed
from leadline.model.errors import LeadlineError
from leadline.stack.applications.java import JavaApplication
from leadline.stack.registry import APPLICATIONS

# Distributions that the modules of the agent and of the stack import; what plans, analyses and reports stays here.
LIBRARIES = ("cryptography", "pg8000", "pydantic", "pymysql")
_PACKAGE = Path(leadline.__file__).resolve().parent
_LEFT_OUT = ("__pycache__", "_bin", "_java")
_NAME = re.compile(r"[\w.-]+")
_SUFFIXES = (".pyc", ".pyo")


@dataclass(frozen=True)
class Bundle:
    """Files by their path in it. ``digest`` names its contents, and this Python, whose compiled modules it holds."""

    files: tuple[tuple[str, Path], ...]
    digest: str

    @cached_property
    def packed(self) -> bytes:
        """As a tar archive, not compressed: most of it is compiled, and ssh is faster than a compressor."""
        return packed(dict(self.files))


def bundle() -> Bundle:
    """What would be sent now. Raises LeadlineError where a library is missing here."""
    files = tuple(sorted([*_package(), *_java(), *_libraries()]))
    total = hashlib.sha256(f"{sys.version_info[:2]} {sys.platform}".encode())
    for name, path in files:
        stat = path.stat()
        total.update(f"{name}\0{_digest(path, stat.st_size, stat.st_mtime_ns)}\n".encode())
    return Bundle(files, total.hexdigest()[:32])


@cache
def _digest(path: Path, size: int, changed_ns: int) -> str:  # noqa: ARG001 - a new file is read again
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _package() -> Iterator[tuple[str, Path]]:
    for path in _PACKAGE.rglob("*"):
        parts = path.relative_to(_PACKAGE).parts
        if path.is_file() and not set(parts) & set(_LEFT_OUT) and path.suffix not in _SUFFIXES:
            yield "/".join(("leadline", *parts)), path


def _java() -> Iterator[tuple[str, Path]]:
    """What is built of the applications and of the agent inside JVMs."""
    java_apps = [app for make in APPLICATIONS.values() if isinstance(app := make(), JavaApplication)]
    built = [path for app in java_apps for path in (*app.archives(), app.tools())]
    with suppress(LeadlineError):  # whoever needs it builds it first
        built.append(agent_jar())
    for path in built:
        if path.is_file():
            yield f"leadline/_java/{path.name}", path


def _libraries() -> Iterator[tuple[str, Path]]:
    """Of ``LIBRARIES`` and of what they require."""
    wanted, seen_names = list(LIBRARIES), set[str]()
    while wanted:
        library = wanted.pop()
        if library in seen_names:
            continue
        seen_names.add(library)
        try:
            distribution = metadata.distribution(library)
        except metadata.PackageNotFoundError:
            if library in LIBRARIES:
                raise LeadlineError(f"the library {library} is not installed here, so it cannot be sent") from None
            continue  # required on other systems only
        required = (line for line in distribution.requires or () if "extra ==" not in line)
        wanted += [name[0] for line in required if (name := _NAME.match(line))]
        for file in distribution.files or ():
            path = Path(str(file.locate()))
            if ".." not in file.parts and "__pycache__" not in file.parts and path.is_file():
                yield str(file), path
