"""Jobs of a pool: what is refused, and what a job leaves."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from leadline.host.lease import Lease
from leadline.host.local import LocalHost
from leadline.lab.claims import Claim
from leadline.lab.store import Store
from leadline.lab.studyfile import StudyFile, parse_study
from leadline.lab.takein import take_block
from leadline.lab.testbed import LocalTestbed, Testbed
from leadline.model.errors import UsageError
from leadline.model.record import TrialState
from leadline.pool.facts import facts_of
from leadline.pool.job import BUNDLE, Ending, How, Job, job_of, look_at, read_ending, read_job, run_job
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
    return place.store, claim, job_of(FILE, plan, 1, positions, claim.token)


def test_a_block_that_ran_elsewhere_is_taken_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    centre, claim, job = of_block(tmp_path / "centre")
    target = tmp_path / "job"
    target.mkdir()
    told = read_job(json.dumps(asdict(job)))
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


def test_a_look_makes_the_plan_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    _, _, job = of_block(tmp_path / "centre")

    def here(lab: Path, _file: StudyFile) -> Testbed:
        return LocalTestbed(lab)

    def simulated(lab: Path, _file: StudyFile) -> Testbed:
        return SimulatedTestbed(Truth(), lab)

    assert look_at(job, "n3", simulated) == Ending(How.READY, "n3")
    other = replace(job, plan=job.plan.replace("vm.swappiness", "vm.dirty_ratio"))
    assert look_at(other, "n3", simulated) == Ending(
        How.REFUSED, "n3", "n3 cannot run the plan: vm.dirty_ratio cannot be had as planned"
    )
    monkeypatch.setattr(LocalHost, "writable", lambda _host, _name: "")
    root = tmp_path / "root"  # its lease is nobody else's
    monkeypatch.setattr(LocalHost, "lease", lambda _host: Lease(root))
    assert look_at(job, "n3", here).how is How.READY
    with Lease(root):
        busy = look_at(job, "n3", here)
    assert busy.how is How.BUSY
    assert "this host is in use by pid" in busy.said
    assert not (tmp_path / "state" / "pool").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"leadline": "9.9"}, "the study is run by leadline 9.9"),
        ({"blocks": 3}, "no job of a pool"),
    ],
)
def test_what_is_no_job_of_this_leadline(tmp_path: Path, change: dict[str, object], message: str) -> None:
    _, _, job = of_block(tmp_path / "centre")
    told = asdict(job) | change
    with pytest.raises(UsageError, match=message):
        read_job(json.dumps(told))
    with pytest.raises(UsageError, match="no job of a pool"):
        read_job("{")
