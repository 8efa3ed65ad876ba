"""The application's artefacts are found, built when stale, and its tools' words reach the user."""

import json
import os
import zipfile
from pathlib import Path

import pytest

from leadline.host.base import Completed
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.stack.applications import java as application
from leadline.stack.applications.brokerage import Brokerage
from leadline.stack.base import AuditResult, Endpoint

ENDPOINT = Endpoint("127.0.0.1", 5432, "lab", "someone", "hidden-word")
COUNTS = {"buy": {"ok": 3, "failed": 1}}


def jar(path: Path, entries: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in entries.items():
            archive.writestr(name, text)


@pytest.fixture(autouse=True)
def _as_this_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake programs write down how they were called, beside themselves."""
    monkeypatch.setattr("leadline.host.privilege.new_user", lambda: None)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A package folder as a wheel leaves it."""
    package = tmp_path / "site" / "leadline"
    jar(package / "_java" / "brokerage.war", {"META-INF/MANIFEST.MF": "Implementation-Version: 9.8.7\r\n"})
    code = {"leadline/brokerage/data/Generator.class": "one", "leadline/brokerage/check/Audits.class": "one"}
    jar(package / "_java" / "brokerage-tools.jar", code)
    return package


def fake_java(home: Path, script: str) -> Path:
    """A Java home whose program is this shell script; it keeps its arguments and environment in files."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {home}/arguments\nenv > {home}/environment\n{script}\n')
    program.chmod(0o755)
    return home


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose Maven is a script that makes both artefacts and counts its runs."""
    workloads = tmp_path / "checkout" / "workloads"
    for module in ("common", "brokerage-core", "brokerage-war", "brokerage-tools"):
        (workloads / module / "src" / "main").mkdir(parents=True)
        (workloads / module / "pom.xml").touch()
        (workloads / module / "src" / "main" / "A.java").touch()
    (workloads / "pom.xml").touch()
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text(
        f"#!/bin/sh\necho run >> {tmp_path}/runs\n[ -f {tmp_path}/broken ] && echo '[ERROR] no such thing' && exit 1\n"
        f"cd {workloads} && mkdir -p brokerage-war/target brokerage-tools/target"
        " && cd brokerage-war/target && touch brokerage.war brokerage-queue.war"
        f" && cd {workloads} && touch brokerage-tools/target/brokerage-tools.jar\n"
    )
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{maven.parent}:{os.environ['PATH']}")
    package = workloads.parent / "leadline"
    package.mkdir()
    return package


def runs(tmp_path: Path) -> int:
    file = tmp_path / "runs"
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_an_installed_package_brings_everything(installed: Path) -> None:
    app = Brokerage(installed)
    said: list[str] = []
    app.build(said.append)
    assert said == []
    assert app.archive() == installed / "_java" / "brokerage.war"
    assert app.version == "9.8.7"


def test_a_damaged_installation_says_what_is_missing(installed: Path) -> None:
    (installed / "_java" / "brokerage-tools.jar").unlink()
    app = Brokerage(installed)
    with pytest.raises(LeadlineError, match=r"brokerage-tools\.jar does not exist; the installation is damaged"):
        app.build(lambda _: None)
    with pytest.raises(LeadlineError, match="not built"):
        app.data_key(1, 1)


def test_a_checkout_is_built_once_and_again_when_a_source_changes(checkout: Path, tmp_path: Path) -> None:
    app = Brokerage(checkout)
    app.build(lambda _: None)
    app.build(lambda _: None)
    assert runs(tmp_path) == 1
    source = checkout.parent / "workloads" / "brokerage-core" / "src" / "main" / "A.java"
    later = app.archive().stat().st_mtime + 10
    os.utime(source, (later, later))
    app.build(lambda _: None)
    assert runs(tmp_path) == 2


def test_maven_s_own_words_are_shown(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    with pytest.raises(LeadlineError, match=r"could not be built:\n  \[ERROR\] no such thing"):
        Brokerage(checkout).build(lambda _: None)


def test_a_missing_maven_is_named(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LeadlineError, match=r"Maven \(mvn\) is not on the PATH"):
        Brokerage(checkout).build(lambda _: None)


def test_the_data_key_follows_scale_seed_and_generator_only(installed: Path) -> None:
    app = Brokerage(installed)
    key = app.data_key(2, 7)
    assert key.startswith("brokerage-u2-s7-")
    assert len({key, app.data_key(3, 7), app.data_key(2, 8)}) == 3
    tools = installed / "_java" / "brokerage-tools.jar"
    code = {"leadline/brokerage/data/Generator.class": "one", "leadline/brokerage/check/Audits.class": "two"}
    jar(tools, code)
    assert app.data_key(2, 7) == key, "an audit does not change the data"
    jar(tools, code | {"leadline/brokerage/data/Generator.class": "two"})
    assert app.data_key(2, 7) != key
    jar(tools, code | {"leadline/brokerage/sql/schema.sql": "CREATE TABLE account"})
    assert app.data_key(2, 7) != key


def test_loading_tells_the_tools_everything_and_nobody_the_password(installed: Path, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "echo loaded")
    log = tmp_path / "logs" / "load.log"
    Brokerage(installed, home).load_data(ENDPOINT, 3, 11, log)
    arguments = (home / "arguments").read_text().split("\n")
    assert arguments[arguments.index("load") :][:9] == [
        *("load", "--url", "jdbc:postgresql://127.0.0.1:5432/lab", "--user", "someone"),
        *("--units", "3", "--seed", "11"),
    ]
    assert "hidden-word" not in (home / "arguments").read_text()
    assert "BROKERAGE_DB_PASSWORD=hidden-word" in (home / "environment").read_text()
    assert "loaded" in log.read_text()
    assert "hidden-word" not in log.read_text()


def test_a_failed_load_ends_the_trial_with_the_tools_words(installed: Path, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "echo 'load: the disk is full' >&2; exit 1")
    with pytest.raises(TrialFailure, match="could not be loaded: load: the disk is full") as failure:
        Brokerage(installed, home).load_data(ENDPOINT, 1, 1, tmp_path / "load.log")
    assert failure.value.failure_class is FailureClass.INFRASTRUCTURE


@pytest.mark.parametrize(("passed", "code"), [(True, 0), (False, 1)])
def test_audits_come_back_whether_they_passed_or_not(installed: Path, tmp_path: Path, passed: bool, code: int) -> None:
    answer = json.dumps({"audits": [{"name": "ledger", "passed": passed, "detail": "0 rows are wrong"}]})
    home = fake_java(tmp_path / "jdk", f"while [ $# -gt 1 ]; do shift; done; cp $1 {tmp_path}/counts\n")
    script = home / "bin" / "java"
    script.write_text(script.read_text() + f"echo '{answer}'; exit {code}\n")
    found = Brokerage(installed, home).audit(ENDPOINT, 1, 1, COUNTS, tmp_path / "audit.log")
    assert found == [AuditResult("ledger", passed, "0 rows are wrong")]
    assert json.loads((tmp_path / "counts").read_text()) == COUNTS


@pytest.mark.parametrize(
    "script",
    [
        "echo 'audit: connection refused' >&2; exit 1",
        "echo '{\"audits\": []}'; echo 'audit: connection refused' >&2; exit 0",
        'echo \'{"audits": [{"name": "a", "passed": true, "detail": ""}]}\';'
        " echo 'audit: connection refused' >&2; exit 1",
    ],
)
def test_audits_that_did_not_run_are_not_passed(installed: Path, tmp_path: Path, script: str) -> None:
    home = fake_java(tmp_path / "jdk", script)
    with pytest.raises(TrialFailure, match="could not be run: audit: connection refused"):
        Brokerage(installed, home).audit(ENDPOINT, 1, 1, COUNTS, tmp_path / "audit.log")


def test_tools_that_hang_are_ended(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "jdk", "exec sleep 60")
    monkeypatch.setattr(application, "LOAD_TIMEOUT", 0.2)
    with pytest.raises(TrialFailure, match=r"load did not end within 0\.2 s"):
        Brokerage(installed, home).load_data(ENDPOINT, 1, 1, tmp_path / "load.log")


TRACE = """\
java.lang.ExceptionInInitializerError
\tat java.base/java.lang.Class.forName0(Native Method)
\tat leadline.brokerage.tools.Main.main(Main.java:42)
Caused by: java.lang.InternalError: Error loading java.security file
\tat java.base/java.security.Security.initialize(Security.java:106)
\t... 25 more
"""


def test_what_a_program_of_java_said_is_its_cause_not_its_last_frame() -> None:
    done = Completed([], 1, "", TRACE)
    assert application.last_line(done) == "Caused by: java.lang.InternalError: Error loading java.security file"
    assert application.evidence(done) == TRACE.strip()
    deep = Completed([], 1, "", TRACE.replace("\t... 25 more\n", "\tat a.B.c(B.java:1)\n" * 40))
    assert application.evidence(deep).splitlines() == [TRACE.splitlines()[0], TRACE.splitlines()[3]]
    assert application.last_line(Completed([], 3, "", "")) == "exit code 3 without a word"
