"""The host of a study in guests: what was wanted, what a guest told."""

from pathlib import Path

import pytest

from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.guest import Guest
from leadline.model.knob import Level
from leadline.virtual.host import GuestHost


@pytest.fixture
def host(tmp_path: Path) -> GuestHost:
    about = {"guest.qemu": "QEMU emulator version 7.2"}
    return GuestHost("virtual-time", Guest(), LocalHost(state=tmp_path / "state"), about)


def tree(root: Path, **files: str) -> Path:
    """A guest's files: ``swappiness`` is one of vm."""
    for name, text in files.items():
        path = root / "proc/sys/vm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    kernel = root / "proc/sys/kernel"
    kernel.mkdir(parents=True)
    (kernel / "osrelease").write_text("6.1.0-56-cloud-amd64\n")
    (root / "proc/cmdline").write_text("console=ttyS0 quiet preempt=full\n")
    huge = root / "sys/kernel/mm/transparent_hugepage"
    huge.mkdir(parents=True)
    (huge / "enabled").write_text("always [madvise] never\n")
    return root


def test_levels_are_those_of_the_guest_that_told_last(host: GuestHost, tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="no guest has told"):
        host.read_back("vm.swappiness")
    host.told(tree(tmp_path / "first", swappiness="60"), defaults=True)
    host.told(tree(tmp_path / "fork", swappiness="10"))
    assert host.read_back("vm.swappiness") == 10
    host.restore()
    assert host.read_back("vm.swappiness") == 60


def test_levels_of_a_boot_are_read_from_what_the_kernel_says(host: GuestHost, tmp_path: Path) -> None:
    host.told(tree(tmp_path / "fork"))
    host.releases["6.1.0-56-cloud-amd64"] = "6.1-cloud"
    found = [host.read_back(f"guest.{name}") for name in ("kernel", "preempt", "mitigations", "transparent_hugepage")]
    assert found == ["6.1-cloud", "full", "", "madvise"]


def test_levels_wait_for_a_fork(host: GuestHost, tmp_path: Path) -> None:
    host.told(tree(tmp_path / "boot", swappiness="60", lowmem_reserve_ratio="256 32 0"), defaults=True)
    host.apply({"vm.swappiness": 10})
    assert host.wanted == {"vm.swappiness": 10}
    assert host.read_back("vm.swappiness") == 60
    levels: dict[str, Level] = {"vm.swappiness": 10, "vm.lowmem_reserve_ratio": "1 1 1"}
    assert host.files(levels) == {
        Path("/proc/sys/vm/swappiness"): "10",
        Path("/proc/sys/vm/lowmem_reserve_ratio"): "1 1 1",
    }


def test_what_this_kernel_lacks_is_a_failure_of_the_treatment(host: GuestHost, tmp_path: Path) -> None:
    host.told(tree(tmp_path / "boot", swappiness="60"), defaults=True)
    with pytest.raises(TrialFailure) as told:
        host.apply({"vm.compaction_proactiveness": 5})
    assert told.value.failure_class is FailureClass.CONFIGURATION
    assert "vm.compaction_proactiveness" in told.value.message


def test_facts_tell_of_guest_and_machine(host: GuestHost, tmp_path: Path) -> None:
    host.told(tree(tmp_path / "boot", swappiness="60"))
    facts = host.guest_facts()
    assert facts["guest.qemu"] == "QEMU emulator version 7.2"
    assert (facts["kernel.release"], facts["vm.swappiness"]) == ("6.1.0-56-cloud-amd64", "60")
    assert "below.cpu.model" in host.facts()
    assert "cpu.model" not in host.facts()  # not the guest's
