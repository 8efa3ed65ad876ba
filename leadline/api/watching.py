"""Runs as they go: what they tell, how their effects narrow, asking them to stop, going on with them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from leadline.api.labs import Lab
from leadline.api.results import StudyResult
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.record import StudyRecord
from leadline.store.claims import LIVE, is_used, log_path
from leadline.store.lab import Store
from leadline.store.labfile import SIMULATED
from leadline.trial.livelog import read_live

_RESUMABLE = ("run", "quickstart")  # commands that go on with an unfinished study


def stylesheet() -> str:
    """That of the reports."""
    from leadline.report.page import stylesheet as of_reports  # its libraries take seconds to load

    return of_reports()


def open_labs(directory: Path) -> dict[str, Lab]:
    """The lab, ``real``, and its simulated studies, ``simulated``; those that are there, opened anew."""
    labs = {}
    for name, path in (("real", directory), (SIMULATED, directory / SIMULATED)):
        try:
            labs[name] = Lab(Store(path, create=False))
        except UsageError:
            continue
    return labs


def readable(lab: Lab, known: Mapping[int, StudyResult]) -> Iterator[StudyResult]:
    """The studies of a lab, newest first, without those that this version cannot read; those ``known`` by their number
    as they are.
    """
    for number in lab.store.ids():
        try:
            yield known[number] if number in known else StudyResult(lab.store.load(number), lab.store)
        except LeadlineError:
            continue


def is_running(result: StudyResult) -> bool:
    """Whether a leadline holds the study now."""
    return is_used(result.store.directory, f"study-{result.record.id}")


def go_on(result: StudyResult) -> subprocess.Popen[bytes]:
    """Start the command that ran this study again, in its own session; its words go to ``LAB/.live/study-N.log``.
    Raises UsageError where that would not go on with it.
    """
    record, lab = result.record, result.store.directory
    if is_running(result):
        raise UsageError(f"{result.run} is running")
    if not any(trial.is_left for trial in record.trials):
        raise UsageError(f"{result.run} is finished: no trial is left to run")
    words, directory = _command(record, lab)
    if result.store.unfinished(record.study) != record.id:
        raise UsageError(f"a newer run of {record.study.study} would go on in its place")
    with (lab / LIVE / f"study-{record.id}.log").open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "leadline", *words],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _command(record: StudyRecord, lab: Path) -> tuple[Sequence[str], str]:
    """Words and directory of the run that stopped; only of a file that is the user's own."""
    live = read_live(lab, record.id)
    name = f"{record.study.study}@{record.id}"
    if live is None or not live.command:
        raise UsageError(f"how {name} was run is not known: go on with it from the command line")
    if live.command[0] not in _RESUMABLE:
        raise UsageError(f"{name} was part of `leadline {live.command[0]}`: run that again from the command line")
    if log_path(lab, record.id).stat().st_uid != os.geteuid():
        raise UsageError(f"{name} was run by another user: go on with it from their command line")
    if not Path(live.directory).is_dir():
        raise UsageError(f"{name} was run in {live.directory}, which is gone")
    return [word for word in live.command if word != "--new"], live.directory
