"""Drivers on hosts that are network namespaces, against a server in this one; and on one behind a real sshd."""

import itertools
import json
import math
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from leadline.load.cluster.run import check_drivers, run_drivers
from leadline.load.result import read_summary
from leadline.load.series import responses_between, steady_series
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.hosts import DriverHost

pytestmark = pytest.mark.stack

SCENARIO = """
scenario: numbers
identities: 1000
arrivals: { unit: session, session_length: 1 }
pause: { shape: none }
feeds:
  row: { csv: data/rows.csv }
  number: { sequence: { from: 1 } }
  own: { csv: data/rows.csv, pick: unique }
mix: { page: 1 }
transactions:
  page: [{ get: "/${user}/${session}/${row.name}/${number}/${own.name}", check: { contains: fine } }]
"""
ROWS = 400
BENCHMARKING = IPv4Address("198.18.0.0")  # RFC 2544: a /15 for networks between devices under test
TURNS = itertools.count()


class _Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    lock = threading.Lock()
    seen: list[tuple[str, list[str]]]

    def do_GET(self) -> None:
        with self.lock:
            self.seen.append((self.client_address[0], self.path.split("/")[1:]))
        time.sleep(0.002)
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"fine")

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[int]:
    _Server.seen = []
    with ThreadingHTTPServer(("0.0.0.0", 0), _Server) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found.server_address[1]
        found.shutdown()


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.csv").write_text("name\n" + "".join(f"r{at}\n" for at in range(ROWS)))
    path = tmp_path / "numbers.yaml"
    path.write_text(SCENARIO)
    return path


def ip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[DriverHost]]:
    """Two hosts, ``a`` and ``b``, each with a network of its own to this one."""
    if shutil.which("ip") is None:
        pytest.skip("the command ip (iproute2) is not installed")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made: list[tuple[str, str]] = []
    found: list[DriverHost] = []
    try:
        for number, name in enumerate("ab"):
            turn = next(TURNS)  # names and networks of earlier tests are freed a moment after they are deleted
            space, here, there = (f"{word}{name}{os.getpid()}x{turn}" for word in ("leadline-", "l", "m"))
            done = ip("netns", "add", space)
            if done.returncode:
                pytest.skip(f"host: no network namespaces here: {done.stderr.strip()}")
            made.append((space, here))
            network = BENCHMARKING + 4 * ((64 * os.getpid() + turn) % 2**15)
            for words in (
                f"link add {here} type veth peer name {there} netns {space}",
                f"addr add {network + 1}/30 dev {here}",
                f"link set {here} up",
                f"-n {space} addr add {network + 2}/30 dev {there}",
                f"-n {space} link set {there} up",
                f"-n {space} link set lo up",
            ):
                done = ip(*words.split())
                if done.returncode:
                    pytest.skip(f"host: no virtual network here: ip {words}: {done.stderr.strip()}")
            via = f"ip netns exec {space}"
            found.append(DriverHost(name=name, via=via, weight=2 - number, server=str(network + 1)))
        yield found
    finally:
        for space, here in made:
            ip("link", "delete", here)
            ip("netns", "delete", space)


def until(true: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def running(mark: Path) -> list[str]:
    """Command lines that name a place of this test."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(mark) in line:
                found.append(line)
    return found


def left_behind(tmp_path: Path) -> list[str]:
    return [*running(tmp_path), *map(str, tmp_path.glob("leadline-*"))]


def values(log: Path, tags: tuple[str, ...], until_s: float = math.inf) -> Counter[int]:
    """Every bucket of a log by the reader of the HdrHistogram library."""
    reader = HistogramLogReader(str(log), HdrHistogram(64, 3_600_000_000_000, 3))
    found: Counter[int] = Counter()
    while (interval := reader.get_next_interval_histogram()) is not None:
        if interval.get_tag() in tags:
            for item in interval.get_recorded_iterator():
                found[item.value_iterated_to] += item.count_at_value_iterated_to
    return found


def percentile(found: Counter[int], q: float) -> float:
    rank, seen = math.ceil(q * sum(found.values())), 0
    for value, count in sorted(found.items()):
        seen += count
        if seen >= rank:
            return value / 1e6
    raise AssertionError("no values")


def test_two_hosts_bear_one_load(far: list[DriverHost], server: int, scenario: Path, tmp_path: Path) -> None:
    rate, seconds, out = 90, 3, tmp_path / "out"
    said: list[str] = []
    options = f"--url http://127.0.0.1:{server} --arrivals constant --rate {rate} --steady {seconds}s --ramp-up 1s"
    assert run_drivers(str(scenario), [*options.split(), "--out", str(out), "--progress", "json"], far, said.append)

    result = read_summary(out)
    parts = {name: read_summary(out / "drivers" / name) for name in "ab"}
    planned = rate * seconds + rate // 2
    assert result.arrivals_planned == sum(part.arrivals_planned for part in parts.values())
    assert abs(result.arrivals_planned - planned) <= 1
    assert abs(parts["a"].arrivals_planned - 2 * parts["b"].arrivals_planned) <= 2
    assert not result.errors
    assert result.total["page"].ok == len(_Server.seen) == result.arrivals_planned

    for tag in ("response", "service"):
        both = sum((values(out / "drivers" / name / "steady.hlog", (f"{tag}/page",)) for name in "ab"), Counter())
        assert values(out / "steady.hlog", (f"{tag}/page",)) == both
        figures = result.all.response_ms if tag == "response" else result.all.service_ms
        assert result.all.ok == sum(both.values()) == sum(part.all.ok for part in parts.values())
        for name, q in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)):
            assert getattr(figures, name) == percentile(both, q)
        every = sum((values(out / "drivers" / name / f"{tag}.hlog", ("page",)) for name in "ab"), Counter())
        assert values(out / f"{tag}.hlog", ("page",)) == every
        assert sum(every.values()) == len(_Server.seen)

    # Nothing is done twice: users, sessions, rows and numbers of the two hosts, each once, none left out.
    by_host = {str(IPv4Address(host.server) + 1): host.name for host in far if host.server}
    assert {by_host[address] for address, _ in _Server.seen} == {"a", "b"}
    sessions = sorted(int(path[1]) for _, path in _Server.seen)
    assert len(set(sessions)) == len(sessions)
    numbers = sorted(int(path[3]) for _, path in _Server.seen)
    assert len(set(numbers)) == len(numbers)
    rows = [path[2] for _, path in _Server.seen]
    assert len(set(rows)) == len(rows)
    # Two thirds and one third: the numbers are those of one driver, but for the ends of the two shares.
    assert numbers[-1] <= len(numbers) + 3
    users = {name: {path[0] for address, path in _Server.seen if by_host[address] == name} for name in "ab"}
    assert not users["a"] & users["b"]
    own = {name: {path[4] for address, path in _Server.seen if by_host[address] == name} for name in "ab"}
    assert not own["a"] & own["b"]  # a row comes back to its host when its session has ended

    # One start: seconds are aligned, each second has what was due in it.
    told = [json.loads(line) for line in said]
    assert [line["t"] for line in told][:4] == [1, 2, 3, 4]
    assert all(row.ok_per_s + row.in_flight >= rate * 0.9 for row in steady_series(out) if row.phase == "steady")
    assert responses_between(out, *result.phases.steady).ok == result.all.ok
    document = json.loads((out / "summary.json").read_text())
    for one in document["drivers"]:
        assert abs(one["clock_offset_ms"]) <= one["clock_uncertainty_ms"] + 1  # all namespaces share one clock
        assert one["cpus"] == os.cpu_count() or one["cpus"] >= 1
    starts = {part.started_unix_ns for part in parts.values()}
    assert max(starts) - min(starts) < 2e6
    assert left_behind(tmp_path) == []


def test_a_lost_driver_ends_the_run_as_infrastructure(
    far: list[DriverHost], server: int, scenario: Path, tmp_path: Path
) -> None:
    options = f"--url http://127.0.0.1:{server} --users 4 --steady 60s --progress json".split()
    killed: list[str] = []

    def kill(_: str) -> None:
        if not killed:
            space = far[1].via.split()[-1]
            for pid in ip("netns", "pids", space).stdout.split():
                if b"leadline-load\0run" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(int(pid), signal.SIGKILL)
                    killed.append(pid)

    began = time.monotonic()
    with pytest.raises(TrialFailure, match=r"driver b \(ip netns exec .*\): lost: ended by signal 9") as failure:
        run_drivers(str(scenario), [*options, "--out", str(tmp_path / "out")], far, kill)
    assert failure.value.failure_class is FailureClass.INFRASTRUCTURE
    assert len(killed) == 1
    assert time.monotonic() - began < 30
    until(lambda: not left_behind(tmp_path), 5, f"left: {left_behind(tmp_path)}")


def test_what_was_started_ends_with_leadline(
    far: list[DriverHost], server: int, scenario: Path, tmp_path: Path
) -> None:
    drivers = tmp_path / "drivers.yaml"
    drivers.write_text(json.dumps([driver.model_dump() for driver in far]))
    options = f"--url http://127.0.0.1:{server} --users 4 --steady 60s --progress json".split()
    argv = [sys.executable, "-m", "leadline.cli", "load", str(scenario), "--drivers", str(drivers), *options]
    with subprocess.Popen([*argv, "--out", str(tmp_path / "out")], stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert json.loads(killed.stdout.readline())["tps"] > 0
        assert len(running(tmp_path)) >= 3
        killed.kill()
    until(lambda: not running(tmp_path), 15, f"still there: {running(tmp_path)}")
    spaces = [driver.via.split()[-1] for driver in far]
    assert [ip("netns", "pids", space).stdout for space in spaces] == ["", ""]


def test_hosts_are_looked_at_before_anything_runs(far: list[DriverHost], scenario: Path, tmp_path: Path) -> None:
    lines = check_drivers(far)
    assert [line.split(":")[0] for line in lines] == ["driver a", "driver b"]
    assert all(" CPUs" in line and " ms from this one's" in line for line in lines)
    missing = DriverHost(name="c", via="ip netns exec no-such-host")
    with pytest.raises(TrialFailure, match=r"driver c \(ip netns exec no-such-host\): .*no-such-host"):
        check_drivers([*far, missing])
    scenario.write_text(SCENARIO.replace("mix:", "mixx:"))
    with pytest.raises(UsageError, match=r"unknown key `mixx`"):
        run_drivers(str(scenario), ["--url", "http://127.0.0.1:9", "--out", str(tmp_path / "out")], far, print)
    with pytest.raises(UsageError, match="--share cannot stand beside --drivers"):
        run_drivers(str(scenario), ["--url", "http://127.0.0.1:9", "--share", "0-1/2"], far, print)
    assert left_behind(tmp_path) == []


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DriverHost]:
    """A server of OpenSSH on the loopback, with keys and a configuration of its own."""
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if program is None or shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        pytest.skip("OpenSSH's client and server are not both installed (apt-get install openssh-server)")
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    place = tmp_path / "ssh"
    place.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / name], check=True)
    shutil.copy(place / "user.pub", place / "authorized")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (place / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {place}/host\nAuthorizedKeysFile {place}/authorized\n"
        f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
        f"SetEnv TMPDIR={tmp_path} XDG_CACHE_HOME={tmp_path}/cache\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    daemon = subprocess.Popen([program, "-D", "-e", "-f", place / "config"], stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 10
        while socket.socket().connect_ex(("127.0.0.1", port)):
            if daemon.poll() is not None or time.monotonic() > deadline:
                daemon.kill()
                pytest.skip(f"host: sshd does not start here: {daemon.communicate()[1].strip()}")
            time.sleep(0.05)
        user = pwd.getpwuid(os.geteuid()).pw_name
        options = f"-i {place}/user -p {port} -o StrictHostKeyChecking=no -o UserKnownHostsFile={place}/known"
        yield DriverHost(name="far", via=f"ssh {options} -o IdentitiesOnly=yes {user}@127.0.0.1")
    finally:
        daemon.terminate()
        daemon.communicate(timeout=10)


def test_a_host_behind_ssh(sshd: DriverHost, server: int, scenario: Path, tmp_path: Path) -> None:
    home = DriverHost(name="local")
    out = tmp_path / "out"
    options = f"--url http://127.0.0.1:{server} --users 6 --var x=1 --steady 1s --out {out}".split()
    scenario.write_text(SCENARIO.replace("mix:", "parameters: { x: 0 }\nmix:"))
    assert run_drivers(str(scenario), options, [home, sshd], print)
    result = read_summary(out)
    parts = [read_summary(out / "drivers" / name) for name in ("local", "far")]
    assert result.all.ok == sum(part.all.ok for part in parts)
    assert min(part.all.ok for part in parts) > 0
    assert (tmp_path / "cache" / "leadline" / "drivers").is_dir()
    until(lambda: not list(tmp_path.glob("leadline-*")), 5, "its directory is left")

    kicked: list[str] = []

    def cut(_: str) -> None:
        """The connection is lost: as if the host had gone."""
        if not kicked:
            for line in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words = line.read_bytes()
                except OSError:
                    continue
                if words.startswith(b"ssh\0-o") and str(tmp_path).encode() in words and b"ControlMaster=yes" in words:
                    os.kill(int(line.parent.name), signal.SIGKILL)
                    kicked.append(line.parent.name)

    options = f"--url http://127.0.0.1:{server} --users 2 --steady 60s --progress json --out {tmp_path}/two".split()
    with pytest.raises(TrialFailure, match=r"driver far .*: lost: the connection was lost") as failure:
        run_drivers(str(scenario), options, [home, sshd], cut)
    assert failure.value.failure_class is FailureClass.INFRASTRUCTURE
    drivers = [line for line in running(tmp_path) if "leadline-load run" in line]
    until(lambda: not any("leadline-load run" in line for line in running(tmp_path)), 10, f"{drivers} still there")

    wrong = sshd.model_copy(update={"via": sshd.via.replace(f"{tmp_path}/ssh/user", f"{tmp_path}/ssh/host")})
    with pytest.raises(TrialFailure, match=r"driver far .*: cannot be reached: .*Permission denied"):
        check_drivers([wrong])
