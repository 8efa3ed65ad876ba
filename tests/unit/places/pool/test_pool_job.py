"""Jobs of a pool: what is refused, and what a job leaves."""

import json
import platform
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from leadline.checks.files.study import StudyFile, parse_study
from leadline.host.lease import Lease
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.record import TrialState
from leadline.places.pool.base import BootedHost, Partition, SshHosts, read_pool
from leadline.places.pool.job import BUNDLE, Ending, EndKind, PoolJob, job_of, look_at, read_ending, read_job, run_job
from leadline.places.pool.run import facts_of
from leadline.places.simulated import SimulatedTestbed
from leadline.places.simulated.model import Truth
from leadline.places.testbed import LocalTestbed, Testbed
from leadline.store.bundle import take_block
from leadline.store.claims import Claim
from leadline.store.lab import Store

TEXT = """
study: away
question: Does it run elsewhere?
workload: { users: 4, ramp_up: 1s, steady: 5s, ramp_down: 0s }
factors: { vm.swappiness: [60, 1] }
design: { replicates: 3, sentinels: null }
"""
FILE = parse_study(TEXT, "away.yaml")


def of_block(lab: Path) -> tuple[Store, Claim, PoolJob]:
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
    assert ending.how is EndKind.DONE
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
    assert ending.how is EndKind.REFUSED
    assert ending.said == "n3 cannot run the plan: vm.dirty_ratio cannot be had as planned"
    assert not (tmp_path / BUNDLE).exists()


def test_a_look_makes_the_plan_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    _, _, job = of_block(tmp_path / "centre")

    def here(lab: Path, _file: StudyFile) -> Testbed:
        return LocalTestbed(lab)

    def simulated(lab: Path, _file: StudyFile) -> Testbed:
        return SimulatedTestbed(Truth(), lab)

    assert look_at(job, "n3", simulated) == Ending(EndKind.READY, "n3")
    other = replace(job, plan=job.plan.replace("vm.swappiness", "vm.dirty_ratio"))
    assert look_at(other, "n3", simulated) == Ending(
        EndKind.REFUSED, "n3", "n3 cannot run the plan: vm.dirty_ratio cannot be had as planned"
    )
    monkeypatch.setattr(LocalHost, "writable", lambda _host, _name: "")
    root = tmp_path / "root"  # its lease is nobody else's
    monkeypatch.setattr(LocalHost, "lease", lambda _host: Lease(root))
    assert look_at(job, "n3", here).how is EndKind.READY
    with Lease(root):
        busy = look_at(job, "n3", here)
    assert busy.how is EndKind.BUSY
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


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BootedHost:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path))
    return BootedHost([platform.release(), "1.0-never"])


def test_the_kernel_that_runs_is_read_back(host: BootedHost) -> None:
    host.apply({"kernel.release": platform.release()})
    assert host.read_back("kernel.release") == platform.release()
    assert host.writable("kernel.release") == ""


def test_another_kernel_is_a_failure_of_the_host(host: BootedHost) -> None:
    with pytest.raises(TrialFailure, match=r"runs kernel .*, the job asked its pool for 1\.0-never") as failed:
        host.apply({"kernel.release": "1.0-never"})
    assert failed.value.failure_class is FailureClass.INFRASTRUCTURE
    assert host.read_back("kernel.release") == platform.release()


def test_slurm_with_and_without_a_partition() -> None:
    assert read_pool("slurm") == Partition()
    assert read_pool("slurm:fast") == Partition(partition="fast")


def test_a_file_for_slurm(tmp_path: Path) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text("partition: fast\nleadline: /opt/leadline\noptions: [--time=60]\n")
    assert read_pool(f"slurm:{file}") == Partition(partition="fast", leadline="/opt/leadline", options=("--time=60",))


def test_hosts_over_ssh(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text("hosts: [a, root@b:2222, 'ssh+sudo:c']\n")
    found = read_pool(f"ssh:{file}")
    assert isinstance(found, SshHosts)
    assert [(each.words, each.sudo) for each in found.machines] == [
        (["a"], False),
        (["-p", "2222", "root@b"], False),
        (["c"], True),
    ]


@pytest.mark.parametrize(
    ("word", "text", "message"),
    [
        ("slrum", "", "--pool 'slrum': there is no such kind of pool; did you mean slurm?"),
        ("k8s", "", "--pool 'k8s': there is no such kind of pool; write slurm, slurm:PARTITION, "),
        ("slurm:", "", "names no partition; write slurm for the usual one"),
        ("ssh", "", "names no file of hosts; write ssh:hosts.yaml"),
        ("ssh:{file}", "hosts: []\n", "{file}:1: hosts: it is empty"),
        ("ssh:{file}", "hosts:\n  - a\n  - b c\n", "{file}:3: 'ssh:b c': 'b c' is no host; write an alias"),
        ("ssh:{file}", "hosts:\n  - a\n  - a\n", "{file}:3: 'a' is there twice: a host runs one block at a time"),
        ("ssh:{file}", "hosts: [a]\nleadlin: x\n", "{file}:2: unknown key 'leadlin'; did you mean leadline?"),
        ("slurm:{file}", "partition: 7\n", "{file}:1: partition: a text is wanted"),
        (
            "slurm:{file}",
            "kernels: {6.1.0: a}\noptions:\n  - -Cb\n",
            "{file}:3: '-Cb' and `kernels` are two constraints",
        ),
        ("ssh:{file}", "- a\n", "{file}:1: no hosts file"),
    ],
)
def test_what_is_no_pool(tmp_path: Path, word: str, text: str, message: str) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text(text)
    with pytest.raises(UsageError) as refused:
        read_pool(word.format(file=file))
    assert message.format(file=file) in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.yaml"):
        read_pool(f"ssh:{tmp_path / 'absent.yaml'}")
