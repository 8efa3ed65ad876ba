"""Run by test_lab_kill: a study on a real host with a stand-in system; ends itself by SIGKILL at one step.

Each line of its input, ``[lab, state, root, step, output]`` in JSON, is a process of its own, forked, so that the
libraries, which take most of its time, are imported once; its exit code is written as a line, negative for a signal.

A step ``slot 3 of 8`` is that of the study with slots; ``write 12`` ends it after its 12th write of a knob; ``slots``
runs that study to its end. ``rotation STEP`` is that of the study whose trials stand side by side.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab_fakes import HEAP, POOL, FakeSystem

from leadline.checks.files.study import parse_study
from leadline.checks.plan import plan_study
from leadline.host.base import Process, ProcessSpec
from leadline.host.local import LocalHost
from leadline.host.watchdog import Watchdog
from leadline.store.lab import Store
from leadline.trial.progress import SilentWatcher
from leadline.trial.run import StudyRun

STUDY = """\
study: killed
question: what is left?
workload: { users: 5 }
factors:
  server.pool: [10, 2]
  vm.dirty_expire_centisecs: [3000, 500]
design: { replicates: 2, sentinels: null }
responses: [throughput]
dead_man: 600s
"""

# The live knob alone, changed in slots.
SLOTS = """\
study: killed
question: what is left?
workload: { users: 5, ramp_up: 1s, steady: 40s }
factors:
  vm.dirty_expire_centisecs: [3000, 500]
design: { replicates: 2, switchback: { slot: 5s } }
responses: [throughput]
dead_man: 600s
"""


ROTATION = """\
study: killed
question: what is left?
workload: { users: 5, ramp_up: 4s, steady: 8s }
factors:
  server.pool: [10, 2]
  vm.dirty_expire_centisecs: [3000, 500]
design: { replicates: 2, rotation: { slot: 4s } }
responses: [throughput]
settings: { jvm.heap: 64m }
dead_man: 600s
"""


class FakeSystemWithProcess(FakeSystem):
    """Its "server" is a real sleeping process, so that something is left to end."""

    process: Process | None = None

    def start_server(self, settings: Any, directory: Path) -> float:
        argv = ["sleep", "600"]
        self.process = self.real.start(ProcessSpec("server", argv, directory / "logs" / "server.log"))
        (directory / "pid").write_text(str(self.process.pid))
        return super().start_server(settings, directory)

    real: LocalHost

    def stop(self) -> list[str]:
        if self.process is not None:
            self.process.stop(grace=2.0)
            self.process = None
        return []


class PrintingWatcher(SilentWatcher):
    def message(self, text: str) -> None:
        print(text)


class KillingWatcher(SilentWatcher):
    """Ends the process at a step of the second trial: its row is written, nothing of it is done yet."""

    def __init__(self, step: str) -> None:
        self._step = step
        self._seen = 0

    def step(self, name: str) -> None:
        self._seen += name == self._step
        if name == self._step and self._seen == 2:
            os.kill(os.getpid(), signal.SIGKILL)


class KillingHost(LocalHost):
    """Ends the process right after one of its writes, before anything is told of it."""

    kill_after = 0

    def set_knob(self, name: str, level: Any) -> None:
        super().set_knob(name, level)
        self.kill_after -= 1
        if self.kill_after == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def main(lab: Path, state: Path, root: Path, step: str) -> None:
    host = KillingHost(state=state, root=root)
    if step.startswith("write "):
        host.kill_after = int(step.removeprefix("write "))
    system = FakeSystemWithProcess(host)  # type: ignore[arg-type]
    system.real = host
    slots = step.startswith(("slot ", "write ", "slots"))
    rotation = step.startswith("rotation")
    step = step.removeprefix("rotation").strip()
    file = parse_study(ROTATION if rotation else SLOTS if slots else STUDY, "killed.yaml")
    planned = plan_study(file, host, [POOL, HEAP])
    watcher = KillingWatcher(step) if step else PrintingWatcher()

    @contextmanager
    def guard(_: float) -> Iterator[Watchdog]:
        # on a crowded machine a run may stand still for longer than a short dead-man time
        with host.guard(600.0) as watchdog:
            (lab.parent / "watchdog").write_text(str(watchdog.pid))
            yield watchdog

    StudyRun(file, planned, Store(lab), host, system, watcher, guard).execute()


def forked(lab: Path, state: Path, root: Path, step: str, output: Path) -> int:
    """The exit code of ``main`` in a process of its own, whose output goes to a file."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        os.setsid()
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(file, number)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)  # else what it starts would hold the pipe
        main(lab, state, root, step)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    for line in sys.stdin:
        lab, state, root, step, output = json.loads(line)
        print(forked(Path(lab), Path(state), Path(root), step, Path(output)), flush=True)
