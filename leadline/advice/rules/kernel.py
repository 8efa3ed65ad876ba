"""Memory, disks and the network as the kernel counts them."""

from __future__ import annotations

from leadline.advice.facts import TrialFacts
from leadline.advice.look import Look, Rule, Sign, number, percent, whole

SWAPPED = 10.0  # pages a second
RECLAIMS = 1.0  # a second
STALLED = 0.2  # share of the time that some task waited for storage
OVERFLOWS = 0.1  # connections a second
STEAL = 0.05


def others(trial: TrialFacts) -> list[Look]:
    """Programs that are none of the study's on the same CPUs: what a trial shows may be theirs."""
    share, sign = trial.host.others, None
    if share is None:
        return []
    if trial.disturbed:
        says = f"programs other than the study's used {percent(share)} of the CPUs"
        remedy = "stop them or take a quiet machine, then run the study again: no setting is judged by these trials"
        sign = Sign(says, {"other programs": (100 * share, "% of CPU")}, share, remedy=remedy)
    return [Look("kernel.others", "host", None, None, sign)]


def swap(trial: TrialFacts) -> list[Look]:
    """Pages of programs going to swap and back."""
    knob, pages = "vm.swappiness", trial.host.swapped_per_s
    if pages is None:
        return []
    now, sign = whole(trial, knob), None
    if pages >= SWAPPED:
        says = f"{number(pages)} pages a second were swapped in or out"
        figures = {"swapped": (pages, "pages/s")}
        if now is not None and now <= 1:
            sign = Sign(says, figures, pages, remedy="a smaller heap or smaller caches: memory is short")
        else:
            reason = "the page cache goes before the memory of programs; a heap that is swapped slows each collection"
            sign = Sign(says, figures, pages, 1, reason)
    return [Look("kernel.swap", "host", knob, now, sign)]


def reclaim(trial: TrialFacts) -> list[Look]:
    """Tasks that had to free memory themselves before they got some."""
    knob, often = "vm.min_free_kbytes", trial.host.direct_reclaims_per_s
    if often is None:
        return []
    now, sign = whole(trial, knob), None
    if often >= RECLAIMS:
        says = f"{number(often)} times a second a task had to reclaim memory itself"
        figures = {"direct reclaims": (often, "1/s")}
        total = trial.host.memory_total
        if now is None or (total is not None and 2 * now * 1024 > 0.05 * total):
            sign = Sign(says, figures, often, remedy="less memory in use: a smaller heap or smaller caches")
        else:
            sign = Sign(says, figures, often, 2 * now, "the kernel begins to reclaim earlier, beside the tasks")
    return [Look("kernel.reclaim", "host", knob, now, sign)]


def storage(trial: TrialFacts) -> list[Look]:
    """Tasks that wait for a disk while much is written."""
    knob, stalled = "vm.dirty_background_ratio", trial.host.io_stalled
    if stalled is None or trial.host.iowait is None:
        return []
    now, sign = whole(trial, knob), None
    if stalled >= STALLED and trial.host.iowait >= 0.05:
        says = (
            f"some task waited for storage in {percent(stalled)} of the time, and the CPUs idled "
            f"{percent(trial.host.iowait)} of theirs for it"
        )
        figures = {"stalled": (100 * stalled, "% of time"), "iowait": (100 * trial.host.iowait, "% of CPU")}
        if now is not None and now >= 2:
            reason = "writing back begins earlier and in smaller portions"
            sign = Sign(says, figures, stalled, max(1, now // 2), reason)
        else:
            sign = Sign(says, figures, stalled, remedy="faster storage, or fewer forced writes (database.commit_delay)")
    return [Look("kernel.storage", "host", knob, now, sign)]


def backlog(trial: TrialFacts) -> list[Look]:
    """Connections lost because a listening socket's queue was full."""
    knob, lost = "net.core.somaxconn", trial.host.listen_overflows_per_s
    if lost is None:
        return []
    sign, now = None, whole(trial, knob)
    if lost >= OVERFLOWS:
        says = f"{number(lost)} connections a second found the queue of a listening socket full"
        figures = {"overflows": (lost, "connections/s")}
        remedy = f"raise the server's own backlog, and {knob} where it is below it; a client tries again after a second"
        sign = Sign(says, figures, lost, remedy=remedy)
    return [Look("kernel.backlog", "host", knob, now, sign)]


def steal(trial: TrialFacts) -> list[Look]:
    """CPU time that the hypervisor gave to others."""
    stolen = trial.host.steal
    if stolen is None:
        return []
    sign = None
    if stolen >= STEAL:
        says = f"the hypervisor gave {percent(stolen)} of the CPU time to others"
        remedy = "measure on a host that is not shared, or at another time; no setting mends this"
        sign = Sign(says, {"steal": (100 * stolen, "% of CPU")}, stolen, remedy=remedy)
    return [Look("kernel.steal", "host", None, None, sign)]


RULES = (
    Rule("kernel.others", "kernel", "other programs use the CPUs", others, majority=False),
    Rule("kernel.swap", "kernel", "the host swaps", swap),
    Rule("kernel.reclaim", "kernel", "memory is reclaimed too late", reclaim),
    Rule("kernel.storage", "kernel", "storage holds tasks up", storage),
    Rule("kernel.backlog", "kernel", "connections are lost", backlog),
    Rule("kernel.steal", "kernel", "the host is shared", steal),
)
