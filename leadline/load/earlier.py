"""What an earlier run left in the directory of a new one: nothing measured is lost unless the user says so.

leadline-load looks after its own files itself; this is for all that is written around them.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from leadline.model.errors import UsageError

REPLACE = "--replace"
FILES = (
    "summary.json",
    "summary.json.part",
    "seconds.csv",
    "outcomes.csv",
    "driver.csv",
    "transactions.csv",
    "response.hlog",
    "service.hlog",
    "connect.hlog",
    "blocked.hlog",
    "steady.hlog",
    "knee.json",
    "host.json",
)
_RUNS = ("drivers/*", "step-[0-9]*-[0-9]*", "confirm-[0-9]*-[0-9]*")  # directories of single runs
RAW, STARTED = "raw", "started"  # a generator's own files; the mark of its start


def refuse(out: Path) -> None:
    """Raises UsageError where the results of a run are, whole or of one that was killed."""
    file = next(_files(out), None)
    if file is not None:
        raise UsageError(
            f"--out {out}: {file.relative_to(out)} of an earlier run is there: name another directory, or add "
            f"{REPLACE}, which removes that run's results"
        )


def remove(out: Path, in_use: Collection[Path] = ()) -> None:
    """All of them, so that no file of one run stands beside those of another; directories ``in_use`` stay, empty."""
    for file in list(_files(out)):
        if file.parent.name == RAW:
            shutil.rmtree(file.parent)
            continue
        file.unlink(missing_ok=True)
        if file.parent != out and file.parent not in in_use:
            with suppress(OSError):  # somebody else's files are in it
                file.parent.rmdir()


def _files(out: Path) -> Iterator[Path]:
    runs = [path for pattern in _RUNS for path in sorted(out.glob(pattern))]
    for directory in (out, *runs):
        yield from (path for name in FILES if (path := directory / name).is_file())
    if (mark := out / RAW / STARTED).is_file():
        yield mark
