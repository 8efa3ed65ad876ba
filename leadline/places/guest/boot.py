"""What makes a guest, and QEMU's command line for it.

Virtual time is ``-icount shift=1,sleep=off`` with a seed and the machine's own clock: two nanoseconds an instruction,
nothing of the host's time (QEMU's docs/devel/tcg-icount.rst). QEMU records, for then its main thread waits while the
guest's processor executes (docs/devel/replay.txt); else it may move the clock of a processor that has just halted,
before its instructions are counted (softmmu/icount.c, icount_start_warp_timer). Nobody keeps the record.

The guest gets its job over fw_cfg, which QEMU reads again from another file when a saved guest goes on. Results leave
over a virtio port without an event descriptor (``ioeventfd=off``), as everything that a thread of the host's would do
later is another time in every run. There is no HPET: its saved counter would be one more clock to put back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

QEMU = "qemu-system-x86_64"
CPU = "max,-erms,-fsrm"  # of virtual time: QEMU counts a string instruction once for each of its bytes
SHIFT = 1  # of virtual time: 2**SHIFT ns an instruction
CONSOLE, RESULTS, JOB = "console.txt", "results", "job"  # files of a guest's directory


@dataclass(frozen=True)
class Boot:
    """What makes a guest: ``memory`` in bytes; ``parameters`` end the kernel's command line.

    ``accelerator`` counts in real time only: ``kvm`` where ``leadline.places.guest.accelerator`` found that it works.
    """

    kernel: Path
    initramfs: Path
    memory: int
    cpus: int = 1
    time: Literal["virtual", "real"] = "virtual"
    seed: int = 1
    parameters: Sequence[str] = ()
    accelerator: Literal["tcg", "kvm"] = "tcg"


def command_line(boot: Boot, memory: str) -> list[str]:
    """QEMU's, to run in the directory of its files; it starts stopped. ``memory``: the backend ``ram``."""
    words = ["console=ttyS0", "panic=-1", "quiet", "random.trust_cpu=on"]
    argv = [QEMU, "-machine", "q35,memory-backend=ram,hpet=off", "-nodefaults", "-no-user-config", "-display", "none"]
    argv += ["-no-reboot", "-S", "-cpu", CPU if boot.time == "virtual" else "max", "-smp", str(boot.cpus)]
    argv += ["-m", f"{boot.memory}B", "-object", memory]
    if boot.time == "virtual":
        words += ["clocksource=tsc", "tsc=reliable"]
        argv += ["-accel", "tcg,thread=single", "-icount", f"shift={SHIFT},sleep=off,rr=record,rrfile=/dev/null"]
        argv += ["-seed", str(boot.seed), "-rtc", "base=2026-01-01,clock=vm"]
    else:
        argv += ["-accel", "kvm" if boot.accelerator == "kvm" else "tcg,thread=multi"]
    argv += ["-qmp", "stdio", "-serial", f"file:{CONSOLE}", "-device", "virtio-serial-pci,ioeventfd=off"]
    argv += ["-chardev", f"file,id=results,path={RESULTS}", "-device", "virtserialport,chardev=results,name=leadline"]
    argv += ["-device", "pvpanic-pci", "-action", "panic=pause"]
    argv += ["-fw_cfg", f"name=opt/leadline/job,file={JOB}"]
    argv += ["-kernel", str(boot.kernel.absolute()), "-initrd", str(boot.initramfs.absolute())]
    return [*argv, "-append", " ".join([*words, *boot.parameters])]
