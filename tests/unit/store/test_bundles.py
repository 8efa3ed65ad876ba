"""Trials that go from lab to lab: all of them, once, and only where they are wanted."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.design.make import make_plan
from leadline.model.design import Design
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.plan import Factor
from leadline.model.record import AuditRecord, Reading, StudyRecord, TrialState
from leadline.model.study import Study
from leadline.store.bundle import take_block, write_bundle
from leadline.store.claims import Claim, LostClaimError
from leadline.store.files import digest_of
from leadline.store.lab import Store

Place = Callable[[str], Path]
STUDY = Study.model_validate({"study": "away", "question": "?", "factors": {"vm.swappiness": [1, 2]}})
PLAN = make_plan([Factor("vm.swappiness", (1, 2), 1)], Design(replicates=2))


def add(store: Store) -> int:
    return store.add_study(STUDY, "study: away", PLAN, {}, [])


def run_block(store: Store, study: int, block: int, value: float) -> list[int]:
    """Every trial of a block, the first one twice; their positions."""
    trials = [trial for trial in store.load(study).trials if trial.planned.block == block]
    for trial in trials:
        if trial is trials[0]:
            attempt, _ = store.begin_attempt(trial.id, block)
            store.finish(trial.id, attempt, TrialFailure(FailureClass.INFRASTRUCTURE, "no network"))
        attempt, directory = store.begin_attempt(trial.id, block)
        step = store.begin_step(trial.id, attempt, "load")
        store.end_step(step)
        store.add_readings(trial.id, attempt, [Reading("vm.swappiness", "before", "1", "1", True)])
        store.add_audits(trial.id, attempt, [AuditRecord("ledger", True, "0")])
        store.add_responses(trial.id, attempt, {"throughput": value + trial.planned.position})
        (directory / "logs" / "server.log").write_text(f"trial {trial.planned.position}\n")
        store.add_artefacts(trial.id, attempt, directory)
        store.finish(trial.id, attempt)
    store.claims.release()
    return [trial.planned.position for trial in trials]


def told(record: StudyRecord) -> list[object]:
    """What a study's trials are, wherever they are kept."""
    return [
        (
            *(trial.planned, trial.state, trial.attempt, trial.started, trial.responses),
            *(trial.audits, trial.readings, trial.steps, trial.host),
            trial.directory and (trial.directory / "logs" / "server.log").read_text(),
        )
        for trial in record.trials
    ]


@pytest.fixture
def centre(place: Place) -> Store:
    store = Store(place("centre"), owner="centre")
    add(store)
    return store


@pytest.fixture
def claim(centre: Store) -> Claim:
    claim = centre.claims.take(1, 1, host="n3")
    assert claim is not None
    return claim


@pytest.fixture
def bundle(place: Place, tmp_path: Path, claim: Claim) -> Path:
    """Block 1, run in a lab of its own."""
    node = Store(place("node"), owner="n3")
    positions = run_block(node, add(node), 1, 100.0)
    write_bundle(node, 1, tmp_path / "bundle", positions=positions, block=1, token=claim.token, host="n3")
    return tmp_path / "bundle"


def test_a_block_that_ran_elsewhere_is_taken_in_once(centre: Store, bundle: Path, claim: Claim, place: Place) -> None:
    assert take_block(centre, bundle) == 2
    first = told(centre.load(1))
    node = Store(place("node")).load(1)
    for here, there in zip(centre.load(1).trials[2:], node.trials[2:], strict=True):
        assert (here.state, here.responses, here.started) == ("done", there.responses, there.started)
        assert here.directory is not None
        assert (here.directory / "logs" / "server.log").read_text() == f"trial {here.planned.position}\n"
        assert here.attempt == there.attempt
        assert (here.host, there.host) == ("n3", ""), "its own lab had one host"
    assert take_block(centre, bundle) == 0
    assert told(centre.load(1)) == first
    assert centre.claims.running(1) == []
    assert centre.claims.take(1, claim.block, left=[2, 3]) is None, "nothing of it is left"


def test_a_block_that_was_given_to_another_is_refused(centre: Store, bundle: Path, claim: Claim) -> None:
    centre.claims.give_up(claim.token)
    again = centre.claims.take(1, 1, host="n4")
    assert again is not None
    before = told(centre.load(1))
    with pytest.raises(LostClaimError, match=r"block 1 of study 1 was taken from centre .*nothing more of that run"):
        take_block(centre, bundle)
    assert told(centre.load(1)) == before
    assert not (centre.directory / "trials" / "3").exists()


def test_a_second_run_of_a_block_follows_the_first(centre: Store, bundle: Path, place: Place, tmp_path: Path) -> None:
    take_block(centre, bundle)
    again = centre.claims.take(1, 1)
    assert again is not None
    other = Store(place("other"))
    positions = run_block(other, add(other), 1, 200.0)
    write_bundle(other, 1, tmp_path / "second", positions=positions, block=1, token=again.token)
    assert take_block(centre, tmp_path / "second") == 2
    trials = centre.load(1).trials[2:]
    assert [trial.attempt for trial in trials] == [4, 2]
    assert [trial.responses["throughput"] for trial in trials] == [202.0, 203.0]
    with pytest.raises(LostClaimError):
        take_block(centre, bundle)


def test_an_attempt_without_files_gets_no_directory(centre: Store, bundle: Path) -> None:
    shutil.rmtree(bundle / "trials")
    files = {"rows.json": digest_of(bundle / "rows.json")}
    manifest(files=files)(bundle)
    assert take_block(centre, bundle) == 2
    assert not list(centre.directory.glob("trials/*/attempt-*"))
    assert {trial.state for trial in centre.load(1).trials[2:]} == {TrialState.DONE}


def damage_rows(bundle: Path) -> None:
    (bundle / "rows.json").write_text((bundle / "rows.json").read_text().replace("102.0", "999.0"))


def damage_file(bundle: Path) -> None:
    (bundle / "trials" / "2" / "attempt-2" / "logs" / "server.log").write_text("other\n")


def lose_file(bundle: Path) -> None:
    (bundle / "trials" / "3" / "attempt-1" / "logs" / "server.log").unlink()


def lose_manifest(bundle: Path) -> None:
    (bundle / "manifest.json").unlink()


def manifest(**changed: object) -> Callable[[Path], None]:
    def change(bundle: Path) -> None:
        told = json.loads((bundle / "manifest.json").read_text())
        (bundle / "manifest.json").write_text(json.dumps({**told, **changed}))

    return change


def rows(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Rows changed, and their digest with them."""

    def damage(bundle: Path) -> None:
        told = json.loads((bundle / "rows.json").read_text())
        change(told)
        (bundle / "rows.json").write_text(json.dumps(told))
        files = json.loads((bundle / "manifest.json").read_text())["files"]
        manifest(files={**files, "rows.json": digest_of(bundle / "rows.json")})(bundle)

    return damage


def value(table: str, name: str, given: object) -> Callable[[Path], None]:
    return rows(lambda told: (told["trials"] if table == "trials" else told["tables"][table])[-1].update({name: given}))


def replaced_by_link(bundle: Path) -> None:
    path = bundle / "trials" / "2" / "attempt-2" / "logs" / "server.log"
    path.unlink()
    path.symlink_to("/etc/hostname")


def replaced_by_pipe(bundle: Path) -> None:
    path = bundle / "trials" / "2" / "attempt-2" / "logs" / "server.log"
    path.unlink()
    os.mkfifo(path)


def pipe_of_rows(bundle: Path) -> None:
    (bundle / "rows.json").unlink()
    os.mkfifo(bundle / "rows.json")


# What hosts handed in that ended or hung a whole study.
HOSTILE = [
    (rows(lambda told: told["tables"].pop("responses")), "it has other tables"),
    (rows(lambda told: told["tables"].update({"studies": []})), "it has other tables"),
    (rows(lambda told: told.pop("trials")), "trials"),
    (rows(lambda told: told["trials"].append(told["trials"][0])), "is there twice"),
    (rows(lambda told: told["tables"]["attempts"].pop()), "other attempts"),
    (rows(lambda told: told["tables"]["responses"].append(told["tables"]["responses"][0])), "is there twice"),
    (rows(lambda told: told["tables"]["steps"][0].pop("name")), "a row of steps has no name"),
    (value("trials", "attempt", 10**12), "attempt of a row of trials is 1000000000000"),
    (value("trials", "attempt", -1), "attempt of a row of trials is -1"),
    (value("trials", "attempt", "1"), "attempt of a row of trials is '1'"),
    (value("trials", "attempt", None), "attempt of a row of trials is null"),
    (value("trials", "position", 10**30), "too large"),
    (value("trials", "position", 99), "no attempt that is there|other attempts"),
    (value("trials", "state", "well"), "state of a row of trials is 'well'"),
    (value("trials", "failure", "workload"), "it is done, its failure workload"),
    (value("trials", "started", 1e300), "started of a row of trials"),
    (value("trials", "steady", "[]"), "its steady state"),
    (value("trials", "steady", '{"verdict": 1, "cut": "x", "sentence": []}'), "its steady state"),
    (value("trials", "phases", "{"), "its phases"),
    (value("responses", "value", "fast"), "value of a row of responses is 'fast'"),
    (value("responses", "value", True), "value of a row of responses is true"),
    (value("responses", "value", 1e300), "value of a row of responses"),
    (value("responses", "attempt", 7), "of no attempt that is there"),
    (value("responses", "name", ["p50"]), "name of a row of responses"),
    (value("responses", "name", "n" * 5000), "name of a row of responses"),
    (replaced_by_link, "is no file in it"),
    (replaced_by_pipe, "no regular file"),
    (pipe_of_rows, "no regular file"),
    (manifest(files={"rows.json": "x"}), "its digest"),
    (manifest(files=7), "files"),
    (manifest(study=7), "study"),
    (manifest(host=["n1"]), "host"),
    (manifest(token=7), "token"),
]


@pytest.mark.parametrize(("damage", "said"), HOSTILE)
def test_rows_that_no_lab_has_are_not_taken(
    centre: Store, bundle: Path, damage: Callable[[Path], None], said: str
) -> None:
    before = told(centre.load(1))
    damage(bundle)
    with pytest.raises(LeadlineError, match=said) as refused:
        take_block(centre, bundle)
    assert not isinstance(refused.value, TrialFailure), "which would be the lab's own disk"
    assert "\n" not in str(refused.value)
    assert told(centre.load(1)) == before


@pytest.mark.parametrize(
    "name", ["/etc/hostname", "../x", "trials/2/../../x", "trials/2/attempt-2", "trials/2/attempt-9/x"]
)
def test_a_file_that_is_none_of_its_trials_is_not_taken(centre: Store, bundle: Path, name: str) -> None:
    files = json.loads((bundle / "manifest.json").read_text())["files"]
    manifest(files={**files, name: "0" * 64})(bundle)
    with pytest.raises(LeadlineError, match=r"is no file of its trials|is no path below|is no file in it"):
        take_block(centre, bundle)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (damage_rows, r"rows.json is damaged: its digest is not the one in manifest.json"),
        (damage_file, r"server.log is damaged: its digest"),
        (lose_file, r"is damaged: trials/3/attempt-1/logs/server.log is no file in it"),
        (
            rows(lambda told: told["tables"]["steps"][-1].update({"surplus": 1})),
            r"is damaged: steps has no column 'surplus'",
        ),
        (lose_manifest, r"is no bundle: manifest.json is not there"),
        (manifest(format=9), r"format 9, this leadline reads format 1"),
        (manifest(token="x"), r"no block of the lab .* was given out with its token"),
        (manifest(plan="x"), r"it has another plan than study 1"),
        (manifest(block=0), r"it has another plan than study 1"),
    ],
)
def test_what_is_not_whole_is_not_taken(centre: Store, bundle: Path, damage: Callable[[Path], None], said: str) -> None:
    before = told(centre.load(1))
    damage(bundle)
    with pytest.raises(LeadlineError, match=said):
        take_block(centre, bundle)
    assert told(centre.load(1)) == before


def lab(*words: str) -> str:
    done = CliRunner().invoke(app, ["lab", *words], catch_exceptions=True)
    return done.output if done.exit_code == 0 else f"{done.exit_code}: {done.exception}"


def test_labs_are_merged_as_often_as_wanted(place: Place) -> None:
    one, team = place("one"), place("team")
    store = Store(one)
    run_block(store, add(store), 0, 100.0)
    add(Store(team))  # numbers differ
    assert lab("merge", str(one), "--lab", str(team)) == "away@1: copied as away@2\n"
    assert lab("merge", str(one), "--lab", str(team)) == "away@1: is there as away@2\n"
    assert told(Store(team).load(2)) == told(store.load(1))
    run_block(store, 1, 1, 100.0)  # it went on
    assert lab("copy", "away", "--lab", str(one), "--to", str(team)) == "away@1: copied as away@2\n"
    assert told(Store(team).load(2)) == told(store.load(1))
    assert [len(record.trials) for record in Store(team).studies()] == [4, 4]
    assert lab("merge", str(team), "--lab", str(place("new")), "--json")
    assert told(Store(place("new")).load(2)) == told(store.load(1))


def test_a_study_that_went_on_in_both_labs_is_refused(place: Place) -> None:
    one, two = Store(place("one")), place("two")
    run_block(one, add(one), 0, 100.0)
    lab("merge", str(one.directory), "--lab", str(two))
    run_block(one, 1, 1, 100.0)
    run_block(Store(two), 1, 1, 200.0)
    before = told(Store(two).load(1))
    assert "away@1 of the lab" in (said := lab("merge", str(one.directory), "--lab", str(two))), said
    assert "went on in both labs" in said
    assert told(Store(two).load(1)) == before
    assert "name another one" in lab("merge", str(two), "--lab", str(two))


def test_a_copy_that_was_cut_off_is_made_whole(place: Place) -> None:
    one, two = Store(place("one")), place("two")
    run_block(one, add(one), 0, 100.0)
    lab("merge", str(one.directory), "--lab", str(two))
    with Store(two).transaction() as connection:  # as before its last transaction
        for table in ("attempts", "steps", "responses", "audits", "readings", "artefacts", "blocks"):
            connection.execute(text(f"DELETE FROM {table}"))
        connection.execute(text("UPDATE trials SET state = 'planned', attempt = 0, directory = NULL, started = NULL"))
    assert lab("merge", str(one.directory), "--lab", str(two)) == "away@1: copied as away@1\n"
    assert told(Store(two).load(1)) == told(one.load(1))
