"""A service of a compose file: its containers started and ended with each trial, its levels given by the environment.

Leadline's directories are mounted into the container at their own paths, so that the agent and the GC log work there as
they do in a process of this host.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from leadline.host import here
from leadline.host.base import Process
from leadline.host.foreign import Container
from leadline.host.java import agent_jar
from leadline.host.textfile import write_private
from leadline.host.undo_running import CONTAINERS
from leadline.model.errors import (
    Event,
    Evidence,
    FailureClass,
    RestoreError,
    TrialFailure,
    UsageError,
    blamed,
    did_you_mean,
    quoted,
    unanswered,
)
from leadline.model.ownparts import Compose
from leadline.model.ownstack import OwnFile, filled
from leadline.stack.base import Progress, ServiceContext, Settings
from leadline.stack.own.parameters import database_words
from leadline.stack.own.server import CommandServer
from leadline.stack.own.words import Words, beside, full, joined, line_of
from leadline.stack.servers import jvm
from leadline.stack.servers.files import LogEvidence

_OPTIONS = "JDK_JAVA_OPTIONS"  # read by the launcher of every JDK from 9 on
_ENGINE = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "CONTAINER_HOST")  # which engine is meant
_START, _ASK, _END = 600.0, 30.0, 90.0  # seconds: images may be built, a question, an end beyond that of the containers


class ComposeServer(CommandServer):
    """Each start makes a project of its own, whose volumes are new unless the data are kept; what ends it is in the
    undo journal before it is started.
    """

    title: ClassVar[str] = "the service"

    def __init__(self, own: OwnFile) -> None:
        super().__init__(own)
        self._entry = ""  # of the undo journal
        self._modes: dict[Path, int] = {}  # of directories that its containers may write to

    @property
    def version(self) -> str:
        """Its compose file and service."""
        return f"{self._compose.service} of {self._compose.file}"

    @property
    def _compose(self) -> Compose:
        compose = self._build.compose
        assert compose is not None
        return compose

    def provision(self, progress: Progress) -> None:
        """Raises UsageError where what reads compose files, or its engine, does not answer."""
        super().provision(progress)
        where = line_of(self._own, "compose")
        if why := self._silent([*full(self._own, self._compose.command), "version"]):
            hint = "install it, or name what reads compose files here: `command: docker-compose`"
            raise UsageError(f"{where}: {why}; {hint}")
        if why := self._silent(self._there):
            raise UsageError(f"{where}: {why}")

    @property
    def _there(self) -> list[str]:
        return [self._compose.engine, "ps", "--quiet"]

    def _silent(self, words: Sequence[str]) -> str:
        """Why a command of the engine has no answer; empty where it has one."""
        try:
            done = here.run(words, timeout=_ASK)
        except OSError as error:
            return f"{shlex.join(words)}: {error}"
        lines = (done.stderr or done.stdout).strip().splitlines()
        first = f": {lines[0][:300]}" if lines else ""
        return f"{shlex.join(words)} ended with exit code {done.returncode}{first}" if done.returncode else ""

    # a start -------------------------------------------------------------------------------------------------

    def write_configuration(self, context: ServiceContext, settings: Settings) -> None:
        del settings
        if context.placement.server_cpus or context.placement.limits("server"):
            raise UsageError("placement: a container's limits are in its compose file (cpuset, mem_limit)")
        context.directory.mkdir(mode=0o700, parents=True)
        context.artefacts.mkdir(parents=True, exist_ok=True)

    def start(self) -> Process:
        """Raises TrialFailure, also where the engine cannot be reached."""
        context, compose = self.context, self._compose
        if why := context.host.port_taken(context.http_port):
            message = (
                f"{line_of(self._own, 'port' if self._spec.port else 'compose')}: port {context.http_port} is taken"
            )
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"{message} ({why}); end what listens there")
        if why := self._silent(self._there):  # what it could not end must not be started
            raise self._refused(why, "")
        self._started, self._took = time.monotonic(), None
        self._answer, self._answer_by, self._process = None, None, None
        over = context.directory / "compose.override.yaml"
        environment = self._environment(context)
        write_private(over, json.dumps({"services": {compose.service: self._over(context, environment)}}))
        file = ["--file", str(beside(self._own, compose.file).absolute())]
        is_kept = self._spec.database.kind in ("keep", "command")
        project = f"leadline-{self._spec.stack}" + ("" if is_kept else f"-{context.http_port}")
        base = [*full(self._own, compose.command), "--project-name", project, *file]
        down = [*base, "down", "--timeout", str(round(self.stop_within)), *([] if is_kept else ["--volumes"])]
        variables = {name: os.environ[name] for name in _ENGINE if name in os.environ}
        self._entry = context.host.promise(
            *(CONTAINERS, f"compose project {project}", None),
            restart=down,
            within=_END + self.stop_within,
            folder=str(Path(self._own.file).parent),
            environment={**variables, **environment},
        )
        words = [*base, "--file", str(over)]
        self._engine([*words, "up", "--detach", compose.service], environment, self._spec.ready.within or _START)
        identity = self._engine([*words, "ps", "--quiet", compose.service], environment, _ASK).split()
        if not identity:
            raise self._refused(f"{compose.service} has no container after its start", "")
        form = "{{.State.Pid}} {{.State.ExitCode}} {{.Image}}"
        pid, code, image = self._engine([compose.engine, "inspect", "--format", form, identity[-1]], {}, _ASK).split()
        self.keep("compose.txt", f"{shlex.join(words)}\nimage {image}\n")
        try:
            if pid == "0":
                raise ProcessLookupError
            self._process = Container(context.host.files, int(pid), identity[-1])
        except ProcessLookupError:
            logs = self._logs(identity[-1])
            end = Evidence(Event.ENDED, exit_code=int(code))
            raise self._refused(f"{compose.service} ended at once: {end.how}", logs, end) from None
        return self._process

    def _environment(self, context: ServiceContext) -> dict[str, str]:
        """Variables of the service, which its compose file may also name as ``${NAME}``."""
        options = joined([*self._options(context), *self._assigned("--", "-D")])
        values = {
            **self.named_ports(),
            "address": context.http_address,
            "folder": str(Path(self._own.file).parent),
            "jvm": options,
            **database_words(context),
        }
        variables = {name: filled(text, Words(self._own, values)) for name, text in self._build.environment.items()}
        if not any("${jvm}" in text for text in self._build.environment.values()):
            variables[_OPTIONS] = options
        given = dict(assignment.split("=", 1) for assignment in self._given("environment"))
        return variables | given | jvm.environment(self._settings)

    def _over(self, context: ServiceContext, environment: Mapping[str, str]) -> dict[str, object]:
        """What is laid over the service in the compose file."""
        self.owns(context)  # makes the GC log
        shared = [self._exchange(context), self.own_artefacts(context), *([context.raw] if context.raw else [])]
        for path in shared:  # the container's user may be any
            self._modes.setdefault(path, path.stat().st_mode)
            path.chmod(self._modes[path] | 0o777)
        if context.raw is not None:
            for log in context.raw.glob("gc.log"):
                log.chmod(0o666)
        jar = agent_jar()
        plain = {name: text.replace("$", "$$") for name, text in environment.items()}
        return {"environment": plain, "volumes": [*(f"{path}:{path}" for path in shared), f"{jar}:{jar}:ro"]}

    def _engine(self, words: list[str], environment: Mapping[str, str], within: float) -> str:
        """What a command of the engine says. Raises TrialFailure."""
        try:
            folder = Path(self._own.file).parent
            done = here.run(words, timeout=within, env={**os.environ, **environment}, cwd=folder)
        except OSError as error:
            raise self._refused(str(error), "", Evidence(unanswered(error))) from error
        output = f"{done.stdout}{done.stderr}".strip()
        if done.returncode:
            last = output.splitlines()[-1][-300:] if output else "without a word"
            program = words[: words.index("--project-name")] if "--project-name" in words else words[:1]
            verb = next((word for word in words if word in ("up", "ps", "inspect")), "")
            raise self._refused(f"{shlex.join(program)} {verb} ended with exit code {done.returncode}: {last}", output)
        return done.stdout

    def _refused(self, why: str, said: str, evidence: Evidence = Evidence(Event.REFUSED)) -> TrialFailure:  # noqa: B008
        return blamed(evidence, f"{line_of(self._own, 'compose')}: {why}", said)

    def _logs(self, identity: str) -> str:
        """What the container has said, also as its log of this trial."""
        try:
            done = here.run([self._compose.engine, "logs", "--timestamps", identity], timeout=_ASK)
        except OSError as error:
            return str(error)
        lines = sorted(f"{done.stdout}{done.stderr}".splitlines())  # both streams in one order
        logs = "".join(f"{line.partition(' ')[2]}\n" for line in lines)
        self.log.write_text(logs)
        return logs

    def reachable(self) -> bool:
        """Its port may be another process's, that of the engine: the project is its own, and the port was free."""
        return True

    def _evidence(self, lines: int = 40) -> LogEvidence:
        if isinstance(self._process, Container):
            self._logs(self._process.identity)
        return super()._evidence(lines)

    def stop(self) -> bool:
        """End its containers and remove them. True if that was done."""
        if isinstance(self._process, Container):
            self._logs(self._process.identity)
        self._process, entry, self._entry = None, self._entry, ""
        try:
            if entry:
                self.context.host.keep_promise(entry)
        except RestoreError:  # the host's own restore tries again, and tells
            return False
        finally:
            for path, mode in self._modes.items():
                with suppress(FileNotFoundError):
                    path.chmod(mode)
            self._modes.clear()
        return True


def no_service(own: OwnFile) -> str:
    """Why its compose file has no such service; empty where it has it."""
    compose = own.content.compose
    assert compose is not None
    file = beside(own, compose.file)
    import ruamel.yaml as yaml  # here: an agent on another host has no such package

    try:
        tree = yaml.YAML(typ="safe").load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.error.YAMLError) as error:
        return f"{file} cannot be read: {error}"
    services = list(tree.get("services") or ()) if isinstance(tree, Mapping) else []
    if compose.service in services:
        return ""
    hint = did_you_mean(compose.service, services) or f"there is {', '.join(services) or 'none'}"
    return f"{compose.file} has no service {quoted(compose.service)}; {hint}"
