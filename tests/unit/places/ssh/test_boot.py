"""Kernels chosen for one boot, against a fake host; no machine is rebooted by these tests."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.model.knob import ApplyCost
from leadline.places.ssh.host import BootEntry, boot, entries, kernel_knob

MENU = """
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
fi
menuentry 'Debian' --class os $menuentry_id_option 'gnulinux-simple-1' {
	linux	/boot/vmlinuz-6.1.0-30-amd64 root=/dev/vda1 ro
}
submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-1' {
	menuentry 'Debian, 6.1' --class os $menuentry_id_option 'gnulinux-6.1-advanced-1' {
		if [ x$grub_platform = xxen ]; then insmod xzio; fi
		linux	/boot/vmlinuz-6.1.0-30-amd64 root=/dev/vda1 ro
	}
	menuentry 'Debian, 6.12 (recovery mode)' $menuentry_id_option 'gnulinux-6.12-recovery-1' {
		linux	/boot/vmlinuz-6.12.9-amd64 root=/dev/vda1 ro single
	}
	menuentry 'Debian, 6.12' $menuentry_id_option 'gnulinux-6.12-advanced-1' {
		linux	/boot/vmlinuz-6.12.9-amd64 root=/dev/vda1 ro
	}
}
menuentry "Old" {
	linux16 /vmlinuz-5.10.0-1-amd64
}
"""


@dataclass
class FakeMachine:
    """A host that obeys ``grub-reboot`` once; ``away``: how often it cannot be reached after a reboot."""

    kernel: str = "6.1.0-30-amd64"
    menu: str = MENU
    heeds: bool = True
    away: int = 2
    boots: int = 1
    asked: list[str] = field(default_factory=list)
    _next: str = ""
    _gone: int = 0

    def run(self, command: Sequence[str]) -> str:
        self.asked.append(" ".join(command))
        if command[0] == "uname":
            return f"{self.kernel}\n"
        if command[0] == "grub-reboot":
            self._next = command[1]
        if list(command) == ["systemctl", "reboot"]:
            self.boots, self._gone = self.boots + 1, self.away
            if self.heeds:
                self.kernel = next(one.release for one in entries(self.menu) if one.place == self._next)
            raise LeadlineError("the connection is lost")
        return ""

    def text(self, path: str) -> str:
        return self.menu if path == "/boot/grub/grub.cfg" else ""

    def boot_id(self) -> str:
        if self._gone:
            self._gone -= 1
            raise LeadlineError("cannot be reached")
        return f"boot {self.boots}"


class FakeTime:
    """Seconds that pass by sleeping only."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def boot_fake(machine: FakeMachine, release: str, seconds: float = 60.0) -> FakeTime:
    time = FakeTime()
    boot(machine, "ssh:app", release, seconds, time.clock, time.sleep)
    return time


def test_kernels_of_a_menu_with_their_places() -> None:
    assert entries(MENU) == [
        BootEntry("6.1.0-30-amd64", "gnulinux-simple-1"),
        BootEntry("6.1.0-30-amd64", "gnulinux-advanced-1>gnulinux-6.1-advanced-1"),
        BootEntry("6.12.9-amd64", "gnulinux-advanced-1>gnulinux-6.12-recovery-1", recovery=True),
        BootEntry("6.12.9-amd64", "gnulinux-advanced-1>gnulinux-6.12-advanced-1"),
        BootEntry("5.10.0-1-amd64", "Old"),
    ]


def test_the_kernels_are_the_levels_of_a_factor() -> None:
    knob = kernel_knob(FakeMachine())
    assert knob is not None
    assert (knob.name, knob.apply_cost) == ("kernel.release", ApplyCost.REBOOT)
    assert knob.choices == ("6.1.0-30-amd64", "6.12.9-amd64", "5.10.0-1-amd64")
    assert kernel_knob(FakeMachine(menu="")) is None


def test_one_boot_with_another_kernel() -> None:
    machine = FakeMachine()
    boot_fake(machine, "6.12.9-amd64")
    assert machine.kernel == "6.12.9-amd64"
    assert machine.asked[1:4] == [
        "grub-reboot gnulinux-advanced-1>gnulinux-6.12-advanced-1",
        "sync",
        "systemctl reboot",
    ]


def test_no_boot_where_it_runs_already() -> None:
    machine = FakeMachine()
    boot_fake(machine, "6.1.0-30-amd64")
    assert machine.boots == 1


def test_the_wrong_kernel_is_a_failure_of_the_host() -> None:
    with pytest.raises(
        TrialFailure, match=r"^ssh:app came back with kernel 6.1.0-30-amd64, not with 6.12.9-a"
    ) as found:
        boot_fake(FakeMachine(heeds=False), "6.12.9-amd64")
    assert found.value.failure_class is FailureClass.INFRASTRUCTURE


def test_a_host_that_does_not_come_back() -> None:
    with pytest.raises(TrialFailure, match=r"^ssh:app did not come back within 60 s of its reboot") as found:
        boot_fake(FakeMachine(away=1000), "6.12.9-amd64")
    assert found.value.failure_class is FailureClass.INFRASTRUCTURE


@pytest.mark.parametrize(
    ("machine", "release", "message"),
    [
        (FakeMachine(), "6.12.8-amd64", "no kernel 6.12.8-amd64 is installed there; did you mean 6.12.9-amd64"),
        (FakeMachine(menu=""), "6.12.9-amd64", "there is no /boot/grub/grub.cfg"),
        (
            FakeMachine(menu=MENU.replace("save_env next_entry", "")),
            "6.12.9-amd64",
            "write GRUB_DEFAULT=saved in /etc/default/grub",
        ),
    ],
)
def test_refused_before_anything_is_changed(machine: FakeMachine, release: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        boot_fake(machine, release)
    assert machine.boots == 1
    assert machine.asked == ["uname -r"]
