"""Hosts over SSH as a testbed: studies with the plan, store and life cycle of all others, their services over there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from leadline.far.host import FarHost, FarHosts
from leadline.far.system import FarSystem
from leadline.host.local import LocalHost
from leadline.lab.machine import check_far_machine
from leadline.lab.overssh import check_over_ssh
from leadline.lab.planning import Planned, plan_study
from leadline.lab.progress import Watcher
from leadline.lab.run import RunResult, StudyRun
from leadline.lab.store import Store
from leadline.lab.studyfile import StudyFile
from leadline.lab.testbed import MachineTestbed, RunOptions
from leadline.model.errors import TrialFailure, UsageError
from leadline.model.hosts import SshHost
from leadline.model.knob import Knob
from leadline.stack.registry import application_of
from leadline.stack.running import require_none_running
from leadline.stack.servers.agent import ensure_agent


class FarTestbed(MachineTestbed):
    """``ssh``: the application's host; ``database``: the database's, where it has one of its own."""

    def __init__(
        self,
        lab: Path,
        ssh: SshHost,
        database: SshHost | None = None,
        watcher: Watcher | None = None,
        disposable: bool = False,
        service_knobs: Sequence[Knob] | None = None,
    ) -> None:
        super().__init__(lab, watcher, disposable, service_knobs)
        self.host = FarHosts(ssh, database, disposable, self.watcher.message)

    @cached_property
    def store(self) -> Store:
        require_none_running(self.directory, LocalHost())
        return Store(self.directory)

    def plan(self, file: StudyFile, idle_settings: bool = False) -> Planned:
        """Also asks the hosts. Raises UsageError for one that cannot be used."""
        study = file.study
        check_over_ssh(file)
        place = file.where(("stack", "hosts" if study.stack.hosts else "host"))
        try:
            for host in self._hosts():
                host.reach()
            planned = plan_study(file, self.host, self.knobs(file), self.disposable, idle_settings)
            check_far_machine(file, self.host, self.host.database or self.host, self.host.local)
            there = study.stack.model_copy(update={"host": "local", "hosts": None, "own": None})
            if study.stack.own is None:
                self.host.ask("check_stack", there)
        except TrialFailure as error:
            raise UsageError(f"{place}: {error.message}") from None
        except UsageError as error:
            raise UsageError(str(error) if str(error).startswith(file.source) else f"{place}: {error}") from None
        return planned

    def _hosts(self) -> list[FarHost]:
        return [self.host, *([self.host.database] if self.host.database else [])]

    def run(self, file: StudyFile, planned: Planned, options: RunOptions) -> RunResult:
        application_of(file.study.stack).build(self.watcher.message)
        ensure_agent(self.watcher.message)
        for host in self._hosts():
            host.refresh()
        system = FarSystem(file.study, self.host, self.store.directory)
        run = StudyRun(
            *(file, planned, self.store, self.host, system, self.watcher, self.host.guard),
            budget=options.budget,
            give_up=options.give_up,
            opened=options.opened,
            part=options.part,
        )
        try:
            return run.execute(options.fresh, options.go_on)
        finally:
            for host in self._hosts():
                host.hang_up()
