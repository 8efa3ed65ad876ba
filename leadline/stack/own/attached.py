"""A process that runs already, as a service: found, never stopped, its live levels changed and put back."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from leadline.host import here
from leadline.host.base import Process
from leadline.host.files import LocalFiles
from leadline.host.foreign import ForeignProcess, find, java_home_of
from leadline.host.java import agent_jar
from leadline.host.textfile import expanded
from leadline.host.undo_running import LEVEL, SETTINGS
from leadline.model.errors import (
    Event,
    Evidence,
    FailureClass,
    RestoreError,
    TrialFailure,
    UsageError,
    blamed,
    unanswered,
)
from leadline.model.knob import ApplyCost, Knob
from leadline.model.ownparts import PREFIX
from leadline.model.ownstack import OwnFile, filled
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.own.server import CommandServer
from leadline.stack.own.words import Words, beside, full, joined, line_of
from leadline.stack.servers import jvm

_POLL = 0.1
_RESTART = 120.0  # seconds the restart command may take where the stack file does not say `ready.within`


class AttachedServer(CommandServer):
    """Live levels are changed in the running JVM; the others by its settings file and its restart command, where the
    stack file has them. What it changes it journals first, with how it is put back.
    """

    title: ClassVar[str] = "the process"

    def __init__(self, own: OwnFile) -> None:
        super().__init__(own)
        self._promises: dict[str, str] = {}  # knob -> entry of the undo journal
        self._journalled = False  # the settings file

    @property
    def version(self) -> str:
        """How it was found."""
        assert self._spec.attach is not None
        return f"a process that ran already ({self._spec.attach.title})"

    def knobs(self) -> Sequence[Knob]:
        """Only live ones where nothing restarts it."""
        knobs = super().knobs()
        return knobs if self._spec.restart else [knob for knob in knobs if knob.apply_cost is ApplyCost.LIVE]

    def find_running(self) -> ForeignProcess:
        """Raises ProcessLookupError."""
        attach = self._spec.attach
        assert attach is not None
        files = LocalFiles() if self._context is None else self.context.host.files
        pid_file = None if attach.pid_file is None else beside(self._own, attach.pid_file)
        return ForeignProcess(files, find(files, port=attach.port, pid=attach.pid, pid_file=pid_file, unit=attach.unit))

    def flags_of_running(self) -> None:
        """Have the flags of its own JVM as knobs, where it runs and this host shows its program."""
        try:
            home = java_home_of(LocalFiles(), self.find_running().pid)
        except ProcessLookupError:
            return
        if home is not None:
            self.jvm.of(home)

    # a trial -------------------------------------------------------------------------------------------------

    def write_configuration(self, context: ServiceContext, settings: Settings) -> None:
        del settings
        if context.placement.server_cpus or context.placement.limits("server"):
            raise UsageError("placement: leadline does not move or limit a process that it did not start")
        context.directory.mkdir(mode=0o700, parents=True)
        context.artefacts.mkdir(parents=True, exist_ok=True)

    def start(self) -> Process:
        """It runs already; with a restart command it is restarted at its levels. Raises TrialFailure."""
        self._started, self._took, self._answer, self._answer_by = time.monotonic(), None, None, None
        self._process = None
        try:
            running = self.find_running()
        except ProcessLookupError as error:
            message = f"{line_of(self._own, 'attach')}: {error}; start it, leadline only attaches"
            raise TrialFailure(FailureClass.INFRASTRUCTURE, message) from None
        self._process = self._restarted(running) if self._spec.restart else running
        return self._process

    def _restarted(self, before: ForeignProcess) -> ForeignProcess:
        values = self._values()
        words = self._restart_words(values)
        self._write_settings(values)
        within = self._spec.ready.within or _RESTART
        try:
            done = here.run(words, timeout=within, cwd=Path(self._own.file).parent)
        except OSError as error:
            raise blamed(Evidence(unanswered(error)), f"the restart command {words[0]}: {error}") from error
        output = f"{done.stdout}{done.stderr}".strip()
        self.keep("restart.txt", f"{shlex.join(words)}\n{output}\n")
        if done.returncode:
            last = output.splitlines()[-1] if output else "without a word"
            message = f"the restart command {words[0]} ended with exit code {done.returncode}: {last}"
            raise blamed(Evidence(Event.ENDED, exit_code=done.returncode), message, output)
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            try:
                running = self.find_running()
                if (running.pid, running.start_ticks) != (before.pid, before.start_ticks):
                    return running
            except ProcessLookupError:
                pass
            time.sleep(_POLL)
        message = f"the restart command {words[0]} ended, and {within:g} s later there is no new process"
        raise blamed(Evidence(Event.LATE), message, output)

    def _values(self) -> dict[str, str]:
        arguments = [*self._given("argument"), *self._assigned("--")]
        assignments = [*(f"-D{assignment}" for assignment in self._given("system_property")), *self._assigned("-D")]
        settings = {name: level for name, level in self._settings.items() if name.startswith("jvm.")}
        options = [*jvm.options(settings, None, self.jvm.flags), *assignments]
        environment = [f"{name}={filled(text, Words(self._own, {}))}" for name, text in self._spec.environment.items()]
        arenas = [f"{name}={text}" for name, text in jvm.environment(self._settings).items()]
        return {
            "port": str(self._spec.fixed_port),
            "folder": str(Path(self._own.file).parent),
            "jvm": joined(options),
            "args": joined(arguments),
            "environment": "\n".join([*environment, *self._given("environment"), *arenas]),
        }

    def _restart_words(self, values: Mapping[str, str]) -> list[str]:
        values_ = {**values, "address": "127.0.0.1", "directory": str(self.context.directory), "java": "java"}
        return [filled(word, Words(self._own, values_)) for word in full(self._own, self._spec.restart or [])]

    def _write_settings(self, values: Mapping[str, str]) -> None:
        """The file with these levels; its contents of before are in the journal first, with the restart they need."""
        file = self._spec.settings_file
        path = Path(self._own.file) if file is None else Path(self._own.file).parent / expanded(file.path)
        if not self._journalled:
            original = path.read_text() if path.exists() else None
            unset = {**values, "jvm": "", "args": "", "environment": ""}
            self.context.host.promise(
                *(SETTINGS, str(path), original),
                rewrite=file is not None,  # the stack file itself, named where there is no other, is the user's
                restart=self._restart_words(unset),
                within=self._spec.ready.within or _RESTART,
                folder=str(Path(self._own.file).parent),
            )
            self._journalled = True
        if file is not None:
            text = filled(beside(self._own, file.template).read_text(), values)
            path.write_text(text)
            self.keep("settings.txt", text)

    def wait_ready(self, timeout: float) -> float:
        seconds = super().wait_ready(timeout)
        knobs = {knob.name: knob for knob in self.knobs()}
        live = {name: level for name, level in self._settings.items() if knobs[name].apply_cost is ApplyCost.LIVE}
        if live:
            self.apply(live)
        return seconds

    def stop(self) -> bool:
        """It runs on, its live levels put back. True if all of them are."""
        self._process, good = None, True
        for name, entry in list(self._promises.items()):
            try:
                self.context.host.keep_promise(entry)
            except RestoreError:  # the host's own restore tries again, and tells
                good = False
            del self._promises[name]
        return good

    # levels --------------------------------------------------------------------------------------------------

    def change(self, levels: Settings) -> None:
        for name in levels:
            if name not in self._promises:
                self._promise(name)
        super().change(levels)

    def _promise(self, name: str) -> None:
        """Journal the level of now, and how it is put back. Raises TrialFailure."""
        try:
            level = self.read_back(name)
            question = self._question(name)
            answer = self._ask(question)
        except LookupError as error:
            raise blamed(Evidence(unanswered(error)), f"{name} cannot be read before its change: {error}") from error
        level_text = next(knob for knob in self.knobs() if knob.name == name).format(level)
        changes = self.asked_for({name: level})
        parts: dict[str, Any] = {part: answer[part] for part in ("properties", "beans") if answer[part]}
        if "flags" in question:
            parts["flags"] = {question["flags"]: answer["flags"][question["flags"]]}
        original = {"changes": changes, "question": question, "told": parts, "shown": level_text}
        running = self.process
        assert isinstance(running, ForeignProcess)
        self._promises[name] = self.context.host.promise(
            LEVEL, name, original, pid=running.pid, start=running.start_ticks, agent=str(agent_jar())
        )

    def _question(self, name: str) -> dict[str, str]:
        knob = self._spec.own_knobs.get(name)
        if knob is not None and knob.read_back is not None:
            return {"bean.0": f"{knob.read_back.jmx}|{knob.read_back.attribute}"}
        if self._is_flag(name):
            flag = jvm.FLAG_OF[name].name if name in jvm.FLAG_OF else name.removeprefix(jvm.PREFIX)
            return {"flags": flag}
        return {"property.0": name.removeprefix(PREFIX)}
