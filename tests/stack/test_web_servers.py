"""nginx and Apache httpd in front of a real Tomcat: every knob by what a client sees, real loads, and ways to fail."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

import listeners
import pytest

from leadline.host import procfs
from leadline.host.facts import MEND, find_httpd
from leadline.host.files import connected, established
from leadline.host.local import LocalHost
from leadline.load.driver import DriverRun
from leadline.load.result import DriverResult, read_summary
from leadline.model.errors import FailureClass, LeadlineError, NotInPlay, TrialFailure, UsageError
from leadline.model.knob import Level
from leadline.model.study import Placement, StackChoice
from leadline.model.workload import Workload
from leadline.stack.assembly import Stack
from leadline.stack.options import StackOptions
from leadline.stack.probe import Client
from leadline.stack.web import common
from leadline.stack.web.common import PROBE
from leadline.stack.web.httpd import Httpd
from leadline.stack.web.nginx import Nginx

pytestmark = pytest.mark.stack

HTTPD = pytest.param(
    "httpd", marks=pytest.mark.skipif(find_httpd()[0] is None, reason=f"no Apache httpd on this host: {MEND}")
)
SERVERS = ["nginx", HTTPD]
SEEDS = count(1)  # who registers is named after the seed
CPU = str(min(os.sched_getaffinity(0)))
EVERYTHING: dict[str, Level] = {
    "web.place": "own",
    "web.model": "worker",
    "web.workers": 2,
    "web.sendfile": True,
    "web.backlog": 77,
    "web.keepalive_requests": 37,
    "web.upstream_keepalive": 5,
    "web.upstream": "unix",
    "web.compression": True,
    "web.http2": True,
    "web.tls": True,
    "web.static": True,
    "web.access_log": True,
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Database and Tomcat, which also listens on a Unix socket; web servers come and go in front of it."""
    place = tmp_path_factory.mktemp("web")
    options = StackOptions(placement=Placement(web_cpus=CPU), web_servers=("nginx",))
    made = Stack(StackChoice(server="tomcat"), LocalHost(state=place / "state"), place / "home", options)
    made.provision(print)
    made.prepare_data(print)
    made.reset_data(place / "trial")
    made.up({"web.server": "nginx", "web.upstream": "unix", "jvm.heap": 256 * 1024**2}, place / "trial")
    yield made
    assert made.down() == []


@pytest.fixture
def front(stack: Stack) -> Iterator[Stack]:
    """The stack without a web server before and after each test."""
    assert stack.stop_web()
    yield stack
    stack.stop_web()


def load(stack: Stack, directory: Path, **more: object) -> DriverResult:
    """Users for a second or so; the driver trusts the stack's certificate alone."""
    certificate = stack.certificate()
    file = directory / "tls.crt"
    file.write_text(certificate or "")
    workload = Workload.model_validate({"users": 8, "ramp_up": 0, "steady": 1, "ramp_down": 0.1, **more})
    run = DriverRun(
        workload, stack.url(), next(SEEDS), directory / "driver", {"think": "5ms"}, None, file if certificate else None
    )
    done = subprocess.run(run.argv(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = read_summary(directory / "driver")
    assert sum(each.ok for each in found.total.values()) > 0
    assert found.errors == {}, found.error_samples
    return found


@pytest.mark.parametrize("name", SERVERS)
def test_every_knob_takes_effect_and_a_load_over_tls_and_http2_passes(name: str, front: Stack, tmp_path: Path) -> None:
    levels = {"web.server": name, **EVERYTHING}
    assert set(levels) == common.KNOB_NAMES, "every knob is given a level"
    if name == "nginx":
        del levels[common.MODEL.name]  # which it has not
    front.start_web(levels, tmp_path)
    assert front.url().startswith("https://")
    assert {knob: front.read_back(knob) for knob in levels} == levels
    found = load(front, tmp_path, http=2, scenario="brokerage-json")
    assert found.requests.http2_connections > 0
    assert found.requests.tls_handshakes >= found.requests.http2_connections
    listeners.check(front)
    web = front.front.server
    assert web is not None
    assert web.context.socket is not None
    assert connected(web.context.host.files, web.context.socket) > 0, "kept on the Unix socket"
    assert front.stop_web(), "stops cleanly and writes its logs out"
    lines = (web.context.directory / "access.log").read_text().count('HTTP/2.0"')
    assert lines >= found.requests.count
    kept = {path.name for path in web.artefacts()}
    assert {f"{name}.conf", f"{name}.log"} <= kept
    for path in web.artefacts():
        assert "PRIVATE KEY" not in path.read_text()


@pytest.mark.parametrize("name", SERVERS)
def test_the_servers_own_defaults_and_the_other_levels(name: str, front: Stack, tmp_path: Path) -> None:
    levels: dict[str, Level] = {
        "web.server": name,
        "web.place": "same",
        "web.workers": 1,
        "web.sendfile": False,
        "web.backlog": 511,
        "web.keepalive_requests": 1,
        "web.upstream_keepalive": 0,
        "web.upstream": "tcp",
        "web.compression": False,
        "web.http2": False,
        "web.tls": False,
        "web.static": False,
        "web.access_log": False,
    }
    front.start_web(levels, tmp_path)
    assert front.url().startswith("http://")
    assert {knob: front.read_back(knob) for knob in levels} == levels
    time.sleep(0.7)  # nginx writes every half second
    asked = requests(front)
    found = load(front, tmp_path)
    assert found.requests.connects >= found.requests.count, "no connection carried two requests"
    web = front.front.server
    assert web is not None
    assert established(web.context.host.files, web.context.server_port) == 0, "no connection to the application is kept"
    assert requests(front, asked + found.requests.count) == asked + found.requests.count
    assert front.front.stats()["connections"] == 0
    assert front.stop_web()


@pytest.mark.parametrize("name", SERVERS)
def test_files_are_the_same_from_whoever_serves_them_and_none_else(name: str, front: Stack, tmp_path: Path) -> None:
    direct = Client(int(front.url().split(":")[2].split("/")[0]))
    front.start_web({"web.server": name, "web.static": True}, tmp_path)
    through = Client(int(front.url().split(":")[2].split("/")[0]))
    for file in ("brokerage.css", "tables.js", "prices.svg"):
        answers = [client.get(f"/brokerage/static/{file}") for client in (direct, through)]
        assert [status for status, _, _ in answers] == [200, 200]
        assert answers[0][2] == answers[1][2]
        kinds = [headers["content-type"].split(";")[0] for _, headers, _ in answers]
        assert kinds[0] == kinds[1]
        assert ["etag" in headers for _, headers, _ in answers] == [False, True]
    for path in ("nothing.css", "", "../WEB-INF/web.xml", "%2e%2e/WEB-INF/web.xml", "..%2ftls.key", "../tls.key"):
        for client in (direct, through):
            assert client.get(f"/brokerage/static/{path}")[0] in (400, 403, 404)
    found = load(front, tmp_path, scenario="brokerage-static")
    assert found.total["files"].ok > 0


def requests(stack: Stack, at_least: float = 0) -> float:
    """What the web server counted, once it has written it down."""
    deadline = time.monotonic() + 3
    while (found := stack.front.stats()["requests"]) < at_least and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


@pytest.mark.parametrize(
    ("name", "carried"), [pytest.param("nginx", 1000), pytest.param("httpd", 101, marks=HTTPD.marks)]
)
def test_without_levels_the_servers_defaults_hold(name: str, carried: int, front: Stack, tmp_path: Path) -> None:
    front.start_web({"web.server": name}, tmp_path)
    port = int(front.url().split(":")[2].split("/")[0])
    client = Client(port)
    assert client.requests_carried(PROBE, 2000) == carried
    assert not client.compresses(PROBE)
    assert not client.speaks_http2()
    assert front.read_back("web.place") == "own", "placement names CPUs for it"
    status, _, _ = client.get("/nothing-here")
    assert status == 404


def test_what_is_absent_is_not_read_back(front: Stack) -> None:
    for levels in ({"web.server": "none"}, {"web.server": "nginx", "web.place": "absent"}):
        assert common.chosen(levels) is None
        front.front.configure(levels)
        for name in levels:
            if (name, levels[name]) != ("web.server", "nginx"):
                assert front.read_back(name) == levels[name]
        with pytest.raises(NotInPlay, match="no web server"):
            front.read_back("web.workers")


@pytest.mark.parametrize("name", SERVERS)
def test_a_taken_port_is_infrastructure(
    name: str, front: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        port = squatter.getsockname()[1]
        monkeypatch.setattr(LocalHost, "free_port", lambda _: port)
        with pytest.raises(TrialFailure, match=f"port {port} was taken") as failure:
            front.start_web({"web.server": name}, tmp_path)
        assert failure.value.failure_class is FailureClass.INFRASTRUCTURE
        # The same when it is taken between the look and the start: the server's own words.
        monkeypatch.setattr(LocalHost, "port_taken", lambda _host, _port: "")
        with pytest.raises(TrialFailure, match=f"port {port} was taken") as failure:
            front.start_web({"web.server": name}, tmp_path)
        assert failure.value.failure_class is FailureClass.INFRASTRUCTURE
        assert "in use" in failure.value.evidence


@pytest.mark.parametrize("name", SERVERS)
def test_a_configuration_it_refuses_is_told_in_its_own_words(
    name: str, front: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own: Mapping[str, tuple[str, str]] = {
        "nginx": ("worker_processes nonsense;", '"worker_processes" directive invalid value'),
        "httpd": ("StartServers", "StartServers takes one argument"),
    }
    text, words = own[name]
    kind = {"nginx": Nginx, "httpd": Httpd}[name]
    whole = kind.configuration
    monkeypatch.setattr(kind, "configuration", lambda *given: f"{text}\n{whole(*given)}")
    with pytest.raises(TrialFailure, match=words) as failure:
        front.start_web({"web.server": name}, tmp_path)
    assert failure.value.failure_class is FailureClass.CONFIGURATION
    assert "exit code" in failure.value.message


def test_a_web_server_that_dies_under_load_fails_the_trial(front: Stack, tmp_path: Path) -> None:
    front.start_web({"web.server": "nginx"}, tmp_path)
    front.check_alive()
    master = front.processes()["web"]
    host = front.server.context.host  # type: ignore[attr-defined]
    (entry,) = (each for each in host.journal.open_entries() if each.data.get("pid") == master.pid)
    master.signal(9)
    while master.alive():
        time.sleep(0.01)
    with pytest.raises(TrialFailure, match="nginx died during the trial: ended from outside by signal 9") as failure:
        front.check_alive()
    assert failure.value.failure_class is FailureClass.INFRASTRUCTURE
    (worker,) = master.pids()
    leader = (entry.data["pid"], entry.data["start"])
    assert procfs.marked(entry.data["token"], leader, entry.data["cwd"]) == {worker}, "what restore would end"
    assert not front.stop_web()
    left = procfs.read_stat(worker)
    assert left is None or not left.alive, "the worker that lost its master is ended too"


def test_the_application_server_speaks_tls_and_http2_itself(front: Stack, tmp_path: Path) -> None:
    assert front.server.stop()
    levels: dict[str, Level] = {"server.tls": True, "jvm.heap": 256 * 1024**2}
    front.start_server(levels, tmp_path)
    assert front.url().startswith("https://")
    assert {knob: front.read_back(knob) for knob in levels} == levels
    assert front.read_back("server.http.http2") is True
    found = load(front, tmp_path, http=2)
    assert found.requests.http2_connections == found.requests.tls_handshakes > 0
    for path in front.server.artefacts():
        assert path.is_dir() or "PRIVATE KEY" not in path.read_text()


def test_own_cpus_need_some_and_liberty_has_no_unix_socket(tmp_path: Path) -> None:
    host = LocalHost(state=tmp_path / "state")
    alone = Stack(StackChoice(server="liberty"), host, tmp_path / "home")
    with pytest.raises(UsageError, match=r"placement\.web_cpus names no CPUs"):
        alone.start_server({"web.server": "nginx", "web.place": "own"}, tmp_path)
    with pytest.raises(UsageError, match=r"leave server\.tls out"):
        alone.start_server({"web.server": "nginx", "server.tls": True}, tmp_path)
    with pytest.raises(UsageError, match="the application server listens on TCP only"):
        alone.start_server({"web.server": "nginx", "web.upstream": "unix"}, tmp_path)


def test_an_httpd_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEADLINE_HTTPD", str(tmp_path / "none"))
    stack = Stack(StackChoice(), LocalHost(state=tmp_path / "state"), tmp_path / "home")
    with pytest.raises(LeadlineError, match=r"Apache httpd is not here .*cannot be run.*apt-get install apache2-bin"):
        stack.front.provision(["httpd"], print)
