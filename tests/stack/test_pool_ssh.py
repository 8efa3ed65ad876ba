"""A study over hosts that are reached over SSH: real sshd, hosts with roots, networks and processes of their own."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import leadline
from far_hosts import Far, far_hosts, missing
from naps import naps
from witnesses import matrix, until

import leadline as package

pytestmark = [pytest.mark.stack, pytest.mark.skipif(bool(missing()), reason=missing())]

BLOCKS = 6
KNOB = "net.ipv4.tcp_slow_start_after_idle"  # each network namespace has its own
CHECKOUT = Path(package.__file__).resolve().parents[1]
PROGRAM = f"""#!/bin/sh
PYTHONPATH={CHECKOUT} exec {sys.executable} -m leadline "$@"
"""


def install(far: Far, program: str) -> None:
    place = "/usr/local/bin/leadline"
    far.run("sh", "-c", f"cat > {place} <<'END'\n{program}END\nchmod 755 {place}")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Far]]:
    place = tmp_path_factory.mktemp("pool")
    with far_hosts(["a", "b", "c"], place, []) as found, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{place / 'bin'}:{os.environ['PATH']}")
        for far in found.values():
            program = far.root / "usr/local/bin/leadline"
            far.run(
                "sh", "-c", f"cat > /usr/local/bin/leadline <<'END'\n{PROGRAM}END\nchmod 755 /usr/local/bin/leadline"
            )
            assert program.name
        yield found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "naps.yaml").write_text(naps(BLOCKS, factors=f"{KNOB}: [0, 1]"))
    (tmp_path / "hosts.yaml").write_text("hosts: [a, b, c]\n")
    return tmp_path


def level(far: Far) -> str:
    return far.run("cat", f"/proc/sys/{KNOB.replace('.', '/')}").strip()


def test_a_study_over_three_hosts_of_which_one_dies_and_leadline_is_killed(hosts: dict[str, Far], home: Path) -> None:
    before = {name: level(far) for name, far in hosts.items()}
    command = [sys.executable, "-m", "leadline", "run", "naps.yaml", "--pool", "ssh:hosts.yaml"]
    with (home / "out").open("w") as told:
        run = subprocess.Popen(command, cwd=home, stdout=told, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        until(lambda: all(any("sleep 0." in p for p in far.processes()) for far in hosts.values()), 200, "no jobs")
        hosts["b"].run("sh", "-c", "kill -9 $(pgrep -f '[p]ool job')")
        until(lambda: "block 2 on b is lost" in (home / "out").read_text(), 200, "nobody missed it")
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait(10)
    # no job outlives it, and each host is as it was
    until(lambda: not any(far.processes() for far in hosts.values()), 200, "something is left running")
    assert {name: level(far) for name, far in hosts.items()} == before
    done = leadline("run", "naps.yaml", "--pool", "ssh:hosts.yaml", "--json", cwd=home)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [trial["state"] for trial in document["trials"]] == ["done"] * 3 * BLOCKS
    effects = {effect["factor"]: effect for effect in document["analysis"]["responses"][0]["effects"]}
    assert effects["nap"]["verdict"] == "worse"
    assert 20 < effects["nap"]["percent"] < 60
    with sqlite3.connect(home / "lab" / "lab.sqlite") as lab:
        ended = lab.execute("select block, host from blocks where state = 'ended'").fetchall()
        assert {number for (number,) in lab.execute("select count(*) from attempts group by trial_id")} == {1}
        read = "select count(*) from readings where knob = ? and matches"
        assert lab.execute(read, (KNOB,)).fetchone()[0] >= 3 * BLOCKS
    assert sorted(block for block, _ in ended) == list(range(BLOCKS))
    assert {host for _, host in ended} == {"a", "b", "c"}
    assert {name: level(far) for name, far in hosts.items()} == before


def test_hosts_tell_how_they_stand(hosts: dict[str, Far], home: Path) -> None:
    (home / "more.yaml").write_text("hosts: [a, nowhere.invalid]\n")
    done = leadline("pool", "hosts", "ssh:more.yaml", "--json", cwd=home)
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)["hosts"]
    assert first == {"name": "a", "state": "free", "why": ""}
    assert second["state"] == "down"
    assert "nowhere.invalid" in second["why"]


@matrix("a leadline is started on each host three times")
def test_a_dry_run_looks_at_each_host_as_the_run_does(hosts: dict[str, Far], home: Path) -> None:
    (home / "more.yaml").write_text("hosts: [a, b, c, nowhere.invalid]\n")
    command = ("run", "naps.yaml", "--pool", "ssh:more.yaml", "--dry-run")
    install(hosts["c"], "#!/bin/sh\necho it is broken >&2; exit 9\n")
    held = (
        "import sys; from leadline.host.lease import Lease\nwith Lease(): print('held', flush=True); sys.stdin.read()"
    )
    holder = hosts["b"].start("env", f"PYTHONPATH={CHECKOUT}", sys.executable, "-c", held)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        done = leadline(*command, cwd=home)
        told = json.loads(leadline(*command, "--json", cwd=home).stdout)
    finally:
        install(hosts["c"], PROGRAM)
        holder.communicate(timeout=30)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert "host a: free" in said, done.stdout
    assert any(line.startswith("host b: busy: this host is in use by pid") for line in said)
    assert "host c: down: it is broken" in said
    assert any(line.startswith("host nowhere.invalid: down: ") and "nowhere.invalid" in line[28:] for line in said)
    assert f"{3 * BLOCKS} trials, " in done.stdout
    assert any("over 2 hosts" in line for line in said)
    assert {host["name"]: host["state"] for host in told["pool"]["hosts"]} == {
        "a": "free",
        "b": "busy",
        "c": "down",
        "nowhere.invalid": "down",
    }
    assert (told["pool"]["at_once"], told["forecast"]["hosts"]["used"]) == (2, 2)
    assert not (home / "lab").exists()
    (home / "more.yaml").write_text("hosts: [nowhere.invalid]\n")
    none = leadline(*command, cwd=home)
    assert none.returncode == 2
    assert "no host of ssh:more.yaml can take a block: nowhere.invalid is down: " in " ".join(none.stderr.split())


@matrix("a host without a leadline that runs")
def test_a_host_that_loses_its_jobs_gets_no_more_jobs(hosts: dict[str, Far], home: Path) -> None:
    far = hosts["c"]
    install(far, "#!/bin/sh\necho it is broken >&2; exit 9\n")
    try:
        done = leadline("run", "naps.yaml", "--pool", "ssh:hosts.yaml", "--set", "design.replicates=3", cwd=home)
    finally:
        install(far, PROGRAM)
    assert done.returncode in (0, 4), done.stderr  # what differs is not what is asked
    assert "on c is lost, it will run again: it ended with code 9 there" in done.stdout.replace("\n", " ")
    with sqlite3.connect(home / "lab" / "lab.sqlite") as lab:
        assert {host for (host,) in lab.execute("select host from blocks where state = 'ended'")} == {"a", "b"}
