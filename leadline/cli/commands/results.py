"""``show``, ``report``, ``export``, ``advise``."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leadline.cli.options import JsonOption, LabOption, StudyArgument, VerboseOption, directory_option, file_option
from leadline.cli.output import print_json, print_table, print_text, say
from leadline.model.errors import LeadlineError, UsageError

if TYPE_CHECKING:
    from leadline.advice import Finding
    from leadline.report.advising import Advice


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_TIMEOUT = 300.0  # seconds; it takes two on an idle machine


def find_browser() -> str:
    """Raises UsageError where there is none."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        raise UsageError(
            f"--format pdf needs a browser on the path, one of {', '.join(BROWSERS)}: install one, "
            "or print report.html from yours"
        )
    return browser


def print_pdf(page: Path, out: Path) -> Path:
    """Print a page of leadline's, which loads nothing, as it is opened. Raises UsageError without a browser,
    LeadlineError where it prints nothing.
    """
    browser = find_browser()
    with tempfile.TemporaryDirectory(prefix="leadline-print-") as folder:
        pdf = Path(folder) / "page.pdf"
        argv = [
            *(browser, "--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
            *(f"--user-data-dir={folder}/profile", "--host-resolver-rules=MAP * ~NOTFOUND"),
            *("--no-pdf-header-footer", f"--print-to-pdf={pdf}"),
            *(["--no-sandbox"] if os.geteuid() == 0 else []),  # it refuses root with its sandbox
            page.absolute().as_uri(),
        ]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LeadlineError(f"{browser} printed nothing: {error}") from None
        if not pdf.is_file():
            raise LeadlineError(f"{browser} printed nothing: {done.stderr.strip()[-400:]}")
        shutil.copyfile(pdf, out)
    return out


HTML, PDF = "html", "pdf"


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline show quickstart")(show)
    app.command(epilog="Example: leadline report quickstart --out report.html")(report)
    app.command(epilog="Example: leadline export quickstart --out figures --format csv,png")(export)
    app.command(epilog="Example: leadline advise quickstart --write check.yaml")(advise)


def show(
    study: StudyArgument, lab: LabOption = Path("lab"), verbose: VerboseOption = False, json: JsonOption = False
) -> None:
    """Print what a study or a tuning found. Ends with code 4 where it has no answer."""
    from leadline.api.results import load_lab

    result = load_lab(lab).find(study)
    if json:
        print_json(result.document())
    else:
        print_table(result.table(verbose))
    _end(result.exit_code)


def report(
    study: StudyArgument,
    lab: LabOption = Path("lab"),
    out: Annotated[
        Path | None,
        file_option("The file to write; report.html or report.pdf, or the terminal for other formats, if absent."),
    ] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format", help="html, pdf (by a Chromium); of a study also md for pull requests, junit and json for CI."
        ),
    ] = HTML,
    json: JsonOption = False,
) -> None:
    """Write the report: one HTML file that needs no network, or a summary for pull requests and CI."""
    from leadline.api.results import load_lab
    from leadline.api.running import REPORT

    result = load_lab(lab).find(study)
    if format_ == HTML:
        page = result.report(out or Path(REPORT))
    elif format_ == PDF:
        find_browser()
        with tempfile.TemporaryDirectory() as folder:
            page = print_pdf(result.report(Path(folder) / REPORT), out or Path(REPORT).with_suffix(".pdf"))
    else:
        text = result.report_text(format_)
        if out is None:
            if json:
                raise UsageError("--json names the file that is written: give --out too")
            print_text(text)
            _end(result.exit_code)
            return
        out.write_text(text, encoding="utf-8")
        page = out
    if json:
        print_json({"report": str(page), "bytes": page.stat().st_size})
    else:
        say(str(page))
    _end(result.exit_code)


def export(
    study: StudyArgument,
    lab: LabOption = Path("lab"),
    out: Annotated[Path, directory_option("The directory to write to.")] = Path("export"),
    format_: Annotated[
        list[str] | None, typer.Option("--format", help="Any of csv,png,svg,json,folded,pprof; csv,png if absent.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write the trials and effects of a study, or the steps of a tuning, as CSV and its figures as PNG or SVG."""
    from leadline.api.results import load_lab

    formats = [word.strip() for option in format_ or ["csv,png"] for word in option.split(",")]
    written = [str(path) for path in load_lab(lab).find(study).export(out, formats)]
    if json:
        print_json({"files": written})
    else:
        say(*written)


def _end(code: int) -> None:
    if code:
        raise typer.Exit(code)


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
    from leadline.api.results import load_lab

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
    from leadline.api.studies import Study

    document = found.study(findings)
    checked = Study.of(document)
    path.write_text(checked.text, encoding="utf-8")
    return document
