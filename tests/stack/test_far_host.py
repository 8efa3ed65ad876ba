"""Studies whose services run on hosts over SSH: real sshd, hosts with roots, networks and processes of their own."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_network
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import leadline
from far_hosts import Far, far_hosts, missing
from witnesses import MATRIX, matrix, until

import leadline as package
from leadline.host.paths import cache_dir
from leadline.observe.table import read_series

pytestmark = [pytest.mark.stack, pytest.mark.skipif(bool(missing()), reason=missing())]

KNOB = "net.ipv4.tcp_slow_start_after_idle"  # each network namespace has its own: this host's stays
APPLICATION = """
import json, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
port, address, size = sys.argv[1:4]
class Handler(BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True
    def do_GET(self):
        time.sleep(0.1)  # so that a driver that is late by less does not matter
        sum(range(200_000))  # some milliseconds of CPU, which the kernel counts by hundredths of a second
        text = json.dumps({"size": int(size)}).encode() + b" " * int(size)
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *words): pass
ThreadingHTTPServer((address, int(port)), Handler).serve_forever()
"""
STACK = f"""
stack: pages
command: [python{sys.version_info[0]}.{sys.version_info[1]}, pages.py, "${{port}}", "${{address}}"]
knobs:
  app.size: {{ argument: "${{level}}", range: [1, 100000], default: 10, read_back: {{ http: /, key: size }} }}
scenario: pages.scenario.yaml
"""
SCENARIO = """
scenario: pages
mix: { page: 1 }
pause: { shape: fixed, mean: 50ms }
transactions:
  page: [{ get: /, check: { contains: size } }]
"""
STUDY = f"""
study: far
question: Does it run over there?
stack: pages.stack.yaml
workload: {{ users: 4, ramp_up: 1s, steady: 2s, ramp_down: 0s }}
factors: {{ {KNOB}: [0, 1] }}
settings: {{ app.size: 500 }}
design: {{ replicates: 2, sentinels: null, seed: 3 }}
responses: [throughput, p50, cpu_per_transaction]
dead_man: 1s
"""
TWO = f"""
study: two
question: Does the database have a host of its own?
stack: {{ server: tomcat, hosts: {{ application: "ssh:app", database: "ssh:db" }} }}
workload: {{ users: 4, variables: {{ think: 50ms }}, ramp_up: 2s, steady: 12s, ramp_down: 0s }}
factors: {{ database.work_mem: [4m, 8m] }}
settings: {{ {KNOB}: 0, jvm.heap: 128m, web.server: nginx }}
design: {{ replicates: 2, sentinels: null, seed: 3 }}
responses: [throughput, p50, web_cpu_per_transaction, database_cpu_per_transaction, driver_cpu_per_transaction]
dead_man: 2s
"""
WEB = f"""
study: roles
question: Does each role have a host of its own?
stack: {{ server: tomcat, hosts: {{ web: "ssh:web", application: "ssh:app", database: "ssh:db" }} }}
workload: {{ users: 4, variables: {{ think: 50ms }}, ramp_up: 2s, steady: 4s, ramp_down: 0s }}
factors: {{ web.workers: [1, 2] }}
settings: {{ web.server: nginx, web.tls: on, {KNOB}: 0, jvm.heap: 128m }}
placement: {{ web_cpus: "0" }}
design: {{ replicates: 2, sentinels: null, seed: 3 }}
responses: [throughput, p50, web_cpu_per_transaction, database_cpu_per_transaction]
dead_man: 2s
"""
SUPPLIER = f"""
study: roles
question: Does the supplier have one, too?
stack:
  app: dealership
  server: tomcat
  hosts: {{ web: "ssh:web", application: "ssh:app", database: "ssh:db", supplier: "ssh:sup" }}
workload:
  scenario: dealership
  load_units: 4
  variables: {{ injection_rate: 4 }}
  ramp_up: 2s
  steady: 8s
  ramp_down: 1s
factors: {{ web.place: [own, absent] }}
settings: {{ web.server: httpd, app.supplier_delay: 300ms, {KNOB}: 0, jvm.heap: 128m }}
design: {{ replicates: 2, sentinels: null, seed: 3 }}
responses: [throughput, p50, server_cpu_per_transaction]
dead_man: 5s
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Far]]:
    """Their ``ssh`` is first on the path; this checkout and these caches are not there."""
    place = tmp_path_factory.mktemp("far")
    hidden = [Path(package.__file__).resolve().parents[1], cache_dir(), tmp_path_factory.getbasetemp()]
    with (
        far_hosts(["app", *(["web", "db", "sup"] if MATRIX else [])], place, hidden) as found,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PATH", f"{place / 'bin'}:{os.environ['PATH']}")
        yield found


@pytest.fixture
def study(tmp_path: Path) -> Path:
    write_study(tmp_path, STUDY)
    return tmp_path


def write_study(folder: Path, study: str) -> None:
    """``study.yaml`` and what it needs."""
    for name, text in (
        ("pages.py", APPLICATION),
        ("pages.stack.yaml", STACK),
        ("pages.scenario.yaml", SCENARIO),
        ("study.yaml", study),
    ):
        (folder / name).write_text(text)


@contextmanager
def running(folder: Path, host: str, load: int, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """``study.yaml`` on a host, from a load on, the first is 1, until it ends well: its output is in ``out`` and
    ``said``.
    """
    command = [sys.executable, "-m", "leadline", "run", "study.yaml", "--host", host, "--json"]
    with (folder / "out").open("w") as out, (folder / "said").open("w") as said:
        run = subprocess.Popen(command, cwd=folder, stdout=out, stderr=said, text=True, start_new_session=True)
    try:
        until(lambda: run.poll() is not None or steps(folder / "lab", "load") == load, seconds, "no such load")
        yield run
        assert run.wait(seconds) == 0, (folder / "said").read_text()
    finally:
        run.kill()
        run.wait(10)


def ended(folder: Path) -> list[dict[str, Any]]:
    """Trials of such a run."""
    found: list[dict[str, Any]] = json.loads((folder / "out").read_text())["trials"]
    return found


def level(far: Far) -> str:
    return far.run("cat", f"/proc/sys/{KNOB.replace('.', '/')}").strip()


def steps(lab: Path, name: str) -> int:
    """How often a step of a trial began."""
    try:
        with sqlite3.connect(f"file:{lab / 'lab.sqlite'}?mode=ro", uri=True) as found:
            return int(found.execute("select count(*) from steps where name = ?", (name,)).fetchone()[0])
    except sqlite3.Error:
        return 0


def read_back(lab: Path, trial: int) -> str:
    """The level of the host's knob that was read before a trial's load."""
    with sqlite3.connect(f"file:{lab / 'lab.sqlite'}?mode=ro", uri=True) as found:
        asked = "select found from readings where trial_id = ? and knob = ? and phase = 'before'"
        return str(found.execute(asked, (trial, KNOB)).fetchone()[0])


def test_a_trial_there_and_the_host_put_back_after_a_kill(hosts: dict[str, Far], study: Path) -> None:
    far, own = hosts["app"], Path(f"/proc/sys/{KNOB.replace('.', '/')}").read_text()
    far.run("sh", "-c", "sleep 98765 > /dev/null 2>&1 & echo kept > /root/mine")
    (mine,) = far.processes()
    before = level(far)
    command = [sys.executable, "-m", "leadline", "run", "study.yaml", "--host", "ssh:app"]
    with (study / "out").open("w") as out:
        run = subprocess.Popen(command, cwd=study, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        until(lambda: run.poll() is not None or steps(study / "lab", "load") == 2, 300, "no second trial")
        assert run.poll() is None, (study / "out").read_text()
        during = far.processes()
        levels = level(far)
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait(10)
    # the second trial ran there, at its own level
    assert any("pages.py" in line for line in during), during
    shown = leadline("show", "far", "--json", cwd=study)
    first, second = json.loads(shown.stdout)["trials"][:2]
    assert first["state"] == "done", first
    assert first["responses"]["throughput"] > 0
    assert first["responses"]["cpu_per_transaction"] > 0
    assert levels == read_back(study / "lab", second["id"])
    # its watchdog there puts it back
    until(lambda: far.processes() == [mine], 60, "something is left running")
    until(lambda: level(far) == before, 10, "the level is left")
    assert far.run("find", "/root/.cache/leadline/far", "-name", "far-*") == ""
    assert far.run("cat", "/root/mine") == "kept\n"
    assert Path(f"/proc/sys/{KNOB.replace('.', '/')}").read_text() == own
    restored = leadline("restore", "--host", "ssh:app", "--json", cwd=study)
    assert json.loads(restored.stdout) == {"restored": []}, restored.stderr
    # and the next run goes on
    done = leadline("run", "study.yaml", "--host", "ssh:app", "--json", cwd=study)
    assert done.returncode in (0, 4), done.stderr  # what differs is not what is asked
    assert [trial["state"] for trial in json.loads(done.stdout)["trials"]] == ["done"] * 4
    assert far.processes() == [mine]
    far.run("kill", mine.split()[0])


def cut(far: Far) -> None:
    """End its sessions of sshd."""
    lines = far.run("ps", "-eo", "pid=,args=").splitlines()
    far.run("kill", *(line.split()[0] for line in lines if "sshd: root" in line))


def unplug(far: Far) -> None:
    """Its network is away until leadline has missed four signs of life."""
    link = far.run("ip", "-o", "addr", "show", "to", far.address).split()[1]
    far.run("ip", "link", "set", link, "down")
    time.sleep(20)
    far.run("ip", "link", "set", link, "up")


def fill(far: Far, seconds: float) -> None:
    """The disks of its cache and of its state are full for a while."""
    for place in ("/root", str(cache_dir())):
        used = far.run("df", "-k", "--output=used", place).split()[1]
        far.run("mount", "-o", f"remount,size={used}k", place)
    time.sleep(seconds)
    for place in ("/root", str(cache_dir())):
        far.run("mount", "-o", "remount,size=1g", place)


@matrix("a host's disk is full in a trial")
def test_a_host_whose_disk_is_full_says_so_and_is_put_back(hosts: dict[str, Far], study: Path) -> None:
    before = level(hosts["app"])
    with running(study, "ssh:app", load=1, seconds=300):
        fill(hosts["app"], 10)
    assert "ssh:app: host: OSError: [Errno 28] No space left on device" in (study / "said").read_text()
    trials = ended(study)
    assert [trial["state"] for trial in trials] == ["done"] * 4
    assert all(trial["responses"]["throughput"] > 0 for trial in trials)
    until(lambda: level(hosts["app"]) == before, 10, "the level is left")


@matrix("hosts are lost in a trial")
@pytest.mark.parametrize("lose", [cut, unplug])
def test_a_host_that_is_lost_in_a_trial_is_reached_again(
    hosts: dict[str, Far], study: Path, lose: Callable[[Far], None]
) -> None:
    before = level(hosts["app"])
    with running(study, "ssh:app", load=1, seconds=300):
        lose(hosts["app"])
    trials = ended(study)
    assert [trial["state"] for trial in trials] == ["done"] * 4
    assert [trial["attempt"] for trial in trials] == [2, 1, 1, 1]
    assert "ssh:app: connected again" in (study / "said").read_text()
    until(lambda: level(hosts["app"]) == before, 10, "the level is left")


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("ssh:nowhere.invalid", "ssh:nowhere.invalid: cannot be reached: .*name an alias of ~/.ssh/config"),
        ("ssh:nobody@app", "ssh:nobody@app: cannot be reached: .*Permission denied.*leadline asks for no password"),
    ],
)
def test_a_host_that_cannot_be_used_is_named(hosts: dict[str, Far], study: Path, host: str, message: str) -> None:
    done = leadline("run", "study.yaml", "--host", host, "--dry-run", cwd=study)
    assert done.returncode == 2, done.stderr

    assert re.search(message, done.stderr.replace("\n", " ")), done.stderr


@matrix("application and database on two hosts")
@pytest.mark.timeout(900)
def test_application_and_database_on_two_hosts(hosts: dict[str, Far], tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(TWO)
    done = leadline("run", "two.yaml", "--json", cwd=tmp_path, timeout=600)
    assert done.returncode in (0, 4), done.stderr  # what differs is not what is asked
    document = json.loads(done.stdout)
    assert [trial["state"] for trial in document["trials"]] == ["done"] * len(document["trials"])
    for trial in document["trials"]:
        directory = Path(trial["directory"])
        assert (directory / "database-host" / "logs" / "postgres.log").exists()
        assert not (directory / "logs" / "postgres.log").exists()
        assert all(audit["passed"] for audit in trial["audits"]), trial["audits"]
        assert trial["responses"]["database_cpu_per_transaction"] > 0
        assert trial["responses"]["driver_cpu_per_transaction"] > 0
        assert trial["responses"]["web_cpu_per_transaction"] > 0
        assert (directory / "logs" / "nginx.log").exists()
        samples = read_series(directory / "series" / "profile.parquet")["time_ns"].to_numpy() / 1e9
        begin, end = trial["phases"]["steady_from"], trial["phases"]["steady_until"]
        assert begin < samples.min() < samples.max() < end, "of its middle half, by this host's clock"
        assert not read_series(directory / "series" / "statements.parquet").is_empty()
    for far in (hosts["app"], hosts["db"]):
        assert far.processes() == []
        assert far.run("find", "/root/.cache/leadline/far", "-name", "two-*") == ""


PROGRAMS = {"nginx": "nginx", "apache2": "apache2", "tomcat": "catalina", "postgres": "postgres", "supplier": "emulate"}
ALONE = {"tomcat", "supplier"}  # of which a host has one process


def programs(lines: Sequence[str]) -> set[str]:
    """Those of the stack among command lines."""
    return {name for name, word in PROGRAMS.items() if any(word in line for line in lines)}


def callers(far: Far) -> set[str]:
    """Addresses that are connected with the host's ports, but for sshd's."""
    found = set()
    for line in far.run("cat", "/proc/net/tcp", "/proc/net/tcp6").splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[3] == "01" and not fields[1].endswith(":0016"):
            found.add(str(IPv4Address(bytes.fromhex(fields[2].partition(":")[0][-8:])[::-1])))
    return found


@dataclass(frozen=True)
class Spread:
    """``run``: what runs on each host in the first trial; ``files``: what each host leaves in the trial's directory;
    ``lost``: the host that is lost in that trial and its role, by ``lose``; ``killed``: leadline is killed before that.
    """

    text: str
    run: Mapping[str, set[str]]
    files: Sequence[str]
    lost: tuple[str, str]
    lose: Callable[[Far], None]
    killed: bool = False


SPREAD = {
    "nginx": Spread(
        WEB,
        {"web": {"nginx"}, "app": {"tomcat"}, "db": {"postgres"}, "sup": set()},
        ("web-host/logs/nginx.conf", "web-host/series/web.parquet", "database-host/logs/postgres.log"),
        lost=("web", "web"),
        lose=cut,
    ),
    "supplier": Spread(
        SUPPLIER,
        {"web": {"apache2"}, "app": {"tomcat"}, "db": {"postgres"}, "sup": {"supplier"}},
        ("web-host/logs/httpd.conf", "database-host/logs/postgres.log", "supplier-host/logs/supplier.log"),
        lost=("db", "database"),
        lose=unplug,
        killed=True,
    ),
}


@contextmanager
def begun(home: Path, hosts: Mapping[str, Far]) -> Iterator[subprocess.Popen[bytes]]:
    """The study's run, under the load of the first trial with a web server."""
    loads = steps(home / "lab", "load")
    command = [sys.executable, "-m", "leadline", "run", "roles.yaml", "--json"]
    with (home / "out").open("w") as out, (home / "said").open("w") as said:
        run = subprocess.Popen(command, cwd=home, stdout=out, stderr=said, start_new_session=True)
    try:
        until(lambda: run.poll() is not None or steps(home / "lab", "load") > loads, 400, "no trial")
        until(lambda: run.poll() is not None or hosts["web"].address in callers(hosts["app"]), 200, "no call")
        assert run.poll() is None, (home / "said").read_text()
        yield run
    finally:
        run.kill()
        run.wait(10)


def put_back(hosts: Mapping[str, Far], before: Mapping[str, str]) -> None:
    """Nothing is left on the hosts, and every setting is as it was."""
    until(lambda: not any(far.processes() for far in hosts.values()), 60, "something is left running")
    for name, far in hosts.items():
        assert level(far) == before[name]
        assert far.run("sh", "-c", r"find ~/.cache/leadline/far -name roles-\*", check=False) == ""


@matrix("web server and application on two hosts")
def test_a_dry_run_looks_at_the_kernel_of_the_host_of_the_web_server(hosts: dict[str, Far], tmp_path: Path) -> None:
    (tmp_path / "roles.yaml").write_text(WEB.replace("settings: {", "settings: { web.backlog: 1000,"))
    path = "/proc/sys/net/core/somaxconn"
    for small, code in (("app", 0), ("web", 2)):
        before = hosts[small].run("cat", path)
        hosts[small].run("sh", "-c", f"echo 999 > {path}")
        done = leadline("run", "roles.yaml", "--dry-run", cwd=tmp_path)
        hosts[small].run("sh", "-c", f"echo {before.strip()} > {path}")
        assert done.returncode == code, done.stderr
    assert "web.backlog 1000 is more than the kernel of ssh:web takes (net.core.somaxconn is 999)" in done.stderr


@matrix("web server, application, database and supplier on four hosts")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SPREAD)
def test_each_role_on_a_host_of_its_own(hosts: dict[str, Far], tmp_path: Path, name: str) -> None:
    spread = SPREAD[name]
    (tmp_path / "roles.yaml").write_text(spread.text)
    before = {each: level(far) for each, far in hosts.items()}
    if spread.killed:
        with begun(tmp_path, hosts) as run:
            assert level(hosts["app"]) != before["app"]
            run.kill()
            run.wait(10)
            put_back(hosts, before)
    with begun(tmp_path, hosts) as run:
        during = {each: far.processes() for each, far in hosts.items()}
        calling = callers(hosts["app"])
        loads = steps(tmp_path / "lab", "load")
        spread.lose(hosts[spread.lost[0]])
        until(lambda: run.poll() is not None or steps(tmp_path / "lab", "load") > loads, 400, "no second attempt")
        later = {each: far.processes() for each, far in hosts.items()}
        assert run.wait(400) == 0, (tmp_path / "said").read_text()
    # each program on its host, and only the web server asks the application for the driver
    assert {each: programs(lines) for each, lines in during.items()} == spread.run, during
    driver = str(ip_network(f"{hosts['app'].address}/28", strict=False)[1])
    assert driver not in calling, calling
    trials = json.loads((tmp_path / "out").read_text())["trials"]
    assert [trial["state"] for trial in trials] == ["done"] * 4
    assert sorted(trial["attempt"] for trial in trials) == [1, 1, 1, 2 + spread.killed]
    said, lost = (tmp_path / "said").read_text(), "ssh:{} ({})".format(*spread.lost)
    assert f"failed as infrastructure, trying again: {lost}: the connection to leadline's agent is lost" in said
    assert f"{lost}: connected again" in said
    for each, lines in later.items():  # the failed attempt left nothing on the other hosts
        assert all(sum(PROGRAMS[name] in line for line in lines) == 1 for name in ALONE & spread.run[each]), lines
    for trial in trials:
        directory = Path(trial["directory"])
        fronted = trial["planned"]["levels"].get("web.place") != "absent"
        assert all(reading["matches"] for reading in trial["readings"]), trial["readings"]
        assert all(audit["passed"] for audit in trial["audits"]), trial["audits"]
        if spread.run["sup"]:  # its own counts are held against the database's
            assert "supplier-has-the-purchase-orders" in {audit["name"] for audit in trial["audits"]}
        for file in spread.files:
            assert (directory / file).exists() == (fronted or not file.startswith("web")), file
        assert not (directory / "logs" / "postgres.log").exists()
        processes = pl.read_parquet(directory / "series" / "processes.parquet")
        seen = set(processes.filter(pl.col("metric") == "cpu.seconds")["subject"])
        assert seen >= {"server", "database", "driver", *(["web"] if fronted else []), *spread.run["sup"]}
        if fronted:
            requests = pl.read_parquet(directory / "series" / "web.parquet").filter(pl.col("metric") == "requests")
            assert requests["value"].max() > 0
    put_back(hosts, before)
