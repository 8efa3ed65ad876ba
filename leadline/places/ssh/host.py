"""A host over SSH as the life of a trial sees it: everything is asked of leadline's agent there."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from leadline.host.base import Ability, Elsewhere
from leadline.host.local import LocalHost
from leadline.host.watchdog import Watchdog
from leadline.load.cluster.hosts import Offset
from leadline.model.errors import FailureClass, LeadlineError, RestoreError, TrialFailure, UsageError
from leadline.model.hosts import KERNEL, SshHost
from leadline.model.knob import Knob, Level, Machine
from leadline.model.study import HOST_ROLES
from leadline.places.ssh.boot import boot, kernel_knob
from leadline.places.ssh.connection import Channel, Connection
from leadline.places.ssh.ship import Bundle, bundle
from leadline.places.ssh.wire import ConnectionLost

# A host over SSH as ``leadline.places.ssh.boot`` asks it, also while it goes down and comes back.


_BOOT = "/proc/sys/kernel/random/boot_id"


class Booting:
    """Implements ``leadline.places.ssh.boot.Machine``. ``hang_up`` ends whatever the connection carries."""

    def __init__(self, reach: Callable[[], None], hang_up: Callable[[], None], connection: Connection) -> None:
        self._reach, self._hang_up, self._connection = reach, hang_up, connection
        self._down = False

    def run(self, command: Sequence[str]) -> str:
        """Raises ConnectionLost, LeadlineError."""
        if not self._down:
            self._reach()
        try:
            return self._connection.run_as_root(f"exec {shlex.join(command)}")
        finally:
            self._down = list(command) == ["systemctl", "reboot"]

    def text(self, path: str) -> str:
        return self._connection.run_as_root(f"cat {shlex.quote(path)} 2> /dev/null || true")

    def boot_id(self) -> str:
        """Tried once, by a new connection while it is down. Raises ConnectionLost."""
        if self._down:
            self._hang_up()
            self._connection.open()
        return self._connection.run_as_root(f"exec cat {_BOOT}")


_CONNECTING = (0.0, 1.0, 3.0)  # seconds before each try to reach it again
_AWAY = (10.0, 20.0, 30.0)  # seconds between rounds of such tries, for a trial
_DYING = 10.0  # seconds beyond the dead-man time for an agent that lost its controller
_STARTING = 300.0  # seconds until its agent has begun: a slow host compiles leadline at each start
_ASKING = 60.0  # seconds for a question that is no work


class FarHost(Elsewhere):
    """Implements ``leadline.host.base.TrialHost``.

    ``reach`` connects, again where the connection was lost; inside ``guard`` the host is guarded again then, and what
    its watchdog would have put back is put back at once. ``lost`` counts how often that was so.
    """

    def __init__(
        self,
        ssh: SshHost,
        disposable: bool = False,
        tell: Callable[[str], None] = lambda _: None,
        role: str = "",
    ) -> None:
        self.ssh, self.name = ssh, str(ssh)
        self.connection = Connection(ssh, role)
        self.lost = 0
        self.clock = Offset(0, 0)
        self.cache = ""
        self._disposable = disposable
        self._tell = tell
        self._channel: Channel | None = None
        self._bundle: Bundle | None = None
        self._dead_man: float | None = None
        self._usual = ""  # the kernel that ran before a study chose another

    @property
    def title(self) -> str:
        """The name, with the role where a study has several hosts."""
        return self.connection.title

    # the connection ------------------------------------------------------------------------------------------

    def reach(self, tell: Callable[[str], None] | None = None) -> None:
        """Connect where there is no connection, for a moment again and again. Raises ConnectionLost, UsageError."""
        if tell is not None:
            self._tell = tell
        if self._channel is not None and self._channel.alive() and self.connection.alive():
            return
        again = self._channel is not None
        self.hang_up()
        for pause in _CONNECTING:
            time.sleep(pause)
            try:
                self._connect()
                break
            except ConnectionLost as error:
                lost = error
                self.hang_up()
        else:
            raise lost
        if again:
            self.lost += 1
            self._tell(f"{self.title}: connected again")

    def reach_for_trial(self) -> None:
        """Wait longer for a host that was lost. Raises TrialFailure(interrupted) for one that stays away: that says
        nothing of the trial, which runs again with the next run. Raises UsageError.
        """
        for pause in (*_AWAY, None):
            try:
                self.reach()
                return
            except ConnectionLost as lost:
                if pause is None:
                    raise TrialFailure(FailureClass.INTERRUPTED, lost.message, lost.evidence) from None
                self._tell(f"waiting for {lost.message}")
            time.sleep(pause)

    def _connect(self) -> None:
        self.connection.open()
        if self._bundle is None:
            self._bundle = bundle()
        self._channel = self.connection.agent(self._bundle, self._disposable, lambda line: self._tell(line))
        about = self._channel.ask("about", timeout=_STARTING)
        self.cache = str(about.get("cache", ""))
        self.clock = self._channel.clock()
        if self._dead_man is not None:
            self._guard(self._dead_man)
            for line in self._channel.ask("restore"):
                self._tell(f"{self.title}: put back: {line}")

    def _guard(self, dead_man: float) -> None:
        assert self._channel is not None
        deadline = time.monotonic() + (dead_man + _DYING if self._dead_man is not None else 0.0)
        while True:
            try:
                self._channel.ask("guard", dead_man)
                break
            except LeadlineError as error:  # the agent before this one has not heard yet that it is alone
                if isinstance(error, ConnectionLost) or time.monotonic() > deadline:
                    raise
            time.sleep(0.5)
        self._channel.beat = min(self._channel.beat, dead_man / 5)

    def refresh(self) -> None:
        """Start anew with what leadline is now, where something was built since. Raises ConnectionLost."""
        now = bundle()
        if self._bundle is not None and now.digest != self._bundle.digest:
            self.hang_up()
            self._channel = None
        self._bundle = now
        self.reach()

    def hang_up(self) -> None:
        """End the connection; the agent ends with it."""
        if self._channel is not None:
            self._channel.close()
        self.connection.close()

    def ask(self, do: str, *given: object, timeout: float = 3600.0) -> Any:
        """What the agent answers. Raises ConnectionLost, and what the agent raised."""
        if self._channel is None:
            self.reach()
        assert self._channel is not None
        return self._channel.ask(do, *given, timeout=timeout)

    def read_clock(self) -> None:
        """Its offset to this host's, again. Raises ConnectionLost."""
        assert self._channel is not None
        self.clock = self._channel.clock()

    # a planned host ------------------------------------------------------------------------------------------

    @cached_property
    def _knobs(self) -> list[Knob]:
        return list(LocalHost(directories={}).knobs())  # of the catalogue: the same package is there

    def knobs(self) -> Sequence[Knob]:
        """Also ``kernel.release`` where its GRUB has kernels to choose from."""
        return [*self._knobs, *self._kernels]

    @cached_property
    def _kernels(self) -> list[Knob]:
        knob = kernel_knob(self._booting()) if self.connection.root else None
        return [knob] if knob else []

    def _booting(self) -> Booting:
        return Booting(self.reach, self.hang_up, self.connection)

    def cpus(self) -> Sequence[int]:
        return [int(number) for number in self.ask("host.cpus")]

    def machine(self) -> Machine:
        machine = self.ask("host.machine")
        assert isinstance(machine, Machine)
        return machine

    def writable(self, name: str) -> str:
        if name == KERNEL:
            return ""
        return str(self.ask("host.writable", name))

    def lacks(self, ability: Ability) -> str:
        return str(self.ask("host.lacks", ability))

    # the life of a trial -------------------------------------------------------------------------------------

    @contextmanager
    def guard(self, dead_man: float) -> Iterator[object]:
        """Also raises LeadlineError naming the host."""
        self.reach()
        try:
            self._guard(dead_man)
        except UsageError:
            raise
        except (TrialFailure, LeadlineError) as error:
            raise LeadlineError(str(error)) from error
        self._dead_man = dead_man
        try:
            yield self
        finally:
            self._dead_man = None
            try:
                self.ask("finish", timeout=_ASKING)
            except (LeadlineError, OSError):  # lost: its watchdog knows what is left
                self.hang_up()

    def apply(self, levels: Mapping[str, Level]) -> None:
        self.reach_for_trial()
        levels_of_host = dict(levels)
        if (release := levels_of_host.pop(KERNEL, None)) is not None:
            self._usual = self._usual or str(self.read_back(KERNEL))
            self._boot(str(release))
        self.ask("host.apply", levels_of_host)

    def _boot(self, release: str) -> None:
        self._tell(f"{self.name}: kernel {release}")
        boot(self._booting(), self.name, release)
        self.reach()

    def read_back(self, name: str) -> Level:
        self.reach()
        if name == KERNEL:
            return self._booting().run(["uname", "-r"]).strip()
        level: Level = self.ask("host.read_back", name)
        return level

    def busy(self, seconds: float) -> float:
        self.reach_for_trial()
        return float(self.ask("host.busy", seconds))

    def drop_page_cache(self) -> None:
        self.ask("host.drop_page_cache")

    def swap_off(self) -> None:
        self.ask("host.swap_off")

    def restore(self) -> Sequence[str]:
        """Also raises RestoreError where the host cannot be reached: its watchdog puts it back."""
        try:
            self.reach()
            lines = [str(line) for line in self.ask("restore")]
            if self._usual and self.read_back(KERNEL) != self._usual:
                self._boot(self._usual)
                lines.append(f"kernel {self._usual} booted again")
            return lines
        except ConnectionLost as error:
            raise RestoreError(
                f"{error.message}. Its watchdog puts it back by itself; leadline restore --host {self.name} tells when"
                " it is done"
            ) from error

    def temporary(self) -> Mapping[str, tuple[str, str]]:
        temporary = self.ask("host.temporary")
        return {str(name): (str(was), str(now)) for name, (was, now) in temporary.items()}

    def facts(self) -> Mapping[str, str]:
        self.reach()
        clock = f"{self.clock.ns / 1e6:+.3f} ms, known to {self.clock.uncertainty_ns / 1e6:.3f} ms"
        about = {"reached.by": self.name, "reached.address": self.connection.address, "reached.clock": clock}
        return {**{str(name): str(fact) for name, fact in self.ask("host.facts").items()}, **about}

    # for commands --------------------------------------------------------------------------------------------

    def today(self) -> Mapping[str, tuple[Level, str]]:
        """Each knob's level there, and why it cannot be set; empty if it can."""
        return {str(name): (level, str(why)) for name, (level, why) in self.ask("today").items()}


@dataclass(frozen=True)
class Place:
    """What one far host is to a study: its ``roles``, the application's with those that no other has, and the
    ``folder`` of a trial's directory that takes what it recorded: of the application's the directory itself.
    """

    host: FarHost
    roles: tuple[str, ...]
    folder: str


class FarHosts(FarHost):
    """The application's host, whose kernel a study's knobs are of. Beside it those of other roles, and the driver's:
    this one, leased and watched as well. ``hosts``: role -> host, `application` among them, see
    ``StackChoice.ssh_hosts``.
    """

    def __init__(
        self,
        hosts: Mapping[str, SshHost],
        disposable: bool = False,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        application = hosts["application"]
        roles = {ssh: tuple(role for role, host in hosts.items() if host == ssh) for ssh in hosts.values()}
        super().__init__(application, disposable, tell, "application" if len(roles) > 1 else "")
        self.local = LocalHost()
        roles_there = tuple(role for role in HOST_ROLES if hosts.get(role, application) == application)
        self.places = [
            Place(self, roles_there, "")
            if ssh == application
            else Place(FarHost(ssh, disposable, tell, " and ".join(names)), names, f"{'-'.join(names)}-host")
            for ssh, names in roles.items()
        ]

    def of(self, role: str) -> FarHost:
        """The host that has a role."""
        return next(place.host for place in self.places if role in place.roles)

    @property
    def elsewhere(self) -> list[str]:
        """Roles that another host than the application's has."""
        return [role for place in self.places if place.host is not self for role in place.roles]

    def held(self) -> AbstractContextManager[object]:
        """This machine's lease; those of the far hosts are taken by each study."""
        return self.local.held()

    @contextmanager
    def guard(self, dead_man: float) -> Iterator[Watchdog]:
        with ExitStack() as exit_stack:
            watchdog = exit_stack.enter_context(self.local.guard(dead_man))
            for place in self.places:
                if place.host is not self:
                    exit_stack.enter_context(place.host.guard(dead_man))
            exit_stack.enter_context(super().guard(dead_man))
            yield watchdog

    def restore(self) -> Sequence[str]:
        """Every host is tried. Raises RestoreError naming what could not be put back."""
        lines, wrong = list[str](), list[str]()
        far = [(host.title, host.restore) for host in (place.host for place in self.places) if host is not self]
        for where, restore in [(self.title, super().restore), *far, ("", self.local.restore)]:
            try:
                lines += [f"{where}: {line}" if where else line for line in restore()]
            except LeadlineError as error:
                wrong.append(str(error))
        if wrong:
            raise RestoreError("\n".join(wrong))
        return lines

    def drop_page_cache(self) -> None:
        for place in self.places:
            place.host.ask("host.drop_page_cache")

    def swap_off(self) -> None:
        for place in self.places:
            place.host.ask("host.swap_off")

    def temporary(self) -> Mapping[str, tuple[str, str]]:
        states_by_name = dict(super().temporary())
        for host in (place.host for place in self.places if place.host is not self):
            states_by_name |= {f"{host.title}: {name}": states for name, states in host.temporary().items()}
        return states_by_name

    def facts(self) -> Mapping[str, str]:
        facts = dict(super().facts())
        for role in self.elsewhere:
            facts |= {f"{role}.{name}": fact for name, fact in self.of(role).facts().items()}
        driver = self.local.facts()
        return facts | {f"driver.{name}": driver[name] for name in ("cpu.model", "cpu.usable", "kernel.release")}

    def read_clocks(self) -> None:
        """Of every host, again: clocks run apart."""
        for place in self.places:
            place.host.read_clock()
