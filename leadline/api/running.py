"""Planning and running, on this host or on a simulated one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leadline.api.results import StudyResult, TuningResult
from leadline.api.studies import Study, Tuning
from leadline.checks.plan import Planned
from leadline.experiments.tuning.part import steps_left_out, tuning_catalogue
from leadline.experiments.tuning.run import TuningRun
from leadline.model.knob import Knob
from leadline.model.study import StackChoice
from leadline.places import choice
from leadline.places.testbed import RunOptions, Testbed
from leadline.store.labfile import SIMULATED
from leadline.store.tunings import TuningRecords
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
    return choice.open_testbed(_stack(subject), Path(lab), watcher, disposable, _services(subject))


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
