"""Directories that are made once and verified by their digest each time they are used."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from leadline.host.received import json_object_file
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.received import ReceivedError

_SEAL = "sealed.json"

Facts = Mapping[str, Any]


def facts_of(directory: Path) -> Facts | None:
    """What was recorded when it was made, and ``digest``; None for what is not complete. Nothing is verified."""
    try:
        return json_object_file(directory / _SEAL)
    except FileNotFoundError:
        return None
    except ReceivedError:
        if not directory.is_dir():
            return None
        raise LeadlineError(f"{directory / _SEAL} is damaged; remove {directory} and fetch again") from None


def verified(directory: Path) -> Facts:
    """The same after the digest was taken again. Raises LeadlineError for files that changed."""
    facts = facts_of(directory)
    if facts is None:
        raise LeadlineError(f"{directory} is not complete; remove it and fetch again")
    digest = digest_of(directory)
    if digest != facts["digest"]:
        raise LeadlineError(
            f"{directory} was changed since it was made: sha256 of its files expected {facts['digest'][:16]}...,"
            f" found {digest[:16]}...; remove the directory and fetch again"
        )
    return facts


def make(target: Path, fill: Callable[[Path], Facts]) -> Facts:
    """``fill`` an empty directory, then seal it as ``target``; what is half done is thrown away.

    The caller holds the lock of ``target.parent``. Raises what ``fill`` raises, TrialFailure(infrastructure) on a full
    disk.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    for half in target.parent.glob(".*.half"):  # of a process that was killed; the lock is ours
        shutil.rmtree(half, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".half", dir=target.parent))
    try:
        facts = {**fill(work), "digest": digest_of(work)}
        (work / _SEAL).write_text(json.dumps(facts, indent=2), encoding="utf-8")
        work.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        work.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise TrialFailure(
            FailureClass.INFRASTRUCTURE,
            f"the disk of {target.parent} is full; free some room or set LEADLINE_CACHE to another disk",
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return facts


def digest_of(directory: Path) -> str:
    """SHA-256 (hex) over path and SHA-256 of every file, in order of the paths."""
    total = hashlib.sha256()
    for path in sorted(path for path in directory.rglob("*") if path.is_file() and path != directory / _SEAL):
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        total.update(f"{digest}  {path.relative_to(directory)}\n".encode())
    return total.hexdigest()
