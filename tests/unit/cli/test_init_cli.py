"""``leadline init``: what it writes is a study that can be planned."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from leadline.api.first import FIRST_SERVERS, QUESTIONS, first_study
from leadline.api.knobs import knobs_of
from leadline.cli.main import app
from leadline.model.errors import UsageError


def test_the_file_passes_the_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["init", "--server", "tomcat", "--question", "cache", "--out", "mine.yaml"])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == "Next: leadline run mine.yaml --dry-run"
    planned = CliRunner().invoke(app, ["run", "mine.yaml", "--dry-run"])
    assert planned.exit_code == 0, planned.output
    assert "server.datasource.statement_cache" in planned.output
    again = CliRunner().invoke(app, ["init", "--server", "tomcat", "--question", "cache", "--out", "mine.yaml"])
    assert isinstance(again.exception, UsageError)
    assert "it is there already" in str(again.exception)


@pytest.mark.parametrize("server", FIRST_SERVERS)
def test_every_question_is_a_study_of_every_server_that_has_its_knobs(server: str) -> None:
    lacking = knobs_of(server, "")[1]
    for kind, question in QUESTIONS.items():
        if lacking.keys() & question.factors.keys():
            with pytest.raises(UsageError, match=f"--question {kind}: {server} has no "):
                first_study("mine", kind, server, "postgres", 20)
        else:
            assert f"server: {server}" in first_study("mine", kind, server, "postgres", 20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--server is missing: one of glassfish"),
        (["--server", "tomcat"], "--question is missing: one of pool"),
        (["--server", "tomcta", "--question", "pool"], "--server 'tomcta' is not known; did you mean tomcat?"),
        (["--server", "tomcat", "--question", "speed"], "--question 'speed' is not known; one of pool"),
        (["--out", "My Study.yaml"], "a study's file is named by small letters"),
    ],
)
def test_what_is_missing_or_unknown_is_said(
    options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(app, ["init", *options])
    assert message in str(refused.exception)
    assert not list(tmp_path.iterdir())
