"""What of a lab is in use by a run on this machine: locks that the kernel frees when their holder ends.

Of runs on other machines, in a lab that they share, claims and their leases tell (``leadline.store.claims``).
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from leadline.host.private import private_file
from leadline.model.errors import LeadlineError

LIVE = ".live"  # folder of what runs tell (``leadline.trial.livelog``)
_FOLDER = ".in-use"
PATIENCE = 2.0  # seconds of a run, for one that only looks


class InUseError(LeadlineError):
    """Another leadline uses it."""


@contextmanager
def in_use(lab: Path, what: str, shared: bool = False, patience: float = 0.0) -> Iterator[None]:
    """Hold ``what`` of the lab (``study-12``, ``tuning-3``, ``services-NAME``) for the block, alone unless ``shared``.
    Raises InUseError where another holds it for ``patience`` seconds, OSError.
    """
    path = lab / _FOLDER / what
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(path, "a", opener=private_file) as lock:
        deadline = time.monotonic() + patience
        while not _locked(lock, shared):
            if time.monotonic() >= deadline:
                kind, _, name = what.partition("-")
                raise InUseError(f"{kind} {name} of the lab {lab} is in use by another leadline")
            time.sleep(0.02)
        yield


def is_used(lab: Path, what: str) -> bool:
    """Whether a run holds it alone."""
    if not (lab / _FOLDER / what).exists():
        return False
    try:
        with in_use(lab, what, shared=True):
            return False
    except InUseError:
        return True
    except OSError:  # nobody may write there, so nobody runs
        return False


def log_path(lab: Path, study_id: int) -> Path:
    """What the run of a study tells while it lasts."""
    return lab / LIVE / f"study-{study_id}.jsonl"


def stop_path(lab: Path, study_id: int) -> Path:
    """A file there ends the run in order."""
    return lab / LIVE / f"study-{study_id}.stop"


def _locked(lock: IO[str], shared: bool) -> bool:
    try:
        fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
