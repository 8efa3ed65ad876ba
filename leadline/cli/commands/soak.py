"""``soak``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from leadline.api.comparing import changes_of_soak
from leadline.cli.live import watcher
from leadline.cli.options import (
    Failing,
    FailOption,
    JsonOption,
    LabOption,
    SetOption,
    Undecided,
    UndecidedOption,
    conditions_document,
    file_option,
    say_conditions,
)
from leadline.cli.output import console, end_with, errors, print_answer, print_json, say, say_ended
from leadline.conclude.soak import SoakAnswer
from leadline.experiments.soak.record import Alarms, at_the_end, check_webhook, read_record
from leadline.experiments.soak.run import SoakEnded, SoakPlan, SoakRun, answer_of, plan_soak, soak_file, soak_times
from leadline.experiments.soak.run import record_path as _record_path
from leadline.model.conditions import SOAK_RESPONSES
from leadline.places.testbed import LocalTestbed
from leadline.store.lab import Store
from leadline.store.labfile import SOAKS
from leadline.trial.progress import Watcher


def _place(lab: Path, watcher: Watcher | None) -> LocalTestbed:
    return LocalTestbed(lab / SOAKS, watcher)


def plan(subject: str, duration: str, lab: Path, overrides: Sequence[str] = ()) -> tuple[SoakPlan, list[str]]:
    """The plan of a soak of a scenario, a stack file or a study's baseline, and its dry run. Raises UsageError."""
    place = _place(lab, None)
    planned = plan_soak(soak_file(subject, overrides), soak_times(duration), place)
    return planned, planned.lines(place.directory)


def run(
    planned: SoakPlan,
    lab: Path,
    *,
    fresh: bool = False,
    alarm: str | None = None,
    webhook: str | None = None,
    watcher: Watcher | None = None,
) -> SoakEnded:
    """Run it, or go on with an unfinished one of the same subject. Raises UsageError, LeadlineError, RestoreError."""
    if webhook is not None:
        check_webhook(webhook)
    place = _place(lab, watcher)
    alarms = Alarms(planned.name, alarm, webhook, place.watcher.message)
    try:
        ended = SoakRun(planned, place, alarms).execute(fresh)
        alarms.fire(at_the_end(ended.answer))
    finally:
        alarms.close()
    return ended


def so_far(planned: SoakPlan, lab: Path) -> tuple[int, SoakAnswer]:
    """Number and verdict of the newest soak of this subject. Raises UsageError where there is none."""
    store = Store(lab / SOAKS, create=False)
    number = store.find(planned.name)
    return number, answer_of(store, number)


def report(lab: Path, number: int, out: Path) -> Path:
    """Write the page of a soak. Raises OSError."""
    from leadline.report.soak import build

    store = Store(lab / SOAKS, create=False)
    return build(store.load(number), read_record(_record_path(store, number)), answer_of(store, number), out)


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline soak brokerage-classic --for 24h --set stack.server=tomcat")(soak)


def soak(
    subject: Annotated[
        str, typer.Argument(metavar="SCENARIO|STACKFILE|STUDY", help="What is loaded; of a study its baseline.")
    ],
    for_: Annotated[str, typer.Option("--for", help="How long it is under load: 24h, 96h, 7d, 14d.")],
    lab: LabOption = Path("lab"),
    set_: SetOption = None,
    alarm: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Run by sh -c at each alarm, which it reads as JSON.")
    ] = None,
    webhook: Annotated[
        str | None, typer.Option(metavar="URL", help="Each alarm is sent there as JSON by POST.")
    ] = None,
    new: Annotated[bool, typer.Option("--new", help="Start anew even if an unfinished one exists.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be run and kept; change nothing.")
    ] = False,
    verdict: Annotated[
        bool, typer.Option("--verdict", help="Only the verdict on what the newest one has measured so far.")
    ] = False,
    out: Annotated[Path | None, file_option("The report; in the lab if absent.", "--out", "-o")] = None,
    fail: FailOption = None,
    undecided: UndecidedOption = Undecided.FAIL,
    json: JsonOption = False,
) -> None:
    """Load a stack for hours or days, or go on with it; tell whether it degrades, since when and by what."""
    failing = Failing.of(fail, undecided, SOAK_RESPONSES)
    planned, lines = plan(subject, for_, lab, set_ or [])
    if dry_run:
        if json:
            print_json({"soak": planned.name, "seconds": planned.times.seconds, "plan": lines})
        else:
            say(*lines)
        return
    restored: tuple[str, ...] = ()
    stopped = ""
    if verdict:
        number, answer = so_far(planned, lab)
    else:
        say(*lines, to=errors if json else console)
        watching = watcher(errors if json else console)
        with watching as alarms:
            ended = run(planned, lab, fresh=new, alarm=alarm, webhook=webhook, watcher=alarms)
        number, answer = ended.number, ended.answer
        restored, stopped = tuple(ended.restored), ended.stopped
    page = report(lab, number, out or lab / "soaks" / "reports" / f"{planned.name}-{number}.html")
    judged = failing.judge(changes_of_soak(answer)) if failing.conditions else ()
    if json:
        document = {"soak": planned.name, "number": number, **answer.document(), **conditions_document(judged)}
        print_json(document | {"report": str(page)})
    else:
        say(*answer.lines())
        say_conditions(judged)
        say_ended(restored, stopped)
        say(f"report: {page}")
        print_answer(answer.sentence)
    end_with(answer.exit_code or failing.code(True, judged))
