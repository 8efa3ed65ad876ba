"""Planning and running, on this host or a simulated one; sessions; runs as they go, and going on with them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leadline.api.results import Lab, StudyResult, TuningResult
from leadline.api.studies import Study, Tuning
from leadline.checks.plan import Planned
from leadline.experiments.session import BLOCKS, Proposal, Session
from leadline.experiments.tuning import TuningRun, steps_left_out, tuning_catalogue
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.knob import Knob
from leadline.model.record import StudyRecord
from leadline.model.study import StackChoice
from leadline.places import testbed
from leadline.places.testbed import RunOptions, Testbed
from leadline.store.claims import LIVE, is_used, log_path
from leadline.store.lab import Store
from leadline.store.labfile import SIMULATED
from leadline.store.tunings import TuningRecords
from leadline.trial.livelog import read_live
from leadline.trial.progress import Watcher

if TYPE_CHECKING:
    from leadline.places.simulated import Rates, SimulatedTestbed

REPORT = "report.html"


@dataclass(frozen=True)
class Run:
    """A run that has ended. ``stopped`` says why it ended before the plan's end; ``restored``: what was put back."""

    result: StudyResult | TuningResult
    complete: bool
    stopped: str
    restored: Sequence[str]

    @property
    def page(self) -> Path:
        """Where its report belongs, inside the lab."""
        result = self.result
        name = result.run if isinstance(result, TuningResult) else result.run.replace("@", "-")
        return result.store.directory / "reports" / name / REPORT

    def document(self) -> dict[str, Any]:
        """As JSON types, without the result itself."""
        number = "tuning_id" if isinstance(self.result, TuningResult) else "study_id"
        return {
            number: self.result.record.id,
            "complete": self.complete,
            "stopped": self.stopped,
            "restored": list(self.restored),
            "report": str(self.page),
        }


def open_testbed(
    lab: Path | str = "lab",
    *,
    truth: Path | str | None = None,
    disposable: bool = False,
    watcher: Watcher | None = None,
    subject: Study | StudyResult | Tuning | None = None,
) -> Testbed:
    """Where studies, or one tuning, are planned and run: the host or the guests that ``subject`` names, or a simulated
    one with the truth of a file.

    ``disposable`` allows levels that may hang the host. Raises UsageError for a stack that cannot be, or a bad truth.
    """
    if truth is not None:
        return simulated(truth, lab, disposable=disposable, watcher=watcher, subject=subject)
    return testbed.open_testbed(_stack(subject), Path(lab), watcher, disposable, _services(subject))


def _stack(subject: Study | StudyResult | Tuning | None) -> StackChoice | None:
    if isinstance(subject, Tuning):
        return subject.file.tuning.stack.choice
    if subject is None:
        return None
    return (subject.file if isinstance(subject, Study) else subject.record).study.stack


def simulated(
    truth: Path | str,
    lab: Path | str = "lab",
    *,
    disposable: bool = True,
    watcher: Watcher | None = None,
    subject: Study | StudyResult | Tuning | None = None,
) -> SimulatedTestbed:
    """A host where every knob can be set, in virtual time; its studies are kept apart, in a folder of the lab."""
    from leadline.places.simulated import SimulatedTestbed, read_truth

    truth_read, home = read_truth(Path(truth)), Path(lab) / SIMULATED
    return SimulatedTestbed(truth_read, home, watcher, disposable, _services(subject), source=str(truth))


def error_rates(
    study: Study, truth: Path | str, studies: int, *, response: str, seed: int = 1
) -> tuple[Planned, Rates]:
    """The plan, and how often it would be right: so many simulated studies against the truth. Raises UsageError."""
    from leadline.places.simulated import rates

    place = simulated(truth)
    planned = place.plan(study.file)
    bound = place.bound(study.file, planned)
    return planned, rates(planned.plan, bound, study.file.study.workload, studies, response=response, seed=seed)


def _services(subject: Study | StudyResult | Tuning | None) -> list[Knob] | None:
    """A tuning's comparisons share the knobs of its stack, whatever their mode."""
    return tuning_catalogue(subject.file) if isinstance(subject, Tuning) else None


def plan(study: Study, *, truth: Path | str | None = None, disposable: bool = False) -> Planned:
    """What would be run: trials in their order, factors left out, warnings. Nothing is changed."""
    return open_testbed(truth=truth, disposable=disposable, subject=study).plan(study.file)


def run(
    subject: Study | Tuning,
    lab: Path | str = "lab",
    *,
    truth: Path | str | None = None,
    fresh: bool = False,
    disposable: bool = False,
    watcher: Watcher | None = None,
) -> Run:
    """Run what is left of a study or a tuning, or all of it anew (``fresh``); the host is put back.

    Raises UsageError for what cannot be run, LeadlineError when the host is in use, RestoreError if it could not be put
    back.
    """
    place = open_testbed(lab, truth=truth, disposable=disposable, watcher=watcher, subject=subject)
    return checked(place, subject)(fresh)


def checked(place: Testbed, subject: Study | Tuning) -> Callable[[bool], Run]:
    """Plans the subject, which raises UsageError; what is returned runs it, anew if it is told so."""
    if isinstance(subject, Study):
        planned = place.plan(subject.file)

        def study(fresh: bool) -> Run:
            ended = place.run(subject.file, planned, RunOptions(fresh=fresh))
            result = StudyResult(place.store.load(ended.study_id), place.store)
            return Run(result, ended.complete, ended.stopped, ended.restored)

        return study
    left_out = steps_left_out(subject.file, place)

    def tuning(fresh: bool) -> Run:
        ended = TuningRun(subject.file, left_out, place).execute(fresh)
        record = TuningRecords(place.store).load(ended.tuning_id)
        return Run(TuningResult(record, place.store), ended.complete, ended.stopped, ended.restored)

    return tuning


__all__ = ["BLOCKS", "Proposal", "Session", "open_session"]


def open_session(
    study: Study,
    lab: Path | str = "lab",
    *,
    name: str = "",
    blocks: int = BLOCKS,
    truth: Path | str | None = None,
    disposable: bool = False,
    watcher: Watcher | None = None,
) -> Session:
    """A session on what a study measures, to be used in ``with``; one of the same name in the lab is gone on with.

    Raises UsageError. Raises LeadlineError on entry where the host is in use.
    """
    place = open_testbed(lab, truth=truth, disposable=disposable, watcher=watcher, subject=study)
    return Session(study.file, place, name or study.name, blocks)


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
