"""What the dry run of a study in guests looks up before anything is booted."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.guest import kernels
from leadline.guest.debian import Progress
from leadline.host import kvm
from leadline.lab.planning import EMULATED, OVERHEAD, cost, first_overhead
from leadline.lab.studyfile import StudyFile, parse_study
from leadline.model.errors import LeadlineError, UsageError
from leadline.virtual import testbed
from leadline.virtual.testbed import GuestTestbed

STUDY = """\
study: paging
question: q
stack: { server: tomcat, host: virtual-time }
guest: { memory: 128m, kernel: 6.1-cloud }
workload: { users: 8, ramp_up: 4s, steady: 4s, ramp_down: 1s }
factors: { vm.swappiness: [60, 10] }
design: { kind: forks, worlds: 3 }
"""
ON_TWO = STUDY.replace(", kernel: 6.1-cloud", "").replace(
    "{ vm.swappiness", "{ guest.kernel: [6.1-cloud, 6.2-cloud], vm.swappiness"
)


def study(text: str) -> StudyFile:
    return parse_study(text, "paging.yaml")


@pytest.fixture(autouse=True)
def only_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def require_known(name: str, _progress: Progress) -> None:
        if name == "6.3-cloud":
            raise LeadlineError("no network")
        if name != "6.1-cloud":
            raise UsageError(f"no kernel '{name}'; did you mean 6.1-cloud?")

    monkeypatch.setattr(kernels, "require_known", require_known)
    monkeypatch.setattr(testbed.shutil, "which", lambda name: f"/usr/bin/{name}")


def test_kernels_that_can_be_had_are_planned(tmp_path: Path) -> None:
    planned = GuestTestbed(tmp_path).plan(study(STUDY))
    assert len(planned.plan.trials) == 6
    assert not [text for text in planned.unchecked if "kernel" in text]


@pytest.mark.parametrize(
    ("text", "line"),
    [(STUDY.replace("6.1-cloud", "6.2-cloud"), 4), (ON_TWO, 6)],
)
def test_a_kernel_that_there_is_not_is_refused_at_its_line(text: str, line: int, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"^paging.yaml:{line}: no kernel '6.2-cloud'; did you mean 6.1-cloud"):
        GuestTestbed(tmp_path).plan(study(text))


def test_what_cannot_be_looked_up_is_said(tmp_path: Path) -> None:
    planned = GuestTestbed(tmp_path).plan(study(STUDY.replace("6.1-cloud", "6.3-cloud")))
    assert "that kernel 6.3-cloud can be had: no network" in planned.unchecked


@pytest.mark.parametrize(
    ("device", "tried", "why"),
    [
        (False, "", "there is no /dev/kvm"),
        (True, "", "whether hardware virtualisation works has not been tried since this machine's start"),
        (True, "earlier works", "has not been tried since"),
        (True, "now fails", "a test boot with hardware virtualisation failed"),
        (True, "now works", ""),
    ],
)
def test_boots_in_real_time_are_counted_as_emulated_unless_a_test_boot_told_otherwise(
    device: bool, tried: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boot").write_text("now\n")
    monkeypatch.setattr(kvm, "_DEVICE", tmp_path / ("boot" if device else "none"))
    monkeypatch.setattr(kvm, "_BOOT", tmp_path / "boot")
    monkeypatch.setattr(kvm, "_file", lambda: tmp_path / "told")
    if tried:
        kvm.remember(tried.endswith("works"))
        (tmp_path / "told").write_text((tmp_path / "told").read_text().replace("now", tried.split()[0]))
    file = study(STUDY.replace("virtual-time", "vm").replace("{ kind: forks, worlds: 3 }", "{ replicates: 3 }"))
    planned = GuestTestbed(tmp_path, kind="vm").plan(file)
    trials, notes = len(planned.plan.trials), " ".join(planned.plan.notes)
    assert (f"{trials} emulated boots and starts of about 55 s each: " in notes) is bool(why)
    assert why in notes
    seconds = cost(file.study, planned.plan, first_overhead(file.study))
    assert seconds == pytest.approx(trials * (9 + (EMULATED if why else OVERHEAD)))
