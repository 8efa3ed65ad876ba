"""The place that a study names: where it is planned and run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from leadline.model.guest import GuestKind
from leadline.model.knob import Knob
from leadline.model.study import MachineKind, StackChoice
from leadline.places.pool.base import Pool, SshHosts, read_pool
from leadline.places.testbed import LocalTestbed, Testbed
from leadline.trial.progress import Watcher


def open_testbed(
    stack: StackChoice | None,
    lab: Path,
    watcher: Watcher | None = None,
    disposable: bool = False,
    services: Sequence[Knob] | None = None,
) -> Testbed:
    """This host where no stack is given. ``services``: as ``service_knobs`` of ``MachineTestbed``."""
    if stack is not None and stack.ssh_hosts:
        from leadline.places.ssh.testbed import FarTestbed

        return FarTestbed(lab, stack.ssh_hosts, watcher, disposable)
    if stack is not None and stack.in_guest:
        from leadline.places.virtual.testbed import GuestTestbed

        return GuestTestbed(lab, watcher, disposable, services, cast(GuestKind, stack.host))
    kind = "local" if stack is None else cast(MachineKind, stack.host)
    return LocalTestbed(lab, watcher, disposable, services, kind)


def open_node(
    stack: StackChoice, lab: Path, kernels: Sequence[str], watcher: Watcher | None, disposable: bool
) -> Testbed:
    """A host of a pool, to a job on it; ``kernels``: releases that its study asks for."""
    if stack.ssh_hosts:
        return open_testbed(stack, lab, watcher, disposable)
    from leadline.places.pool.testbed import NodeTestbed

    return NodeTestbed(lab, kernels, watcher, disposable)


def open_pool(word: str) -> Pool:
    """``slurm``, ``slurm:PARTITION``, ``slurm:FILE.yaml`` or ``ssh:FILE.yaml``. Raises UsageError."""
    from leadline.places.pool.slurm import SlurmPool
    from leadline.places.pool.ssh import SshPool

    pool = read_pool(word)
    return SshPool(pool, word) if isinstance(pool, SshHosts) else SlurmPool(pool, word)
