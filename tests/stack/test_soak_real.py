"""A soak of a real program that loses open files and connections on purpose: found, and told by alarm."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import leadline
from witnesses import matrix

pytestmark = pytest.mark.stack

LEAKY = Path(__file__).parents[2] / "bench" / "soak" / "leaky" / "leaky.stack.yaml"


def options(leak: str, rate: int) -> list[str]:
    levels = {"settings.app.leak": leak, "settings.app.rate": rate, "settings.jvm.heap": "128m", "workload.users": 4}
    return [word for name, level in levels.items() for word in ("--set", f"{name}={level}")]


def verdicts(found: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["verdict"] for one in found["series"]}


@matrix("two leaks in a soak of minutes")
def test_two_leaks_are_found_and_told(tmp_path: Path) -> None:
    alarm = ["--alarm", "cat >> alarms.jsonl"]
    done = leadline(
        "soak", str(LEAKY), "--for", "40s", *options("handles,connections", 5), *alarm, "--json", cwd=tmp_path
    )
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["failure"] == "", found
    assert found["measured_s"] == pytest.approx(40, abs=2)
    assert found["transactions"]["ok"] > 100
    series = verdicts(found)
    assert series["open files of the server"] == "degrading", found["answer"]
    assert series["sockets of the server"] == "degrading", found["answer"]
    assert series["disk use of command"] == "stable", found["answer"]
    assert found["suspect"] == "sockets of the server"
    rate = next(one for one in found["series"] if one["name"] == "sockets of the server")["per_day"]
    assert rate == pytest.approx(2 * 5 * 86400, rel=0.2)  # both ends of each
    alarms = [json.loads(line) for line in (tmp_path / "alarms.jsonl").read_text().splitlines()]
    assert alarms[-1]["kind"] == "ended"
    assert alarms[-1]["sentence"] == found["answer"]
    assert "SIMULATED" not in Path(tmp_path, found["report"]).read_text()
    assert not list(tmp_path.rglob("segments/*"))


@matrix("a soak of 80 s is killed")
def test_a_soak_is_killed_and_goes_on_with_the_same_command(tmp_path: Path) -> None:
    argv = ["soak", str(LEAKY), "--for", "80s", *options("none", 0), "--json"]
    running = subprocess.Popen([sys.executable, "-m", "leadline", *argv], cwd=tmp_path, stdout=subprocess.PIPE)
    record = tmp_path / "lab" / "soaks" / "records" / "1" / "soak.jsonl"
    deadline = time.monotonic() + 120
    while not record.is_file() or len(record.read_text().splitlines()) < 10:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    time.sleep(5)
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=30)
    done = leadline(*argv, cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["measured_s"] == pytest.approx(80, abs=2)
    assert [gap["why"] for gap in found["gaps"]] == ["leadline ended without a word"]
    assert len(found["stretches"]) == 2
    assert "recovered from raw files" in done.stderr
