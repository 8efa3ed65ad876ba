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

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import leadline
from leadline.host import here
from leadline.model.errors import UsageError
from leadline.model.knob import Level
from leadline.places.guest.kernels import Kernel

BLOCKS = "blocks"  # file of a guest's directory: address (hexadecimal), instructions and executions of each block
LIBRARY = "libleadline_instructions.so"
_PACKAGE = Path(leadline.__file__).parent
_PLACES = (_PACKAGE / "_bin", _PACKAGE.parent / "driver" / "target" / "release")
_QUIT = b'{"execute":"qmp_capabilities"}{"execute":"quit"}'


@dataclass(frozen=True)
class Counter:
    """Of one guest. ``marks``: addresses; the longest stretch between two executions of any of them counts."""

    library: Path
    marks: Sequence[int] = ()

    def options(self, out: str = BLOCKS) -> list[str]:
        """QEMU's, to run in the directory of a guest's files."""
        library = str(self.library).replace(",", ",,")
        words = [f"file={library}", f"out={out}", *(f"mark={address:x}" for address in self.marks)]
        return ["-plugin", ",".join(words)]


@cache
def library() -> Path | str:
    """The plugin, or why there are no counts on this machine."""
    path = next((place / LIBRARY for place in _PLACES if (place / LIBRARY).is_file()), None)
    if path is None:
        return f"{LIBRARY} is not built (make install)"
    empty = [QEMU, "-machine", "none", "-accel", "tcg", "-nodefaults", "-display", "none", "-qmp", "stdio"]
    try:
        done = here.run([*empty, *Counter(path).options("/dev/null")], _QUIT, timeout=60.0)
    except OSError as error:
        return f"{QEMU} cannot be asked for its plugins: {error}"
    return path if done.returncode == 0 else f"{QEMU} takes no such plugin: {done.stderr.strip()[-200:]}"


_LAZY_ALONE = (7, 0)  # from this version on what is not full is lazy, on processors that can be lazy


def boot_parameters(kernel: Kernel, levels: Mapping[str, Level]) -> list[str]:
    """``preempt=full`` and the like, of the guest's knobs among ``levels``.

    Raises UsageError for one that this kernel, as it was built, would pass over in silence.
    """
    parameters = []
    for knob in ("guest.preempt", "guest.mitigations", "guest.transparent_hugepage"):
        if knob not in levels:
            continue
        parameter = f"{knob.removeprefix('guest.')}={levels[knob]}"
        if kernel.config and (why := _unknown(kernel, knob, str(levels[knob]))):
            raise UsageError(f"kernel {kernel.name} knows no {parameter}: {why}")
        parameters.append(parameter)
    return parameters


def _unknown(kernel: Kernel, knob: str, level: str) -> str:
    """Why the parameter would do nothing; empty where it does something."""
    if knob == "guest.transparent_hugepage" and "TRANSPARENT_HUGEPAGE" not in kernel.config:
        return "it was built without TRANSPARENT_HUGEPAGE"
    if knob != "guest.preempt":
        return ""
    if "PREEMPT_DYNAMIC" not in kernel.config:
        return "it was built without PREEMPT_DYNAMIC"
    modes = _modes(kernel)
    return "" if level in modes else f"it knows {' and '.join(modes)}"


def _modes(kernel: Kernel) -> list[str]:
    """Modes between which ``preempt=`` chooses (kernel/sched/core.c)."""
    lazy = "ARCH_HAS_PREEMPT_LAZY" in kernel.config
    number = tuple(int(part) for part in re.findall(r"\d+", kernel.release)[:2])
    restricted = "PREEMPT_RT" in kernel.config or (lazy and number >= _LAZY_ALONE)
    return [*(() if restricted else ("none", "voluntary")), "full", *(("lazy",) if lazy else ())]


QEMU = "qemu-system-x86_64"
CPU = "max,-erms,-fsrm"  # of virtual time: QEMU counts a string instruction once for each of its bytes
SHIFT = 1  # of virtual time: 2**SHIFT ns an instruction
CONSOLE, RESULTS, JOB = "console.txt", "results", "job"  # files of a guest's directory


@dataclass(frozen=True)
class Boot:
    """What makes a guest: ``memory`` in bytes; ``parameters`` end the kernel's command line.

    ``accelerator`` counts in real time only: ``kvm`` where ``machine.probe`` found that it works.
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
