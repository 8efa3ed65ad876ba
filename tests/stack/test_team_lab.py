"""A lab for a team: its rows in a real PostgreSQL, which refuses, is killed and comes back."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from lab_fakes import CACHE, POOL, FakeHost, FakeSystem
from sqlalchemy import event, text
from typer.testing import CliRunner
from witnesses import matrix, wait_for

from bench.claims import study_of
from bench.teamserver import TeamServer, team_server
from leadline.checks.files.study import find_study, parse_study
from leadline.checks.plan import plan_study
from leadline.cli.main import app
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.record import AuditRecord, StudyRecord
from leadline.places.simulated import SimulatedTestbed, parse_truth
from leadline.places.testbed import RunOptions
from leadline.stack import postgres as client
from leadline.store.lab import Store, init_lab
from leadline.store.labfile import FILE, SQLITE, names_in, write
from leadline.trial.progress import SilentWatcher
from leadline.trial.run import StudyRun

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("own_cache")]

ROOT = Path(__file__).parents[2]
# Unit tests whose labs are those of the fixture `place`.
SAME = ("claims", "bundles", "removal", "store_sound")
STUDY = """\
study: team
question: what is left when the database is away?
workload: { users: 5, ramp_up: 4s, steady: 20s, ramp_down: 1s }
factors:
  server.pool: [10, 2]
  vm.fake_live: [10, 20]
design: { replicates: 2, sentinels: null, seed: 3 }
responses: [throughput]
"""
TRUTH = """\
truth:
  seed: 7
  effects:
    - when: { server.datasource.max_connections: 2 }
      set: { pool: 2 }
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, own_cache: None) -> Iterator[TeamServer]:
    with team_server(tmp_path_factory.mktemp("team"), safe=False) as server:
        yield server


@pytest.fixture
def url(server: TeamServer) -> str:
    """Of a schema of this test's own."""
    return f"{server.url}?schema=lab_{uuid.uuid4().hex}"


@pytest.fixture
def store(url: str, tmp_path: Path) -> Store:
    return init_lab(tmp_path / "team", url)


@matrix("all unit tests of the lab on PostgreSQL")
def test_the_unit_tests_of_the_lab_hold_on_it(server: TeamServer) -> None:
    files = [f"tests/unit/store/test_{name}.py" for name in SAME]
    argv = [sys.executable, "-m", "pytest", "-q", "--durations=8", "--lab-database", server.url, *files]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE) or "100%" in done.stdout


def test_init_names_the_database_and_never_its_password(server: TeamServer, url: str, tmp_path: Path) -> None:
    password = server.database.endpoint().password
    argv = ["lab", "init", str(tmp_path / "team"), "--database", url]
    told = CliRunner().invoke(app, argv).output
    assert "0 studies" in told
    assert str(server.database.endpoint().port) in told
    assert password not in told
    assert (tmp_path / "team" / FILE).stat().st_mode & 0o77 == 0, "the password is in it"
    study_of(Store(tmp_path / "team"), 3)
    document = json.loads(CliRunner().invoke(app, [*argv, "--json"]).output)
    assert document["studies"] == 1
    assert password not in json.dumps(document)
    assert not (tmp_path / "team" / SQLITE).exists()
    used = json.loads(CliRunner().invoke(app, ["lab", "du", "--lab", str(tmp_path / "team"), "--json"]).output)
    assert used["database"] > 100_000


def test_the_guide_s_commands_set_up_a_lab(server: TeamServer, url: str, tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guides" / "team-lab.md").read_text(encoding="utf-8")
    line, _ = re.findall(r"^\$ leadline (lab init .+)$", guide, re.MULTILINE)  # the other: test_artefacts_s3.py
    (said,) = re.findall(r"^lab /srv/labs/team: rows in .+$", guide, re.MULTILINE)
    words = [str(tmp_path / "team") if word.startswith("/srv") else word for word in line.split()]
    told = CliRunner().invoke(app, [url if word.startswith("postgresql:") else word for word in words]).output
    assert (
        re.sub("in .*,", "in URL,", told.replace(str(tmp_path), "/srv/labs"))
        == re.sub("in .*,", "in URL,", said) + "\n"
    )
    study_of(Store(tmp_path / "anna"), 2)
    argv = ["lab", "merge", str(tmp_path / "anna"), "--lab", str(tmp_path / "team")]
    assert CliRunner().invoke(app, argv).output == "claims@1: copied as claims@1\n"
    assert names_in(tmp_path / "team") == ["claims"], "what the shell completes"
    for words in (["list"], ["du"], ["prune", "--older-than", "90d", "--to-size", "200g", "--yes"]):
        done = CliRunner().invoke(app, ["lab", *words, "--lab", str(tmp_path / "team")])
        assert done.exit_code == 0, done.output
        assert done.output


def without_password(url: str) -> str:
    return re.sub(r":[^:@]*@", "@", url)


def test_a_password_is_that_of_the_environment_or_of_a_private_file(
    server: TeamServer, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = server.database.endpoint()
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    with pytest.raises(LeadlineError, match=r"no password was given: the URL's, else PGPASSWORD"):
        init_lab(tmp_path / "team", without_password(url))
    (tmp_path / "pgpass").write_text(f"other:*:*:*:no\n{endpoint.host}:*:*:{endpoint.user}:{endpoint.password}\n")
    (tmp_path / "pgpass").chmod(0o644)
    with pytest.raises(LeadlineError, match="may be read by others, so it is not used: chmod 600"):
        init_lab(tmp_path / "team", without_password(url))
    (tmp_path / "pgpass").chmod(0o600)
    assert init_lab(tmp_path / "team", without_password(url)).ids() == []
    monkeypatch.setenv("PGPASSWORD", "wrong")
    with pytest.raises(LeadlineError, match=r"password authentication failed .*the password was given"):
        Store(tmp_path / "team")


@pytest.mark.parametrize(
    ("part", "instead", "said"),
    [
        (r":\d+/", ":1/", r"127.0.0.1:1 cannot be reached: .*refused"),
        (r"127\.0\.0\.1", "no-such-host.invalid", r"no-such-host.invalid:\d+ cannot be reached"),
        (r"/leadline\?", "/none?", r"has no database none; who may, makes it with `createdb"),
        (r"$", "&sslmode=require", r"has no TLS, which sslmode=require asks for"),
        (
            r"//.*@",
            "//reader:reader@",
            r"permission denied .*its owner runs: GRANT CREATE ON DATABASE leadline TO reader",
        ),
    ],
)
def test_each_failure_is_told_and_leaves_no_lab(
    part: str, instead: str, said: str, server: TeamServer, url: str, tmp_path: Path
) -> None:
    server.run("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN PASSWORD 'reader'")
    with pytest.raises(LeadlineError, match=said) as refused:
        init_lab(tmp_path / "team", re.sub(part, instead, url, count=1))
    assert server.database.endpoint().password not in str(refused.value)
    assert not (tmp_path / "team").exists()


def test_a_role_without_tables_of_its_own_works_in_a_lab(server: TeamServer, url: str, store: Store) -> None:
    assert store.address is not None
    schema = store.address.schema
    server.run(
        "DROP ROLE IF EXISTS member",
        "CREATE ROLE member LOGIN PASSWORD 'member'",
        f"GRANT USAGE ON SCHEMA {schema} TO member",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO member",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO member",
    )
    study_of(store, 2)
    write(store.directory, re.sub("//.*@", "//member:member@", url))
    member = Store(store.directory)
    attempt, _ = member.begin_attempt(1, 0)
    member.begin_step(1, attempt, "load")
    member.finish(1, attempt)
    assert store.load(study_of(member, 1)).trials[0].state == "planned"
    assert store.load(1).trials[0].state == "done"
    server.run(f"DROP SCHEMA {schema} CASCADE", "DROP ROLE member")


def test_a_lab_stays_where_its_rows_are(url: str, store: Store, tmp_path: Path) -> None:
    assert init_lab(store.directory, url).address == store.address
    with pytest.raises(LeadlineError, match=r"is a lab already, its rows are in postgresql://.*leadline lab merge"):
        init_lab(store.directory, f"{url}_other")
    Store(tmp_path / "alone")
    with pytest.raises(LeadlineError, match=r"is a lab already, its rows are in .*lab.sqlite"):
        init_lab(tmp_path / "alone", url)


def test_a_lab_inside_it_has_a_schema_of_its_own(store: Store, tmp_path: Path) -> None:
    study_of(store, 3)
    inner = Store(store.directory / "simulated")
    assert inner.address is not None
    assert store.address is not None
    assert inner.address.schema == f"{store.address.schema}_simulated"
    study_of(inner, 2)
    assert [len(each.load(1).trials) for each in (store, inner)] == [3, 2]
    assert not (store.directory / "simulated" / SQLITE).exists()


def test_a_block_that_is_run_while_another_decides_is_not_run_again(server: TeamServer, store: Store) -> None:
    study, quick, waits = study_of(store, 1), Store(store.directory, owner="quick"), []
    decided = threading.Event()

    def run() -> None:
        claim = quick.claims.take(study, 0, left=[0])
        if claim is not None:
            quick.finish(1, quick.begin_attempt(1, claim)[0])
            quick.claims.end(claim.token)
        decided.set()

    other = threading.Thread(target=run)

    def quick_is_done_or_waits() -> bool:
        with client.connect(server.database.endpoint()) as connection:
            locked = connection.run("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        return decided.is_set() or bool(locked)

    def before(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if "max(" in statement and threading.current_thread() is threading.main_thread():  # it has found the block free
            other.start()
            waits.append(wait_for(quick_is_done_or_waits))

    event.listen(store._engine, "before_cursor_execute", before)
    try:
        claim = store.claims.take(study, 0, left=[0])
    finally:
        event.remove(store._engine, "before_cursor_execute", before)
    other.join(60)
    assert waits == [True]
    assert claim is not None
    assert [(one.owner, one.run) for one in store.claims.running(study)] == [(store.claims.owner, 1)]
    assert store.load(study).trials[0].state == "planned", "the quick one was refused"


def without_places(record: StudyRecord) -> StudyRecord:
    """Without the directory of the lab, and in the order of names."""
    trials = [replace(trial, directory=None) for trial in record.trials]
    return replace(record, trials=tuple(trials))


def test_a_simulated_study_gives_the_same_record_on_both(url: str, tmp_path: Path) -> None:
    init_lab(tmp_path / "team", url)
    records, file = [], find_study("quickstart")
    for lab in ("alone", "team"):
        testbed = SimulatedTestbed(parse_truth(TRUTH, "truth.yaml"), tmp_path / lab / "simulated")
        assert testbed.run(file, testbed.plan(file), RunOptions()).complete
        records.append(without_places(Store(tmp_path / lab / "simulated", create=False).load(1)))
    assert len(records[0].trials) > 3
    assert records[0] == records[1]


def test_what_a_log_holds_is_kept(store: Store) -> None:
    study = study_of(store, 1)
    attempt, _ = store.begin_attempt(1, 0)
    said = "nul \0 here, " + "long " * 100_000
    store.add_audits(1, attempt, [AuditRecord("a name of more than two hundred letters " * 6, False, said)])
    store.finish(1, attempt, TrialFailure(FailureClass.WORKLOAD, "late", said))
    trial = store.load(study).trials[0]
    assert trial.evidence == said.replace("\0", "\N{REPLACEMENT CHARACTER}")
    assert trial.audits[0].detail == trial.evidence


def test_connections_are_few_and_used_again(store: Store) -> None:
    def session() -> int:
        with store.transaction() as connection:
            return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())

    assert len({session() for _ in range(20)}) == 1
    assert Store(store.directory)._engine is store._engine


def test_an_exchange_that_a_signal_cuts_short_spoils_no_other(store: Store) -> None:
    def cut(_number: int, _frame: FrameType | None) -> None:
        raise TrialFailure(FailureClass.INTERRUPTED, "ended by SIGALRM")

    before = signal.signal(signal.SIGALRM, cut)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(TrialFailure, match="SIGALRM"), store.transaction() as connection:
            connection.execute(text("SELECT 1, pg_sleep(60)"))
    finally:
        signal.signal(signal.SIGALRM, before)
    with store.transaction() as connection:
        assert connection.execute(text("SELECT 2")).scalar_one() == 2


def killed(server: TeamServer) -> None:
    """As a machine does that loses its power; sessions included."""
    members = server.process.pids()
    os.kill(server.process.pid, signal.SIGKILL)
    assert wait_for(lambda: not any(Path(f"/proc/{each}").exists() for each in members if each != server.process.pid))
    server.database.stop()


def study_run(store: Store, system: FakeSystem) -> StudyRun:
    file = parse_study(STUDY, "team.yaml")
    planned = plan_study(file, system.host, [POOL, CACHE])  # type: ignore[arg-type]
    return StudyRun(file, planned, store, system.host, system, SilentWatcher(), lambda _: nullcontext())  # type: ignore[arg-type]


def test_a_database_that_is_killed_ends_the_run_which_goes_on_when_it_is_back(server: TeamServer, store: Store) -> None:
    def lose(step: str) -> None:
        # the second treatment of the live knob is in force
        if step == "load" and system.host.values["vm.fake_live"] == 20 and server.process.alive():
            killed(server)

    store.patience = 0.2
    system = FakeSystem(FakeHost(), at_step=lose)
    try:
        with pytest.raises(TrialFailure, match="cannot be written: postgresql://") as ended:
            study_run(store, system).execute()
    finally:
        server.start()
    assert ended.value.failure_class is FailureClass.INFRASTRUCTURE
    assert system.host.values["vm.fake_live"] == 10, "the host is put back"
    store.patience = Store.patience
    before = [trial for trial in store.load(1).trials if trial.state == "done"]
    system.at_step = lambda _step: None
    assert study_run(store, system).execute().complete
    after = {trial.id: trial for trial in store.load(1).trials}
    assert all(after[trial.id] == trial for trial in before)
    assert all(trial.state == "done" for trial in after.values())


def test_a_run_outlives_a_restart_of_the_database(server: TeamServer, store: Store) -> None:
    lost = threading.Event()

    def restart(step: str) -> None:
        if step == "load" and not lost.is_set():
            lost.set()
            killed(server)
            threading.Timer(1.0, server.start).start()

    system = FakeSystem(FakeHost(), at_step=restart)
    assert study_run(store, system).execute().complete
    assert lost.is_set()
    assert all(trial.state == "done" for trial in store.load(1).trials)
