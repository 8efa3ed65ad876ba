"""A team without a shared file system: rows in a real PostgreSQL, files in a bucket of a real S3 server."""

import json
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_files import add, read_back, run_apart
from s3_server import S3Server, s3_server
from typer.testing import CliRunner

from bench.teamserver import TeamServer, team_server
from leadline.cli.main import app
from leadline.model.errors import LeadlineError, UsageError
from leadline.store.files import bring
from leadline.store.lab import Store, init_lab

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("own_cache")]


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, bucket: S3Server, own_cache: None) -> Iterator[TeamServer]:
    with team_server(tmp_path_factory.mktemp("team"), safe=False) as server:
        yield server


@pytest.fixture
def credentials(bucket: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def url(database: TeamServer) -> str:
    return f"{database.url}?schema=lab_{uuid.uuid4().hex}"


@pytest.fixture
def place(bucket: S3Server, credentials: None) -> str:
    return bucket.url(f"of/{uuid.uuid4().hex}")


def lab(*words: str | Path) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def guide_command() -> list[str]:
    """The guide's command that makes a lab with its files in a bucket."""
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "team-lab.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\$ leadline (lab init .*--artefacts.*)$", guide, re.MULTILINE)
    return str(line).split()


def test_two_machines_share_rows_and_files(url: str, place: str, tmp_path: Path) -> None:
    anna, ben = tmp_path / "anna", tmp_path / "ben"
    instead = {"~/labs/team": str(anna), "postgresql://anna@db.example/team": url, "s3://labs/team": place}
    said = lab(*(instead.get(word, word) for word in guide_command()))
    assert f"files in {place.partition('?')[0]}, 0 studies" in said
    number = add(Store(anna), "first")
    assert "1 studies" in lab("lab", "init", ben, "--database", url, "--artefacts", place)
    assert not (ben / "trials").exists()
    assert "Study first" in lab("show", "first", "--lab", ben)
    assert read_back(Store(ben), number) == read_back(Store(anna), number)
    shutil.rmtree(ben / "trials")
    lab("export", "first", "--lab", ben, "--out", tmp_path / "tables", "--format", "csv")
    lab("report", "first", "--lab", ben, "--out", tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert read_back(Store(ben), number) == read_back(Store(anna), number)


def test_two_run_and_a_third_reads_and_sweeps(url: str, place: str, tmp_path: Path) -> None:
    init_lab(tmp_path / "first", url, place)
    for name in ("second", "reader", "fresh"):
        init_lab(tmp_path / name, url, place)
    study = run_apart([Store(tmp_path / name, owner=name) for name in ("first", "second")], Store(tmp_path / "reader"))
    fresh = Store(tmp_path / "fresh")
    assert bring(fresh, study) == len(fresh.load(study).trials)
    assert len(set(_owners(fresh, study))) == 2, "both ran some"


def _owners(store: Store, study: int) -> list[str]:
    from sqlalchemy import select

    from leadline.store import schema as t

    with store.transaction() as connection:
        return list(connection.execute(select(t.blocks.c.owner).where(t.blocks.c.study_id == study)).scalars())


def test_labs_are_merged_with_their_files(url: str, place: str, bucket: S3Server, tmp_path: Path) -> None:
    team = init_lab(tmp_path / "team", url, place)
    alone, own = Store(tmp_path / "alone"), init_lab(tmp_path / "own", artefacts=bucket.url(f"own/{uuid.uuid4().hex}"))
    before = [read_back(store, add(store, store.directory.name)) for store in (alone, own)]
    shutil.rmtree(own.directory / "trials")
    for store in (alone, own):
        lab("lab", "merge", store.directory, "--lab", team.directory)
        lab("lab", "merge", store.directory, "--lab", team.directory)
    shutil.rmtree(team.directory / "trials")
    assert [bring(team, number) for number in (1, 2)] == [4, 4]
    assert [read_back(team, number) for number in (1, 2)] == before
    lab("lab", "copy", "alone", "--lab", team.directory, "--to", tmp_path / "back")
    assert read_back(Store(tmp_path / "back"), 1) == before[0]


def test_retention(url: str, place: str, tmp_path: Path) -> None:
    store = init_lab(tmp_path / "team", url, place)
    for name in ("old", "new"):
        add(store, name)
    assert store.artefacts is not None
    used = json.loads(lab("lab", "du", "--lab", store.directory, "--json"))
    assert used["kept"] == sum(store.artefacts.sizes().values())
    assert sum(study["kept"] for study in used["studies"]) > used["kept"], "what both have is kept once"
    lab("lab", "prune", "--older-than", "0s", "--copies", "--yes", "--lab", store.directory)
    assert bring(store, 1) == 4
    lab("lab", "prune", "--to-size", f"{used['kept'] - 1}b", "--yes", "--lab", store.directory)
    assert [record.study.study for record in store.studies()] == ["new"]
    lab("lab", "rm", "new", "--yes", "--lab", store.directory)
    assert store.artefacts.sizes() == {}


def test_the_server_can_be_the_environment_s(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, _, endpoint = place.partition("?endpoint=")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    store = init_lab(tmp_path / "lab", artefacts=url)
    before = read_back(store, add(store, "first"))
    shutil.rmtree(store.directory / "trials")
    bring(store, 1)
    assert read_back(store, 1) == before


@pytest.mark.parametrize(
    ("part", "instead", "given", "said"),
    [
        ("team/", "nobody-has-it/", {}, r"there is no bucket nobody-has-it; who may, makes it"),
        ("", "", {"AWS_SECRET_ACCESS_KEY": "wrong"}, r"refuses these credentials \(SignatureDoesNotMatch\): they need"),
        ("", "", {"AWS_ACCESS_KEY_ID": "nobody"}, r"refuses the request: .*[Uu]ser"),
        ("", "", dict.fromkeys(S3Server.environment), r"no credentials were found: AWS_ACCESS_KEY_ID and"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:1", {}, r"http://127\.0\.0\.1:1 cannot be reached"),
        (r"127\.0\.0\.1", "no-such-host.invalid", {}, r"http://no-such-host\.invalid:\d+ cannot be reached"),
        ("http:", "https:", {}, r"https://127\.0\.0\.1:\d+ cannot be reached"),
    ],
)
def test_each_failure_is_told_and_leaves_no_lab(
    part: str,
    instead: str,
    given: dict[str, str | None],
    said: str,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")  # a machine without a role, wherever this runs
    for name, value in given.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    wanted = re.sub(part, instead, place, count=1) if part else place
    with pytest.raises(LeadlineError, match=said) as refused:
        init_lab(tmp_path / "team", artefacts=wanted)
    assert "\n" not in str(refused.value)
    assert not isinstance(refused.value, UsageError)
    assert not (tmp_path / "team").exists()
