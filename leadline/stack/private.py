"""What private databases share: own data directory, own port, loopback only, in the foreground, never as root."""

from __future__ import annotations

import shutil
import signal
import time
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from leadline import catalogue
from leadline.host.base import Host, Process, ProcessSpec
from leadline.host.paths import cache_dir
from leadline.model.errors import (
    Event,
    Evidence,
    FailureClass,
    LeadlineError,
    NotInPlay,
    TrialFailure,
    blamed,
    unanswered,
)
from leadline.model.knob import Knob, Level
from leadline.model.places import (
    DATA,
    DATABASE_MOUNT,
    DATABASE_TEMPORARY,
    DEFAULTS,
    DISK,
    FILE_SYSTEMS,
    LOG,
    MOUNTED,
    SCHEDULER,
)
from leadline.stack import databases, places, started
from leadline.stack.base import Endpoint, Progress, ServiceContext, Settings
from leadline.stack.databases import Statistics, plain
from leadline.stack.provision import DRIVERS, Artefact, JdbcDriver, fetch
from leadline.stack.started import Changing

# The places of a private database's files: copied there before its start, brought back after an orderly stop. The data
# at rest stay on the lab's disk. A crash leaves them as they were at the start; where only the log lay elsewhere they
# are marked as not whole, so that no start takes them before they have been restored.


_USES = {DATA: "data", LOG: "log", DATABASE_TEMPORARY: "temporary"}
NAMES = frozenset({*_USES, DATABASE_MOUNT, SCHEDULER})


class DatabasePlaces:
    """``at_rest``: the data directory on the lab's disk. ``log``: what its log is there, a pattern of names."""

    def __init__(self, host: Host, directory: Path, settings: Settings, at_rest: Path, log: str) -> None:
        self._host, self._directory, self._at_rest, self._log = host, directory, at_rest, log
        elsewhere = settings.get(DATA, DISK) != DISK  # then what is to stay on the disk needs a place there
        self._levels = {
            name: str(settings[name])
            for name in _USES
            if settings.get(name, DISK) != DISK or (elsewhere and name in settings)
        }
        self._options = str(settings.get(DATABASE_MOUNT, DEFAULTS))
        self._scheduler = settings.get(SCHEDULER)
        self._paths: dict[str, Path] = {}
        self.told: list[str] = []  # what the places are made of

    @property
    def data(self) -> Path:
        """Where the server works."""
        return self._paths.get(DATA, self._at_rest)

    def path(self, name: str) -> Path | None:
        """The directory of the log or of temporary files, None where it is the server's own."""
        return self._paths.get(name)

    def furnish(self) -> bool:
        """Make the places and copy the files there; whether anything was copied. Again: nothing, until they are
        removed. Raises UsageError, TrialFailure.
        """
        if not self._levels or self._paths:
            return False
        size = 2 * places.size_of(self._at_rest) + places.RAMDISK_SIZE
        if (level := self._levels.get(DATA)) is not None:
            directory, file_system = places.furnished(
                self._host, self._directory, level, _USES[DATA], self._options, size, self._at_rest
            )
            directory.chmod(0o700)
            self._add(DATA, directory, file_system)
        for name in (LOG, DATABASE_TEMPORARY):
            if (level := self._levels.get(name)) is not None:
                directory, file_system = places.make_at(
                    self._host, self._directory, level, _USES[name], self._options, size
                )
                (directory / "files").mkdir(mode=0o700)
                self._add(name, directory / "files", file_system)
        if (log := self._paths.get(LOG)) is not None:
            if DATA not in self._paths:
                databases.mark(self._at_rest)
            _moved(self.data, log, self._log)
        if self._scheduler is not None:
            self.schedule(str(self._scheduler))
        return True

    def _on_devices(self) -> list[Path]:
        """Places that are file systems of their own. Raises NotInPlay."""
        if paths := [path for name, path in self._paths.items() if self._levels[name] in FILE_SYSTEMS]:
            return paths
        raise NotInPlay("no place of the database is a file system of its own on a block device")

    def schedule(self, scheduler: str) -> None:
        """Set the I/O scheduler of the places' devices. Raises LookupError, NotInPlay, TrialFailure(configuration)."""
        for path in self._on_devices():
            self._host.set_scheduler(path, scheduler)

    def scheduler(self) -> Level:
        """The I/O scheduler of the places' devices; all of them where they differ. Raises LookupError, NotInPlay."""
        return ", ".join(sorted({self._host.scheduler(path) for path in self._on_devices()}))

    def _add(self, name: str, path: Path, told: str) -> None:
        self._paths[name] = path
        self.told.append(f"{name} = {self._levels[name]}: {told}")

    def owned(self) -> list[Path]:
        """What the server writes to beside its directory."""
        return [path for use in _USES.values() for path in places.made(self._directory, use)]

    def bring_back(self) -> None:
        """Copy what the stopped server has left back to the lab's disk. Raises TrialFailure."""
        if (log := self._paths.get(LOG)) is not None:
            for path in self.data.glob(self._log):
                if path.is_symlink():
                    path.unlink()
            _moved(log, self.data, self._log)
        if DATA in self._paths:
            databases.save(self.data, self._at_rest)
        elif log is not None:
            databases.unmark(self._at_rest)

    def remove(self) -> None:
        """Free the places; nothing where there are none."""
        for name in self._levels:  # one that could not be filled is there too
            places.remove(self._host, self._directory, _USES[name])
        self._paths.clear()

    def level(self, path: Path) -> Level:
        """The place of ``path``, which the running server has told. Raises LookupError."""
        return places.level_at(self._host, path)

    def options(self) -> Level:
        """Options of mount(8), as asked for where they hold at every place. Raises LookupError, NotInPlay."""
        if not set(self._levels.values()) & set(MOUNTED):
            raise NotInPlay("no place of the database is a file system of its own")
        return places.options_at(self._host, self._paths, self._options)


def _moved(source: Path, target: Path, pattern: str) -> None:
    for path in list(source.glob(pattern)):
        places.copied(path, target / path.name)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


_WORDS = str.maketrans(" -", "__")
T = TypeVar("T")
PASSWORD = "leadline.password"  # in the data directory, so that a snapshot brings its own


class PrivateDatabase(Changing[ServiceContext]):
    """A database from pinned binaries, the shared part of ``leadline.stack.base.Database``.

    ``port``: where it listens; 0 takes a free one at every ``configure``. The data live in
    ``context.directory/data``; ``start`` makes an empty instance where there is none.
    """

    name: ClassVar[str]
    runs: ClassVar[bool] = True
    jdbc_driver: ClassVar[JdbcDriver]
    database: ClassVar[str] = "leadline"
    user: ClassVar[str] = "leadline"
    isolation: ClassVar[Knob]  # of sessions that ask for none
    stop_signal: ClassVar[signal.Signals]
    kept_configuration: ClassVar[str]  # name of its configuration among a trial's artefacts
    pid_file: ClassVar[str]  # in the data directory; a clean stop removes it
    system: ClassVar[str]  # in the data directory: there when the data are
    log_files: ClassVar[str]  # in the data directory: its write-ahead log, a pattern of names

    def __init_subclass__(cls) -> None:
        DRIVERS[cls.jdbc_driver.subprotocol] = cls.jdbc_driver

    def __init__(self, port: int = 0) -> None:
        super().__init__()
        self._given_port = port
        self._port = port
        self._lines: list[str] = []
        self._settings: Settings = {}
        self._counters: Statistics[Any] | None = None
        self._tracks = False
        self._places: DatabasePlaces | None = None

    # what each database fills in -----------------------------------------------------------------------------

    @abstractmethod
    def artefact(self) -> Artefact:
        """The pinned distribution for this machine."""

    @abstractmethod
    def _render(self, name: str, level: Level) -> str:
        """A level as a line of the configuration. Raises LookupError, UsageError."""

    @abstractmethod
    def _write_configuration(self) -> None:
        """Write it for the start, and without passwords among the artefacts."""

    @abstractmethod
    def _command(self) -> list[str]:
        """The command line that starts it in the foreground."""

    @abstractmethod
    def _initialise(self) -> None:
        """Make an empty instance with a password of its own. Raises TrialFailure(infrastructure)."""

    @abstractmethod
    def _ask_first(self) -> None:
        """The first question, which a database answers that is ready. Raises QueryError."""

    @abstractmethod
    def _ask_level(self, name: str) -> Level:
        """A level as the running server tells it. Raises QueryError, LookupError."""

    @abstractmethod
    def _ask_path(self, name: str) -> Path:
        """Where the running server keeps the files of a place. Raises QueryError, LookupError."""

    @abstractmethod
    def _set(self, levels: Settings) -> None:
        """Have the running server take them. Raises QueryError."""

    @abstractmethod
    def _open_counters(self) -> Statistics[Any]: ...

    @abstractmethod
    def _settle(self) -> None:
        """Bring loaded data into their resting state. Raises QueryError."""

    @abstractmethod
    def _end(self, process: Process) -> bool:
        """Wait for the end after the stop signal; whether it came in order."""

    @abstractmethod
    def _reason(self, words: str) -> tuple[str, bool]:
        """Why it did not start, from its log ("" if it does not say), and whether the host is to blame."""

    def knobs(self) -> Sequence[Knob]:
        return [*catalogue.load(self.name).values(), *catalogue.load("database-places").values()]

    # configuration -------------------------------------------------------------------------------------------

    @property
    def version(self) -> str:
        return self.artefact().version

    def provision(self, progress: Progress) -> None:
        fetch(self.artefact(), progress)
        self.jdbc_driver.jar(progress)

    def configure(self, context: ServiceContext, settings: Settings) -> None:
        """Raises LookupError for a knob that is not the database's, UsageError for a level it would round."""
        self._lines = [self._render(name, level) for name, level in sorted(settings.items()) if name not in NAMES]
        self._settings = dict(settings)
        self._context = context
        self._port = self._given_port or context.host.free_port()
        context.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        context.directory.chmod(0o700)
        context.artefacts.mkdir(parents=True, exist_ok=True)
        self._places = DatabasePlaces(context.host, context.directory, settings, self._data, self.log_files)

    def endpoint(self) -> Endpoint:
        """Raises LookupError while there are no data."""
        try:
            password = (self._data / PASSWORD).read_text().strip()
        except FileNotFoundError:
            raise LookupError(f"there are no {self.title} data in {self._data} yet") from None
        return Endpoint(
            self.context.database_address,
            self._port,
            self.database,
            self.user,
            password,
            self.jdbc_driver.subprotocol,
            # as JDBC names it
            str(self._settings.get(self.isolation.name, self.isolation.default)).upper().translate(_WORDS),
        )

    @property
    def _data(self) -> Path:
        """At rest, on the lab's disk."""
        return self.context.directory / "data"

    @property
    def places(self) -> DatabasePlaces:
        """Raises LeadlineError before ``configure``."""
        if self._places is None:
            raise LeadlineError(f"{self.title} has not been configured")
        return self._places

    @property
    def log(self) -> Path:
        return self.context.artefacts / f"{self.name}.log"

    def _unpacked(self) -> Path:
        return fetch(self.artefact(), lambda _: None)

    # life cycle ----------------------------------------------------------------------------------------------

    def start(self) -> Process:
        """Start it; an empty instance is made first where there are no data.

        Raises TrialFailure(infrastructure) when the port is in use, a server still runs on the data or a restore
        was interrupted.
        """
        context = self.context
        if databases.interrupted(self._data):
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"{self._data}: a restore, or a run with its log elsewhere, was interrupted: restore it again",
            )
        self._require_stopped()
        if not (self._data / self.system).exists():
            self._initialise()
        if context.host.port_taken(self._port):
            raise TrialFailure(FailureClass.INFRASTRUCTURE, self._port_taken())
        self._furnish()
        self._write_configuration()
        spec = ProcessSpec(
            name="database",
            argv=self._command(),
            output=self.log,
            env={"LC_ALL": "C"},
            cwd=context.directory,
            cpus=context.placement.database_cpus,
            limits=context.placement.limits("database"),
            owns=(context.directory, *self.places.owned()),
            reads=(self._unpacked(),),
        )
        return self.launch(context.host, spec)

    def _furnish(self) -> None:
        if not self.places.furnish():
            return
        self._link()
        file = self.context.artefacts / f"{self.name}-places.txt"
        file.write_text("".join(f"{line}\n" for line in self.places.told))
        if self.context.cold:
            self.context.host.drop_page_cache()

    def _link(self) -> None:
        """Where the server finds files elsewhere by links below its data, set them."""

    def wait_ready(self, timeout: float) -> float:
        """Seconds from start to the first right answer.

        Raises TrialFailure with the server's own words.
        """
        process = self.process
        while True:
            if not process.alive():
                end = started.of_process(self.context.host.files, process, self.words(), ready=False)
                raise self._start_failure(f"{self.title} {end.before_ready}", end)
            try:
                self._ask_first()
                return self.is_ready()
            except started.QueryError as refused:
                error = str(refused)
            if time.monotonic() - self._started > timeout:
                late = Event.STOPPED if started.stopped(self.context.host.files, process.pids()) else Event.LATE
                raise self._start_failure(f"{self.title} was not ready after {timeout:g} s: {error}", Evidence(late))
            time.sleep(0.02)

    def read_back(self, name: str) -> Level:
        try:
            if name == DATABASE_MOUNT:
                return self.places.options()
            if name == SCHEDULER:
                return self.places.scheduler()
            if name in NAMES:
                return self.places.level(self._ask_path(name))
            return self._ask_level(name)
        except started.QueryError as error:
            raise LookupError(f"{self.title} cannot be asked for {name}: {error}") from error

    def change(self, levels: Settings) -> None:
        if (scheduler := levels.get(SCHEDULER)) is not None:
            self.places.schedule(str(scheduler))
        if not (levels := {name: level for name, level in levels.items() if name != SCHEDULER}):
            return
        try:
            self._set(levels)
        except started.QueryError as error:
            message = f"{self.title} refuses {', '.join(levels)}: {error}"
            raise blamed(Evidence(unanswered(error)), message) from error

    def stats(self) -> dict[str, float]:
        """Counters of the running server, see ``Statistics`` of its client. Raises LookupError."""
        return self._asked(lambda statistics: statistics.read())

    def track(self, on: bool) -> None:
        """Count statements from now on, or no more. Never fails a trial: ``statements`` then tells nothing."""
        self._tracks = on
        with suppress(LookupError):
            self._asked(lambda statistics: statistics.track(on))

    def statements(self) -> dict[str, float]:
        """While they are tracked, ``calls`` and ``ms`` of each since the start, each with a tab and the ``plain`` text.
        Raises LookupError.
        """
        sums = defaultdict[str, float](float)
        for text, calls, ms in self._asked(lambda statistics: statistics.statements()) if self._tracks else ():
            sums[f"calls\t{plain(text)}"] += calls
            sums[f"ms\t{plain(text)}"] += ms
        return sums

    def _asked(self, question: Callable[[Statistics[Any]], T]) -> T:
        if self._counters is None:
            self._counters = self._open_counters()
        try:
            return question(self._counters)
        except started.QueryError as error:
            raise LookupError(f"{self.title} cannot be asked: {error}") from error

    def settle(self) -> None:
        """Bring loaded data into a resting state, so that they start every trial alike.

        Raises TrialFailure(infrastructure).
        """
        try:
            self._settle()
        except started.QueryError as error:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, f"{self.title} could not settle its data: {error}", self.log_tail()
            ) from error

    def stop(self) -> bool:
        """Orderly shutdown, then killed. True if it was orderly."""
        if self._counters is not None:
            self._counters.close()
            self._counters = None
        process, self._process = self._process, None
        clean = True
        if process is not None:
            process.signal(self.stop_signal)
            clean = self._end(process)
            process.stop(grace=0.5)  # whatever is left of the group
            clean = clean and process.exit_code() == 0
        return self._leave(clean and process is not None) and clean

    def _leave(self, bring_back: bool) -> bool:
        """Free the places, with what they hold brought back before; False where that could not be."""
        if self._places is None:
            return True
        try:
            if bring_back:
                self._unlink()
                self._places.bring_back()
        except TrialFailure as error:
            with self.log.open("a") as log:
                log.write(f"leadline: {error}\n")
            return False
        finally:
            self._places.remove()
        return True

    def _unlink(self) -> None:
        """Take away what ``_link`` has set for temporary files."""

    def log_tail(self, lines: int = 40) -> str:
        return started.tail(self.log, lines)

    def artefacts(self) -> Sequence[Path]:
        logs = [self.log, self.log.with_name(self.kept_configuration)]
        return [path for path in logs if path.exists()]

    # data ----------------------------------------------------------------------------------------------------

    def snapshot(self, name: str) -> None:
        self._require_stopped()
        if (self._data / self.pid_file).exists():
            raise LeadlineError(f"{self.title} did not stop cleanly in {self._data}: no snapshot is made of it")
        databases.save(self._data, self._snapshot(name))

    def has_snapshot(self, name: str) -> bool:
        return (self._snapshot(name) / self.system).exists()

    def restore(self, name: str) -> None:
        """Raises LookupError without that snapshot, TrialFailure(infrastructure) while a server runs on the data."""
        if not self.has_snapshot(name):
            raise LookupError(f"there is no snapshot {name}")
        self._require_stopped()
        self._before_restore()
        databases.put_back(self._snapshot(name), self._data)

    def _before_restore(self) -> None:
        """Give back what a server that was killed on these data still holds."""
        return

    def digest(self) -> str:
        """SHA-256 over names and contents of the stopped data directory."""
        return started.directory_digest(self._data)

    def _snapshot(self, name: str) -> Path:
        # data files of another release or CPU may not be readable
        return cache_dir() / "data" / f"{self.artefact().directory_name}-{name}"

    # helpers -------------------------------------------------------------------------------------------------

    def _require_stopped(self) -> None:
        """Raises TrialFailure when a server, of this or another leadline, runs on the data directory."""
        pid = started.runs_in(self.context.host.files, self._data / self.pid_file, self._data)
        if pid is not None:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, f"a {self.title} (process {pid}) still runs on the data in {self._data}"
            )

    def _port_taken(self) -> str:
        return f"port {self._port} on {started.LOOPBACK} is in use: {self.title} cannot listen"

    def _start_failure(self, message: str, evidence: Evidence) -> TrialFailure:
        words = self.words()
        reason, host = self._reason(words)
        if "Address already in use" in words:
            message = self._port_taken()
        elif reason:
            message = f"{message}: {reason}"
        failure = blamed(evidence, message, words)
        return TrialFailure(FailureClass.INFRASTRUCTURE, message, words) if host else failure
