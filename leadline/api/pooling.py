"""Studies on pools of hosts: blocks as jobs of Slurm, or on a list of hosts in turn."""

from __future__ import annotations

import math
import os
import platform
import tempfile
from pathlib import Path

from leadline.api.results import StudyResult
from leadline.api.running import SIMULATED, Run, open_testbed
from leadline.api.studies import Study
from leadline.design import plan_to_json
from leadline.lab.bundle import write_bundle
from leadline.lab.planning import Planned
from leadline.lab.progress import Watcher
from leadline.lab.store import Store
from leadline.lab.studyfile import StudyFile, load_tree
from leadline.lab.testbed import RunOptions
from leadline.lab.yamltree import Places
from leadline.model.errors import LeadlineError, RestoreError, UsageError
from leadline.model.guest import GUEST_KINDS
from leadline.model.study import Study as StudyModel
from leadline.pool.base import HostState, Pool
from leadline.pool.drained import Drained, DrainedHosts
from leadline.pool.order import BUNDLE, Ended, Order, read_order, write_ended
from leadline.pool.run import PoolRun, check_pooled, progress
from leadline.pool.slurm import SlurmPool
from leadline.pool.ssh import SshPool, read_hosts

__all__ = [
    "Drained",
    "DrainedHosts",
    "HostState",
    "Pool",
    "at_work",
    "open_pool",
    "plan_pooled",
    "pool_lab",
    "run_pooled",
    "work",
]


def open_pool(word: str, hosts: int | None = None) -> Pool:
    """``slurm``, ``slurm:PARTITION`` or ``ssh:FILE``; ``hosts``: at most so many at a time. Raises UsageError."""
    kind, _, rest = word.partition(":")
    if hosts is not None and hosts < 1:
        raise UsageError(f"--hosts {hosts}: a pool runs on one host at least")
    if kind == "slurm":
        pool: Pool = SlurmPool(rest, hosts)
    elif kind == "ssh" and rest:
        if hosts is not None:
            raise UsageError(
                "--hosts is of Slurm's pools; a list of hosts gets one block at a time, as the driver is here"
            )
        pool = SshPool(Path(rest), read_hosts(Path(rest)))
    else:
        raise UsageError(
            f"--pool {word}: there is no such pool; write slurm, slurm:PARTITION or ssh:FILE with a list of hosts"
        )
    pool.check()
    return pool


def pool_lab(lab: Path, truth: Path | None) -> Path:
    """The lab's directory, that of simulated studies where there is a truth."""
    return lab / SIMULATED if truth is not None else lab


def plan_pooled(study: Study, pool: Pool, lab: Path, truth: Path | None, disposable: bool) -> Planned:
    """The plan, as its hosts must make it too. Raises UsageError for what cannot run in a pool."""
    file = study.file
    check_pooled(file)
    stack = file.study.stack
    if stack.ssh is not None or stack.host in GUEST_KINDS:
        named = stack.ssh or stack.host
        raise UsageError(
            f"{file.where(('stack', 'host'))}: the study names its host ({named}), and a pool has its own: leave it out"
        )
    if not isinstance(pool, SshPool) or truth is not None:
        return open_testbed(lab, truth=truth, disposable=disposable, subject=study).plan(file)
    drained = DrainedHosts(pool_lab(lab, truth), pool.name).all()
    errors = []
    for host in pool.hosts():
        if host.name not in drained:
            there, _ = study.on(host.name)
            try:
                return open_testbed(lab, disposable=disposable, subject=there).plan(there.file)
            except UsageError as error:
                errors.append(str(error))
    raise UsageError("\n".join(errors) or f"every host of {pool.name} is drained; `leadline pool list` tells why")


def run_pooled(
    study: Study,
    pool: Pool,
    lab: Path | str = "lab",
    *,
    truth: Path | None = None,
    fresh: bool = False,
    disposable: bool = False,
    watcher: Watcher,
) -> Run:
    """Run what is left of a study on a pool, or all of it anew (``fresh``). Raises as ``run``."""
    planned = plan_pooled(study, pool, Path(lab), truth, disposable)
    store = Store(pool_lab(Path(lab), truth))
    told = str(truth.resolve()) if truth is not None else ""
    ended = PoolRun(study.file, planned, store, pool, watcher, disposable, told).execute(fresh)
    return Run(StudyResult(store.load(ended.study_id), store), ended.complete, ended.stopped, ended.restored)


def at_work(lab: Path) -> list[str]:
    """How far the studies are that have blocks at work, a line each."""
    store, lines = Store(lab, create=False), []
    for number in store.ids():
        running = {claim.block: claim.host or f"job {claim.job}" for claim in store.claims.running(number)}
        if running:
            lines.append(progress(store.load(number), running))
    return lines


def work(directory: Path, watcher: Watcher) -> Ended:
    """Carry out an order on this host: run its block in a lab of its own, hand in the bundle, say how it ended."""
    order = read_order(directory)
    host = order.host or os.environ.get("SLURMD_NODENAME") or platform.node()
    with tempfile.TemporaryDirectory(prefix="leadline-block-") as lab:
        try:
            ended = Ended(host, stopped=_run(order, directory, Path(lab), host, watcher))
        except RestoreError as error:
            ended = Ended(host, unfit=f"it was not put back: {error}")
        except UsageError as error:
            ended = Ended(host, unfit=str(error))
        except LeadlineError as error:
            ended = Ended(host, stopped=str(error))
        write_ended(directory, ended)
    return ended


def _run(order: Order, directory: Path, lab: Path, host: str, watcher: Watcher) -> str:
    model = StudyModel.model_validate_json(order.study)
    places = Places(order.source, load_tree(order.document, order.source, StudyModel), {})
    study = Study(StudyFile(model, order.document, places))
    truth = order.truth or None
    place = open_testbed(lab, truth=truth, disposable=order.disposable, watcher=watcher, subject=study)
    planned = place.plan(study.file)
    if plan_to_json(planned.plan) != order.plan:
        why = f": {'; '.join(planned.skipped)}" if planned.skipped else ""
        raise UsageError(f"it plans other trials than the pool's plan has{why}")
    ended = place.run(study.file, planned, RunOptions(fresh=True, budget=math.inf, block=order.block))
    positions = [trial.position for trial in planned.plan.trials if trial.block == order.block]
    write_bundle(
        *(place.store, ended.study_id, directory / BUNDLE),
        positions=positions,
        block=order.block,
        token=order.token,
        host=host,
    )
    return ended.stopped
