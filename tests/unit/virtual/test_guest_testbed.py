"""What the dry run of a study in guests looks up before anything is booted."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.guest import kernels
from leadline.guest.debian import Progress
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
