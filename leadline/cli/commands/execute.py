"""Running a study, a tuning or a search from the command line, or printing what it would be, to its printed end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leadline.api.results import StudyResult
from leadline.api.running import Run, checked, open_testbed
from leadline.api.studies import Study, Tuning
from leadline.cli.commands.dry_run import print_plan
from leadline.cli.live import watcher
from leadline.cli.options import Failing, conditions_document, say_conditions
from leadline.cli.output import console, end_with, errors, print_answer, print_json, print_table, say, say_ended
from leadline.experiments.tuning import outline, steps_left_out
from leadline.model.conditions import changes_of_study
from leadline.model.judgement import NO_ANSWER_CODE
from leadline.model.naming import describing
from leadline.model.units import format_duration
from leadline.places.hosts import before_a_run

if TYPE_CHECKING:
    from rich.console import Console

    from leadline.checks.files.study import StudyFile
    from leadline.checks.plan import Planned
    from leadline.experiments.bisect.answer import Bisected
    from leadline.experiments.bisect.run import BisectOutline
    from leadline.experiments.knee.run import Knee, KneeOutline
    from leadline.experiments.tuning import Outline
    from leadline.places.pool.base import Looked
    from leadline.places.testbed import Testbed


@dataclass(frozen=True)
class Over:
    """A pool of hosts, and how many of them at the same time."""

    pool: str
    most: int | None


def execute(
    subject: Study | Tuning,
    lab: Path,
    truth: Path | None = None,
    *,
    dry_run: bool = False,
    new: bool = False,
    disposable: bool = False,
    json: bool = False,
    verbose: bool = False,
    over: Over | None = None,
    failing: Failing | None = None,
) -> None:
    """Run what is left, write the report, print the result, or print the plan. Ends with code 4 without an answer, with
    that of the conditions in ``failing``.
    """
    output = errors if json else console
    watching = watcher(output)
    place: Testbed
    look: Callable[[StudyFile, Planned], Looked] | None = None
    if over is None:
        place = open_testbed(lab, truth=truth, disposable=disposable, watcher=watching, subject=subject)
    else:
        from leadline.places.pool.testbed import over_pool

        place = pool = over_pool(over.pool, lab, most=over.most, disposable=disposable, watcher=watching)
        look = pool.look
    if dry_run and isinstance(subject, Study):
        planned = place.plan(subject.file)
        print_plan(subject.file, planned, json, place.directory, look(subject.file, planned) if look else None)
        return
    if dry_run and isinstance(subject, Tuning):
        _print_outline(outline(subject.file.tuning, steps_left_out(subject.file, place), place), json)
        return
    begin = checked(place, subject)
    if truth is None and over is None and subject.host == "local":
        say(*before_a_run(), to=output)
    _say_simulated(truth, place, output)
    since = place.now()
    with watching:
        ended = begin(new)
    if truth is not None:
        say(f"SIMULATED: {format_duration(place.now() - since)} of virtual time", to=output)
    present(ended, json=json, verbose=verbose, failing=failing)


def execute_search(
    subject: Study,
    lab: Path,
    truth: Path | None,
    outline: Callable[[Testbed], BisectOutline | KneeOutline],
    search: Callable[[Testbed], Bisected | Knee],
    *,
    dry_run: bool,
    disposable: bool,
    json: bool,
) -> None:
    """Run what is left of a search and print its result, or its outline. Ends with code 4 without an answer."""
    output = errors if json else console
    watching = watcher(output)
    place = open_testbed(lab, truth=truth, disposable=disposable, watcher=watching, subject=subject)
    if dry_run:
        _print_outline(outline(place), json)
        return
    _say_simulated(truth, place, output)
    with watching:
        ended = search(place)
    result = ended.result
    if json:
        print_json(ended.document())
    else:
        print_answer(ended.answer)
        say(*ended.lines())
        say_ended(result.restored, result.stopped)
        say(f"probes: {result.name}-1 to -{len(result.records)}; {format_duration(result.seconds)} of trials")
    end_with(0 if ended.answered else NO_ANSWER_CODE)


def _print_outline(told: BisectOutline | KneeOutline | Outline, json: bool) -> None:
    if json:
        print_json(told.document())
    else:
        say(*told.lines())


def _say_simulated(truth: Path | None, place: Testbed, output: Console) -> None:
    if truth is not None:
        sentence = f"SIMULATED on {truth}: no server runs, every figure below is made up; kept in {place.directory}"
        say(sentence, to=output)


def present(run: Run, *, json: bool, verbose: bool = False, failing: Failing | None = None) -> None:
    """Print the result of a run that has ended, the answer first, and write its report, which takes longer. Ends with
    code 4 where there is no answer, else with that of the conditions in ``failing``.
    """
    result, failing = run.result, failing or Failing()
    changes = (
        changes_of_study(result.analysis, describing(result.record.study)) if isinstance(result, StudyResult) else ()
    )
    judged = failing.judge(changes)
    if json:
        result.report(run.page)
        print_json({**result.document(), **conditions_document(judged), "run": run.document()})
    else:
        print_table(result.table(verbose))
        say_ended(run.restored, run.stopped)
        say(f"report: {result.report(run.page)}")
        say_conditions(judged)
    end_with(failing.code(not result.exit_code, judged))
