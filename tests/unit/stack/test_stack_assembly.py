"""A stack starts in dependency order, stops in reverse, and says why a part is gone."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from known_knobs import service_catalogue

from leadline.host import procfs
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.model.knob import ApplyCost, Kind, Knob, Level, Owner
from leadline.model.study import Placement, StackChoice
from leadline.stack import assembly, registry, running, started
from leadline.stack.assembly import Stack
from leadline.stack.base import DataSource, Deployment, Endpoint, Feature, Ready, ServiceContext
from leadline.stack.options import StackOptions, plain_directory


@dataclass
class FakeProcess:
    name: str
    pid: int = 0
    code: int | None = None

    def alive(self) -> bool:
        return self.code is None

    def exit_code(self) -> int | None:
        return self.code

    def pids(self) -> list[int]:
        return [self.pid]


@dataclass
class FakeService:
    name: str
    knob: str
    events: list[str]
    version: str = "1"
    stop_signal: int = signal.SIGINT
    unix_socket: bool = False
    runs: bool = True
    fails: bool = False
    log: Path | None = None
    contexts: list[ServiceContext] = field(default_factory=list)
    settings: Mapping[str, Level] = field(default_factory=dict)
    process: FakeProcess | None = None
    snapshots: set[str] = field(default_factory=set)

    def knobs(self) -> Sequence[Knob]:
        return [Knob(self.knob, Kind.INTEGER, ApplyCost.RESTART, "a number", owner=Owner(self.knob.partition(".")[0]))]

    def provision(self, _progress: Any) -> None:
        self.events.append(f"provision {self.name}")

    def prepare(self, deployment: Deployment, _progress: Any) -> None:
        self.events.append(f"prepare {self.name} for {deployment.name}")

    def configure(self, context: ServiceContext, settings: Mapping[str, Level]) -> None:
        self.contexts.append(context)
        self.settings = settings

    def start(self) -> FakeProcess:
        self.events.append(f"start {self.name}")
        self.process = FakeProcess(self.name)
        return self.process

    def wait_ready(self, _timeout: float) -> float:
        if self.fails:
            raise TrialFailure(FailureClass.CONFIGURATION, f"{self.name} did not start")
        self.events.append(f"ready {self.name}")
        return 1.5

    def read_back(self, name: str) -> Level:
        return self.settings[name]

    def stop(self) -> bool:
        self.events.append(f"stop {self.name}")
        return True

    def log_tail(self, lines: int = 40) -> str:
        return f"last words of {self.name}"[: lines * 100]

    def artefacts(self) -> Sequence[Path]:
        return [self.log] if self.log else []

    def endpoint(self) -> Endpoint:
        return Endpoint("127.0.0.1", 5432, "d", "u", "secret")

    def settle(self) -> None:
        self.events.append("settle")

    def snapshot(self, name: str) -> None:
        self.events.append(f"snapshot {name}")
        self.snapshots.add(name)

    def has_snapshot(self, name: str) -> bool:
        return name in self.snapshots

    def restore(self, name: str) -> None:
        self.events.append(f"restore {name}")


class FakeCompanion(FakeService):
    """The process that an application needs beside its server."""

    def properties(self) -> Mapping[str, str]:
        return {"brokerage.beside": self.name}

    knob_names = ("app.switch",)
    address = "http://192.0.2.9:4000"
    used = ""

    def use(self, address: str) -> None:
        self.used = address

    def takes(self) -> Mapping[str, str]:
        return {"clerks": "http://127.0.0.1:7"}

    def reset(self, directory: Path) -> None:
        self.events.append(f"reset {directory.name}")


@dataclass
class FakeApplication:
    archive_file: Path
    events: list[str]
    name: str = "brokerage"
    version: str = "1"
    beside: Sequence[FakeCompanion] = ()

    def companions(self, settings: Mapping[str, Level]) -> Sequence[FakeCompanion]:
        return [] if settings.get("app.switch") == "alone" else self.beside

    def modes(self) -> Sequence[str]:
        return ["direct", "session", "orm"]

    def knobs(self) -> Sequence[Knob]:
        return [
            Knob("app.switch", Kind.CHOICE, ApplyCost.RESTART, "a word", owner=Owner.APPLICATION),
            Knob("app.live", Kind.CHOICE, ApplyCost.LIVE, "another", owner=Owner.APPLICATION),
        ]

    def deployment(self, mode: str, settings: Mapping[str, Level]) -> Deployment:
        levels = {name.replace("app", "brokerage"): str(level) for name, level in settings.items()}
        return Deployment(
            name=self.name,
            archive=self.archive_file,
            context_root="/brokerage",
            data_source=DataSource("jdbc/brokerage"),
            ready=Ready("/health"),
            properties={"brokerage.mode": mode, **levels},
        )

    def read_back(self, url: str, knob: str) -> Level:
        return f"{knob} at {url}"

    def change(self, url: str, levels: Mapping[str, Level]) -> None:
        self.events.append(f"change {dict(levels)} at {url}")

    def build(self, _progress: Any) -> None:
        self.events.append("build")

    def data_key(self, load_units: int, seed: int) -> str:
        return f"key-{load_units}-{seed}"

    def load_data(self, database: Endpoint, load_units: int, seed: int, log: Path) -> None:
        self.events.append(f"load {load_units} {seed} {database.database} {log.name}")


class Parts:
    def __init__(self, folder: Path) -> None:
        self.events: list[str] = []
        archive = folder / "brokerage.war"
        archive.touch()
        self.database = FakeService("postgres", "database.size", self.events)
        self.server = FakeService("liberty", "server.threads", self.events)
        self.application = FakeApplication(archive, self.events)
        self.home = folder / "home"
        limits = Placement(database_memory=32 << 20)
        options = StackOptions(load_units=2, data_seed=7, placement=limits)
        self.stack = Stack(StackChoice(), LocalHost(), self.home, options)
        self.stack.database = self.database  # type: ignore[assignment]
        self.stack.server = self.server  # type: ignore[assignment]
        self.stack.application = self.application  # type: ignore[assignment]


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parts:
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    return Parts(tmp_path)


def quiet(_: str) -> None:
    """Say nothing."""


def test_data_are_loaded_once(parts: Parts) -> None:
    assert parts.stack.prepare_data(quiet) == "key-2-7"
    assert parts.events == [
        "start postgres",
        "ready postgres",
        "load 2 7 d load.log",
        "settle",
        "stop postgres",
        "snapshot key-2-7",
    ]
    parts.events.clear()
    assert parts.stack.prepare_data(quiet) == "key-2-7"
    assert parts.events == []
    assert not (parts.home / "load").exists()


def test_limits_of_memory_are_those_of_trials(parts: Parts, tmp_path: Path) -> None:
    parts.stack.prepare_data(quiet)
    parts.stack.up({}, tmp_path)
    assert [one.placement.database_memory for one in parts.database.contexts] == [None, 32 << 20]


def test_a_start_that_the_kernel_ends_says_why(parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "oom_kills", lambda _files: 5)
    monkeypatch.setattr(started, "oom_kills", lambda _files: 6)
    monkeypatch.setattr(started, "logged_oom_kills", list)
    parts.database.fails = True
    why = r"postgres did not start \(the kernel killed it for want of memory; placement.database_memory is 32m\)"
    with pytest.raises(TrialFailure, match=why):
        parts.stack.up({}, tmp_path)
    with pytest.raises(TrialFailure, match=r"postgres did not start \(the kernel killed it for want of memory\)"):
        parts.stack.prepare_data(quiet)


def test_a_load_that_fails_leaves_no_snapshot_and_no_database(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise LeadlineError("the loader failed")

    monkeypatch.setattr(parts.application, "load_data", broken)
    with pytest.raises(LeadlineError, match="the loader failed"):
        parts.stack.prepare_data(quiet)
    assert parts.events[-1] == "stop postgres"
    assert parts.database.snapshots == set()


def test_up_in_order_and_down_in_reverse(parts: Parts, tmp_path: Path) -> None:
    parts.stack.up({"database.size": 3, "server.threads": 4, "app.switch": "on"}, tmp_path / "trial")
    assert parts.events == ["start postgres", "ready postgres", "start liberty", "ready liberty"]
    assert parts.database.settings == {"database.size": 3}
    assert parts.server.settings == {"server.threads": 4}
    assert parts.stack.read_back("database.size") == 3
    assert parts.stack.read_back("server.threads") == 4
    assert parts.stack.read_back("app.switch") == f"app.switch at {parts.stack.url()}"
    assert set(parts.stack.processes()) == {"database", "server"}
    (context,) = parts.server.contexts
    assert context.database == parts.database.endpoint()
    assert context.application.properties == {"brokerage.mode": "direct", "brokerage.switch": "on"}
    assert context.artefacts == tmp_path / "trial" / "logs"
    assert context.raw == tmp_path / "trial" / "raw"
    assert parts.stack.ready_url() == f"http://127.0.0.1:{context.http_port}/brokerage/health"
    parts.events.clear()
    assert parts.stack.down() == []
    assert parts.events == ["stop liberty", "stop postgres"]
    assert parts.stack.down() == []
    assert parts.events == ["stop liberty", "stop postgres"], "nothing is stopped twice"


def test_a_companion_runs_as_long_as_its_server(parts: Parts, tmp_path: Path) -> None:
    beside = FakeCompanion("supplier", "app.switch", parts.events)
    parts.application.beside = [beside]
    parts.stack.reset_data(tmp_path / "trial")
    parts.stack.up({"app.switch": "on"}, tmp_path / "trial")
    both = ["start supplier", "ready supplier", "start liberty", "ready liberty"]
    assert parts.events == ["restore key-2-7", "reset supplier", "start postgres", "ready postgres", *both]
    assert beside.settings == {"app.switch": "on"}
    assert beside.contexts[0].url == parts.stack.url()  # type: ignore[attr-defined]
    assert parts.server.contexts[-1].application.properties["brokerage.beside"] == "supplier"
    assert list(parts.stack.processes()) == ["database", "supplier", "server"]
    assert parts.stack.population_urls() == {"clerks": "http://127.0.0.1:7"}
    assert beside.process is not None
    beside.process.code = 1
    with pytest.raises(TrialFailure, match="supplier died during the trial: exit code 1") as caught:
        parts.stack.check_alive()
    assert caught.value.failure_class is FailureClass.INFRASTRUCTURE
    parts.events.clear()
    assert parts.stack.down() == []
    assert parts.events == ["stop liberty", "stop supplier", "stop postgres"]
    parts.stack.up({"app.switch": "alone"}, tmp_path / "trial")
    assert list(parts.stack.processes()) == ["database", "server"]
    assert parts.stack.population_urls() == {}


def test_a_companion_of_another_host_is_asked_and_not_started(parts: Parts, tmp_path: Path) -> None:
    beside = FakeCompanion("supplier", "app.switch", parts.events)
    parts.application.beside = [beside]
    expected = parts.stack.expect({})
    parts.stack.use_companion("supplier", "http://192.0.2.4:40002")
    parts.stack.up({}, tmp_path / "trial")
    assert f"{parts.stack.url()}" == expected, "the port that the companion was told"
    assert beside.used == "http://192.0.2.4:40002"
    assert parts.server.contexts[-1].application.properties["brokerage.beside"] == "supplier"
    assert list(parts.stack.processes()) == ["database", "server"]
    parts.stack.check_alive()
    assert parts.stack.down() == []
    assert "stop supplier" not in parts.events


def test_a_host_of_one_role_does_only_its_part(parts: Parts, tmp_path: Path) -> None:
    beside = FakeCompanion("supplier", "app.switch", parts.events)
    parts.application.beside = [beside]
    parts.stack.options = replace(parts.stack.options, roles=("supplier",), address="192.0.2.4")
    parts.stack.provision(quiet)
    parts.stack.reset_data(tmp_path / "trial")
    address = parts.stack.start_companion("supplier", {"app.switch": "on"}, tmp_path / "trial", "http://192.0.2.2:1/x")
    assert parts.events == ["build", "reset supplier", "start supplier", "ready supplier"]
    assert address == beside.address
    context = beside.contexts[0]
    assert (context.url, context.address) == ("http://192.0.2.2:1/x", "192.0.2.4")  # type: ignore[attr-defined]
    assert beside.settings == {"app.switch": "on"}
    assert parts.stack.start_web({}, tmp_path / "trial") == 0.0, "no level asks for a web server"
    parts.events.clear()
    assert parts.stack.down() == []
    assert parts.events == ["stop supplier"]


def test_live_levels_of_the_application_are_changed_and_read_back(parts: Parts, tmp_path: Path) -> None:
    parts.stack.up({}, tmp_path)
    taken = f"app.live at {parts.stack.url()}"
    parts.stack.apply({"app.live": taken})
    assert parts.events[-1].startswith("change {'app.live'")
    with pytest.raises(TrialFailure, match=r"brokerage did not take app\.live on"):
        parts.stack.apply({"app.live": "on"})
    with pytest.raises(UsageError, match=r"app\.switch: cannot be changed while it runs"):
        parts.stack.apply({"app.switch": "on"})


def test_a_server_that_does_not_start_takes_the_database_down(parts: Parts, tmp_path: Path) -> None:
    parts.server.fails = True
    with pytest.raises(TrialFailure, match="liberty did not start"):
        parts.stack.up({}, tmp_path)
    assert parts.events[-2:] == ["stop liberty", "stop postgres"]
    assert not parts.stack.processes()
    parts.server.log = tmp_path / "server.log"
    parts.server.log.write_text("FATAL: sorry, too many clients already\n")
    with pytest.raises(TrialFailure, match="postgres refused connections of liberty's pool") as failure:
        parts.stack.up({}, tmp_path)
    assert failure.value.failure_class is FailureClass.CONFIGURATION


def test_a_knob_nobody_has(parts: Parts, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has a knob vm\.swappiness"):
        parts.stack.up({"vm.swappiness": 1}, tmp_path)
    with pytest.raises(LookupError):
        parts.stack.read_back("vm.swappiness")


@pytest.mark.parametrize(
    ("code", "starved", "kind", "words"),
    [
        (1, 0, FailureClass.CONFIGURATION, "exit code 1"),
        (-signal.SIGKILL, 0, FailureClass.INFRASTRUCTURE, "ended from outside by signal 9 (SIGKILL)"),
        (-signal.SIGKILL, 1, FailureClass.CONFIGURATION, "for want of memory"),
        (-signal.SIGSEGV, 0, FailureClass.CONFIGURATION, "exit code -11"),
    ],
)
def test_a_service_that_dies_under_load(
    parts: Parts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    starved: int,
    kind: FailureClass,
    words: str,
) -> None:
    monkeypatch.setattr(assembly, "oom_kills", lambda _files: 5)
    monkeypatch.setattr(started, "oom_kills", lambda _files: 5 + starved)
    monkeypatch.setattr(started, "logged_oom_kills", list)
    parts.stack.up({}, tmp_path)
    parts.stack.check_alive()
    assert parts.database.process is not None
    parts.database.process.code = code
    with pytest.raises(TrialFailure, match="postgres died during the trial") as caught:
        parts.stack.check_alive()
    assert caught.value.failure_class is kind
    assert words in caught.value.message
    assert caught.value.evidence == "last words of postgres"


def test_names_and_modes_that_do_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown server 'libery'; did you mean liberty\?"):
        registry.server("libery")
    with pytest.raises(UsageError, match="unknown database 'db2'; there is postgres"):
        registry.database("db2")
    with pytest.raises(
        UsageError, match=r"tomcat cannot run brokerage in mode orm, only direct; .*liberty, .*wildfly can"
    ):
        Stack(StackChoice(server="tomcat", mode="orm"), LocalHost(), tmp_path)
    for server in registry.SERVERS:
        assert Feature.SERVLETS in registry.SERVERS[server].features, "every server says what it can do"


def test_the_catalogue_of_a_stack_has_every_layer() -> None:
    for server in registry.SERVERS:
        layers = {knob.name.split(".")[0] for knob in service_catalogue(server, "postgres")}
        assert layers == {"server", "jvm", "database", "web", "placement"}


# a stack that outlives its command ------------------------------------------------------------------------------------


@pytest.fixture
def sleepers(parts: Parts, tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A stack "up" whose services are two sleeping programs."""
    parts.stack.up({}, tmp_path / "up")
    started = []
    for service in (parts.database, parts.server):
        assert service.process is not None
        # a shell's background jobs start with SIGINT ignored, and hand that on
        started.append(subprocess.Popen(["env", "--default-signal=INT", "sleep", "60"]))
        service.process.pid = started[-1].pid
    yield started
    for process in started:
        process.kill()
        process.wait()


def test_another_process_stops_it_in_reverse(
    parts: Parts, tmp_path: Path, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    running.save_running(parts.stack, LocalHost(), tmp_path, tmp_path / "up")
    assert (tmp_path / "up.json").stat().st_mode & 0o077 == 0, "it holds a password"
    found = running.load_running(tmp_path)
    assert found is not None
    assert all(LocalHost().runs(service.mark) for service in found.services)
    assert [service.role for service in found.services] == ["database", "server"]
    with pytest.raises(UsageError, match="run leadline down first"):
        running.require_none_running(tmp_path, LocalHost())
    said: list[str] = []
    assert running.stop_running(tmp_path, LocalHost(), said.append) == ["server: stopped", "database: stopped"]
    assert said == ["stopping the server", "stopping the database"]
    assert [process.wait() for process in sleepers] == [-signal.SIGINT, -signal.SIGTERM]
    assert running.load_running(tmp_path) is None
    assert running.stop_running(tmp_path, LocalHost()) == []


def test_a_stranger_with_the_same_number_is_left_alone(
    parts: Parts, tmp_path: Path, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    running.save_running(parts.stack, LocalHost(), tmp_path, tmp_path / "up")
    path = tmp_path / "up.json"
    path.write_text(path.read_text().replace('"start": ', '"start": 1'))
    running.require_none_running(tmp_path, LocalHost())
    assert running.stop_running(tmp_path, LocalHost()) == [
        "server: not running any more",
        "database: not running any more",
    ]
    for process in sleepers:
        found = procfs.read_stat(process.pid)
        assert found is not None
        assert found.alive
        os.kill(process.pid, 0)


def test_a_damaged_file_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "up.json").write_text("{")
    with pytest.raises(LeadlineError, match="leadline restore"):
        running.load_running(tmp_path)


@pytest.mark.parametrize("name", ["a b", 'quo"te', "it's", "a,b", "ä", "a;b", "a%20b", "a#b", "a$b", "a\\b"])
def test_a_lab_of_any_name_has_files_of_services_where_every_server_takes_the_path(tmp_path: Path, name: str) -> None:
    plain = plain_directory(tmp_path / name, tmp_path)
    assert plain.parent == tmp_path
    assert plain.name.startswith(f"leadline-{os.geteuid()}-")
    assert plain != plain_directory(tmp_path / f"{name}2", tmp_path)
    assert plain_directory(tmp_path / "plain-1.0_a", tmp_path) == tmp_path / "plain-1.0_a"
    assert plain_directory(tmp_path / name, tmp_path / "ü").parent == Path("/var/tmp")
