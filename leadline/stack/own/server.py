"""The command of a stack file as a service: started in the foreground, its levels given and read back."""

from __future__ import annotations

import re
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from leadline.host.jvm import AttachError, agent_jar, java_pid, jcmd
from leadline.model.errors import LeadlineError, TrialFailure, UsageError
from leadline.model.knob import Knob, Level
from leadline.model.ownstack import PREFIX, Live, OwnFile, OwnKnob, ReadBack, filled, knob_of, level_read, written
from leadline.stack.base import Progress, ServiceContext, Settings
from leadline.stack.deployment import Feature
from leadline.stack.own import frameworks
from leadline.stack.own.application import fetched, picked
from leadline.stack.own.catalogue import live_value
from leadline.stack.own.frameworks import FRAMEWORKS
from leadline.stack.own.words import artifact, beside, full
from leadline.stack.servers import evidence, jvm
from leadline.stack.servers.agent import ensure_agent
from leadline.stack.servers.common import Answer, JavaServer

_LAST = 3  # lines of its log that a failure quotes
_READY_AGAIN = 5.0  # seconds for one reading


class CommandServer(JavaServer):
    """A program of any kind; what a JVM has besides (its knobs, the agent, its GC log) where it is one."""

    name: ClassVar[str] = "command"
    title: ClassVar[str] = "the application"
    features: ClassVar[frozenset[Feature]] = frozenset({Feature.SERVLETS})

    def __init__(self, own: OwnFile) -> None:
        super().__init__()
        self._own = own
        self._spec = own.content

    @property
    def version(self) -> str:
        """The command line of the stack file."""
        return shlex.join(self._spec.words)

    def knobs(self) -> Sequence[Knob]:
        own = [knob_of(name, knob) for name, knob in self._spec.knobs.items()]
        return [*own, *self._properties.values(), *(self.jvm.knobs() if self._spec.jvm else ())]

    @property
    def _properties(self) -> Mapping[str, Knob]:
        """Knobs from the artifact's own metadata, those left out that the stack file declares."""
        found = frameworks.catalogue(self._own).knobs
        return {name: knob for name, knob in found.items() if name not in self._spec.knobs}

    def provision(self, progress: Progress) -> None:
        if self._spec.jvm:
            ensure_agent(progress)

    # a start -------------------------------------------------------------------------------------------------

    def configure(self, context: ServiceContext, settings: Settings) -> None:
        known = {knob.name for knob in self.knobs()}
        if unknown := [name for name in settings if name not in known]:
            raise UsageError(f"{self.title} has no knob {unknown[0]}; it has {', '.join(sorted(known))}")
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
        if self._spec.directory is None:
            context.directory.mkdir(mode=0o700)
        else:
            shutil.copytree(beside(self._own, self._spec.directory), context.directory, symlinks=True)

    def command(self, context: ServiceContext) -> tuple[list[str], dict[str, str]]:
        options = self._options(context) if self._spec.jvm else []
        arguments = [*self._given("argument"), *self._assigned("--")]
        java = self.java_home(context) / "bin" / "java" if self._spec.jvm else None
        values = {
            "port": str(context.http_port),
            "address": context.http_address,
            "folder": str(Path(self._own.file).parent),
            "directory": str(context.directory),
            "java": str(java or "java"),
            "jvm": shlex.join(options),
            "args": shlex.join(arguments),
            **self._database(context),
        }
        words: list[str] = []
        placed = [word for word in self._spec.words if word in ("${jvm}", "${args}")]
        for word in full(self._own, self._spec.words, context.directory):
            words += options if word == "${jvm}" else arguments if word == "${args}" else [filled(word, values)]
        if self._spec.java_program:
            words[0] = str(java)
            if not any("${jvm}" in text for _, text in self._spec.texts()):
                words[1:1] = options
        words += [] if "${args}" in placed else arguments
        environment = {name: filled(text, values) for name, text in self._spec.environment.items()}
        environment |= dict(given.split("=", 1) for given in self._given("environment"))
        self.keep("command.txt", f"{shlex.join(words)}\n")
        return words, environment

    def _options(self, context: ServiceContext) -> list[str]:
        given = [f"-D{given}" for given in self._given("system_property")]
        return [*self.jvm_options(context), *given, *self._assigned("-D")]

    def _assigned(self, option: str) -> list[str]:
        """Words for the levels of the framework's properties, where they are given in this way."""
        framework, known = FRAMEWORKS.get(self._spec.catalogue or ""), self._properties
        if framework is None or option != framework.OPTION:
            return []
        levels = {name: level for name, level in self._settings.items() if name in known}
        return [
            f"{option}{name.removeprefix(PREFIX)}={framework.value(known[name], level)}"
            for name, level in levels.items()
        ]

    def _given(self, way: str) -> list[str]:
        """Words, or ``NAME=text``, for the levels of knobs that are set in this way."""
        found = []
        for name, knob in self._spec.knobs.items():
            form = getattr(knob, way)
            if form is not None and name in self._settings:
                form = form if "${level}" in form else f"{form}=${{level}}"
                found.append(form.replace("${level}", written(knob, self._settings[name])))
        return found

    def _database(self, context: ServiceContext) -> dict[str, str]:
        found = context.database
        if found is None:
            return {}
        named = {"jdbc": found.jdbc_url, "host": found.host, "port": found.port, "name": found.database}
        named |= {"user": found.user, "password": found.password}
        return {f"database.{name}": str(value) for name, value in named.items()}

    def owns(self, context: ServiceContext) -> list[Path]:
        return super().owns(context) if self._spec.jvm else [context.directory, self.own_artefacts(context)]

    def reads(self, context: ServiceContext) -> list[Path]:
        files = [Path(word) for word in full(self._own, self._spec.words, context.directory) if word.startswith("/")]
        found = [*files, artifact(self._own), self._exchange(context), context.raw]
        found += [self.java_home(context), agent_jar()] if self._spec.jvm else []
        found += [Path(level) for level in self._settings.values() if isinstance(level, str) and level.startswith("/")]
        return [path for path in found if path is not None and path.exists()]

    def wait_ready(self, timeout: float) -> float:
        return super().wait_ready(self._spec.ready.within or timeout)

    def failed_for_good(self, found: evidence.Evidence) -> bool:
        return found.port_taken

    def _failure(self, what: str, found: evidence.Evidence) -> TrialFailure:
        failure = super()._failure(what, found)
        last = [line.strip() for line in found.tail if line.strip()][-_LAST:]
        if not found.headline and last:
            failure.message = f"{failure.message}; its last words: {' | '.join(last)}"
        return failure

    # levels --------------------------------------------------------------------------------------------------

    def question(self) -> Mapping[str, str]:
        return {}

    def change(self, levels: Settings) -> None:
        self.tell(self.asked_for(levels), _invoked)
        self._settings = {**self._settings, **levels}

    def asked_for(self, levels: Settings) -> dict[str, str]:
        """What the agent is told to bring these live levels about."""
        properties, own = self._properties, self._spec.knobs
        told = dict(jvm.flags({name: level for name, level in levels.items() if self._is_flag(name)}))
        for number, name in enumerate(name for name in levels if name in own):
            knob = own[name]
            assert knob.read_back is not None
            way, text = knob.read_back, written(knob, levels[name])
            told[f"set.{number:03}"] = f"{way.jmx}|{way.attribute}|{text}"
            if isinstance(knob.live, Live):
                told[f"invoke.{number:03}"] = f"{knob.live.invoke}|{knob.live.operation}"
        for number, name in enumerate(name for name in levels if name in properties):
            value = live_value(properties[name], levels[name])
            told[f"property-set.{number:03}"] = f"{name.removeprefix(PREFIX)}={value}"
        return told

    def read_back(self, name: str) -> Level:
        knob = self._spec.knobs.get(name)
        if knob is None and (known := self._properties.get(name)) is not None:
            return self._property(known)
        if knob is None:
            return super().read_back(name)
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

    def _property(self, knob: Knob) -> Level:
        name = knob.name.removeprefix(PREFIX)
        answer = self._ask({"property.0": name})
        if name not in answer["properties"]:
            raise LookupError(f"{knob.name} cannot be read: {answer['errors'].get(name, 'no word of it')}")
        return FRAMEWORKS[self._spec.catalogue or ""].level_of(knob, answer["properties"][name])

    def _level(self, name: str, knob: OwnKnob, way: ReadBack) -> Level:
        try:
            return level_read(knob, self._told(way))
        except (OSError, ValueError, LeadlineError) as error:
            raise LookupError(f"the level of {name} cannot be read by {way.way}: {error}") from error

    def level_of(self, name: str, answer: Answer) -> Level:
        raise LookupError(f"{self.title} has no knob {name} in {len(answer)} parts of an answer")

    def _told(self, way: ReadBack) -> str:
        if way.jmx is not None:
            return self._attribute(way.jmx, way.attribute or "")
        if way.http is not None:
            base = f"http://127.0.0.1:{self.context.http_port}{self.context.application.path}"
            status, text = fetched(base, way.http)
            if status != 200:
                raise LookupError(f"{way.http} was answered by HTTP {status}")
            return picked(text, way.key) if way.key else _found(text, way)
        if way.jcmd is not None:
            return _found(self._asked_jcmd(way.jcmd), way)
        return _found((self.context.directory / (way.file or "")).read_text(errors="replace"), way)

    def _attribute(self, pattern: str, attribute: str) -> str:
        answer = self._ask({"bean.0": f"{pattern}|{attribute}"})
        found = [bean[attribute] for bean in answer["beans"].values() if attribute in bean]
        if not found:
            why = "".join(f": {error}" for error in answer["errors"].values())
            raise LookupError(f"there is no MBean {pattern} with {attribute}{why}")
        return str(found[0])

    def _asked_jcmd(self, command: str) -> str:
        context = self.context
        pid = java_pid(context.host.files, self.process)
        try:
            code, said = jcmd(context.host, context.java_home, pid, command.split())
        except AttachError as error:
            raise LookupError(str(error)) from error
        if code:
            raise LookupError(f"jcmd {command} ended with {code}: {said.strip().splitlines()[-1:]}")
        return said


def _invoked(answer: Answer) -> bool:
    """Raises LookupError where an operation that should follow a level failed."""
    if answer["errors"]:
        raise LookupError("; ".join(f"{asked}: {error}" for asked, error in answer["errors"].items()))
    return True


def _found(text: str, way: ReadBack) -> str:
    """The level's text by ``key`` (a line ``key=value``) or ``pattern``; all of it without either."""
    if way.key is not None:
        pattern = rf"(?m)^\s*{re.escape(way.key)}\s*[=:]\s*(.*?)\s*$"
    elif way.pattern is not None:
        pattern = way.pattern
    else:
        return text
    found = re.search(pattern, text)
    if found is None:
        raise LookupError(f"{way.key or way.pattern} is not found in what it says: {text[:100]!r}")
    return found[1]
