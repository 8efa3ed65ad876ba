"""What Slurm's programs say, read as the states of jobs and hosts. The programs here are fakes that print what real
ones printed (22.05); tests/stack/test_pool_slurm.py runs real ones.
"""

from pathlib import Path

import pytest

from leadline.checks.files.study import parse_study
from leadline.model.errors import LeadlineError, UsageError
from leadline.places.pool.base import HostState, JobState, JobStatus, Partition, PoolHost, PoolSilentError, Wish
from leadline.places.pool.slurm import SlurmPool
from leadline.places.pool.testbed import PoolTestbed


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def fake(folder: Path, name: str, says: str, code: int = 0) -> None:
    (folder / f"{name}.txt").write_text(says)
    program = folder / name
    program.write_text(
        f'#!/bin/sh\necho "$0 $*" >> {folder}/called\ncat > {folder}/{name}.in\ncat {folder}/{name}.txt\nexit {code}\n'
    )
    program.chmod(0o755)


def test_states_of_jobs(fakes: Path) -> None:
    fake(
        fakes,
        "squeue",
        "1|RUNNING|n1|None\n2|PENDING||Resources\n3|COMPLETED|n2|None\n4|NODE_FAIL|n3|None\n5|COMPLETING|n4|None\n"
        "6|PENDING||launch failed requeued held\n",
    )
    fake(fakes, "scancel", "")
    found = SlurmPool(Partition()).states(["1", "2", "3", "4", "5", "6", "7"])
    assert found == {
        "1": JobStatus(JobState.RUNNING, "n1"),
        "2": JobStatus(JobState.WAITING, "", "Resources"),
        "3": JobStatus(JobState.ENDED, "n2"),
        "4": JobStatus(JobState.LOST, "n3", "Slurm says NODE_FAIL"),
        "5": JobStatus(JobState.RUNNING, "n4"),
        "6": JobStatus(JobState.LOST, "", "launch failed requeued held"),
        "7": JobStatus(JobState.ENDED),
    }
    assert "scancel 6" in (fakes / "called").read_text()  # it would wait for ever


def test_states_of_hosts(fakes: Path) -> None:
    fake(fakes, "sinfo", "n1|idle|none\nn2|allocated*|none\nn3|drained|Epilog error\nn4|down*|Not responding\n")
    pool = SlurmPool(Partition(partition="fast"))
    assert pool.hosts() == [
        PoolHost("n1", HostState.FREE),
        PoolHost("n2", HostState.DOWN, "it does not answer"),
        PoolHost("n3", HostState.DRAINED, "Epilog error"),
        PoolHost("n4", HostState.DOWN, "Not responding"),
    ]
    assert (pool.room(0), pool.room(1), pool.room(2)) == (2, 1, 0)  # one runs, one waits for its end
    assert SlurmPool(Partition(kernels={"6.1": "k61"})).room(0) == 1  # nothing between the boots of a block
    pool.drain("n1", "it has no JDK 25")
    assert pool.hosts()[0] == PoolHost("n1", HostState.DRAINED, "it has no JDK 25")
    assert not pool.usable()
    assert "--partition=fast" in (fakes / "called").read_text()


def test_a_job_has_a_node_for_itself_and_is_never_requeued(fakes: Path) -> None:
    fake(fakes, "sbatch", "17;cluster\n")
    pool = SlurmPool(Partition(leadline="/opt/lead line", options=("--time=60",)))
    pool.drain("n3", "it is broken")
    assert pool.submit(fakes, "leadline-pools-1-b2", Wish()) == "17"
    called = (fakes / "called").read_text()
    for word in ("--exclusive", "--no-requeue", "--nodes=1", "--exclude=n3", "--time=60"):
        assert word in called
    assert f"exec '/opt/lead line' pool job {fakes}/job.json --as" in (fakes / "sbatch.in").read_text()


def test_a_job_of_a_gang_has_nodes_for_itself_and_says_which_was_lost(fakes: Path) -> None:
    fake(fakes, "sinfo", "n1|idle|none\nn2|down*|Not responding\nn3|idle|none\nn4|idle|none\nn5|idle|none\n")
    fake(fakes, "sbatch", "19\n")
    fake(fakes, "squeue", "19|NODE_FAIL|n[1-3]|None\n")
    pool = SlurmPool(Partition())
    pool.gather(3)
    assert (pool.room(0), pool.usable()) == (2, True)  # one of four nodes, and one that waits for its end
    assert pool.submit(fakes, "leadline-spread-1-b1", Wish()) == "19"
    assert "--nodes=3 --ntasks-per-node=1 --exclusive --no-requeue" in (fakes / "called").read_text()
    assert '--as "$(scontrol show hostnames "$SLURM_JOB_NODELIST"' in (fakes / "sbatch.in").read_text()
    lost = pool.states(["19"])["19"]
    assert lost == JobStatus(JobState.LOST, "n[1-3]", "Slurm says NODE_FAIL; n2 is down: Not responding")
    assert "--nodes=n[1-3]" in (fakes / "called").read_text()


def test_a_job_asks_for_its_kernel_on_the_host_of_the_one_before(fakes: Path) -> None:
    fake(fakes, "sbatch", "18\n")
    pool = SlurmPool(Partition(kernels={"6.1.0-30-amd64": "icelake&k61"}))
    assert pool.submit(fakes, "leadline-kernels-1-b1", Wish("6.1.0-30-amd64", "n3", "17")) == "18"
    called = (fakes / "called").read_text()
    for word in ("--constraint=icelake&k61", "--nodelist=n3", "--dependency=afterany:17"):
        assert word in called


def test_a_look_at_nodes_that_cannot_boot_a_kernel(fakes: Path) -> None:
    (fakes / "sinfo").write_text(
        "#!/bin/sh\ncase \"$*\" in\n*%f*) printf 'n1|k61,k612\\nn2|k61\\n';;\n"
        "*) printf 'n1|idle|none\\nn2|idle|none\\n';;\nesac\n"
    )
    (fakes / "sinfo").chmod(0o755)
    pool = SlurmPool(Partition(kernels={"6.1.0-30-amd64": "k61", "6.12.9-amd64": "k612"}))
    assert [host.state for host in pool.look({"kernels": ["6.1.0-30-amd64"]})] == [HostState.FREE] * 2
    assert pool.look({"kernels": ["6.1.0-30-amd64", "6.12.9-amd64"]}) == [
        PoolHost("n1", HostState.FREE),
        PoolHost("n2", HostState.DRAINED, "it has no feature k612, by which kernel 6.12.9-amd64 is asked for"),
    ]
    assert [host.state for host in pool.look({"kernels": []})] == [HostState.FREE] * 2


def test_what_slurm_refuses_is_told_in_its_words(fakes: Path) -> None:
    fake(fakes, "sbatch", "", 1)
    (fakes / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: invalid partition specified: fast' >&2\nexit 1\n")
    with pytest.raises(LeadlineError, match=r"--pool slurm:fast: sbatch: .*invalid partition specified: fast"):
        SlurmPool(Partition(partition="fast"), "slurm:fast").submit(fakes, "leadline-pools-1-b1", Wish())


def test_a_controller_that_is_away_is_no_end(fakes: Path) -> None:
    fake(fakes, "squeue", "", 1)
    with pytest.raises(PoolSilentError, match="--pool slurm: squeue: exit code 1"):
        SlurmPool(Partition()).states(["1"])


def test_the_plan_asks_the_pool_first(fakes: Path, tmp_path: Path) -> None:
    file = parse_study("study: away\nquestion: '?'\nfactors: { jvm.heap: [256m, 512m] }\n", "away.yaml")
    place = PoolTestbed(tmp_path / "lab", SlurmPool(Partition(), "slurm"))
    fake(fakes, "sinfo", "", 1)
    with pytest.raises(PoolSilentError, match="--pool slurm: sinfo: exit code 1"):
        place.plan(file)
    fake(fakes, "sinfo", "n1|drained|Epilog error\n")
    with pytest.raises(UsageError, match="no host of slurm can take a block: n1 is drained: Epilog error"):
        place.plan(file)


def test_a_kernel_needs_nodes_that_can_boot_it(fakes: Path, tmp_path: Path) -> None:
    fake(fakes, "sinfo", "n1|idle|none\n")
    factor = "kernel.release: [6.1.0-30-amd64, 6.12.9-amd64]"
    text = f"study: away\nquestion: '?'\nworkload: {{ users: 4 }}\nfactors:\n  {factor}\n"
    with pytest.raises(UsageError, match=r"^away\.yaml:5: slurm boots no kernels: write `kernels` in slurm:FILE\.yaml"):
        PoolTestbed(tmp_path / "lab", SlurmPool(Partition())).plan(parse_study(text, "away.yaml"))
    pool = SlurmPool(Partition(kernels={"6.1.0-30-amd64": "k61", "6.12.8-amd64": "k612"}))
    with pytest.raises(UsageError, match=r"6\.12\.9-amd64.*6\.12\.8-amd64"):
        PoolTestbed(tmp_path / "lab", pool).plan(parse_study(text, "away.yaml"))


def test_without_slurm(fakes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(fakes))
    with pytest.raises(UsageError, match="no program sinfo on the path; Slurm's clients are wanted here"):
        SlurmPool(Partition()).hosts()
