"""Jobs of a pool: what is refused, and what a job leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from leadline.design import plan_to_json
from leadline.lab.claims import Claim
from leadline.lab.store import Store
from leadline.lab.studyfile import parse_study
from leadline.lab.takein import take_block
from leadline.model.errors import UsageError
from leadline.model.record import TrialState
from leadline.pool.facts import facts_of
from leadline.pool.job import BUNDLE, How, Job, read_ending, read_job, run_job
from leadline.simulate import SimulatedTestbed
from leadline.simulate.truth import Truth

TEXT = """
study: away
question: Does it run elsewhere?
workload: { users: 4, ramp_up: 1s, steady: 5s, ramp_down: 0s }
factors: { vm.swappiness: [60, 1] }
design: { replicates: 3, sentinels: null }
"""
FILE = parse_study(TEXT, "away.yaml")


def of_block(lab: Path) -> tuple[Store, Claim, Job]:
    """The second block of a study of the centre, claimed, as a job."""
    place = SimulatedTestbed(Truth(), lab)
    plan = place.plan(FILE).plan
    study = place.store.add_study(FILE.study, TEXT, plan, {"leadline": "0"}, [])
    positions = [trial.position for trial in plan.trials if trial.block == 1]
    claim = place.store.claims.take(study, 1, left=positions)
    assert claim is not None
    told = FILE.study.model_dump(mode="json", exclude_unset=True)
    return place.store, claim, Job(told, TEXT, plan_to_json(plan), 1, positions, claim.token)


def test_a_block_that_ran_elsewhere_is_taken_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    centre, claim, job = of_block(tmp_path / "centre")
    target = tmp_path / "job"
    target.mkdir()
    job.write(target / "job.json")
    told = read_job((target / "job.json").read_text())
    assert told == replace(job, positions=list(job.positions))
    ending = run_job(told, "n3", lambda lab, _file: SimulatedTestbed(Truth(), lab), target)
    assert ending.how is How.DONE
    assert read_ending(target) == ending
    assert take_block(centre, target / BUNDLE) == len(job.positions)
    record = centre.load(claim.study_id)
    assert {trial.planned.position for trial in record.trials if trial.state is TrialState.DONE} == set(job.positions)
    assert facts_of(record)["pool.hosts"] == "n3"
    assert list((tmp_path / "state" / "pool").glob("[!.]*")) == []  # the node keeps nothing


def test_a_job_that_was_given_up_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    _, _, job = of_block(tmp_path / "centre")
    with pytest.raises(Exception, match="was given up meanwhile"):
        run_job(job, "n3", lambda lab, _file: SimulatedTestbed(Truth(), lab), tmp_path / "gone")
    assert not (tmp_path / "gone").exists()


def test_a_host_that_cannot_run_the_plan_refuses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    _, _, job = of_block(tmp_path / "centre")
    other = job.plan.replace("vm.swappiness", "vm.dirty_ratio")
    ending = run_job(replace(job, plan=other), "n3", lambda lab, _: SimulatedTestbed(Truth(), lab), tmp_path)
    assert ending.how is How.REFUSED
    assert ending.said == "n3 cannot run the plan: vm.dirty_ratio cannot be had as planned"
    assert not (tmp_path / BUNDLE).exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"leadline": "9.9"}, "the study is run by leadline 9.9"),
        ({"blocks": 3}, "no job of a pool"),
    ],
)
def test_what_is_no_job_of_this_leadline(tmp_path: Path, change: dict[str, object], message: str) -> None:
    _, _, job = of_block(tmp_path / "centre")
    job.write(tmp_path / "job.json")
    told = json.loads((tmp_path / "job.json").read_text()) | change
    with pytest.raises(UsageError, match=message):
        read_job(json.dumps(told))
    with pytest.raises(UsageError, match="no job of a pool"):
        read_job("{")
