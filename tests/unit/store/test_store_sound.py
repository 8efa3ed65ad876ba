"""What goes into the lab's database is checked before it is written and after it is read."""

import lzma
import math
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import inspect, select, text

from leadline.design.make import make_plan
from leadline.experiments.results import analysis_of
from leadline.model.design import Design
from leadline.model.errors import LeadlineError, TrialFailure
from leadline.model.plan import Factor
from leadline.model.study import Study
from leadline.store import schema as t
from leadline.store.lab import Store

OF_0_1_0 = Path(__file__).with_name("lab-0.1.0.sql.xz")


@pytest.fixture
def store(place: Callable[[str], Path]) -> Store:
    study = Study.model_validate({"study": "sound", "question": "?", "factors": {"vm.swappiness": [1, 2]}})
    kept = Store(place("lab"))
    kept.add_study(study, "study: sound", make_plan([Factor("vm.swappiness", (1, 2), 1)], Design(replicates=2)), {}, [])
    return kept


def altered(store: Store, statement: str) -> None:
    with store.transaction() as connection:
        connection.execute(text(statement))


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.083])
def test_a_response_that_cannot_be_is_not_stored(store: Store, value: float) -> None:
    trial = store.load(1).trials[0]
    attempt, _ = store.begin_attempt(trial.id, trial.planned.block)
    with pytest.raises(TrialFailure, match=f"p99 is {value}"):
        store.add_responses(trial.id, attempt, {"throughput": 1.0, "p99": value})
    assert not store.load(1).trials[0].responses


def test_what_is_not_there_cannot_be_ended(store: Store) -> None:
    trial = store.load(1).trials[0]
    attempt, _ = store.begin_attempt(trial.id, trial.planned.block)
    with pytest.raises(LeadlineError, match="0 rows of steps"):
        store.end_step(99)
    with pytest.raises(LeadlineError, match="0 rows of attempts"):
        store.finish(trial.id, attempt + 1)
    assert store.load(1).trials[0].state == "running"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE trials SET state = 'failed' WHERE id = 1", "it is failed, its failure none"),
        ("UPDATE trials SET state = 'done' WHERE id = 1", "it is done and was never begun"),
        ("DELETE FROM trials WHERE id = 2", "it has 3 trials, its plan 4"),
        ("UPDATE trials SET failure = 'workload' WHERE id = 1", "it is planned, its failure workload"),
    ],
)
def test_a_lab_that_contradicts_itself_is_told(store: Store, statement: str, said: str) -> None:
    altered(store, statement)
    with pytest.raises(LeadlineError, match=f"study 1 of the lab .* is damaged: .*{said}"):
        store.load(1)


def test_an_interim_analysis_has_the_same_observations_without_the_evidence(store: Store) -> None:
    trial = store.load(1).trials[0]
    attempt, _ = store.begin_attempt(trial.id, trial.planned.block)
    store.end_step(store.begin_step(trial.id, attempt, "load"))
    store.add_responses(trial.id, attempt, {"throughput": 1.0})
    store.finish(trial.id, attempt)
    whole, lean = store.load(1), store.load(1, evidence=False)
    assert whole.trials[0].steps
    assert not lean.trials[0].steps
    assert lean.observations() == whole.observations()
    assert [(one.study, one.trials, one.done, one.failed) for one in store.counts()] == [("sound", 4, 1, 0)]


OPENERS = 8


def test_a_new_lab_is_opened_by_several_at_once(place: Callable[[str], Path]) -> None:
    for attempt in range(4):
        together = Barrier(OPENERS)
        lab = place(str(attempt))

        def opened(lab: Path = lab, together: Barrier = together) -> int:
            together.wait()
            return len(Store(lab).studies())

        with ThreadPoolExecutor(OPENERS) as pool:
            found = [pool.submit(opened) for _ in range(OPENERS)]
        assert [each.result() for each in found] == [0] * OPENERS


def test_a_lab_of_before_files_were_kept_by_content_gets_a_name_and_indexes(place: Callable[[str], Path]) -> None:
    store = Store(place("old"))
    with store.transaction() as connection:
        for index in (*t.artefacts.indexes, t.running_trials):
            index.drop(connection)
        t.identity.drop(connection)
        connection.execute(t.migrations.delete().where(t.migrations.c.number > 1))
    again = Store(store.directory)
    assert len(again.identity) == 32
    assert Store(store.directory).identity == again.identity
    with again.transaction() as connection:
        known = {index["name"] for name in ("artefacts", "trials") for index in inspect(connection).get_indexes(name)}
    assert {"artefacts_by_trial", "artefacts_by_content", "running_trials"} <= known


def test_a_lab_of_0_1_0_is_migrated_and_gives_the_same_figures(tmp_path: Path) -> None:
    """Rows as a run of 0.1.0 left them, from before migrations were numbered; of two studies only the plan."""
    directory = tmp_path / "lab"
    directory.mkdir()
    with closing(sqlite3.connect(directory / "lab.sqlite")) as connection:
        connection.executescript(lzma.decompress(OF_0_1_0.read_bytes()).decode())
    store = Store(directory)
    with store.transaction() as connection:
        assert list(connection.execute(select(t.studies.c.version)).scalars()) == ["0.1.0"] * 3
        assert list(connection.execute(select(t.migrations.c.number)).scalars()) == [1, 2, 3]
    effect = analysis_of(store.load(1)).responses[0].effects[0]
    assert (effect.factor, effect.level, round(effect.percent or 0)) == ("jvm.heap", 512 << 20, 2058)
    with pytest.raises(LeadlineError, match=r"study 2 .* racing was removed in 0\.2\.0: write one-at-a-time"):
        store.load(2)
    with pytest.raises(LeadlineError, match=r"study 3 .* duet was removed in 0\.2\.0: write rotation"):
        store.load(3)
