"""A lab on a file system that fills up in the middle of a trial: a real one of four megabytes."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from lab_fakes import CACHE, POOL, FakeHost, FakeSystem

from leadline.checks.files.study import parse_study
from leadline.checks.plan import plan_study
from leadline.model.errors import TrialFailure
from leadline.store.lab import Store
from leadline.trial import lifecycle
from leadline.trial.progress import SilentWatcher
from leadline.trial.run import StudyRun

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(os.geteuid() != 0, reason="host: only root may mount a file system"),
]

STUDY = """\
study: full
question: what is left when the disk is full?
workload: { users: 5 }
factors:
  server.pool: [10, 2]
  vm.fake_live: [10, 20]
design: { replicates: 2, sentinels: null }
responses: [throughput]
"""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"host: a tmpfs cannot be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)  # the store is still open


def _study(store: Store, system: FakeSystem) -> StudyRun:
    file = parse_study(STUDY, "full.yaml")
    planned = plan_study(file, system.host, [POOL, CACHE])  # type: ignore[arg-type]
    return StudyRun(file, planned, store, system.host, system, SilentWatcher(), lambda _: nullcontext())  # type: ignore[arg-type]


def test_nothing_is_started_without_room_for_a_trial(small: Path) -> None:
    system = FakeSystem(FakeHost())
    store = Store(small / "lab")
    result = _study(store, system).execute()
    assert not result.complete
    assert "MiB free at" in result.stopped
    assert "load" not in system.calls


def test_what_was_measured_before_the_disk_was_full_is_kept_and_the_host_is_put_back(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "MINIMUM_FREE", 0)
    ballast = small / "ballast"

    def fill(step: str) -> None:
        # the second treatment of the live knob is in force when the disk fills up
        if step == "load" and system.host.values["vm.fake_live"] == 20:
            with suppress(OSError), ballast.open("wb", buffering=0) as stream:
                while True:
                    stream.write(bytes(4096))

    system = FakeSystem(FakeHost(), at_step=fill)
    store = Store(small / "lab")
    with pytest.raises(TrialFailure, match="cannot be written: database or disk is full"):
        _study(store, system).execute()
    assert system.host.values["vm.fake_live"] == 10
    ballast.unlink()
    before = [trial for trial in store.load(1).trials if trial.state == "done"]
    again = _study(store, system)
    system.at_step = lambda _step: None
    assert again.execute().complete
    after = {trial.id: trial for trial in store.load(1).trials}
    for trial in before:
        assert after[trial.id] == trial
    assert all(trial.state == "done" for trial in after.values())
