"""What a reader needs to know of a host to repeat a study. Reads only.

Of a listening socket: how many connections may wait, as the kernel has it (sock_diag(7)).
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import statistics
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leadline.host import procfs
from leadline.host.cgroup import hierarchies
from leadline.host.undo import active_swaps, normalise


@dataclass(frozen=True)
class Noise:
    """``spread``: from the 10th to the 90th percentile of the times, in percent of the median. ``worst``: the longest
    above the median, in percent. ``stolen``: share of CPU time the hypervisor gave to others, in percent.
    """

    spread: float
    worst: float
    stolen: float
    rounds: int


def _work(count: int) -> int:
    value = 1
    for number in range(count):
        value = (value * 1103515245 + number) & 0x7FFFFFFF
    return value


def _timed(count: int) -> float:
    begun = time.perf_counter()
    _work(count)
    return time.perf_counter() - begun


def _cpu_ticks(root: Path) -> tuple[int, int]:
    words = [int(word) for word in read(root / "proc/stat").split("\n", 1)[0].split()[1:]]
    return (sum(words[:8]), words[7]) if len(words) > 7 else (0, 0)


def probe(seconds: float = 2.0, root: Path = Path("/")) -> Noise:
    """Work of about 5 ms a round for so many seconds on one core."""
    count = max(1000, int(10_000 * 0.005 / max(1e-6, min(_timed(10_000) for _ in range(5)))))
    total, stolen = _cpu_ticks(root)
    times: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < 20 or time.perf_counter() < until:
        times.append(_timed(count))
    total_after, stolen_after = _cpu_ticks(root)
    cuts = statistics.quantiles(times, n=10)
    middle = statistics.median(times)
    share = 100 * (stolen_after - stolen) / (total_after - total) if total_after > total else 0.0
    return Noise(100 * (cuts[8] - cuts[0]) / middle, 100 * (max(times) - middle) / middle, share, len(times))


def busy(seconds: float, root: Path = Path("/")) -> float:
    """Share of all CPUs that was not idle in the next seconds, steal included and this process left out."""
    before, own_time = _idle_ticks(root), time.process_time()
    time.sleep(seconds)
    after, own_time = _idle_ticks(root), time.process_time() - own_time
    total, idle = (new - old for new, old in zip(after, before, strict=True))
    ticks = own_time * os.sysconf("SC_CLK_TCK")
    return max(0.0, 1 - (idle + ticks) / total) if total > 0 else 0.0


def _idle_ticks(root: Path) -> tuple[int, int]:
    """All ticks, and those idle or waiting for a disk."""
    words = [int(word) for word in read(root / "proc/stat").split("\n", 1)[0].split()[1:9]]
    return sum(words), sum(words[3:5])


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
    mounts = hierarchies("memory")
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


VARIABLE = "LEADLINE_HTTPD"
MEND = "apt-get install apache2-bin"
_NAMES = ("httpd", "apache2")
_PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/local/apache2/bin", "/opt/apache2/bin")


def find_httpd() -> tuple[Path | None, str]:
    """The program, named by LEADLINE_HTTPD, on the PATH or where systems put it; or None and why."""
    named = os.environ.get(VARIABLE)
    if named:
        return (Path(named), "") if os.access(named, os.X_OK) else (None, f"{VARIABLE}={named} cannot be run")
    path = os.pathsep.join([os.environ.get("PATH", ""), *_PLACES])
    path_found = next((Path(path_found) for name in _NAMES if (path_found := shutil.which(name, path=path))), None)
    return path_found, "" if path_found else f"no {' or '.join(_NAMES)} on this host"


_SOCK_DIAG, _BY_FAMILY = 4, 20  # NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY
_DUMP, _DONE, _ERROR = 0x301, 3, 2  # NLM_F_REQUEST | NLM_F_DUMP; NLMSG_DONE, NLMSG_ERROR
_LISTEN = 10
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI48x")
_TOLD = struct.Struct("=4x2s46xIII")  # port, expires, rqueue, wqueue: of a listening socket waiting and at most


def backlog(port: int) -> int:
    """The most that may wait at ``port`` of this network namespace: what the program asked for, or ``somaxconn``.

    Raises LookupError where nothing listens there, OSError where the kernel does not tell.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        for bound_port, most in _listening(family):
            if bound_port == port:
                return most
    raise LookupError(f"nothing listens on port {port}")


def _listening(family: int) -> list[tuple[int, int]]:
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 1 << _LISTEN)
    ports: list[tuple[int, int]] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(2.0)
        kernel.send(_HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _DUMP, 1, 0) + request)
        while True:
            data = kernel.recv(1 << 16)
            while len(data) >= _HEADER.size:
                length, kind, *_ = _HEADER.unpack_from(data)
                if kind == _DONE:
                    return ports
                if kind == _ERROR:
                    (code,) = struct.unpack_from("=i", data, _HEADER.size)
                    raise OSError(-code, "the kernel does not tell of listening sockets")
                port, _, _, most = _TOLD.unpack_from(data, _HEADER.size)
                ports.append((int.from_bytes(port, "big"), most))
                data = data[(length + 3) // 4 * 4 :]
