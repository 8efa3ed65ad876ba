"""What a reader needs to know of a host to repeat a study. Reads only."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from leadline.host import procfs
from leadline.host.cgroup import hierarchies
from leadline.host.undo import active_swaps, normalise


def read(path: Path) -> str:
    """A small file's text, empty when it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def cpu_facts(root: Path) -> dict[str, str]:
    """Model, counts, governor, simultaneous multithreading."""
    info = read(root / "proc/cpuinfo")
    model = re.search(r"^(?:model name|Hardware|cpu model)\s*:\s*(.+)$", info, re.MULTILINE)
    folder = root / "sys/devices/system/cpu"
    governors = {read(path) for path in folder.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {""}
    boost = read(folder / "cpufreq/boost")
    no_turbo = read(folder / "intel_pstate/no_turbo")
    return {
        "cpu.model": model[1] if model else platform.machine(),
        "cpu.online": read(folder / "online"),
        "cpu.count": str(os.cpu_count() or 0),
        "cpu.usable": str(len(os.sched_getaffinity(0))),
        "cpu.governor": ", ".join(sorted(governors)) or "none (not controlled by this kernel)",
        "cpu.smt": read(folder / "smt/control") or "unknown",
        "cpu.boost": {"1": "on", "0": "off"}.get(boost) or {"0": "on", "1": "off"}.get(no_turbo, "unknown"),
    }


_TUNING = re.compile(
    r"mitigations|nosmt|isolcpus|nohz|rcu_nocbs|idle|cpuidle|processor\.|intel_|amd_|preempt|clocksource|tsc|psi"
    r"|transparent_hugepage|hugepage|default_hugepagesz|lru_gen|numa|maxcpus|mem=|skew_tick|threadirqs|nokaslr|cgroup"
)


def boot_options(command_line: str) -> str:
    """The options of the kernel's command line that bear on performance; the rest may be private."""
    return " ".join(word for word in command_line.split() if _TUNING.match(word)) or "none"


def virtualisation(root: Path) -> str:
    """A hint at what lies beneath, ``none`` without one."""
    product = " ".join(
        filter(None, (read(root / "sys/class/dmi/id" / name) for name in ("sys_vendor", "product_name")))
    )
    container = read(root / "run/systemd/container") or ("container" if (root / ".dockerenv").exists() else "")
    hypervisor = read(root / "sys/hypervisor/type")
    flagged = bool(re.search(r"^flags\s*:.*\bhypervisor\b", read(root / "proc/cpuinfo"), re.MULTILINE))
    guest = hypervisor or ("virtual machine" if flagged else "")
    hints = ", ".join(filter(None, (container, guest, product if guest else "")))
    return hints or "none"


def file_system(path: Path) -> str:
    """``ext4 on /dev/vda (rw,relatime)`` for the mount that holds the path; empty if unknown."""
    try:
        device = path.stat().st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            head, _, right = line.partition(" - ")
            if head.split()[2] == number:
                kind, source, *_ = right.split()
                return f"{kind} on {source} ({head.split()[5]})"
    except OSError:
        return ""
    return ""


def kernel_facts(root: Path) -> dict[str, str]:
    """What the files of a kernel, of this host or kept from another, tell of it."""
    memory = dict(re.findall(r"^(\w+):\s+(\d+) kB", read(root / "proc/meminfo"), re.MULTILINE))
    thp = root / "sys/kernel/mm/transparent_hugepage"
    facts = {
        "kernel.release": read(root / "proc/sys/kernel/osrelease"),
        "kernel.version": read(root / "proc/sys/kernel/version"),
        "kernel.boot_options": boot_options(read(root / "proc/cmdline")),
        "memory.total": f"{memory.get('MemTotal', '?')} KiB",
        "memory.available": f"{memory.get('MemAvailable', '?')} KiB",
        "swap": ", ".join(active_swaps(root)) or "off",
        "thp.enabled": normalise(read(thp / "enabled")) or "absent",
        "thp.defrag": normalise(read(thp / "defrag")) or "absent",
        "lru_gen.enabled": read(root / "sys/kernel/mm/lru_gen/enabled") or "absent",
        "clocksource": read(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
    }
    for path in sorted((root / "proc/sys/vm").glob("*")):
        if text := normalise(read(path)):
            facts[f"vm.{path.name}"] = text
    return facts


def host_facts(root: Path = Path("/"), directories: Mapping[str, Path] | None = None) -> dict[str, str]:
    """Facts by dotted name; ``directories`` get their file system as ``filesystem.<name>``."""
    mounts = hierarchies()
    facts = {
        **kernel_facts(root),
        "machine": platform.machine(),
        **cpu_facts(root),
        "cgroup": ", ".join(f"v{version}" for version in sorted(mounts)) or "none",
        "virtualisation": virtualisation(root),
        "boot_id": procfs.boot_id(),
        "uid": str(os.geteuid()),
    }
    for name, path in (directories or {}).items():
        facts[f"filesystem.{name}"] = file_system(path)
    for disk in sorted((root / "sys/block").glob("*/queue/scheduler")):
        if (text := normalise(read(disk))) and text != "none":
            facts[f"block.{disk.parent.parent.name}.scheduler"] = text
    return facts
