"""How a kernel was built, and the differences between kernels that change how a Java service runs."""

from __future__ import annotations

import re
from collections.abc import Mapping

Options = Mapping[str, str]  # CONFIG_ name without the prefix -> y, m, a number or text; absent: not set

_SWITCHES: Mapping[str, tuple[str, ...]] = {  # trait: what it is called, in one version or another
    "timer frequency (HZ)": ("HZ",),
    "nohz_full can be had": ("NO_HZ_FULL",),
    "memory cgroup": ("MEMCG",),
    "CPU quota of cgroups": ("CFS_BANDWIDTH",),
    "swap": ("SWAP",),
    "zram": ("ZRAM",),
    "NUMA balancing": ("NUMA_BALANCING",),
    "scheduler groups by session": ("SCHED_AUTOGROUP",),
    "memory zeroed on allocation": ("INIT_ON_ALLOC_DEFAULT_ON",),
    "locks per memory area (VMA)": ("PER_VMA_LOCK",),
    "mitigations": ("CPU_MITIGATIONS", "SPECULATION_MITIGATIONS"),
    "page table isolation": ("MITIGATION_PAGE_TABLE_ISOLATION", "PAGE_TABLE_ISOLATION"),
    "retpolines": ("MITIGATION_RETPOLINE", "RETPOLINE"),
    "return thunks": ("MITIGATION_RETHUNK", "RETHUNK"),
    "system calls can be audited": ("AUDITSYSCALL",),
    "security modules": ("LSM",),
    "scheduler statistics": ("SCHEDSTATS",),
    "function tracer": ("FUNCTION_TRACER",),
    "events for BPF": ("BPF_EVENTS",),
}
_DEFAULTS: Mapping[str, tuple[str, str, bool]] = {  # trait: built, the option of its default, what that option says
    "multi-generation LRU": ("LRU_GEN", "LRU_GEN_ENABLED", True),
    "zswap": ("ZSWAP", "ZSWAP_DEFAULT_ON", True),
    "pressure stall information": ("PSI", "PSI_DEFAULT_DISABLED", False),
}


def options_of(text: str) -> dict[str, str]:
    """Options of a ``.config`` file."""
    rows = re.findall(r"^CONFIG_(\w+)=(.*)$", text, re.MULTILINE)
    return {name: value.strip('"') for name, value in rows}


def traits(options: Options) -> dict[str, str]:
    """What matters, in words: trait -> how this kernel has it. Empty where the configuration is not known."""
    if not options:
        return {}
    traits = {
        "preemption": _preemption(options),
        "transparent huge pages": _huge_pages(options),
    }
    traits |= {trait: _default(options, *names) for trait, names in _DEFAULTS.items()}
    return traits | {trait: _switch(options, names) for trait, names in _SWITCHES.items()}


def differences(first: Options, second: Options) -> dict[str, tuple[str, str]]:
    """Every option that differs: name -> level of each, ``-`` where it is not set."""
    names = sorted(name for name in {*first, *second} if first.get(name) != second.get(name))
    return {name: (first.get(name, "-"), second.get(name, "-")) for name in names}


def _preemption(options: Options) -> str:
    built = next((name for name in ("LAZY", "VOLUNTARY", "NONE") if f"PREEMPT_{name}" in options), "FULL").lower()
    if "PREEMPT_RT" in options:
        built = "real time (PREEMPT_RT)"
    return f"{built}, preempt= changes it" if "PREEMPT_DYNAMIC" in options else built


def _huge_pages(options: Options) -> str:
    built = (name for name in ("ALWAYS", "MADVISE", "NEVER") if f"TRANSPARENT_HUGEPAGE_{name}" in options)
    return next(built, "none built").lower()


def _default(options: Options, name: str, switch: str, meaning: bool) -> str:
    if name not in options:
        return "off"
    return "on" if (switch in options) is meaning else "off by default"


def _switch(options: Options, names: tuple[str, ...]) -> str:
    value = next((options[name] for name in names if name in options), "off")
    return {"y": "on", "m": "module"}.get(value, value)
