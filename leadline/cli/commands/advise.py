"""``advise``."""

from __future__ import annotations

import io
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leadline.cli.options import JsonOption, LabOption, StudyArgument
from leadline.cli.output import console, print_json
from leadline.model.errors import UsageError

if TYPE_CHECKING:
    from leadline.advice import Finding
    from leadline.report.advising import Advice


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline advise quickstart --write check.yaml")(advise)


def advise(
    study: StudyArgument,
    lab: LabOption = Path("lab"),
    write: Annotated[Path | None, typer.Option(help="Write the study that would check the findings to a file.")] = None,
    finding: Annotated[
        list[str] | None, typer.Option(help="Of these findings only, by name; for --write all that go together.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List what a run suggests to try next, by layer, with the evidence; what later studies said of it."""
    from leadline.advice.document import document

    found = _advice(study, lab)
    chosen = found.chosen(finding or []) if finding else list(found.findings)
    commands = {one.name: _command(found, one, lab) for one in chosen if one.testable}
    saved = _write(write, found, chosen if finding else found.together()) if write is not None else None
    if json:
        text = document(found.run, found.trials, chosen, found.checks, commands)
        said = {"simulated": found.record.simulated, "answer": found.answer}
        print_json({**text, **said, **({"saved": str(write), "study": saved} if saved is not None else {})})
        return
    from leadline.report.advice_text import lines

    for line in lines(found, chosen, commands):
        _say(line)
    if saved is not None:
        left = [one.name for one in chosen if one.testable and one.knob not in saved["factors"]]
        also = f"; not in it: {', '.join(left)}" if left else ""
        _say(f"saved: {write}; leadline run {shlex.quote(str(write))} runs it{also}")
    _say(found.answer)


def _advice(study: str, lab: Path) -> Advice:
    from leadline.cli.commands.results import knobs_of
    from leadline.lab.results import analysis_of
    from leadline.lab.store import Store
    from leadline.report.advising import advice

    store = Store(lab, create=False)
    record = store.load(store.find(study))
    return advice(record, knobs_of(record), store.studies(), analysis_of)


def _command(found: Advice, one: Finding, lab: Path) -> str:
    file = f"{found.record.study.study}-{one.name.replace('.', '-')}.yaml"
    where = "" if lab == Path("lab") else f" --lab {shlex.quote(str(lab))}"
    return f"leadline advise {found.run}{where} --finding {one.name} --write {file} && leadline run{where} {file}"


def _write(path: Path, found: Advice, findings: Sequence[Finding]) -> dict[str, Any]:
    from ruamel.yaml import YAML

    from leadline.lab.studyfile import parse_study

    document = found.study(findings)
    text = io.StringIO()
    yaml = YAML()
    yaml.width = 4096
    yaml.dump(document, text)
    parse_study(text.getvalue(), str(path))
    try:
        path.write_text(text.getvalue(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--write {path}: cannot be written: {error.strerror}") from error
    return document


def _say(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
