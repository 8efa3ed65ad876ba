"""What an application's own files say of it: ``application.properties`` and ``application.yml`` of Spring Boot and
Quarkus, in the archive and beside it, by profile. Both are foreign: bounded, and read as texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leadline.host.received import member, read, zipped
from leadline.model.errors import UsageError, quoted
from leadline.model.received import ReceivedError
from leadline.stack.own.artifact import Artifact

_LARGEST = 1 << 16  # bytes of a file
_MOST_FILES = 100
_MOST_LINES = 5_000
_DEEPEST = 8  # placeholders within placeholders
_NAME = re.compile(r"application(?:-([\w.-]+))?\.(properties|ya?ml)")
_NONE_ACTIVE = ("default", "prod")  # the profile of Spring Boot and of Quarkus where none is named
_NEVER = re.compile(r"(?!)")
_QUARKUS_PROFILE = re.compile(r"%(?:\{([\w,.-]+)\}|([\w-]+))\.(.+)")


@dataclass(frozen=True)
class Property:
    """A text, and where it is written: ``application.yml:3 in shop.jar``."""

    text: str
    where: str


@dataclass
class Properties:
    """``in_force``: by name in its hyphenated form; ``written``: those of every profile; ``offered``: profiles that the
    files have; ``problems``: what was not read, and why; ``beside``: folders with such files.
    """

    profiles: list[str]  # that are in force
    in_force: dict[str, Property] = field(default_factory=dict)
    written: list[tuple[str, Property]] = field(default_factory=list)
    offered: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    beside: list[Path] = field(default_factory=list)

    def text(self, name: str) -> str:
        """The value in force with its placeholders filled in; empty where there is none."""
        return self._filled(self.in_force[name].text, 0) if name in self.in_force else ""

    def first(self, *names: str) -> str:
        """The first of these properties that has a value; empty for none."""
        return next((name for name in names if self.text(name)), "")

    def _filled(self, text: str, depth: int) -> str:
        def value(match: re.Match[str]) -> str:
            name, colon, default = match[1].partition(":")
            there = self.in_force.get(canonical(name))
            return self._filled(there.text if there else default if colon else match[0], depth + 1)

        return re.sub(r"\$\{([^${}]+)\}", value, text) if depth < _DEEPEST else text


def canonical(name: str) -> str:
    """Boot's own form of a name: ``maximumPoolSize`` is ``maximum-pool-size``."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", name).lower().replace("_", "-")


def read_properties(artifact: Artifact, profile: str | None) -> Properties:
    """Of a jar of Spring Boot or a fast-jar of Quarkus; ``profile``: in place of what the files say is active."""
    quarkus = artifact.framework == "quarkus"
    problems: list[str] = []
    places = list(_places(artifact, problems))
    base = _of_profiles(places, [], quarkus)
    active = base.text("quarkus.profile" if quarkus else "spring.profiles.active")
    names = [*base.text("spring.profiles.include").split(","), *(profile or active or _NONE_ACTIVE[quarkus]).split(",")]
    properties = _of_profiles(places, [name.strip() for name in names if name.strip()], quarkus)
    properties.problems += problems
    return properties


def _of_profiles(places: list[_Place], profiles: list[str], quarkus: bool) -> Properties:
    properties = Properties(profiles)
    for place in places:
        properties.beside += [place.folder] if place.folder else []
        for name in sorted(place.files, key=lambda name: (_profile(name) != "", name.endswith(".properties"))):
            _add(properties, name, place, quarkus)
    return properties


@dataclass(frozen=True)
class _Place:
    files: Mapping[str, bytes]
    where: str
    folder: Path | None = None  # of files beside the archive


def _places(artifact: Artifact, problems: list[str]) -> Iterator[_Place]:
    """Those first that others override."""
    if artifact.framework == "quarkus":
        archives, below = sorted((artifact.file.parent / "app").glob("*.jar")), ("", "config/")
        folders = [artifact.file.parent.parent / "config", artifact.file.parent / "config"]
    else:
        archives, below = [artifact.file], ("BOOT-INF/classes/", "BOOT-INF/classes/config/")
        folders = [artifact.file.parent, artifact.file.parent / "config"]
    for path in archives[:_MOST_FILES]:
        try:
            with zipped(path, path.name) as archive:
                names = archive.namelist()
                for prefix in below:
                    inside = [
                        name for name in names if name.startswith(prefix) and _NAME.fullmatch(name[len(prefix) :])
                    ]
                    files = {name[len(prefix) :]: member(archive, name, _LARGEST) for name in inside[:_MOST_FILES]}
                    yield _Place(files, f"in {path.name}")
        except (ReceivedError, OSError) as error:
            problems.append(f"{error}: nothing of it is read")
    for folder in folders:
        files = {}
        for path in sorted(folder.glob("application*"))[:_MOST_FILES]:
            if _NAME.fullmatch(path.name):
                try:
                    files[path.name] = read(path, _LARGEST)
                except (ReceivedError, OSError) as error:
                    problems.append(f"{error}: nothing of it is read")
        if files:
            yield _Place(files, f"in {folder.name}/", folder)


def _profile(name: str) -> str:
    match = _NAME.fullmatch(name)
    return (match[1] or "") if match else ""


def _add(properties: Properties, name: str, place: _Place, quarkus: bool) -> None:
    """What one file says. A property with a profile before its name (Quarkus) overrides the plain one."""
    text, profile = place.files[name].decode("utf-8", "replace"), _profile(name)
    properties.offered |= {profile} if profile else set()
    try:
        for document in list(_yaml(text, name) if not name.endswith(".properties") else _lines(text)):
            condition = next((value for key, value, _ in document if canonical(key) in _CONDITIONS), "")
            holds = not profile or profile in properties.profiles
            if condition and not quarkus:
                properties.offered |= set(re.findall(r"[\w.-]+", condition))
                holds = holds and _holds(condition, properties.profiles)
            in_profile = _QUARKUS_PROFILE if quarkus else _NEVER
            for key, value, line in sorted(document, key=lambda entry: in_profile.fullmatch(entry[0]) is not None):
                match = in_profile.fullmatch(key)
                of, plain = (set((match[1] or match[2]).split(",")), match[3]) if match else (set(), key)
                properties.offered |= of
                entry = Property(value, f"{name}:{line} {place.where}")
                properties.written.append((plain, entry))
                if holds and (not match or of & set(properties.profiles)):
                    properties.in_force[canonical(plain)] = entry
    except UsageError as error:
        properties.problems.append(f"{error} ({place.where}): nothing of this file is read")


_CONDITIONS = ("spring.config.activate.on-profile", "spring.profiles")


def _holds(condition: str, profiles: list[str]) -> bool:
    """Of ``prod``, ``prod & cloud``, ``!test``, ``a, b``."""
    ways = [re.findall(r"!?\s*[\w.-]+", way) for way in re.split(r"[,|]", condition)]
    return any(all((word.strip("! ") in profiles) != word.startswith("!") for word in way) for way in ways)


Document = list[tuple[str, str, int]]  # name, text, line


def _lines(text: str) -> Iterator[Document]:
    """Documents of a file of properties, ``#---`` between them."""
    document: Document = []
    lines = enumerate(text.split("\n")[:_MOST_LINES], 1)
    for number, raw in lines:
        line = raw.strip()
        if line in ("#---", "!---"):
            yield document
            document = []
        if not line or line[0] in "#!":
            continue
        while len(line) - len(line.rstrip("\\")) & 1:
            line = line[:-1] + next(lines, (0, ""))[1].strip()
        match = re.match(r"((?:\\.|[^\\=:\s])*)\s*[=:\s]?\s*(.*)", line)
        assert match is not None
        plain = [re.sub(r"\\u([0-9a-fA-F]{4})", lambda code: chr(int(code[1], 16)), part) for part in match.groups()]
        name, value = (re.sub(r"\\(.)", r"\1", part) for part in plain)
        document.append((name, value, number))
    yield document


def _yaml(text: str, name: str) -> Iterator[Document]:
    """Documents of a YAML file. Raises UsageError with its line."""
    from leadline.model.yamltext import load_yaml  # no library of an agent's

    line = 0
    for part in re.split(r"(?m)^---[^\n]*$", text):
        tree = load_yaml("\n" * line + part, name)
        line += part.count("\n")
        if tree is not None and not isinstance(tree, Mapping):
            raise UsageError(f"{name}:{line}: {quoted(str(tree))} is no mapping")
        yield list(_flat(tree or {}, ""))


def _flat(tree: Any, above: str) -> Iterator[tuple[str, str, int]]:
    for key, value in tree.items():
        name = f"{above}.{key}" if above and not str(key).startswith("[") else f"{above}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, name)
            continue
        items = value if isinstance(value, list) else [value]
        plain = [str(item) for item in items if not isinstance(item, Mapping | list)]
        text = {"True": "true", "False": "false", "None": ""}.get(",".join(plain), ",".join(plain))
        yield name, text, (tree.lc.data or {}).get(key, [0])[0] + 1
