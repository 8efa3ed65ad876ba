"""A host over SSH as the life of a trial sees it: everything is asked of leadline's agent there.

Another kernel is chosen for the next boot only, so that a hang comes back to the usual one. Of GRUB: ``grub-reboot``
writes ``next_entry``, which the menu clears when it has read it. A menu that does not ask for it would ignore the
choice, and is refused.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from leadline.host.base import Ability, Elsewhere
from leadline.host.local import LocalHost
from leadline.host.watchdog import Watchdog
from leadline.load.cluster.hosts import Offset
from leadline.model.errors import FailureClass, LeadlineError, RestoreError, TrialFailure, UsageError, did_you_mean
from leadline.model.hosts import KERNEL, SshHost, release_knob
from leadline.model.knob import Knob, Level, Machine
from leadline.model.study import HOST_ROLES
from leadline.places.ssh.connection import Bundle, Channel, Connection, bundle
from leadline.places.ssh.wire import ConnectionLost

_FEWEST = 2  # kernels that are a choice
CONFIGURATION = ("/boot/grub/grub.cfg", "/boot/grub2/grub.cfg")
BOOTS = 600.0  # seconds that a host may take to come back
_DOWN = 5.0  # seconds between two tries to reach it
_MENU = re.compile(
    r"""^\s*(submenu|menuentry)\s+(?:'([^']*)'|"([^"]*)").*?(?:\$menuentry_id_option\s+'([^']*)')?\s*\{"""
)
_LINUX = re.compile(r"^\s*linux(?:16|efi)?\s+\S*?vmlinuz-(\S+)")


class Bootable(Protocol):
    """What is asked of a host to boot it."""

    def run(self, command: Sequence[str]) -> str:
        """Standard output, as root. Raises LeadlineError for another exit code than 0."""

    def text(self, path: str) -> str:
        """A file; empty where there is none."""

    def boot_id(self) -> str:
        """Of the present boot. Raises LeadlineError where it cannot be reached."""


@dataclass(frozen=True)
class BootEntry:
    """A kernel in GRUB's menu: ``place`` as ``grub-reboot`` takes it."""

    release: str
    place: str
    recovery: bool = False


def entries(text: str) -> list[BootEntry]:
    """The kernels in a ``grub.cfg``, in its order. Identifiers stand in place of titles where there are any."""
    entries: list[BootEntry] = []
    above: list[tuple[str, int]] = []  # open menus with their depth of braces
    depth, title = 0, ""
    for line in text.splitlines():
        if menu := _MENU.match(line):
            name = menu[4] or menu[2] or menu[3] or ""
            if menu[1] == "submenu":
                above.append((name, depth))
            else:
                title = name
        elif (kernel := _LINUX.match(line)) and title:
            place = ">".join([*(name for name, _ in above), title])
            entries.append(BootEntry(kernel[1], place, "recovery" in title))
            title = ""
        depth += _braces(line)
        while above and depth <= above[-1][1]:
            above.pop()
    return entries


def kernel_knob(machine: Bootable) -> Knob | None:
    """The kernel of a host as a factor; None where its boot loader offers no two."""
    releases = list(dict.fromkeys(entry.release for entry in entries(_menu(machine)) if not entry.recovery))
    if len(releases) < _FEWEST:
        return None
    text = "The kernel of the host, as uname -r says it: booted once, the usual one is what boots next"
    return release_knob(releases, text, "grub-reboot(8)")


def _menu(machine: Bootable) -> str:
    return next((text for path in CONFIGURATION if (text := machine.text(path))), "")


def _braces(line: str) -> int:
    """Blocks that a line opens, less those that it closes; ``${variable}`` is none."""
    bare = re.sub(r"\$\{[^}]*\}|'[^']*'|\"[^\"]*\"", "", line.partition("#")[0])
    return bare.count("{") - bare.count("}")


def boot(
    machine: Bootable,
    title: str,
    release: str,
    seconds: float = BOOTS,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Have a host run the kernel ``release`` (as ``uname -r`` says it), by one reboot where it runs another one.

    Raises UsageError for a kernel that is not installed there and a boot loader that cannot choose once, TrialFailure
    (infrastructure) for a host that does not come back in time, or comes back with another kernel.
    """
    if machine.run(["uname", "-r"]).strip() == release:
        return
    place = _chosen(machine, title, release)
    before = machine.boot_id()
    machine.run(["grub-reboot", place])
    machine.run(["sync"])
    with suppress(LeadlineError):  # the connection ends with it
        machine.run(["systemctl", "reboot"])
    _wait_for_another_boot(machine, title, before, seconds, clock, sleep)
    runs = machine.run(["uname", "-r"]).strip()
    if runs != release:
        raise TrialFailure(
            FailureClass.INFRASTRUCTURE,
            f"{title} came back with kernel {runs}, not with {release}, which was chosen for one boot: that kernel did"
            " not start there, or the boot loader did not heed the choice",
        )


def _chosen(machine: Bootable, title: str, release: str) -> str:
    menu = _menu(machine)
    if not menu:
        raise UsageError(f"{title}: there is no {CONFIGURATION[0]}; only kernels that GRUB boots can be chosen")
    places = {entry.release: entry.place for entry in reversed(entries(menu)) if not entry.recovery}
    if release not in places:
        hint = did_you_mean(release, list(places)) or f"it has {', '.join(places) or 'none'}"
        raise UsageError(f"{title}: no kernel {release} is installed there; {hint}")
    if "save_env next_entry" not in menu:
        raise UsageError(
            f"{title}: its GRUB does not heed a choice for one boot; write GRUB_DEFAULT=saved in /etc/default/grub"
            " there and run update-grub"
        )
    return places[release]


def _wait_for_another_boot(
    machine: Bootable,
    title: str,
    before: str,
    seconds: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    deadline = clock() + seconds
    while True:
        try:
            if machine.boot_id() != before:
                return
        except LeadlineError:
            pass  # it is on its way
        if clock() > deadline:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"{title} did not come back within {seconds:.0f} s of its reboot; its usual kernel is what boots next",
            )
        sleep(_DOWN)


# A host over SSH as ``boot`` asks it, also while it goes down and comes back.


_BOOT = "/proc/sys/kernel/random/boot_id"


class Booting:
    """Implements ``Bootable``. ``hang_up`` ends whatever the connection carries."""

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
