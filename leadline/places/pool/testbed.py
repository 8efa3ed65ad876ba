"""A pool of hosts as a testbed: studies with the plan, store and analysis of all others, their blocks over there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned
from leadline.checks.ssh import check_over_ssh
from leadline.host.paths import cache_dir
from leadline.layouts import layout_of
from leadline.model.errors import UsageError
from leadline.model.hosts import KERNEL
from leadline.places.pool.base import Looked, Pool, takes_jobs, without_hosts
from leadline.places.pool.gang import roles
from leadline.places.pool.job import job_of
from leadline.places.pool.kernels import BootedHost, kernels_of
from leadline.places.pool.run import PoolRun
from leadline.places.testbed import LocalTestbed, RunOptions
from leadline.trial.progress import Watcher
from leadline.trial.run import RunResult


class _AnyHost(BootedHost):
    """This machine as a stand-in for those of the pool: which knobs they can set they say themselves."""

    def writable(self, name: str) -> str:  # noqa: ARG002 - of every knob
        return ""


class NodeTestbed(LocalTestbed):
    """A host of a pool, to a job on it. ``kernels``: releases that the study asks for."""

    def __init__(self, lab: Path, kernels: Sequence[str], watcher: Watcher | None, disposable: bool) -> None:
        super().__init__(lab, watcher, disposable)
        if kernels:
            self.host = BootedHost(kernels, disposable, self.places)


class PoolTestbed(LocalTestbed):
    """Plans for a host like this one; each host of the pool checks the plan before its first trial. ``most``: jobs at
    the same time.
    """

    def __init__(
        self, lab: Path, pool: Pool, watcher: Watcher | None = None, disposable: bool = False, most: int | None = None
    ) -> None:
        super().__init__(lab, watcher, disposable)
        self.pool, self._most = pool, most
        self.host = _AnyHost(pool.kernels, disposable, {"cache": cache_dir()})

    def plan(self, file: StudyFile, idle_settings: bool = False) -> Planned:
        """Raises UsageError as planning on this host does, and for a pool without the hosts of a job; PoolSilentError
        for one that does not answer.
        """
        stack, together = file.study.stack, roles(file.study)
        if stack.ssh_hosts:
            check_over_ssh(file)
        elif stack.host != "local":
            raise UsageError(
                f"{file.where(('stack', 'host'))}: a pool runs services on its hosts, no guests: write local"
            )
        if not self.pool.kernels and (KERNEL in file.study.factors or KERNEL in file.study.settings):
            part = "factors" if KERNEL in file.study.factors else "settings"
            raise UsageError(
                f"{file.where((part, KERNEL))}: {self.pool.name} boots no kernels: write `kernels` in slurm:FILE.yaml,"
                " or take --host ssh:NAME"
            )
        if len(together) > 1 and (KERNEL in file.study.factors or KERNEL in file.study.settings):
            part = "factors" if KERNEL in file.study.factors else "settings"
            raise UsageError(
                f"{file.where((part, KERNEL))}: a pool boots kernels for studies on one host: leave the hosts out of"
                " the study, or run it without --pool"
            )
        self.pool.gather(len(together))
        if not self.pool.usable():
            raise UsageError(f"--pool: {without_hosts(self.pool.name, self.pool.hosts(), len(together))}")
        return super().plan(file, idle_settings)

    def look(self, file: StudyFile, planned: Planned) -> Looked:
        """How each host stands for this plan; changes nothing. Raises UsageError where none can take a block,
        PoolSilentError.
        """
        blocks: dict[int, list[int]] = {}
        for trial in planned.plan.trials:
            blocks.setdefault(trial.block, []).append(trial.position)
        kernels = kernels_of(planned.plan, planned.settings)
        job = job_of(file, planned.plan, 0, blocks[0], "look", disposable=self.disposable, kernels=kernels)
        hosts = self.pool.look(asdict(job))
        together = roles(file.study)
        able = sum(map(takes_jobs, hosts)) // len(together)
        if not able:
            raise UsageError(f"--pool: {without_hosts(self.pool.name, hosts, len(together))}")
        return Looked(self.pool.name, hosts, min(able, len(blocks), self._most or able), together)

    def run(self, file: StudyFile, planned: Planned, options: RunOptions) -> RunResult:
        def settle(study_id: int) -> str:
            from leadline.places.real import RealSystem  # its libraries take seconds to import
            from leadline.trial.slotmeasure import settle

            return settle(self.store, study_id, RealSystem(file.study, self.host, self.store.directory))

        run = PoolRun(
            *(file, planned, self.store, self.pool, self.watcher, options, self._most, self.disposable),
            settle=settle if layout_of(file.study.design).estimates_wash_out else None,
        )
        return run.execute()
