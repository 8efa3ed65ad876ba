"""A pool of hosts as a testbed: studies with the plan, store and analysis of all others, their blocks over there."""

from __future__ import annotations

import io
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from leadline.checks.files.study import StudyFile
from leadline.checks.machine import check_over_ssh
from leadline.checks.plan import Planned
from leadline.host.paths import Scratch, cache_dir
from leadline.host.received import below, pack
from leadline.host.textfile import read_text
from leadline.layouts import layout_of
from leadline.model.errors import UsageError
from leadline.model.hosts import KERNEL
from leadline.places.pool.base import BootedHost, Looked, Pool, PoolHost, kernels_of, takes_jobs, without_hosts
from leadline.places.pool.job import Ending, PoolJob, job_of, look_at, name_of, on_hosts, read_job, roles, run_job
from leadline.places.pool.run import PoolRun
from leadline.places.testbed import LocalTestbed, RunOptions, Testbed, open_node, open_pool
from leadline.trial.progress import Watcher
from leadline.trial.run import RunResult


def hosts(word: str) -> list[PoolHost]:
    """How each host of a pool stands. One over SSH is put back first, where an earlier run left it altered. Raises
    UsageError, LeadlineError where the pool cannot be asked.
    """
    return open_pool(word).hosts()


def over_pool(
    pool: str,
    lab: Path | str = "lab",
    *,
    most: int | None = None,
    disposable: bool = False,
    watcher: Watcher | None = None,
) -> PoolTestbed:
    """Where a study is run block by block over a pool, ``most`` blocks at the same time."""
    return PoolTestbed(Path(lab), open_pool(pool), watcher, disposable, most)


def job(source: str, host: str, watcher: Watcher) -> Ending:
    """Run the job of a file, or of standard input (``-``), for as long as that is open; what it leaves goes beside the
    file, or to standard output as a tar archive. ``host``: its name, or those of a gang with commas between.

    Raises UsageError for what is no job of this version.
    """
    hosts_ = (host or platform.node()).split(",")
    name = name_of(hosts_)
    if source != "-":
        told = on_hosts(read_job(read_text(Path(source))), hosts_)
        return run_job(told, name, _place_of(told, watcher), Path(source).parent)
    told = on_hosts(read_job(sys.stdin.buffer.readline().decode("utf-8", errors="replace")), hosts_)
    threading.Thread(target=_until_closed, name="input", daemon=True).start()
    with Scratch() as target:
        ending = run_job(told, name, _place_of(told, watcher), target)
        pack(below(target), sys.stdout.buffer)
        sys.stdout.buffer.flush()
    return ending


def look(host: str, watcher: Watcher) -> Ending:
    """How the job that standard input has would fare on this host now; nothing is changed. Raises UsageError for what
    is no job of this version.
    """
    ending = read_job(sys.stdin.buffer.readline().decode("utf-8", errors="replace"))
    return look_at(ending, host or platform.node(), _place_of(ending, watcher))


def _place_of(told: PoolJob, watcher: Watcher) -> Callable[[Path, StudyFile], Testbed]:
    def place(lab: Path, file: StudyFile) -> Testbed:
        return open_node(file.study.stack, lab, told.kernels, watcher, told.disposable)

    return place


def _until_closed() -> None:
    """Whoever gave the job is gone, or wants it to end, once its input is closed."""
    with suppress(OSError, ValueError):
        while sys.stdin.buffer.read(io.DEFAULT_BUFFER_SIZE):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


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
            from leadline.places.real import roles_elsewhere  # its libraries take seconds to import
            from leadline.trial.measure import DriverRecording
            from leadline.trial.slotmeasure import settle

            return settle(self.store, study_id, DriverRecording(roles_elsewhere(file.study)))

        run = PoolRun(
            *(file, planned, self.store, self.pool, self.watcher, options, self._most, self.disposable),
            settle=settle if layout_of(file.study.design).estimates_wash_out else None,
        )
        return run.execute()
