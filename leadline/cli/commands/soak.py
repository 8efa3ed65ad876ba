"""``soak``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.api import soaks
from leadline.api.conditions import SOAK_RESPONSES, changes_of_soak
from leadline.cli.conditions import (
    Failing,
    FailOption,
    Undecided,
    UndecidedOption,
    conditions_document,
    say_conditions,
)
from leadline.cli.live import watcher
from leadline.cli.options import JsonOption, LabOption, SetOption, file_option
from leadline.cli.output import console, end_with, errors, print_answer, print_json, say, say_ended


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
    planned, lines = soaks.plan(subject, for_, lab, set_ or [])
    if dry_run:
        if json:
            print_json({"soak": planned.name, "seconds": planned.times.seconds, "plan": lines})
        else:
            say(*lines)
        return
    restored: tuple[str, ...] = ()
    stopped = ""
    if verdict:
        number, answer = soaks.so_far(planned, lab)
    else:
        say(*lines, to=errors if json else console)
        watching = watcher(errors if json else console)
        with watching as alarms:
            ended = soaks.run(planned, lab, fresh=new, alarm=alarm, webhook=webhook, watcher=alarms)
        number, answer = ended.number, ended.answer
        restored, stopped = tuple(ended.restored), ended.stopped
    page = soaks.report(lab, number, out or lab / "soaks" / "reports" / f"{planned.name}-{number}.html")
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
