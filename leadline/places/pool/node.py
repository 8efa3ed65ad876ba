"""The job of a pool on this host: read, run, and handed in to whoever gave it."""

from __future__ import annotations

import io
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from leadline.checks.files.study import StudyFile
from leadline.host.received import below, pack
from leadline.host.scratch import Scratch
from leadline.host.textfile import read_text
from leadline.places.choice import open_node
from leadline.places.pool.gang import name_of, on_hosts
from leadline.places.pool.job import Ending, PoolJob, look_at, read_job, run_job
from leadline.places.testbed import Testbed
from leadline.trial.progress import Watcher


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
