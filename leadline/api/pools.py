"""Pools of hosts: how they stand, a study over one, and the job that runs a block there."""

from __future__ import annotations

from pathlib import Path

from leadline.places.choice import open_pool
from leadline.places.pool.base import HostState, Looked, PoolHost
from leadline.places.pool.job import EndKind
from leadline.places.pool.node import job, look
from leadline.places.pool.testbed import PoolTestbed
from leadline.trial.progress import Watcher

__all__ = ["EndKind", "HostState", "Looked", "PoolHost", "hosts", "job", "look", "open_pool", "over_pool"]


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
