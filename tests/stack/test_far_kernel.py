"""A kernel as a factor of a host over SSH: real reboots between Debian's kernels, on a machine that QEMU emulates."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from booted_host import BROKEN, Booted, booted_host, missing
from conftest import leadline
from test_far_host import KNOB, ended, running, write_study
from test_far_host import STUDY as ONE_KERNEL
from witnesses import matrix

from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.hosts import SshHost
from leadline.places.guest.kernels import provision
from leadline.places.ssh.host import Booting, FarHost, boot

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(bool(missing()), reason=missing()),
    matrix("an emulated machine is rebooted, some minutes"),
]
STUDY = """
study: far-kernels
question: Does another kernel serve these pages?
stack: pages.stack.yaml
workload: { users: 2, ramp_up: 1s, steady: 3s, ramp_down: 0s }
factors: { kernel.release: [USUAL, OTHER] }
settings: { app.size: 500 }
design: { replicates: 2, sentinels: null, seed: 3 }
responses: [throughput, p50, cpu_per_transaction]
dead_man: 60s
"""


@dataclass(frozen=True)
class Place:
    """``usual`` boots by itself, ``other`` by choice."""

    host: Booted
    usual: str
    other: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    try:
        usual, other = (provision(name, print) for name in ("6.1-cloud", "6.12-cloud"))
    except LeadlineError as error:
        pytest.skip(f"no kernels can be had here: {error}")
    home = tmp_path_factory.mktemp("booted")
    try:
        with booted_host("kernels", [usual, other], home) as host, pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
            yield Place(host, usual.release, other.release)
    except FileNotFoundError as error:
        pytest.skip(str(error))


def test_a_study_boots_each_kernel_and_the_usual_one_at_its_end(place: Place, tmp_path: Path) -> None:
    write_study(tmp_path, STUDY.replace("USUAL", place.usual).replace("OTHER", place.other))
    first = place.host.run("cat /proc/sys/kernel/random/boot_id")
    done = leadline("run", "study.yaml", "--host", "ssh:kernels", "--json", cwd=tmp_path, timeout=2400)
    assert done.returncode in (0, 4), done.stderr  # what differs is not what is asked
    trials = json.loads(done.stdout)["trials"]
    assert [trial["state"] for trial in trials] == ["done"] * 4, trials
    planned = [trial["planned"]["levels"]["kernel.release"] for trial in trials]
    assert sorted(planned) == sorted([place.usual, place.other] * 2)
    assert [read_back(trial) for trial in trials] == [[kernel, kernel] for kernel in planned]
    assert place.host.run("uname -r") == place.usual
    assert place.host.run("cat /proc/sys/kernel/random/boot_id") != first
    assert f"kernel {place.other}" in done.stderr
    assert place.host.run("grub-editenv list") in ("", "next_entry=")


def read_back(trial: dict[str, Any]) -> list[str]:
    """The kernel that ran before the load and after it."""
    phases = {one["phase"]: one["found"] for one in trial["readings"] if one["knob"] == "kernel.release"}
    return [phases["before"], phases["after"]]


def test_a_kernel_that_panics_gives_way_to_the_usual_one(place: Place) -> None:
    far = FarHost(SshHost("kernels"))
    try:
        far.reach(print)
        assert [knob.choices for knob in far.knobs() if knob.name == "kernel.release"] == [
            (place.usual, place.other, BROKEN)
        ]
        with pytest.raises(TrialFailure, match=f"came back with kernel {place.usual}, not with {BROKEN}") as found:
            boot(Booting(far.reach, far.hang_up, far.connection), "ssh:kernels", BROKEN)
    finally:
        far.hang_up()
    assert found.value.failure_class is FailureClass.INFRASTRUCTURE
    assert "Kernel panic" in place.host.console.read_text(errors="replace")


def test_a_trial_whose_host_is_reset_is_measured_again(place: Place, tmp_path: Path) -> None:
    write_study(tmp_path, ONE_KERNEL.replace("steady: 2s", "steady: 6s").replace("dead_man: 1s", "dead_man: 60s"))
    asked = f"cat /proc/sys/{KNOB.replace('.', '/')} /proc/sys/kernel/random/boot_id"
    level, first = place.host.run(asked).split()
    with running(tmp_path, "ssh:kernels", load=2, seconds=900):
        place.host.run("(sleep 1; echo b > /proc/sysrq-trigger) > /dev/null 2>&1 &")
    assert [(trial["state"], trial["attempt"]) for trial in ended(tmp_path)] == [("done", n) for n in (1, 2, 1, 1)]
    again, last = place.host.run(asked).split()
    assert again == level
    assert last != first
