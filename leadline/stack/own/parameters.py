"""The parameters of an application of one's own (``app.`` knobs): how they are given at a start, changed, read back.

An application's own files say what they are: ``application.properties`` and ``application.yml`` of Spring Boot and
Quarkus, in the archive and beside it, by profile. Both are foreign: bounded, and read as texts.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from leadline.host import here
from leadline.host.files import listening, listens, variable
from leadline.host.java import AttachError, java_pid, jcmd
from leadline.host.received import member, read, zipped
from leadline.model.errors import Evidence, LeadlineError, TrialFailure, UsageError, nearest, quoted
from leadline.model.knob import Kind, Knob, Level
from leadline.model.ownparts import PREFIX, Live, OwnKnob, ReadBack, level_read, written
from leadline.model.ownstack import OwnFile, filled
from leadline.model.received import ReceivedError
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.own.application import fetched, picked
from leadline.stack.own.artifact import Artifact
from leadline.stack.own.words import Words, client_of, full, line_of
from leadline.stack.probe import Client, unreached
from leadline.stack.probe import ready as probed
from leadline.stack.servers.common import Answer, JavaServer
from leadline.stack.servers.files import LogEvidence

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


# Paths that say of many servers that they are up.
_USUAL = ("/health", "/actuator/health", "/q/health/ready", "/healthz", "/ready", "/ping", "/api", "/index.html", "/")
_SUCCESS = 200
_MOST_PORTS = 4


@dataclass(frozen=True)
class Catalogue:
    """``removed``: names that have no effect at a start, with what is told of them. ``free``: properties with names of
    the application's own below them; ``patterns``: names with a part of the application's own.
    """

    knobs: Mapping[str, Knob]
    removed: Mapping[str, str]
    free: frozenset[str]
    patterns: tuple[re.Pattern[str], ...] = ()

    def misspelt(self, property_name: str) -> str:
        """Why a property that is set elsewhere has no effect: it was removed, or another of its group is like it;
        empty where it may be the application's own.
        """
        name = canonical(property_name)
        if name in self.removed:
            return self.removed[name]
        group, _, last = name.rpartition(".")
        exists = PREFIX + name in self.knobs or any(name.startswith(f"{free}.") or name == free for free in self.free)
        exists = exists or any(pattern.fullmatch(property_name) for pattern in self.patterns)
        siblings = [
            sibling for knob in self.knobs for above, _, sibling in [knob.rpartition(".")] if above == PREFIX + group
        ]
        near = None if exists or not group else nearest(last, siblings)
        return f"there is no property {quoted(name)}; did you mean {group}.{near}?" if near else ""

    def misspelt_variable(self, variable: str) -> str:
        """The same of an environment variable that stands for a property: ``SERVER_TOMCAT_THREADS_MAX``. Only in groups
        of two words or more: others may be variables of the application's own.
        """
        squeezed = _squeezed(re.sub(r"_\d+(_.*)?$", "", variable))  # an entry of a list
        removed = next((sentence for name, sentence in self.removed.items() if _squeezed(name) == squeezed), "")
        knobs_squeezed = {_squeezed(name): name for name in (knob.removeprefix(PREFIX) for knob in self.knobs)}
        if removed or squeezed in knobs_squeezed or any(squeezed.startswith(_squeezed(name)) for name in self.free):
            return f"{variable}: {removed}" if removed else ""
        near = knobs_squeezed.get(nearest(squeezed, list(knobs_squeezed)) or "", "")
        group = near.rpartition(".")[0]
        if "." not in group or not squeezed.startswith(_squeezed(group)):
            return ""
        return f"there is no property of the variable {quoted(variable)}; did you mean that of {near}?"


def level_of(knob: Knob, told: object) -> Level:
    """The level from what a bean holds: durations in seconds, sizes in bytes. Raises LookupError."""
    if told is None:
        raise LookupError(f"{knob.name} has no value in the running application")
    try:
        if knob.kind is Kind.DURATION:
            return round(float(str(told)), 9)
        if knob.kind is Kind.SIZE:
            return int(str(told))
        return knob.parse(told)
    except ValueError as error:
        raise LookupError(f"{knob.name}: {error}") from error


def live_value(knob: Knob, level: Level) -> str:
    """A level as a setter of the running application takes it: durations in milliseconds."""
    if knob.kind is Kind.DURATION:
        return str(round(float(level) * 1000))
    return str(level).lower() if isinstance(level, bool) else str(level)


def _squeezed(name: str) -> str:
    """Letters and digits: alike for a property and for the ways to write its variable."""
    return re.sub(r"[^A-Z0-9]", "", name.upper())


_READY_AGAIN = 5.0  # seconds for one reading


class Parameters(JavaServer):
    """What runs an application of one's own, whose stack file says its knobs."""

    def __init__(self, own: OwnFile) -> None:
        super().__init__()
        self._own = own
        self._spec = own.content
        self._ports: dict[str, str] = {}
        self._ports_of: object = None

    def named_ports(self) -> Mapping[str, str]:
        """The ports of this start beside its own, by their placeholders; its own, and those of services before it."""
        names = self._spec.port_names
        if self._ports_of is not self._context:
            self._ports, self._ports_of = {}, self._context
        while len(self._ports) < len(names):
            port = str(self.context.host.free_port())
            if port not in (*self._ports.values(), str(self.context.http_port)):
                self._ports[names[len(self._ports)]] = port
        return {**self.context.ports, **self._ports, "port": str(self.context.http_port)}

    def _filled(self, text: str) -> str:
        values = {"address": self.context.http_address, "folder": str(Path(self._own.file).parent)}
        return filled(text, Words(self._own, {**values, **self.named_ports()}))

    def reachable(self) -> bool:
        """On the port that its stack file names; anywhere where another sign tells that it is up."""
        ready = self._spec.ready
        if ready.command or ready.log:
            return True
        port = ready.tcp or ready.port
        files, pids = self.context.host.files, self.process.pids()
        return listens(files, pids, int(self._filled(port))) if port else super().reachable()

    def client(self) -> Client:
        return super().client() if self._spec.tls is None else client_of(self._own, self.context.http_port, self.prompt)

    def not_ready(self) -> str:
        ready = self._spec.ready
        try:
            if ready.log is not None:
                return "" if re.search(ready.log, self.words(), re.MULTILINE) else f"no line fits {ready.log}"
            if ready.command:
                words = [self._filled(word) for word in full(self._own, ready.command)]
                done = here.run(words, timeout=self.prompt, cwd=Path(self._own.file).parent)
                last = f"{done.stdout}{done.stderr}".strip().splitlines()[-1:]
                return f"{words[0]} ended with exit code {done.returncode} {' '.join(last)}" if done.returncode else ""
            if ready.tcp is not None:
                return unreached("127.0.0.1", int(self._filled(ready.tcp)), self.prompt)
            client = self.client()
            if ready.port is not None:
                client = replace(client, port=int(self._filled(ready.port)))
                return probed(client, replace(self.context.application, context_root="/"))  # a port of its own
            return probed(client, self.context.application)
        except (OSError, OverflowError, ValueError) as error:
            return str(error)

    def other_sign(self) -> str:
        """What its stack file could say of a process that runs and is not ready; empty where nothing is seen."""
        ready, port = self._spec.ready, self.context.http_port
        ports = listening(self.context.host.files, self.process.pids())
        if ready.command or ready.log or ready.tcp or ready.port or not ports:
            return ""
        if port not in ports:
            numbers = " and ".join(map(str, sorted(ports)[:_MOST_PORTS]))
            key = f"port: {min(ports)}" if self.role == "server" else f"ready: {{ tcp: {min(ports)} }}"
            return f"; it listens on {numbers}: give it ${{port}} by its own option, or write `{key}`"
        answers = []
        for path in _USUAL:
            with suppress(OSError, ValueError):
                answers += [path] if self.client().get(self.context.application.path + path)[0] == _SUCCESS else []
        if answers:
            return f"; {answers[0]} answers 200: write `ready: {{ path: {answers[0]} }}`"
        return '; write at `ready` a path that it answers, as in `{ path: /health }`, or `{ tcp: "${port}" }`'

    def _failure(self, what: str, found: LogEvidence, why: Evidence) -> TrialFailure:
        failure = super()._failure(what, found, why)
        key = "port" if found.port_taken else "ready" if "not ready" in what else "war" if self._spec.war else "command"
        where = line_of(self._own, key) if self.role == "server" else line_of(self._own, "services", self.role)
        failure.message = f"{where}: {failure.message}"
        if "not ready" in what and "still at work" not in what and self.process.alive():
            failure.message += self.other_sign()
        return failure

    def _given(self, way: str) -> list[str]:
        """Words, or ``NAME=text``, for the levels of knobs that are set in this way."""
        words = []
        for name, knob in self._spec.own_knobs.items():
            form = getattr(knob, way)
            if form is not None and name in self._settings:
                form = form if "${level}" in form else f"{form}=${{level}}"
                words.append(form.replace("${level}", written(knob, self._settings[name])))
        return words

    def _own_changes(self, levels: Settings) -> dict[str, str]:
        """What the agent is told to bring live levels of the stack file's knobs about."""
        changes: dict[str, str] = {}
        for number, name in enumerate(name for name in levels if name in self._spec.own_knobs):
            knob = self._spec.own_knobs[name]
            assert knob.read_back is not None
            way, text = knob.read_back, written(knob, levels[name])
            changes[f"set.{number:03}"] = f"{way.jmx}|{way.attribute}|{text}"
            if isinstance(knob.live, Live):
                changes[f"invoke.{number:03}"] = f"{knob.live.invoke}|{knob.live.operation}"
        return changes

    def _own_level(self, name: str) -> Level:
        """The level in force of a knob of the stack file. Raises LookupError."""
        knob = self._spec.own_knobs[name]
        if not self.process.alive():
            raise LookupError(f"{self.title} is not running")
        assert knob.read_back is not None
        deadline = time.monotonic() + _READY_AGAIN
        while True:
            try:
                return self._level(name, knob, knob.read_back)
            except LookupError:
                if knob.read_back.way == "jcmd" or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)  # an MBean or a file may come with the first request

    def _level(self, name: str, knob: OwnKnob, way: ReadBack) -> Level:
        try:
            return level_read(knob, self._told(way))
        except (OSError, ValueError, LeadlineError) as error:
            raise LookupError(f"the level of {name} cannot be read by {way.way}: {error}") from error

    def _told(self, way: ReadBack) -> str:
        if way.jmx is not None:
            return self._attribute(way.jmx, way.attribute or "")
        if way.http is not None:
            base = f"http://127.0.0.1:{self.context.http_port}{self.context.application.path}"
            status, text = fetched(base, way.http, self.prompt, self._own)
            if status != 200:
                raise LookupError(f"{way.http} was answered by HTTP {status}")
            return picked(text, way.key) if way.key else _found(text, way)
        if way.jcmd is not None:
            return _found(self._asked_jcmd(way.jcmd), way)
        if way.environ is not None:
            return variable(self.context.host.files, self.process.pids(), way.environ)
        return _found((self.context.directory / (way.file or "")).read_text(errors="replace"), way)

    def _attribute(self, pattern: str, attribute: str) -> str:
        answer = self._ask({"bean.0": f"{pattern}|{attribute}"})
        values = [bean[attribute] for bean in answer["beans"].values() if attribute in bean]
        if not values:
            why = "".join(f": {error}" for error in answer["errors"].values())
            raise LookupError(f"there is no MBean {pattern} with {attribute}{why}")
        return str(values[0])

    def _asked_jcmd(self, command: str) -> str:
        context = self.context
        pid = java_pid(context.host.files, self.process)
        try:
            code, output = jcmd(context.host, context.java_home, pid, command.split())
        except AttachError as error:
            raise LookupError(str(error)) from error
        if code:
            raise LookupError(f"jcmd {command} ended with {code}: {output.strip().splitlines()[-1:]}")
        return output


def database_words(context: ServiceContext) -> dict[str, str]:
    """Placeholders of leadline's own database."""
    database = context.database
    if database is None:
        return {}
    named = {"jdbc": database.jdbc_url, "host": database.host, "port": database.port, "name": database.database}
    named |= {"user": database.user, "password": database.password}
    return {f"database.{name}": str(value) for name, value in named.items()}


def invoked(answer: Answer) -> bool:
    """Raises LookupError where an operation that should follow a level failed."""
    if answer["errors"]:
        raise LookupError("; ".join(f"{question}: {error}" for question, error in answer["errors"].items()))
    return True


def _found(text: str, way: ReadBack) -> str:
    """The level's text by ``key`` (a line ``key=value``) or ``pattern``; all of it without either."""
    if way.key is not None:
        pattern = rf"(?m)^\s*{re.escape(way.key)}\s*[=:]\s*(.*?)\s*$"
    elif way.pattern is not None:
        pattern = way.pattern
    else:
        return text
    match = re.search(pattern, text)
    if match is None:
        raise LookupError(f"{way.key or way.pattern} is not found in what it says: {text[:100]!r}")
    return match[1]
