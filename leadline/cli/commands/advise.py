"""``advise``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leadline.api.labs import load_lab
from leadline.api.studies import Study
from leadline.cli.options import JsonOption, LabOption, StudyArgument, file_option
from leadline.cli.output import print_json, say

if TYPE_CHECKING:
    from leadline.advice import Finding
    from leadline.report.advising import Advice


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline advise quickstart --write check.yaml")(advise)


def advise(
    study: StudyArgument,
    lab: LabOption = Path("lab"),
    write: Annotated[Path | None, file_option("Write the study that would check the findings to a file.")] = None,
    finding: Annotated[
        list[str] | None, typer.Option(help="Only these findings, by name; for --write all that go together.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List what a run suggests to try next, by layer, with the evidence; and what later studies found."""
    from leadline.advice.check import document

    advice = load_lab(lab).study(study).advice()
    chosen = advice.chosen(finding or []) if finding else list(advice.findings)
    commands = {finding.name: _command(advice, finding, lab) for finding in chosen if finding.testable}
    saved = _write(write, advice, chosen if finding else advice.together()) if write is not None else None
    if json:
        text = document(advice.run, advice.trials, chosen, advice.checks, commands)
        header = {"simulated": advice.record.simulated, "answer": advice.answer}
        print_json({**text, **header, **({"saved": str(write), "study": saved} if saved is not None else {})})
        return
    from leadline.report.advising import lines as advice_lines

    say(*advice_lines(advice, chosen, commands))
    if saved is not None:
        left_out = [finding.name for finding in chosen if finding.testable and finding.knob not in saved["factors"]]
        also = f"; not in it: {', '.join(left_out)}" if left_out else ""
        say(f"saved: {write}; leadline run {shlex.quote(str(write))} runs it{also}")
    say(advice.answer)


def _command(found: Advice, one: Finding, lab: Path) -> str:
    file = f"{found.record.study.study}-{one.name.replace('.', '-')}.yaml"
    where = "" if lab == Path("lab") else f" --lab {shlex.quote(str(lab))}"
    return f"leadline advise {found.run}{where} --finding {one.name} --write {file} && leadline run{where} {file}"


def _write(path: Path, found: Advice, findings: Sequence[Finding]) -> dict[str, Any]:
    document = found.study(findings)
    checked = Study.of(document)
    path.write_text(checked.text, encoding="utf-8")
    return document
