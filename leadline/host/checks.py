"""What ``leadline doctor`` looks at on this host. Reads only, but for a little work to measure the noise."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from leadline.host import facts
from leadline.host.cgroup import group_parent
from leadline.host.facts import MEND, cpu_facts, find_httpd, read, virtualisation
from leadline.host.java import java_homes
from leadline.host.knobs.files import memory_kib
from leadline.host.local import LocalHost
from leadline.host.paths import cache_dir
from leadline.host.privilege import new_user, own_mounts
from leadline.host.undo import active_swaps, normalise
from leadline.model.errors import UsageError

GIB = 1 << 30
_BUSIEST = "ps -eo pcpu,pid,user,args --sort=-pcpu | head"  # which program it is; to end it is the user's choice
_LARGEST = "ps -eo rss,pid,user,args --sort=-rss | head"
_LARGER_DISK = "export LEADLINE_CACHE=/a/larger/disk"
_CONTROLLER = "echo +memory | sudo tee /sys/fs/cgroup/cgroup.subtree_control"
_PROC = "sudo mount -t proc proc /proc"


def _boot_with(parameter: str) -> str:
    """How Debian and its kin boot with one more parameter."""
    line = f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {parameter}"'
    return f"echo '{line}' | sudo tee -a /etc/default/grub && sudo update-grub && sudo reboot"


@dataclass(frozen=True)
class HostFinding:
    """One check. ``bad``: studies cannot run; ``warn``: they can, with the restriction the sentence tells.

    ``mend``: the command that mends it, or shows what to mend; empty only where nothing is wrong.
    """

    name: str
    level: Literal["ok", "warn", "bad"]
    sentence: str
    mend: str = ""

    def __post_init__(self) -> None:
        if self.level != "ok" and not self.mend:
            raise ValueError(f"the finding {self.name!r} has no command that mends it")


def _warned(name: str, wrong: bool, sentence: str, mend: str) -> HostFinding:
    return HostFinding(name, "warn", sentence, mend) if wrong else HostFinding(name, "ok", sentence)


def check_root(host: LocalHost) -> HostFinding:
    """Whether kernel settings can be changed."""
    settable = [knob.name for knob in host.knobs() if not host.writable(knob.name)]
    if os.geteuid() == 0 and settable:
        return HostFinding("root", "ok", f"runs as root, {len(settable)} kernel settings can be changed")
    if os.geteuid() == 0:
        sentence = "runs as root, yet kernel settings are read-only (a container?)"
        return HostFinding("root", "warn", sentence, "docker run --privileged ...")
    return HostFinding("root", "warn", "not root: factors of the kernel are skipped", "sudo -E leadline run ...")


def check_java(_: LocalHost) -> HostFinding:
    """A JDK of version 17 or newer."""
    homes = java_homes()
    versions = ", ".join(f"{home.version} in {home.path}{'' if home.jdk else ' (no compiler)'}" for home in homes)
    if any(home.major >= 17 and home.jdk for home in homes):
        return HostFinding("java", "ok", f"found {versions}")
    sentence = f"no JDK 17 or newer{'; found ' + versions if versions else ''}"
    return HostFinding("java", "bad", sentence, "apt-get install openjdk-17-jdk-headless")


def check_maven(_: LocalHost) -> HostFinding:
    """Maven, which fetches servers and builds the application."""
    which = shutil.which("mvn")
    if which:
        return HostFinding("maven", "ok", f"found {which}")
    return HostFinding("maven", "bad", "no mvn on the PATH: servers cannot be fetched", "apt-get install maven")


def check_httpd(_: LocalHost) -> HostFinding:
    """Apache httpd, which is not fetched as nginx is."""
    httpd, why = find_httpd()
    if httpd is not None:
        return HostFinding("httpd", "ok", f"found {httpd}")
    return HostFinding("httpd", "warn", f"{why}: as web server there is only nginx, which leadline fetches", MEND)


def check_governor(host: LocalHost) -> HostFinding:
    """CPU frequency control."""
    governor = cpu_facts(host.root)["cpu.governor"]
    if governor.startswith("none"):
        return HostFinding("governor", "ok", "this kernel does not control the CPUs' frequency")
    if governor == "performance":
        return HostFinding("governor", "ok", "the CPUs' frequency is held high")
    return HostFinding(
        "governor",
        "warn",
        f"the CPUs' frequency follows the load ({governor}): light load looks slower than it is",
        "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    )


def check_smt(host: LocalHost) -> HostFinding:
    """Two threads on one core disturb each other."""
    if read(host.root / "sys/devices/system/cpu/smt/active") != "1":
        return HostFinding("smt", "ok", "every CPU is a core of its own, or the kernel does not tell otherwise")
    return HostFinding(
        "smt",
        "warn",
        "CPUs share cores: pin server and driver to different cores, or switch it off",
        "echo off | sudo tee /sys/devices/system/cpu/smt/control",
    )


def check_swap(host: LocalHost) -> HostFinding:
    """Swapping adds pauses that no factor explains."""
    on = active_swaps(host.root)
    if not on:
        return HostFinding("swap", "ok", "off")
    return HostFinding(
        "swap", "warn", f"on ({', '.join(on)}); a study with reset.swap: off does without", "sudo swapoff -a"
    )


def check_thp(host: LocalHost) -> HostFinding:
    """Transparent huge pages: only told, since they are a factor."""
    mode = normalise(read(host.root / "sys/kernel/mm/transparent_hugepage/enabled"))
    return HostFinding("huge pages", "ok", f"transparent huge pages: {mode or 'not in this kernel'}")


def check_disk(_: LocalHost) -> HostFinding:
    """Room for distributions and data."""
    cache = cache_dir()
    free = shutil.disk_usage(cache).free
    room = f"{free / GIB:.1f} GiB free for {cache}"
    if free < GIB:
        return HostFinding("disk", "bad", f"{room}; servers and data need 1 GiB", _LARGER_DISK)
    return _warned("disk", free <= 4 * GIB, room, _LARGER_DISK)


def check_memory(host: LocalHost) -> HostFinding:
    """Room for server, database and driver."""
    free = memory_kib(host.root, "MemAvailable") / 2**20
    room = f"{free:.1f} of {memory_kib(host.root) / 2**20:.1f} GiB available"
    if free < 1:
        return HostFinding("memory", "bad", f"{room}; a server and a database need 1 GiB", _LARGEST)
    return _warned("memory", free < 2, room, _LARGEST)


def check_unprivileged(_: LocalHost) -> HostFinding:
    """Starting services as users of their own."""
    if os.geteuid() != 0:
        return HostFinding("other user", "ok", "not root: services run as this user")
    try:
        new_user()
    except UsageError as error:
        return HostFinding("other user", "bad", str(error), "sudo -u ANOTHER_USER -E leadline run ...")
    if own_mounts():
        return HostFinding("other user", "ok", "every service runs as a user of its own, without capabilities")
    sentence = (
        "every service runs as a user of its own; this root may not mount, so directories above the lab and the cache"
    )
    return HostFinding("other user", "warn", f"{sentence} must be open to all users (o+x)", "namei -l lab")


def check_cgroups(_: LocalHost) -> HostFinding:
    """Memory limits."""
    parent, reason = group_parent()
    if parent is not None:
        return HostFinding("memory limits", "ok", f"control groups version {parent.version} can limit memory")
    return HostFinding("memory limits", "warn", f"memory of services cannot be limited: {reason}", _CONTROLLER)


def check_pressure(host: LocalHost) -> HostFinding:
    """Pressure stall information."""
    if read(host.root / "proc/pressure/cpu"):
        return HostFinding("pressure", "ok", "the kernel tells pressure (PSI)")
    return HostFinding(
        "pressure", "warn", "the kernel does not tell pressure; reports lack that panel", _boot_with("psi=1")
    )


def check_load(host: LocalHost) -> HostFinding:
    """Other work on this host."""
    words = read(host.root / "proc/loadavg").split()
    cpus = len(os.sched_getaffinity(0))
    if not words:
        return HostFinding("other load", "warn", "the kernel does not tell the load", _PROC)
    load = float(words[0])
    busy = load >= 0.25 * cpus
    sentence = f"run queue {load:.2f} over the last minute on {cpus} CPUs"
    return _warned("other load", busy, f"{sentence}: end other work before a study" if busy else sentence, _BUSIEST)


def check_clock(host: LocalHost) -> HostFinding:
    """Slow clocks make every time stamp a system call."""
    source = read(host.root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
    if source in ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"):
        return HostFinding("clock", "ok", f"clock source {source}")
    mend = _boot_with("tsc=reliable")
    if not source:
        return HostFinding("clock", "warn", "the kernel does not tell its clock source", mend)
    return HostFinding("clock", "warn", f"clock source {source} is slow: time stamps cost system calls", mend)


def check_noise(host: LocalHost) -> HostFinding:
    """How evenly the host computes."""
    probe = facts.probe(root=host.root)
    sentence = (
        f"equal work varies by {probe.spread:.1f} % (10th to 90th percentile), at worst {probe.worst:.0f} %;"
        f" {probe.stolen:.1f} % of CPU time went to other guests"
    )
    if probe.spread < 5 and probe.stolen < 1:
        return HostFinding("noise", "ok", sentence)
    return HostFinding(
        "noise", "warn", f"{sentence}: small effects need more replicates", "leadline power STUDY --effect 5%"
    )


def check_virtualisation(host: LocalHost) -> HostFinding:
    """Only told."""
    kind = virtualisation(host.root)
    return HostFinding("machine", "ok", "no sign of virtualisation" if kind == "none" else f"virtualised: {kind}")


def check_undo(host: LocalHost) -> HostFinding:
    """What an earlier run left."""
    open_entries = host.journal.left()
    if not open_entries:
        return HostFinding("undo journal", "ok", "nothing to put back")
    lease = host.lease()
    if lease.holder_alive():
        return HostFinding("undo journal", "ok", f"{len(open_entries)} changes are in force for a run now going on")
    return HostFinding(
        "undo journal", "warn", f"an earlier run left {len(open_entries)} changes to put back", "leadline restore"
    )


def check_ports(host: LocalHost) -> HostFinding:
    """Outgoing ports for the driver."""
    words = re.findall(r"\d+", read(host.root / "proc/sys/net/ipv4/ip_local_port_range"))
    if len(words) != 2:
        return HostFinding("ports", "warn", "the kernel does not tell its range of ports", _PROC)
    first, last = map(int, words)
    ports_text = f"{last - first + 1} ports for outgoing connections ({first} to {last})"
    if last - first >= 16_000:
        return HostFinding("ports", "ok", ports_text)
    return HostFinding(
        "ports", "warn", f"{ports_text} are few", "sudo sysctl net.ipv4.ip_local_port_range='32768 60999'"
    )


CHECKS: tuple[Callable[[LocalHost], HostFinding], ...] = (
    check_root,
    check_java,
    check_maven,
    check_httpd,
    check_disk,
    check_memory,
    check_unprivileged,
    check_cgroups,
    check_undo,
    check_load,
    check_noise,
    check_governor,
    check_smt,
    check_swap,
    check_thp,
    check_clock,
    check_pressure,
    check_ports,
    check_virtualisation,
)

# Asked before every run: what makes its figures worse, or ends it. Each takes a few milliseconds.
BEFORE_A_RUN: tuple[Callable[[LocalHost], HostFinding], ...] = (
    check_java,
    check_disk,
    check_memory,
    check_unprivileged,
    check_undo,
    check_load,
    check_governor,
    check_swap,
    check_clock,
    check_ports,
)


def spoilers(host: LocalHost) -> list[HostFinding]:
    """Of ``BEFORE_A_RUN`` those that are not ok."""
    return [finding for check in BEFORE_A_RUN if (finding := check(host)).level != "ok"]


def findings(host: LocalHost) -> list[HostFinding]:
    """All checks, in the order of ``CHECKS``; takes about two seconds."""
    return [check(host) for check in CHECKS]
