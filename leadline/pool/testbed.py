"""A pool of hosts as a testbed: studies with the plan, store and analysis of all others, their blocks over there."""

from __future__ import annotations

from pathlib import Path

from leadline.host.local import LocalHost
from leadline.host.paths import cache_dir
from leadline.lab.planning import Planned
from leadline.lab.progress import Watcher
from leadline.lab.run import RunResult
from leadline.lab.studyfile import StudyFile
from leadline.lab.testbed import LocalTestbed, RunOptions
from leadline.model.errors import UsageError
from leadline.pool.base import Pool, without_hosts
from leadline.pool.run import PoolRun


class _AnyHost(LocalHost):
    """This machine as a stand-in for those of the pool: which knobs they can set they say themselves."""

    def writable(self, name: str) -> str:  # noqa: ARG002 - of every knob
        return ""


class PoolTestbed(LocalTestbed):
    """Plans for a host like this one; each host of the pool checks the plan before its first trial. ``most``: jobs at
    the same time.
    """

    def __init__(
        self, lab: Path, pool: Pool, watcher: Watcher | None = None, disposable: bool = False, most: int | None = None
    ) -> None:
        super().__init__(lab, watcher, disposable)
        self.pool, self._most = pool, most
        self.host = _AnyHost(disposable=disposable, directories={"cache": cache_dir()})

    def plan(self, file: StudyFile, idle_settings: bool = False) -> Planned:
        """Raises UsageError as planning on this host does, for a study that names hosts of its own and for a pool
        without a host; PoolSilentError for one that does not answer.
        """
        stack = file.study.stack
        if stack.ssh is not None or file.study.drivers:
            key = ("drivers",) if file.study.drivers else ("stack",)
            raise UsageError(
                f"{file.where(key)}: the study names hosts of its own, a pool gives each block one: leave"
                " them out, or run it without --pool"
            )
        if stack.host != "local":
            raise UsageError(
                f"{file.where(('stack', 'host'))}: a pool runs services on its hosts, no guests: write local"
            )
        if not self.pool.usable():
            raise UsageError(f"--pool: {without_hosts(self.pool)}")
        return super().plan(file, idle_settings)

    def run(self, file: StudyFile, planned: Planned, options: RunOptions) -> RunResult:
        def settle(study_id: int) -> str:
            from leadline.lab.real import RealSystem  # its libraries take seconds to import
            from leadline.lab.slotmeasure import settle

            return settle(self.store, study_id, RealSystem(file.study, self.host, self.store.directory))

        run = PoolRun(
            *(file, planned, self.store, self.pool, self.watcher, options, self._most, self.disposable),
            settle=settle if file.study.design.switchback else None,
        )
        return run.execute()
