"""How long a guest may take before it is ended, and what a study in guests makes of one that fails."""

from pathlib import Path
from typing import cast

import pytest

from leadline.checks.files.study import parse_study
from leadline.host.base import ProcessSpec
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.guest import Guest
from leadline.places.guest.boot import Boot
from leadline.places.guest.kernels import Kernel
from leadline.places.guest.machine import Outcome, Saved
from leadline.places.virtual import guests, host
from leadline.places.virtual.guests import Guests, Order, Past
from leadline.places.virtual.host import GuestHost, plan_guests
from leadline.places.virtual.job import Captured, RecordingHost, Started

STUDY = """\
study: reserve
question: q
stack: { server: tomcat, host: virtual-time }
guest: { memory: 1g, kernel: 6.1-cloud }
workload: { users: 8, ramp_up: 4s, steady: 4s, ramp_down: 1s }
settings: { guest.preempt: full }
factors: { vm.min_free_kbytes: [16384, 524288] }
design: { kind: forks, worlds: 3 }
"""
RELEASE = "6.1.0-56-cloud-amd64"
PAST = Past(1, (("guest.preempt", "full"),), ())


class FakeMachine:
    """Instead of QEMU: what each guest was to do, and how long it might take."""

    def __init__(self) -> None:
        self.jobs: list[tuple[str, float]] = []
        self.files = Path("/nonexistent")

    def run(self, _host: object, _boot: object, job: str, directory: Path, timeout: float) -> Outcome:
        self.jobs.append((job, timeout))
        console = directory / "console.txt"
        directory.mkdir(parents=True, exist_ok=True)
        console.write_text("tr: write error: No space left on device\n")
        return Outcome(self.files, {}, console, 1.0)

    def boot_and_save(self, _host: object, boot: Boot, job: str, directory: Path, name: str, timeout: float) -> Saved:
        self.jobs.append((job, timeout))
        return Saved(directory / "saved", name, boot, {}, 1.0)

    def fork(self, _host: object, _saved: object, job: str, _directory: Path, timeout: float) -> Outcome:
        self.jobs.append((job, timeout))
        return cast(Outcome, "outcome")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    fake = FakeMachine()
    for name in ("run", "boot_and_save", "fork"):
        monkeypatch.setattr(guests.machine, name, getattr(fake, name))
    return fake


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guests:
    """With its stack captured and its image made."""
    study = parse_study(STUDY, "reserve.yaml").study
    host = GuestHost("virtual-time", Guest(), LocalHost(state=tmp_path / "state"), {})
    made = Guests(study, host, RecordingHost(state=tmp_path / "state"), tmp_path / "home", tmp_path / "work")
    kernel = Kernel("6.1-cloud", RELEASE, "1", "cloud", tmp_path / "vmlinuz", tmp_path / "modules", {}, "0")
    made._kernels["6.1-cloud"] = kernel
    made._images["6.1-cloud"] = tmp_path / "image.cpio"
    server = Started(ProcessSpec("server", ["java"], tmp_path / "server.log"), tmp_path)
    made._captured[()] = (0, Captured(tmp_path, [server], "http://localhost:1", "http://localhost:1/health", 2, {}))
    monkeypatch.setattr(made, "_load", lambda _run: "the load")
    return made


def test_a_guest_looks_at_its_kernel_and_its_boot_parameters_before_anything_starts(
    machine: FakeMachine, prepared: Guests, tmp_path: Path
) -> None:
    prepared.warm(PAST, tmp_path)
    job, _ = machine.jobs[0]
    own = job[job.rindex("\nbooted ") :].splitlines()
    assert own[1] == f"booted {RELEASE} preempt=full"
    assert own[2] == "symbols"
    assert own[3].startswith("[ ! -d /leadline/levels/0 ]")
    assert own[5].startswith("begin server")


def test_a_guest_that_hangs_is_ended_after_the_bound_that_the_plan_states(
    machine: FakeMachine, prepared: Guests, tmp_path: Path
) -> None:
    saved = prepared.warm(PAST, tmp_path)
    prepared.fork(saved, Order(PAST, (("vm.min_free_kbytes", 524288),)), tmp_path)
    (_, warming), (job, fork) = machine.jobs
    assert "knob /proc/sys/vm/min_free_kbytes 524288" in job
    assert (warming, fork) == (900.0 + 4 * 60.0, 180.0 + 5 * 60.0)
    plan = plan_guests(parse_study(STUDY, "reserve.yaml"), "virtual-time", []).plan
    assert plan.notes[-1] == (
        "A guest hangs, and is ended as a failed trial, where its boot, start and warm-up take longer than 19m, a fork "
        "than 8m."
    )


def test_in_real_time_one_bound_is_of_all_that_a_trial_does() -> None:
    load = parse_study(STUDY, "reserve.yaml").study.workload
    assert host.told(load, forks=False).endswith("where it takes longer than 27m.")


def test_a_guest_that_tells_nothing_of_its_kernel_is_a_failure_of_the_host(
    machine: FakeMachine, prepared: Guests
) -> None:
    with pytest.raises(TrialFailure, match="the guest did not tell how its kernel is set") as raised:
        prepared.defaults(PAST)
    assert raised.value.failure_class is FailureClass.INFRASTRUCTURE
    assert "No space left on device" in raised.value.evidence


def test_an_image_that_the_kernel_cannot_unpack_is_refused(prepared: Guests) -> None:
    """Seen with 6.1-cloud: an image of 320 MiB is unpacked in 1088 MiB of memory, and not in 1024."""
    prepared._check_memory(296 << 20)
    with pytest.raises(UsageError, match=r"files take 320 MiB, .* write `guest: \{ memory: 1088m \}` or more"):
        prepared._check_memory(320 << 20)
