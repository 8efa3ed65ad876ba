"""Files of trials in a shared directory, by their content: kept once, fetched where they lack, removed with the last
study that has them.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import Result
from lab_files import CONTENT, TRIALS, add, contents_in, read_back, run_apart, together
from typer.testing import CliRunner

from leadline.api.results import load_lab
from leadline.cli.main import app
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.store.artefacts import Artefacts
from leadline.store.bundle import copy_study
from leadline.store.files import bring, sweep
from leadline.store.lab import Store, init_lab
from leadline.store.labfile import ArtefactPlace, artefacts_of, parse_artefacts


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "kept"


@pytest.fixture
def store(tmp_path: Path, kept: Path) -> Store:
    return init_lab(tmp_path / "lab", artefacts=str(kept))


def lab(store: Store, *words: str) -> Result:
    return CliRunner().invoke(app, ["lab", *words, "--lab", str(store.directory)])


def test_the_same_content_is_kept_once(store: Store, kept: Path) -> None:
    add(store, "first")
    one = contents_in(kept)
    add(store, "second")
    assert len(contents_in(kept) - one) == TRIALS, "what is common is there already"
    used = json.loads(lab(store, "du", "--json").stdout)
    each = [study["kept"] for study in used["studies"]]
    assert used["kept"] == sum(each) - len(CONTENT)
    assert used["kept"] == sum(path.stat().st_size for path in (kept / "sha256").rglob("*") if path.is_file())
    assert "files kept" in lab(store, "du").stdout


def test_files_that_this_machine_lacks_are_fetched_by_a_reader(store: Store) -> None:
    number = add(store, "first")
    before = read_back(store, number)
    shutil.rmtree(store.directory / "trials")
    assert len(load_lab(store.directory).study("first").analysis.responses) == 1
    assert read_back(store, number) == before
    assert bring(store, number) == 0, "they are here now"


def test_a_damaged_or_lost_content_is_told_and_not_used(store: Store, kept: Path) -> None:
    number = add(store, "first")
    shutil.rmtree(store.directory / "trials")
    (path,) = [path for path in (kept / "sha256").rglob("*") if path.is_file() and path.read_bytes() == CONTENT]
    path.write_bytes(CONTENT + b"?")
    with pytest.raises(LeadlineError, match=rf"the content {path.name} of common\.log is damaged there"):
        bring(store, number)
    path.unlink()
    with pytest.raises(LeadlineError, match=rf"lacks the content {path.name} of common\.log"):
        bring(store, number)
    assert not list((store.directory / "trials").glob("*/attempt-*")), "nothing is there by half"


def test_a_study_that_is_removed_takes_its_own_contents_with_it(store: Store, kept: Path) -> None:
    add(store, "first")
    alone = contents_in(kept)
    add(store, "second")
    assert lab(store, "rm", "second", "--yes").exit_code == 0
    assert contents_in(kept) == alone
    assert lab(store, "prune", "--older-than", "0s", "--yes").exit_code == 0
    assert contents_in(kept) == set()


def test_prune_counts_a_shared_content_once(store: Store) -> None:
    for name in ("first", "second", "third"):
        add(store, name)
    used = json.loads(lab(store, "du", "--json").stdout)
    done = lab(store, "prune", "--to-size", f"{used['kept'] - 1}b", "--yes")
    assert done.exit_code == 0, done.output
    assert [record.study.study for record in store.studies()] == ["second", "third"]


def test_contents_that_no_trial_has_are_swept(store: Store, kept: Path) -> None:
    add(store, "first")
    named = contents_in(kept)
    assert store.artefacts is not None
    lost = kept / "sha256" / "ab" / ("ab" * 32)
    lost.parent.mkdir(exist_ok=True)
    lost.write_bytes(b"of a run that ended in between")
    assert sweep(store) == 30
    assert contents_in(kept) == named


def test_copies_of_this_machine_can_go(store: Store, kept: Path) -> None:
    number, there = add(store, "first"), contents_in(kept)
    before = read_back(store, number)
    done = lab(store, "prune", "--older-than", "0s", "--copies", "--yes")
    assert done.exit_code == 0, done.output
    assert not list((store.directory / "trials").glob("*/attempt-*"))
    assert contents_in(kept) == there
    bring(store, number)
    assert read_back(store, number) == before


def test_copies_stay_where_the_place_lacks_their_content(store: Store, kept: Path) -> None:
    number = add(store, "first")
    shutil.rmtree(kept / "sha256")
    refused = lab(store, "prune", "--older-than", "0s", "--copies", "--yes")
    assert f"files of study {number}: its copies stay" in str(refused.exception)
    assert read_back(store, number)


def test_copies_need_another_place(tmp_path: Path) -> None:
    refused = lab(Store(tmp_path / "alone"), "prune", "--older-than", "0s", "--copies", "--yes")
    assert "keeps its files nowhere else (leadline lab init" in str(refused.exception)


def test_a_study_goes_from_lab_to_lab_with_its_files(store: Store, tmp_path: Path) -> None:
    number = add(store, "first")
    before = read_back(store, number)
    shutil.rmtree(store.directory / "trials")
    other = init_lab(tmp_path / "other", artefacts=str(tmp_path / "kept of other"))
    there, new = copy_study(store, number, other)
    assert new
    shutil.rmtree(other.directory / "trials")
    bring(other, there)
    assert read_back(other, there) == before
    plain = Store(tmp_path / "plain")
    assert read_back(plain, copy_study(other, there, plain)[0]) == before


def test_a_lab_that_has_run_gets_a_place(tmp_path: Path, kept: Path) -> None:
    store = Store(tmp_path / "lab")
    number = add(store, "first")
    before = read_back(store, number)
    store = init_lab(tmp_path / "lab", artefacts=str(kept))
    shutil.rmtree(store.directory / "trials")
    bring(store, number)
    assert read_back(store, number) == before


def test_a_place_belongs_to_one_lab(store: Store, kept: Path, tmp_path: Path) -> None:
    with pytest.raises(LeadlineError, match=r"kept has the files of another lab: name another directory"):
        init_lab(tmp_path / "other", artefacts=str(kept))
    assert not (tmp_path / "other").exists()
    with pytest.raises(UsageError, match=r"keeps its files in .*kept already: copy them to .*elsewhere"):
        init_lab(store.directory, artefacts=str(tmp_path / "elsewhere"))
    assert init_lab(store.directory, artefacts=str(kept)).ids() == []


def test_a_trial_whose_files_cannot_be_kept_has_failed(store: Store, kept: Path) -> None:
    shutil.rmtree(kept)
    kept.write_text("no directory")
    with pytest.raises(TrialFailure, match=r"the files of a trial cannot be kept: .*kept: ") as failed:
        add(store, "first")
    assert failed.value.failure_class is FailureClass.INFRASTRUCTURE
    assert "\n" not in str(failed.value)


def test_a_lab_inside_it_has_a_folder_of_its_own(store: Store, kept: Path) -> None:
    inner = Store(store.directory / "simulated")
    assert inner.artefacts is not None
    assert inner.artefacts.place == ArtefactPlace(kept / "simulated")
    add(inner, "simulated")
    assert contents_in(kept / "simulated")
    assert contents_in(kept) == set(), "the lab itself has none"


def test_two_that_fetch_at_once_have_whole_files(store: Store) -> None:
    number = add(store, "first")
    before = read_back(store, number)
    for _ in range(3):
        shutil.rmtree(store.directory / "trials")
        together(lambda: bring(Store(store.directory), number), 4)
        assert read_back(store, number) == before
        assert not list((store.directory / "trials").glob("*/.attempt-*"))


def test_who_sees_a_row_finds_its_content(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it was swept between the first sending and the row."""
    put, sent = Artefacts.put, []

    def swept(place: Artefacts, files: Mapping[str, Path]) -> int:
        if len(sent) % 2:
            shutil.copytree(store.directory, tmp_path / f"reader-{len(sent)}", ignore=shutil.ignore_patterns("trials"))
            bring(Store(tmp_path / f"reader-{len(sent)}"), 1)
        sent.append(put(place, files))
        if len(sent) % 2:
            assert sweep(store) > 0, "no row has it yet"
        return sent[-1]

    monkeypatch.setattr(Artefacts, "put", swept)
    number = add(store, "first")
    assert len(sent) == 2 * TRIALS
    shutil.rmtree(store.directory / "trials")
    assert bring(store, number) == TRIALS


def test_two_run_and_a_third_reads_and_sweeps(store: Store, tmp_path: Path) -> None:
    one, other = (Store(store.directory, owner=name) for name in ("one", "other"))
    study = run_apart([one, other], store, blocks=6)
    plain = Store(tmp_path / "plain")
    assert len(read_back(plain, copy_study(store, study, plain)[0])) == 2 * len(store.load(study).trials)


BUCKET = "s3://team/ours"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (BUCKET, ArtefactPlace(bucket="team", prefix="ours")),
        ("s3://team/a/b/", ArtefactPlace(bucket="team", prefix="a/b")),
        (
            f"{BUCKET}?endpoint=https://s3.example:9000&region=eu",
            ArtefactPlace(Path(), "team", "ours", "https://s3.example:9000", "eu"),
        ),
        ("../kept", ArtefactPlace(Path("/srv/kept"))),
        ("/mnt/kept", ArtefactPlace(Path("/mnt/kept"))),
    ],
)
def test_a_place_is_read(text: str, place: ArtefactPlace) -> None:
    assert parse_artefacts(text, Path("/srv/lab"), "here") == place


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("s3://anna:secret@team/ours", "1: credentials do not belong there, they are the environment's"),
        (f"{BUCKET}?endpoint=https://a:secret@s3", "1: the endpoint is not a URL .*without credentials"),
        ("gs://team/ours", "1: the URL of the files begins with 'gs', not with s3://"),
        ("s3:/ours", "1: 's3:/ours' is neither a bucket nor a directory"),
        ("s3:///ours", "1: the URL of the files names no bucket"),
        ("s3://Team/ours", "1: 'Team' is no name of a bucket"),
        (f"{BUCKET}?endpint=https://s3", "1: .*the option 'endpint': did you mean endpoint?"),
        ("' '", "1: the place of the files is empty"),
        (".", "1: .*is the lab's own directory: name one beside it"),
        ("7", "1: artefacts is 7, not a directory or a bucket such as s3://bucket/prefix"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(f"artefacts: {text}\n")
    with pytest.raises(UsageError, match=rf"lab\.yaml:{said}") as refused:
        artefacts_of(tmp_path)
    assert "secret" not in str(refused.value)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LeadlineError, match=r"file/kept: ") as refused:
        Artefacts(ArtefactPlace(tmp_path / "file" / "kept")).probe()
    assert "\n" not in str(refused.value)
