"""The kernel of a pool's hosts: a level that a job asks its pool for, and that is read back where the job runs."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.hosts import KERNEL, release_knob
from leadline.model.knob import Knob, Level
from leadline.model.plan import Plan, PlannedTrial


class BootedHost(LocalHost):
    """A host whose pool has booted what the job asked for: its kernel is checked, never changed. ``kernels``: the
    releases that may be asked for, empty where the kernel is no knob.
    """

    def __init__(
        self, kernels: Sequence[str], disposable: bool = False, directories: Mapping[str, Path] | None = None
    ) -> None:
        super().__init__(disposable=disposable, directories=directories)
        self._kernels = (
            [release_knob(kernels, "The kernel of the host, as uname -r says it: its pool boots it", "scontrol(1)")]
            if kernels
            else []
        )

    def knobs(self) -> Sequence[Knob]:
        return [*super().knobs(), *self._kernels]

    def writable(self, name: str) -> str:
        return "" if name == KERNEL else super().writable(name)

    def read_back(self, name: str) -> Level:
        return platform.release() if name == KERNEL else super().read_back(name)

    def apply(self, levels: Mapping[str, Level]) -> None:
        """Also raises TrialFailure (infrastructure) where another kernel runs than the job asked for."""
        rest = dict(levels)
        wanted, runs = rest.pop(KERNEL, None), platform.release()
        if wanted not in (None, runs):
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"{platform.node()} runs kernel {runs}, the job asked its pool for {wanted}: that feature boots another"
                " kernel there, or the node was not rebooted",
            )
        super().apply(rest)


def kernel_of(trial: PlannedTrial, settings: Mapping[str, Level]) -> str:
    """That a trial is to run on; empty where any will do."""
    return str({**settings, **trial.treatment.as_dict()}.get(KERNEL, ""))


def boots(trials: Iterable[PlannedTrial], settings: Mapping[str, Level]) -> list[tuple[str, list[int]]]:
    """Trials in the order of the plan, by the boot that they share: its kernel, their positions."""
    shared = itertools.groupby(trials, lambda trial: kernel_of(trial, settings))
    return [(kernel, [trial.position for trial in group]) for kernel, group in shared]


def kernels_of(plan: Plan, settings: Mapping[str, Level]) -> list[str]:
    """All kernels that a plan's trials run on, in their first order."""
    return list(dict.fromkeys(kernel for trial in plan.trials if (kernel := kernel_of(trial, settings))))
