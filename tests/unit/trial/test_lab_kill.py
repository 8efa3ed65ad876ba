"""kill -9 of leadline at every step of a trial: nothing measured is lost, the host is put back, the study goes on."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from witnesses import matrix

from leadline.model.errors import FailureClass
from leadline.model.record import TrialRecord
from leadline.store.lab import Store
from leadline.trial.lifecycle import STEPS

CHILD = Path(__file__).parents[1] / "lab_kill_child.py"
Child = Callable[..., subprocess.CompletedProcess[str]]
ORIGINAL = "1234"  # neither of the study's levels


def knob(root: Path) -> Path:
    return root / "proc" / "sys" / "vm" / "dirty_expire_centisecs"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory that stands for / where kernel parameters are concerned; processes are real."""
    path = tmp_path / "root"
    knob(path).parent.mkdir(parents=True)
    knob(path).write_text(ORIGINAL + "\n")
    return path


@pytest.fixture(scope="module")
def children() -> Iterator[subprocess.Popen[str]]:
    """Forks a process for each line of its input."""
    argv = [sys.executable, str(CHILD)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


@pytest.fixture
def child(children: subprocess.Popen[str], tmp_path: Path, root: Path) -> Child:
    """A run of the study, killed at a step if one is given."""

    def run(step: str = "") -> subprocess.CompletedProcess[str]:
        assert children.stdin is not None
        assert children.stdout is not None
        output = tmp_path / "output"
        asked = [str(path) for path in (tmp_path / "lab", tmp_path / "state", root, step, output)]
        children.stdin.write(json.dumps(asked) + "\n")
        children.stdin.flush()
        assert select.select([children.stdout], [], [], 120)[0], output.read_text()
        ended = subprocess.CompletedProcess(asked, int(children.stdout.readline()), output.read_text(), "")
        if ended.returncode == -signal.SIGKILL:
            # it saw the end of its pipe, or will: it need not wait for the dead-man time
            os.kill(int((tmp_path / "watchdog").read_text()), signal.SIGTERM)
        return ended

    return run


def running(pid: int) -> bool:
    try:
        return "sleep" in Path(f"/proc/{pid}/cmdline").read_text() and Path(f"/proc/{pid}/stat").exists()
    except OSError:
        return False


def wait_for(condition: object, what: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return
        time.sleep(0.05)
    pytest.fail(f"{what} did not happen within 30 s")


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step(child: Child, tmp_path: Path, root: Path, step: str) -> None:
    ended = child(step)
    assert ended.returncode == -signal.SIGKILL, ended.stdout

    store = Store(tmp_path / "lab")
    before = store.load(store.find("killed"))
    assert before.trials[0].state == "done"
    assert before.trials[0].responses["throughput"] == 100.0
    cut_off = before.trials[1]
    assert cut_off.state == "running"
    assert cut_off.steps[-1].name == step
    assert cut_off.steps[-1].ended is None
    assert [s.name for s in cut_off.steps] == list(STEPS[: STEPS.index(step) + 1])
    assert cut_off.directory is not None
    if STEPS.index(step) > STEPS.index("load"):
        assert (cut_off.directory / "driver" / "seconds.csv").read_text() == "one,two\n"

    wait_for(lambda: knob(root).read_text().strip() == ORIGINAL, "the watchdog's putting the knob back")
    pid_file = cut_off.directory / "pid"
    if pid_file.exists():
        wait_for(lambda: not running(int(pid_file.read_text())), "the end of the process left behind")

    again = child()
    assert again.returncode == 0, again.stdout
    after = store.load(before.id)
    assert f"trial 2/{len(after.trials)} was cut off by the end of an earlier leadline; it will run" in again.stdout
    assert all(trial.state == "done" for trial in after.trials)
    assert [trial.attempt for trial in after.trials[:3]] == [1, 2, 1]
    assert after.trials[0].responses == before.trials[0].responses
    assert len(store.studies()) == 1
    assert knob(root).read_text().strip() == ORIGINAL


def test_killed_inside_slots(child: Child, tmp_path: Path, root: Path) -> None:
    """Just before the levels of a slot of the second trial are set; then after a write that nobody was told of."""
    ended = child("slot 5 of 8")
    assert ended.returncode == -signal.SIGKILL, ended.stdout
    store = Store(tmp_path / "lab")
    before = store.load(store.find("killed"))
    done, cut_off = before.trials
    assert done.state == "done"
    assert len(done.slots) == 8
    assert all(slot.matches and slot.responses for slot in done.slots)
    assert cut_off.slots[-1].index == 4
    cut_off_in_a_slot(cut_off)
    wait_for(lambda: knob(root).read_text().strip() == ORIGINAL, "the watchdog's putting the knob back")

    ended = child("write 4")
    assert ended.returncode == -signal.SIGKILL, ended.stdout
    cut_off = store.load(before.id).trials[1]
    assert cut_off.attempt == 2
    assert cut_off.slots[-1].index > 0
    cut_off_in_a_slot(cut_off)
    wait_for(lambda: knob(root).read_text().strip() == ORIGINAL, "the watchdog's putting the knob back")

    again = child("slots")
    assert again.returncode == 0, again.stdout
    after = store.load(before.id)
    assert [(trial.state, trial.attempt) for trial in after.trials] == [("done", 1), ("done", 3)]
    assert after.trials[0].slots == done.slots
    assert len(after.trials[1].slots) == 8
    assert len(after.observations()) == 16
    assert len(store.studies()) == 1
    assert knob(root).read_text().strip() == ORIGINAL


@pytest.mark.parametrize(
    "step",
    [
        *(pytest.param(step, marks=matrix("another step of a rotation")) for step in ("start-server", "audit")),
        "start-observers",
        "slot 2 of 2",
        "measure",
    ],
)
def test_killed_in_a_rotation(child: Child, tmp_path: Path, root: Path, step: str) -> None:
    """Every instance is ended, and the whole block runs again: its trials share their time."""
    (root / "proc" / "meminfo").write_text("MemTotal: 16000000 kB\n")
    ended = child(f"rotation {step}")
    assert ended.returncode == -signal.SIGKILL, ended.stdout
    store = Store(tmp_path / "lab")
    before = store.load(store.find("killed"))
    block = [trial for trial in before.trials if trial.planned.block == 0]
    assert {trial.state for trial in block} <= {"running", "planned"}
    pids = [trial.directory / "pid" for trial in block if trial.directory is not None]
    assert len(pids) >= 2
    for pid in (int(file.read_text()) for file in pids if file.exists()):
        wait_for(lambda pid=pid: not running(pid), "the end of an instance left behind")
    wait_for(lambda: knob(root).read_text().strip() == ORIGINAL, "the watchdog's putting the knob back")

    again = child("rotation")
    assert again.returncode == 0, again.stdout
    after = store.load(before.id)
    assert all(trial.state == "done" for trial in after.trials), [trial.failure_message for trial in after.trials]
    assert len(store.studies()) == 1
    assert knob(root).read_text().strip() == ORIGINAL


def cut_off_in_a_slot(trial: TrialRecord) -> None:
    assert trial.state == "running"
    assert trial.steps[-1].name == "load"
    assert trial.slots[-1].set_at is None
    assert all(slot.matches for slot in trial.slots[:-1])
    assert not any(slot.responses for slot in trial.slots)
    assert trial.observation().responses == {}


def test_an_earlier_attempt_is_kept_as_interrupted(child: Child, tmp_path: Path, root: Path) -> None:
    child("load")
    store = Store(tmp_path / "lab")
    study = store.find("killed")
    orphans = store.claims.close_orphans(study)
    trial = store.load(study).trials[1]
    assert orphans == [trial.planned.position] == [1]
    assert trial.failure is FailureClass.INTERRUPTED
    assert trial.observation().responses == {}
