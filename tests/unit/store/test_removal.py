"""``lab du``, ``rm``, ``prune``: what is removed, what is refused, what stays."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from sqlalchemy import insert, text
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.design.make import make_plan
from leadline.host.journal import UndoJournal
from leadline.model.design import Design
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.plan import Factor
from leadline.model.study import Study
from leadline.store import schema as t
from leadline.store.bundle import copy_study
from leadline.store.claims import LEASE, in_use
from leadline.store.lab import Store
from leadline.store.labfile import services_of
from leadline.store.removal import find, remove, to_prune, usage


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def add(store: Store, name: str, size: int, whole: bool = True) -> int:
    """A study of four trials with files of ``size`` bytes in each; one trial is left unless ``whole``."""
    study = Study.model_validate({"study": name, "question": "?", "factors": {"vm.swappiness": [1, 2]}})
    plan = make_plan([Factor("vm.swappiness", (1, 2), 1)], Design(replicates=2))
    number = store.add_study(study, f"study: {name}", plan, {}, [])
    for trial in store.load(number).trials[: None if whole else -1]:
        attempt, directory = store.begin_attempt(trial.id, trial.planned.block)
        (directory / "raw" / "data").write_bytes(b"x" * size)
        store.begin_step(trial.id, attempt, "load")
        store.add_responses(trial.id, attempt, {"throughput": 1.0})
        store.finish(trial.id, attempt)
    report = store.directory / "reports" / f"{name}-{number}"
    report.mkdir(parents=True)
    (report / "report.html").write_text("page")
    (services_of(store.directory) / name).mkdir(parents=True, exist_ok=True)
    return number


@pytest.fixture
def store(place: Callable[[str], Path], clock: Clock) -> Store:
    """Three studies: ``old`` 30 days before ``left``, which is unfinished, and ``new``."""
    store = Store(place("lab"), now=clock)
    add(store, "old", 100_000)
    clock.now += 30 * 86400
    add(store, "left", 200_000, whole=False)
    add(store, "new", 300_000)
    return store


def files(store: Store) -> set[str]:
    return {str(path.relative_to(store.directory)) for path in store.directory.rglob("*") if path.is_file()}


def rows(store: Store) -> dict[str, int]:
    with store.transaction() as connection:
        tables = [table.name for table in t.metadata.sorted_tables]
        found = {name: connection.execute(text(f"SELECT count(*) FROM {name}")).scalar_one() for name in tables}
    return {name: count for name, count in found.items() if count}


def lab(store: Store, *words: str) -> Result:
    return CliRunner().invoke(app, ["lab", *words, "--lab", str(store.directory)])


def test_sizes_are_told_by_study(store: Store) -> None:
    document = json.loads(lab(store, "du", "--json").stdout)
    told = {one["name"]: one for one in document["studies"]}
    assert [told[name]["state"] for name in ("old@1", "left@2", "new@3")] == ["finished", "unfinished", "finished"]
    assert told["new@3"]["bytes"] > 4 * 300_000 > told["old@1"]["bytes"] > 4 * 100_000
    assert document["total"] >= sum(one["bytes"] for one in told.values()) + document["database"]
    assert "new@3" in lab(store, "du").stdout


def test_only_what_was_named_is_removed(store: Store) -> None:
    before, counts = files(store), rows(store)
    refused = lab(store, "rm", "old")
    assert "add --yes" in str(refused.exception)
    assert "old@1, 4 trials, finished" in refused.stdout
    assert (files(store), rows(store)) == (before, counts)
    done = lab(store, "rm", "old", "--yes")
    assert done.exit_code == 0, done.output
    gone = {path for path in before if path.startswith(tuple(f"trials/{n}/" for n in range(1, 5)))}
    assert before - files(store) == gone | {"reports/old-1/report.html"}
    assert not (services_of(store.directory) / "old").exists()
    assert (services_of(store.directory) / "new").exists()
    left = rows(store)
    assert {name: counts[name] - left.get(name, 0) for name in counts} == {
        "studies": 1,
        "trials": 4,
        "attempts": 4,
        "blocks": 2,
        "steps": 4,
        "responses": 4,
        "migrations": 0,
        "identity": 0,
    }
    assert [record.study.study for record in store.studies()] == ["left", "new"]
    assert "no study 'old'" in str(lab(store, "rm", "old", "--yes").exception)


def test_a_running_study_is_refused_until_its_process_ends(store: Store) -> None:
    hold = (
        "import sys\nfrom pathlib import Path\nfrom leadline.store.claims import in_use\n"
        "with in_use(Path(sys.argv[1]), 'study-3'):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    argv = [sys.executable, "-c", hold, str(store.directory)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        held = find(store, "new")
        assert held.running
        before = files(store)
        assert "new@3 is running" in str(lab(store, "rm", "old", "new", "--yes").exception)
        with pytest.raises(LeadlineError, match=r"study 3 of the lab .* is in use by another leadline"):
            remove(store, held)
        assert held not in to_prune(usage(store).held, before=1e12, most=0)
        assert files(store) == before
        other.kill()
    assert not find(store, "new").running
    assert lab(store, "rm", "new", "--yes").exit_code == 0


def test_a_study_that_another_machine_runs_is_refused_for_as_long_as_its_lease(store: Store, clock: Clock) -> None:
    other = Store(store.directory, now=clock, owner="other machine")
    trial = other.load(2).trials[-1]
    other.begin_attempt(trial.id, trial.planned.block)
    held = find(store, "left")
    assert held.running
    with pytest.raises(LeadlineError, match=r"study 2 of the lab .* is run by other machine now"):
        remove(store, held)
    with pytest.raises(LeadlineError, match=r"study 2 of the lab .* is run by other machine now"):
        copy_study(store, 2, Store(store.directory.parent / "copy"))
    assert not find(other, "left").running, "locks tell of its own runs"
    clock.now += LEASE + 1
    assert not find(store, "left").running
    assert remove(store, find(store, "left")) > 3 * 200_000


def test_a_run_holds_its_study(store: Store) -> None:
    with in_use(store.directory, "services-old", shared=True), in_use(store.directory, "study-2"):
        assert find(store, "left").running
        remove(store, find(store, "old"))  # whose services a run of that name is about to use
    assert (services_of(store.directory) / "old").is_dir()
    assert not (store.directory / "trials" / "1").exists()


def test_what_the_undo_journal_needs_stays(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    journal = UndoJournal(tmp_path / "state" / "undo" / "local.jsonl")
    entry = journal.record_process("driver", ["load"], "token", store.directory / "trials" / "1" / "attempt-1")
    with pytest.raises(LeadlineError, match=r"trials/1 is needed to put this host back: run `leadline restore` first"):
        remove(store, find(store, "old"))
    remove(store, find(store, "new"))  # trials/10, which only begins like trials/1
    assert (store.directory / "trials" / "1" / "attempt-1" / "raw" / "data").exists()
    journal.done(entry)
    assert remove(store, find(store, "old")) > 400_000


def test_pruning_takes_finished_studies_by_age_and_size(store: Store, clock: Clock) -> None:
    held = usage(store).held
    assert [one.name for one in to_prune(held, before=clock.now - 86400, most=None)] == ["old@1"]
    assert [one.name for one in to_prune(held, before=None, most=10**9)] == []
    assert [one.name for one in to_prune(held, before=None, most=0)] == ["old@1", "new@3"]
    all_but_one = sum(one.size for one in held) - 1
    assert [one.name for one in to_prune(held, before=None, most=all_but_one)] == ["old@1"]
    done = lab(store, "prune", "--to-size", "0", "--yes")
    assert done.exit_code == 0, done.output
    assert "running or unfinished, so kept: left@2" in done.stdout
    assert [record.study.study for record in store.studies()] == ["left"]
    for words, message in (
        (("prune",), "needs --older-than"),
        (("prune", "--older-than", "30 moons"), "--older-than: '30 moons' is not a duration such as 20s"),
        (("prune", "--to-size", "big"), "--to-size: 'big' is not a size such as 512m"),
    ):
        assert message in str(lab(store, *words).exception)


def test_a_tuning_goes_as_a_whole(store: Store) -> None:
    with store.transaction() as connection:
        told = {"id": 1, "name": "both", "key": "k", "tuning": "{}", "document": "", "left_out": "{}"}
        told |= {"passed_over": "[]", "created": 1.0, "finished": 2.0, "version": "1"}
        connection.execute(insert(t.tunings).values(**told))
        parts = [{"tuning_id": 1, "part": name, "study_id": n} for name, n in (("a", 1), ("b", 3))]
        connection.execute(insert(t.tuning_parts), parts)
    with pytest.raises(UsageError, match="study old@1 is part of tuning both@1: remove that"):
        find(store, "old@1")
    assert find(store, "both").studies == (1, 3)
    assert lab(store, "rm", "both@1", "--yes").exit_code == 0
    assert {"tunings", "tuning_parts"}.isdisjoint(rows(store))
    assert [record.study.study for record in store.studies()] == ["left"]
