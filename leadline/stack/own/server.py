"""The command of a stack file as a service: started in the foreground, its levels given and read back."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Protocol

from leadline.host.base import PROC, Process
from leadline.host.java import agent_jar
from leadline.model.errors import Evidence, TrialFailure, UsageError
from leadline.model.knob import ApplyCost, Kind, Knob, Level, Owner
from leadline.model.ownparts import PREFIX, knob_of
from leadline.model.ownstack import BUILD, OwnFile, OwnStack, filled
from leadline.model.study import Placement
from leadline.stack.base import Feature, Progress, ServiceContext, Settings
from leadline.stack.own import quarkus, spring
from leadline.stack.own.application import OwnApplication
from leadline.stack.own.parameters import Catalogue, Parameters, database_words, invoked, live_value
from leadline.stack.own.words import Words, artifact, beside, full, joined, line_of
from leadline.stack.servers import jvm
from leadline.stack.servers.common import Answer
from leadline.stack.servers.files import LogEvidence, ensure_agent


class Framework(Protocol):
    """``OPTION``: before ``NAME=VALUE``; ``--`` is a word at the end of the command, ``-D`` an option of the JVM."""

    @property
    def OPTION(self) -> str: ...  # noqa: N802 - a constant of a module
    def catalogue(self, artifact: Path) -> Catalogue:
        """Raises UsageError."""

    def value(self, knob: Knob, level: Level) -> str:
        """A level as the framework takes it at a start."""

    def level_of(self, knob: Knob, told: object) -> Level:
        """The level from what the agent read. Raises LookupError."""


_PATIENCE = 4.0  # times the limit of an unknown application's start on an unknown machine, while it is at work
_UNWRITABLE = re.compile(r"read-?only ?file ?system|permission denied|AccessDeniedException", re.IGNORECASE)
FRAMEWORKS: Mapping[str, Framework] = {"spring-boot": spring, "quarkus": quarkus}


def catalogue(own: OwnFile) -> Catalogue:
    """The properties of a stack file's artifact; nothing where it names no catalogue. Raises UsageError."""
    name = own.content.catalogue
    return FRAMEWORKS[name].catalogue(artifact(own)) if name else Catalogue({}, {}, frozenset())


_LAST = 3  # lines of its log that a failure quotes


class CommandServer(Parameters):
    """A program of any kind; what a JVM has besides (its knobs, the agent, its GC log) where it is one."""

    name: ClassVar[str] = "command"
    title: ClassVar[str] = "the application"
    features: ClassVar[frozenset[Feature]] = frozenset({Feature.SERVLETS})

    @property
    def version(self) -> str:
        """The command line of the stack file."""
        return shlex.join(self._spec.words)

    def knobs(self) -> Sequence[Knob]:
        knobs = [knob_of(name, knob) for name, knob in self._spec.own_knobs.items()]
        return [*knobs, *builds(self._spec), *self._properties.values(), *(self.jvm.knobs() if self._spec.jvm else ())]

    @property
    def _build(self) -> OwnStack:
        """The stack file, as the build says that is started."""
        return self._spec.of_build(self._settings.get(BUILD))

    @property
    def _properties(self) -> Mapping[str, Knob]:
        """Knobs from the artifact's own metadata, those left out that the stack file declares."""
        knobs = catalogue(self._own).knobs
        return {name: knob for name, knob in knobs.items() if name not in self._spec.own_knobs}

    def provision(self, progress: Progress) -> None:
        if self._spec.jvm:
            ensure_agent(progress)

    # a start -------------------------------------------------------------------------------------------------

    def configure(self, context: ServiceContext, settings: Settings) -> None:
        names = {knob.name for knob in self.knobs()}
        if unknown := [name for name in settings if name not in names]:
            raise UsageError(f"{self.title} has no knob {unknown[0]}; it has {', '.join(sorted(names))}")
        if context.directory.exists():
            shutil.rmtree(context.directory)
        self._context, self._settings = context, dict(settings)
        self.write_configuration(context, settings)
        exchange = self._exchange(context)
        for path in (self.own_artefacts(context), exchange, *([context.raw] if context.raw is not None else [])):
            path.mkdir(parents=True, exist_ok=True)
        for path in (exchange, *([context.raw] if context.raw is not None else [])):
            path.chmod(path.stat().st_mode | 0o011)

    def write_configuration(self, context: ServiceContext, settings: Settings) -> None:
        """A copy of the stack file's directory: what the application writes there goes with it."""
        del settings
        context.directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._build.directory is None:
            context.directory.mkdir(mode=0o700)
        else:
            shutil.copytree(beside(self._own, self._build.directory), context.directory, symlinks=True)

    def command(self, context: ServiceContext) -> tuple[list[str], dict[str, str]]:
        options = self._options(context) if self._spec.jvm else []
        arguments = [*self._given("argument"), *self._assigned("--")]
        java = self.java_home(context) / "bin" / "java" if self._spec.jvm else None
        values = {
            **self.named_ports(),
            "address": context.http_address,
            "folder": str(Path(self._own.file).parent),
            "directory": str(context.directory),
            "java": str(java or "java"),
            "jvm": joined(options),
            "args": joined(arguments),
            **database_words(context),
        }
        words: list[str] = []
        placed = [word for word in self._build.words if word in ("${jvm}", "${args}")]
        for word in full(self._own, self._build.words, context.directory):
            words += (
                options
                if word == "${jvm}"
                else arguments
                if word == "${args}"
                else [filled(word, Words(self._own, values))]
            )
        if self._spec.java_program:
            words[0] = str(java)
            if not any("${jvm}" in text for _, text in self._spec.texts()):
                words[1:1] = options
        words += [] if "${args}" in placed else arguments
        environment = {name: filled(text, Words(self._own, values)) for name, text in self._build.environment.items()}
        environment |= dict(assignment.split("=", 1) for assignment in self._given("environment"))
        self.keep("command.txt", f"{shlex.join(words)}\n")
        return words, environment

    def _options(self, context: ServiceContext) -> list[str]:
        assignments = [f"-D{assignment}" for assignment in self._given("system_property")]
        return [*self.jvm_options(context), *assignments, *self._assigned("-D")]

    def _assigned(self, option: str, written: str = "") -> list[str]:
        """Words for the levels of the framework's properties, where they are given in this way; ``written``: the
        option in its place.
        """
        framework, properties = FRAMEWORKS.get(self._spec.catalogue or ""), self._properties
        if framework is None or option != framework.OPTION:
            return []
        levels = {name: level for name, level in self._settings.items() if name in properties}
        return [
            f"{written or option}{name.removeprefix(PREFIX)}={framework.value(properties[name], level)}"
            for name, level in levels.items()
        ]

    def owns(self, context: ServiceContext) -> list[Path]:
        return super().owns(context) if self._spec.jvm else [context.directory, self.own_artefacts(context)]

    def reads(self, context: ServiceContext) -> list[Path]:
        files = [Path(word) for word in full(self._own, self._build.words, context.directory) if word.startswith("/")]
        paths = [*files, artifact(self._own), self._exchange(context), context.raw]
        paths += [self.java_home(context), agent_jar()] if self._spec.jvm else []
        paths += [Path(level) for level in self._settings.values() if isinstance(level, str) and level.startswith("/")]
        return [path for path in paths if path is not None and path.exists()]

    def wait_ready(self, timeout: float) -> float:
        self.longest_start = 1.0 if self._spec.ready.within else _PATIENCE
        return super().wait_ready(self._spec.ready.within or timeout)

    @property
    def stop_within(self) -> float:
        """As its stack file says."""
        return self._spec.stop.within or super().stop_within

    def failed_for_good(self, found: LogEvidence) -> bool:
        return found.port_taken

    def _failure(self, what: str, found: LogEvidence, why: Evidence) -> TrialFailure:
        failure = super()._failure(what, found, why)
        last = [line.strip() for line in found.tail if line.strip() and not line.strip().startswith("at ")][-_LAST:]
        if not found.headline and last:
            failure.message = f"{failure.message}; its last words: {' | '.join(last)}"
        if self._spec.directory is None and any(_UNWRITABLE.search(line) for line in found.tail):
            failure.message += "; it writes beside itself, and may not: name its folder by `directory`, which is copied"
        return failure

    def start(self) -> Process:
        try:
            return super().start()
        except TrialFailure as failure:
            if self._spec.port is not None and self.context.host.port_taken(self._spec.port):
                failure.message = f"{line_of(self._own, 'port')}: {failure.message}"
            raise

    # levels --------------------------------------------------------------------------------------------------

    def question(self) -> Mapping[str, str]:
        return {}

    def change(self, levels: Settings) -> None:
        self.tell(self.asked_for(levels), invoked)
        self._settings = {**self._settings, **levels}

    def asked_for(self, levels: Settings) -> dict[str, str]:
        """What the agent is told to bring these live levels about."""
        return {
            **jvm.flags({name: level for name, level in levels.items() if self._is_flag(name)}),
            **self.changes(levels, self._settings),
        }

    def changes(self, levels: Settings, settings: Settings) -> Mapping[str, str]:
        del settings
        properties, changes = self._properties, self._own_changes(levels)
        for number, name in enumerate(name for name in levels if name in properties):
            value = live_value(properties[name], levels[name])
            changes[f"property-set.{number:03}"] = f"{name.removeprefix(PREFIX)}={value}"
        return changes

    def read_back(self, name: str) -> Level:
        if name == BUILD:
            return self._running_build()
        knob = self._spec.own_knobs.get(name)
        if knob is None and (property_ := self._properties.get(name)) is not None:
            return self._property(property_)
        if knob is None:
            return super().read_back(name)
        return self._own_level(name)

    def _running_build(self) -> str:
        """The build whose own words the command line and the environment of the running process have."""
        files, context = self.context.host.files, self.context
        words: set[str] = set()
        for pid in {self.process.pid, *self.process.pids()}:
            for texts in files.read_many([f"{PROC}/{pid}/cmdline", f"{PROC}/{pid}/environ"]).values():
                words |= set(texts.decode(errors="replace").split("\0"))
        told = {name: _fixed_words(self._own, self._spec.of_build(name), context) for name in self._spec.builds}
        common = set.intersection(*told.values())
        running = [name for name, own in told.items() if own - common <= words]
        if not running:
            raise LookupError(f"the command line of {self.title} is that of no build")
        most = max(len(told[name]) for name in running)
        likely = [name for name in running if len(told[name]) == most]
        started = str(self._settings.get(BUILD))
        return started if started in likely else likely[0]

    def _property(self, knob: Knob) -> Level:
        name = knob.name.removeprefix(PREFIX)
        answer = self._ask({"property.0": name})
        if name not in answer["properties"]:
            raise LookupError(f"{knob.name} cannot be read: {answer['errors'].get(name, 'no word of it')}")
        return FRAMEWORKS[self._spec.catalogue or ""].level_of(knob, answer["properties"][name])

    def level_of(self, name: str, answer: Answer) -> Level:
        raise LookupError(f"{self.title} has no knob {name} in {len(answer)} parts of an answer")


class ServiceProgram:
    """One of a stack file's services as a program of its own, and the owner of its knobs: those of its JVM have its
    name before theirs.
    """

    def __init__(self, own: OwnFile, service: str) -> None:
        self._part = own.of_service(service)
        self._prefix = f"{service}."

        class Program(CommandServer):
            name: ClassVar[str] = service
            title: ClassVar[str] = service
            role: ClassVar[str] = service

        self.server = Program(self._part)

    @property
    def version(self) -> str:
        return self._program.version

    @property
    def is_java(self) -> bool:
        """Whether it has the knobs of a JVM."""
        return self._part.content.jvm

    @property
    def _program(self) -> OwnApplication:
        return OwnApplication(self._part)

    def knobs(self) -> Sequence[Knob]:
        return [
            replace(knob, name=f"{self._prefix}{knob.name}") if knob.name.startswith("jvm.") else knob
            for knob in self.server.knobs()
        ]

    def configure(self, context: ServiceContext, settings: Settings) -> None:
        """``settings``: its levels by the names of its knobs."""
        deployment = self._program.deployment("direct", {})
        raw = context.raw / self.server.name if context.raw is not None else None
        # limits by control groups are the application's alone
        placement = Placement(server_cpus=context.placement.server_cpus)
        context = replace(context, deployment=deployment, raw=raw, placement=placement)
        self.server.configure(context, self._plain(settings))

    def apply(self, levels: Mapping[str, Level]) -> None:
        self.server.apply(self._plain(levels))

    def read_back(self, name: str) -> Level:
        return self.server.read_back(name.removeprefix(self._prefix))

    def _plain(self, levels: Mapping[str, Level]) -> dict[str, Level]:
        return {name.removeprefix(self._prefix): level for name, level in levels.items()}


def builds(spec: OwnStack) -> list[Knob]:
    """The knob of a stack file's builds, where it has any."""
    names = tuple(spec.builds)
    summary = "which build of the application runs"
    knob = Knob(BUILD, Kind.CHOICE, ApplyCost.RESTART, summary, next(iter(names), None), choices=names)
    return [replace(knob, owner=Owner.APPLICATION, source="the stack file")] if names else []


def _fixed_words(own: OwnFile, spec: OwnStack, context: ServiceContext) -> set[str]:
    """Of a build's command and environment: all without a placeholder, and the file its program is told to run."""
    variables = [f"{name}={text}" for name, text in spec.environment.items()]
    return {word for word in (*full(own, spec.words, context.directory), *variables) if "${" not in word}
