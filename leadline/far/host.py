"""A host over SSH as the life of a trial sees it: everything is asked of leadline's agent there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from typing import Any

from leadline.far.boot import boot, kernel_knob
from leadline.far.booting import Booting
from leadline.far.connection import Channel, Connection
from leadline.far.ship import Bundle, bundle
from leadline.far.wire import ConnectionLost
from leadline.host.base import Ability
from leadline.host.local import LocalHost
from leadline.host.release import KERNEL
from leadline.host.watchdog import Watchdog
from leadline.load.cluster.clock import Offset
from leadline.model.errors import LeadlineError, RestoreError, TrialFailure, UsageError
from leadline.model.hosts import SshHost
from leadline.model.knob import Knob, Level, Machine

_CONNECTING = (0.0, 1.0, 3.0)  # seconds before each try to reach it again
_DYING = 10.0  # seconds beyond the dead-man time for an agent that lost its controller
_ASKING = 60.0  # seconds for a question that is no work


class FarHost:
    """Implements ``leadline.host.base.TrialHost``.

    ``reach`` connects, again where the connection was lost; inside ``guard`` the host is guarded again then, and what
    its watchdog would have put back is put back at once. ``lost`` counts how often that was so.
    """

    def __init__(self, ssh: SshHost, disposable: bool = False, tell: Callable[[str], None] = lambda _: None) -> None:
        self.ssh = ssh
        self.connection = Connection(ssh)
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
    def name(self) -> str:
        return str(self.ssh)

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
            self._tell(f"{self.name}: connected again")

    def _connect(self) -> None:
        self.connection.open()
        if self._bundle is None:
            self._bundle = bundle()
        self._channel = self.connection.agent(self._bundle, self._disposable, lambda line: self._tell(line))
        about = self._channel.ask("about", timeout=_ASKING)
        self.cache = str(about["cache"])
        self.clock = self._channel.clock()
        if self._dead_man is not None:
            self._guard(self._dead_man)
            for line in self._channel.ask("restore"):
                self._tell(f"{self.name}: put back: {line}")

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
        found = self.ask("host.machine")
        assert isinstance(found, Machine)
        return found

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
        self.reach()
        own = dict(levels)
        if (release := own.pop(KERNEL, None)) is not None:
            self._usual = self._usual or str(self.read_back(KERNEL))
            self._boot(str(release))
        self.ask("host.apply", own)

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
        self.reach()
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
        found = self.ask("host.temporary")
        return {str(name): (str(was), str(now)) for name, (was, now) in found.items()}

    def facts(self) -> Mapping[str, str]:
        self.reach()
        clock = f"{self.clock.ns / 1e6:+.3f} ms, known to {self.clock.uncertainty_ns / 1e6:.3f} ms"
        about = {"reached.by": self.name, "reached.address": self.connection.address, "reached.clock": clock}
        return {**{str(name): str(fact) for name, fact in self.ask("host.facts").items()}, **about}

    # for commands --------------------------------------------------------------------------------------------

    def today(self) -> Mapping[str, tuple[Level, str]]:
        """Each knob's level there, and why it cannot be set; empty if it can."""
        return {str(name): (level, str(why)) for name, (level, why) in self.ask("today").items()}


class FarHosts(FarHost):
    """The application's host, whose kernel a study's knobs are of. Beside it the database's, and the driver's: this
    one, leased and watched as well.
    """

    def __init__(
        self,
        ssh: SshHost,
        database: SshHost | None = None,
        disposable: bool = False,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(ssh, disposable, tell)
        self.local = LocalHost()
        self.database = FarHost(database, disposable, tell) if database else None

    def held(self) -> AbstractContextManager[object]:
        """This machine's lease; those of the far hosts are taken by each study."""
        return self.local.held()

    @contextmanager
    def guard(self, dead_man: float) -> Iterator[Watchdog]:
        with ExitStack() as held:
            watchdog = held.enter_context(self.local.guard(dead_man))
            if self.database is not None:
                held.enter_context(self.database.guard(dead_man))
            held.enter_context(super().guard(dead_man))
            yield watchdog

    def restore(self) -> Sequence[str]:
        """Every host is tried. Raises RestoreError naming what could not be put back."""
        lines, wrong = list[str](), list[str]()
        far = [(self.name, super().restore)]
        if self.database is not None:
            far.append((self.database.name, self.database.restore))
        for where, restore in [*far, ("", self.local.restore)]:
            try:
                lines += [f"{where}: {line}" if where else line for line in restore()]
            except LeadlineError as error:
                wrong.append(str(error))
        if wrong:
            raise RestoreError("\n".join(wrong))
        return lines

    def facts(self) -> Mapping[str, str]:
        own = dict(super().facts())
        if self.database is not None:
            own |= {f"database.{name}": fact for name, fact in self.database.facts().items()}
        driver = self.local.facts()
        return own | {f"driver.{name}": driver[name] for name in ("cpu.model", "cpu.usable", "kernel.release")}

    def read_clocks(self) -> None:
        """Of every host, again: clocks run apart."""
        for host in [self, *([self.database] if self.database else [])]:
            host.read_clock()
