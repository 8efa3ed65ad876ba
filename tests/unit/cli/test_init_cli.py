"""``leadline init``: what it writes is a study that can be planned."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from known_knobs import service_catalogue
from typer.testing import CliRunner

from leadline.checks.files.study import parse_study
from leadline.checks.plan import plan_study
from leadline.cli.commands import execute
from leadline.cli.commands.knobs import knobs
from leadline.cli.main import app
from leadline.experiments.first import FIRST_SERVERS, QUESTIONS, first_study
from leadline.host.local import LocalHost
from leadline.model.errors import LeadlineError, UsageError
from leadline.places.knobs import knobs_of
from leadline.stack.registry import SERVERS


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


SWAP = "doctor: swap: on (/dev/vdb); to mend it: sudo swapoff -a"


@pytest.mark.parametrize(
    ("options", "told"), [((), True), (("--dry-run",), False), (("--simulate", "truth.yaml"), False)], ids=str
)
def test_a_real_run_is_told_what_would_spoil_it(
    options: tuple[str, ...], told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked(*_: Any) -> Any:
        def begin(fresh: bool) -> Any:
            raise LeadlineError("the run has begun")

        return begin

    monkeypatch.chdir(tmp_path)
    (tmp_path / "truth.yaml").write_text("truth: { seed: 1 }\n")
    monkeypatch.setattr(execute, "before_a_run", lambda: [SWAP])
    monkeypatch.setattr(execute, "checked", checked)
    done = CliRunner().invoke(app, ["run", "quickstart", *options])
    assert (SWAP in done.output) == told
    assert isinstance(done.exception, LeadlineError) == ("--dry-run" not in options)


STUDY = """\
study: purge
question: Which connections should go?
stack: {{ server: {server} }}
workload: {{ users: 5 }}
{factors}
"""
PURGE = "factors: { server.datasource.purge_policy: [entire-pool, failing-connection] }"


def refusal(server: str, factors: str) -> str:
    file = parse_study(STUDY.format(server=server, factors=factors), "purge.yaml")
    with pytest.raises(UsageError) as refused:
        plan_study(file, LocalHost(state=Path("/nonexistent")), service_catalogue(server, "postgres"))
    return str(refused.value)


@pytest.mark.parametrize("server", list(SERVERS))
def test_a_server_lists_what_it_has_and_what_it_lacks(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    knobs("server", server=server, database="", json=True)
    document = json.loads(capsys.readouterr().out)
    found = {knob["name"]: knob["names"] for knob in document["knobs"]}
    assert found
    assert all(set(names) == {server} for names in found.values())
    assert all(knob["source"] for knob in document["knobs"])
    assert not set(found) & set(document["absent"])
    assert all(server not in owners and owners for owners in document["absent"].values())


def test_what_is_not_there_is_said_with_who_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    knobs("purge_policy", server="tomcat", database="", json=False)
    assert "server.datasource.purge_policy: not in tomcat, only in liberty" in capsys.readouterr().out
    with pytest.raises(UsageError, match="no knob fits 'purge_polcy'"):
        knobs("purge_polcy", server="tomcat", database="", json=False)
    with pytest.raises(UsageError, match="unknown server 'tomkat'; did you mean tomcat"):
        knobs("", server="tomkat", database="", json=False)


def test_a_factor_of_another_server_is_refused_with_the_servers_that_have_it() -> None:
    said = refusal("tomcat", PURGE)
    assert said.startswith("purge.yaml:5: tomcat has no knob server.datasource.purge_policy; liberty")
    assert "did you mean server.datasource.validation?" in refusal(
        "tomcat", "factors: { server.datasource.validatoin: [on, off] }"
    )


def test_a_setting_of_another_server_is_refused_as_well() -> None:
    settings = "settings: { server.threads.queue: 10 }\nfactors: { jvm.heap: [128m, 256m] }"
    said = refusal("liberty", settings)
    assert said.startswith("purge.yaml:5: liberty has no knob server.threads.queue; ")
    able = [name for name in SERVERS if "server.threads.queue" in {k.name for k in service_catalogue(name, "postgres")}]
    assert "tomcat" in able
    assert "liberty" not in able
    assert all(name in said.rpartition(";")[2] for name in able)


def test_the_list_of_all_programs_has_the_range_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    knobs("database.max_connections", server="", database="", json=True)
    [listed] = json.loads(capsys.readouterr().out)["knobs"]
    for name in ("postgres", "mariadb"):
        [own] = [knob for knob in service_catalogue("tomcat", name) if knob.name == "database.max_connections"]
        assert own.minimum is not None
        assert own.maximum is not None
        assert listed["minimum"] <= own.minimum
        assert listed["maximum"] >= own.maximum


def test_a_size_without_a_limit_of_its_own_has_the_machines(capsys: pytest.CaptureFixture[str]) -> None:
    knobs("database.sort_buffer_size", server="", database="mariadb", json=False)
    said = capsys.readouterr().out
    assert re.search(r"1k\.\.\d+[mg];", said), "the machine's memory is the limit"
    knobs("", server="", database="mariadb", json=False)
    assert str(2**63)[:6] not in capsys.readouterr().out
