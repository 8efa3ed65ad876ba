"""How a run of several drivers ends when one of them does not do its part; leadline-load is a script here."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import leadline.load.cluster.hosts as hosts
import leadline.load.cluster.run as cluster_run
from leadline.host import process
from leadline.host.journal import UndoJournal
from leadline.load.cluster.run import Cluster, Job
from leadline.model.drivers import DriverHost
from leadline.model.errors import FailureClass, TrialFailure, UsageError

# Driver b, by its share, does what `{does}` says once it has heard the start.
FAKE_LEADLINE_LOAD = """\
#!{python}
import json, pathlib, select, sys, time
if sys.argv[1] == "host":
    step = {step} if pathlib.Path({place!r}, "ran").exists() else 0
    print(json.dumps(dict(version="1", cpus=2, open_files=9, name="fake")), flush=True)
    for _ in sys.stdin:
        print(time.time_ns() + step, flush=True)
    sys.exit()
ours = sys.argv[sys.argv.index("--share") + 1].startswith("1")
def say(text): print(text, flush=True)
def die(text, code):
    say("leadline-load: " + text)
    sys.exit(code)
if {refuses}: die("unknown option `--nothing`", 2)
say('{{"ready":true}}')
while b"start " not in sys.stdin.buffer.read1(64): pass
pathlib.Path({place!r}, "ran").touch()
for t in range(1, 200):
    say(json.dumps(dict(t=t, phase="steady", tps=1.0, p50_ms=1, p99_ms=1, errors=0, in_flight=0)))
    if ours:
        {does}
    if select.select([sys.stdin], [], [], 0.05)[0] and not sys.stdin.buffer.read1(64): sys.exit(1)
    if {short} and t == 3: sys.exit()
"""

Make = Callable[..., Cluster]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A cluster of two drivers on this host."""

    def made(does: str = "pass", step: int = 0, refuses: bool = False, short: bool = False) -> Cluster:
        binary = tmp_path / "fake-leadline-load"
        place = str(tmp_path)
        binary.write_text(
            FAKE_LEADLINE_LOAD.format(
                python=sys.executable, place=place, does=does, step=step, refuses=refuses, short=short
            )
        )
        binary.chmod(0o755)
        monkeypatch.setattr(hosts, "find_binary", lambda: binary)
        monkeypatch.setattr(cluster_run, "_LEAD", 0.01)
        start = partial(process.start, journal=UndoJournal(tmp_path / "state" / "undo" / "test.jsonl"))
        drivers = [DriverHost(name="a"), DriverHost(name="b")]
        return Cluster(drivers, tmp_path / "out", tmp_path / "logs", start)

    return made


def begin(cluster: Cluster, tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text("scenario: s\ntransactions: {}\n")
    cluster.open()
    cluster.begin(Job(scenario, ["http://h"], [("--users", "2")]))


def follow(cluster: Cluster) -> None:
    deadline = time.monotonic() + 20
    while cluster.running():
        cluster.poll()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    cluster.poll()


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("die('started 312.0 ms late (at most 100 ms are in step)', 1)", "driver b .*lost: started 312.0 ms late"),
        ("sys.exit(137)", "driver b .*lost: ended by signal 9"),
        ("sys.exit(255)", "driver b .*lost: the connection was lost"),
        ("sys.exit(3)", "driver b .*lost: ended with code 3"),
    ],
)
def test_a_driver_that_ends_is_lost(make: Make, tmp_path: Path, does: str, said: str) -> None:
    with make(does) as cluster:
        begin(cluster, tmp_path)
        with pytest.raises(TrialFailure, match=said) as failure:
            follow(cluster)
    assert failure.value.failure_class is FailureClass.INFRASTRUCTURE
    assert not cluster.running()
    assert UndoJournal(tmp_path / "state" / "undo" / "test.jsonl").open_entries() == []


def test_a_silent_driver_is_lost(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_run, "_SILENCE", 0.5)
    with make("time.sleep(30)") as cluster:
        begin(cluster, tmp_path)
        with pytest.raises(TrialFailure, match=r"driver b .*lost: not a word for"):
            follow(cluster)
    assert not cluster.running()


def test_a_clock_that_was_set_fails_the_run(make: Make, tmp_path: Path) -> None:
    with make(step=3_000_000_000, short=True) as cluster:
        begin(cluster, tmp_path)
        follow(cluster)
        with pytest.raises(TrialFailure, match=r"its clock was set by \+\d+\.\d ms during the run") as failure:
            cluster.collect()
    assert failure.value.failure_class is FailureClass.INFRASTRUCTURE


def test_what_the_drivers_refuse_is_the_users_mistake(make: Make, tmp_path: Path) -> None:
    with make(refuses=True) as cluster, pytest.raises(UsageError, match=r"^unknown option `--nothing`$"):
        begin(cluster, tmp_path)
