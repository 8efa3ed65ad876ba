"""Hosts over SSH as a testbed: studies with the plan, store and life cycle of all others, their services over there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from leadline.far.host import FarHosts, Place
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
from leadline.lab.web import web_servers
from leadline.model.errors import LeadlineError, TrialFailure, UsageError
from leadline.model.hosts import SshHost
from leadline.model.knob import Knob
from leadline.model.study import Study
from leadline.stack.registry import application_of
from leadline.stack.running import require_none_running
from leadline.stack.servers.agent import ensure_agent


class FarTestbed(MachineTestbed):
    """``hosts``: role -> host, see ``StackChoice.ssh_hosts``."""

    def __init__(
        self,
        lab: Path,
        hosts: Mapping[str, SshHost],
        watcher: Watcher | None = None,
        disposable: bool = False,
        service_knobs: Sequence[Knob] | None = None,
    ) -> None:
        super().__init__(lab, watcher, disposable, service_knobs)
        self.host = FarHosts(hosts, disposable, self.watcher.message)

    @cached_property
    def store(self) -> Store:
        require_none_running(self.directory, LocalHost())
        return Store(self.directory)

    def plan(self, file: StudyFile, idle_settings: bool = False) -> Planned:
        """Also asks the hosts. Raises UsageError for one that cannot be used."""
        check_over_ssh(file)
        for place in self.host.places:
            with _at(file, place.roles):
                place.host.reach()
        with _at(file, ()):
            planned = plan_study(file, self.host, self.knobs(file), self.disposable, idle_settings, self.host.of)
            check_far_machine(file, self.host.of, self.host.local)
        for place in self.host.places:
            with _at(file, place.roles):
                self._check_stack(file.study, place)
        return planned

    def _check_stack(self, study: Study, place: Place) -> None:
        """That a host has what its part of the stack needs and is not sent."""
        there = study.stack.model_copy(update={"host": "local", "hosts": None, "own": None})
        roles = [role for role in place.roles if role == "web" or study.stack.own is None]
        try:
            place.host.ask("check_stack", there, roles, web_servers(study))
        except TrialFailure:
            raise
        except LeadlineError as error:
            reason = str(error)
            raise UsageError(
                reason if reason.startswith(place.host.title) else f"{place.host.title}: {reason}"
            ) from None

    def run(self, file: StudyFile, planned: Planned, options: RunOptions) -> RunResult:
        application_of(file.study.stack).build(self.watcher.message)
        ensure_agent(self.watcher.message)
        for place in self.host.places:
            place.host.refresh()
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
            for place in self.host.places:
                place.host.hang_up()


@contextmanager
def _at(file: StudyFile, roles: Sequence[str]) -> Iterator[None]:
    """Errors name the line of the host that has these roles."""
    hosts = file.study.stack.hosts
    named = [role for role in roles if hosts is not None and role in hosts.named()]
    place = file.where(("stack", "hosts", *named[:1]) if hosts else ("stack", "host"))
    try:
        yield
    except TrialFailure as error:
        raise UsageError(f"{place}: {error.message}") from None
    except UsageError as error:
        placed = str(error).startswith((file.source, place))
        raise UsageError(str(error) if placed else f"{place}: {error}") from None
