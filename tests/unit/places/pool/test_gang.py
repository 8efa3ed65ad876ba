"""Studies whose services have hosts of their own, over a pool: which role is on which host, and which is to blame."""

from pathlib import Path

import pytest

from leadline.checks.files.study import StudyFile, parse_study
from leadline.model.errors import UsageError
from leadline.places.pool.base import HostState, Looked, Partition, PoolHost, SshHosts, without_hosts
from leadline.places.pool.job import blamed, hosts_of, name_of, placed, roles
from leadline.places.pool.slurm import SlurmPool
from leadline.places.pool.ssh import SshPool
from leadline.places.pool.testbed import PoolTestbed


def study(stack: str, more: str = "") -> StudyFile:
    factors = "factors: { vm.swappiness: [60, 1] }"
    text = f"study: spread\nquestion: '?'\nstack: {stack}\nworkload: {{ users: 4 }}\n{factors}\n{more}"
    return parse_study(text, "spread.yaml")


ONE = "{ server: tomcat, host: 'ssh:root@app:2222' }"
TWO = "{ server: tomcat, hosts: { application: 'ssh+sudo:app', database: 'ssh:db' } }"
ALL = (
    "{ app: dealership, server: tomcat, hosts: { supplier: 'ssh:sup:2222', database: 'ssh:db', application: 'ssh:app',"
    " web: 'ssh:me@web' } }"
)
PAIR = "{ server: tomcat, hosts: { web: 'ssh:front', application: 'ssh:app', database: 'ssh:front' } }"
FRONT = "{ server: tomcat, hosts: { web: 'ssh:front', application: 'ssh:app' } }"
SAME = "{ server: tomcat, hosts: { application: 'ssh:app', database: 'ssh:app' } }"


@pytest.mark.parametrize(
    ("stack", "wanted", "hosts", "placed_hosts"),
    [
        (ONE, ["driver", "application and database"], ["n1", "n2"], {"application": "ssh:root@n2:2222"}),
        (SAME, ["driver", "application and database"], ["n1", "n2"], {"application": "ssh:n2"}),
        (
            TWO,
            ["driver", "application", "database"],
            ["n1", "n4", "n7"],
            {"application": "ssh+sudo:n4", "database": "ssh:n7"},
        ),
        (
            FRONT,
            ["driver", "web", "application and database"],
            ["n1", "n2", "n3"],
            {"web": "ssh:n2", "application": "ssh:n3"},
        ),
        (
            PAIR,
            ["driver", "web and database", "application"],
            ["n1", "n2", "n3"],
            {"web": "ssh:n2", "application": "ssh:n3", "database": "ssh:n2"},
        ),
        (
            ALL,
            ["driver", "web", "application", "database", "supplier"],
            ["n1", "n2", "n3", "n4", "n5"],
            {"web": "ssh:me@n2", "application": "ssh:n3", "database": "ssh:n4", "supplier": "ssh:n5:2222"},
        ),
    ],
)
def test_names_of_the_study_stand_for_hosts_of_the_pool(
    stack: str, wanted: list[str], hosts: list[str], placed_hosts: dict[str, str]
) -> None:
    file = study(stack)
    assert roles(file.study) == wanted
    there = placed(file.study, hosts).stack.ssh_hosts
    assert {role: str(host) for role, host in there.items()} == placed_hosts
    assert list(there) == list(placed_hosts)
    with pytest.raises(UsageError, match=f"the job has 1 hosts .*, its roles are {', '.join(wanted)}"):
        placed(file.study, ["n1"])


DRIVERS = "drivers: [local, { via: ssh me@one, processes: 2, cpus: 0-1 }, { name: b, via: ssh -q two }]\n"


def test_drivers_have_hosts_of_the_gang() -> None:
    file = study(TWO, DRIVERS)
    assert roles(file.study) == ["driver", "driver one and driver one-2", "driver b", "application", "database"]
    there = placed(file.study, ["n1", "n2", "n3", "n4", "n5"])
    assert [(driver.name, driver.via, driver.server) for driver in there.drivers] == [
        ("local", "local", None),
        ("one", "ssh me@n2", None),
        ("one-2", "ssh me@n2", None),
        ("b", "ssh -q n3", None),
    ]
    assert {role: str(host) for role, host in there.stack.ssh_hosts.items()} == {
        "application": "ssh+sudo:n4",
        "database": "ssh:n5",
    }


@pytest.mark.parametrize(
    ("drivers", "first"),
    [("[local, ssh two]", "driver and services"), ("[ssh two]", "services")],
)
def test_drivers_elsewhere_find_the_services_on_the_first_host(drivers: str, first: str) -> None:
    file = study("{ server: tomcat }", f"drivers: {drivers}\n")
    assert roles(file.study) == [first, "driver two"]
    far = placed(file.study, ["n1", "n2"]).drivers[-1]
    assert (far.name, far.via, far.server) == ("two", "ssh n2", "n1")


def test_drivers_of_which_none_is_here() -> None:
    assert roles(study(ONE, "drivers: [ssh two]\n").study) == ["leadline", "driver two", "application and database"]
    shared = study(SAME, "drivers: [local, ssh me@app]\n").study
    assert roles(shared) == ["driver", "driver app and application and database"]
    assert roles(study("{ server: tomcat }", "drivers: [{ via: local, processes: 2 }]\n").study) == ["driver"]


def test_a_study_on_one_host_stays_as_it_is() -> None:
    file = study("{ server: tomcat }")
    assert roles(file.study) == ["driver"]
    assert placed(file.study, ["n1"]) is file.study


def test_the_host_that_a_reason_names_is_to_blame() -> None:
    gang = name_of(["n1", "n2", "n12"])
    assert blamed(gang, "ssh:root@n2: cannot be reached") == ["n2"]
    assert blamed(gang, "ssh+sudo:n12: sudo there does not work") == ["n12"]
    assert blamed(gang, "ssh:n1.other: cannot be reached") == []
    assert blamed(gang, "driver a (ssh me@n2): cannot be reached") == ["n2"]
    assert blamed(gang, "driver a (ssh -p 22 n12): cannot be reached") == ["n12"]
    assert blamed(gang, "driver n1 (ssh other): it ended") == []
    assert hosts_of(gang) == ["n1", "n2", "n12"]


def test_what_a_pool_cannot_give_a_gang(tmp_path: Path) -> None:
    listed = SshPool(SshHosts(hosts=("a", "b", "c")), "ssh:hosts.yaml")
    with pytest.raises(UsageError, match=r"a list of hosts gives each block one; Slurm gives several"):
        PoolTestbed(tmp_path / "lab", listed).plan(study(TWO))
    slurm = SlurmPool(Partition(kernels={"6.1": "k61"}))
    settings = "settings: { kernel.release: '6.1' }\n"
    with pytest.raises(UsageError, match=r"^spread\.yaml:6: a pool boots kernels for studies on one host"):
        PoolTestbed(tmp_path / "lab", slurm).plan(study(TWO, settings))
    rotation = "design: { rotation: { instances: 2 } }\n"
    with pytest.raises(UsageError, match=r"^spread\.yaml:6: no instances stand side by side on a host over SSH"):
        PoolTestbed(tmp_path / "lab", slurm).plan(study(TWO, rotation))


def test_a_pool_with_too_few_hosts_says_how_many_a_block_needs() -> None:
    hosts = [PoolHost("n1", HostState.FREE), PoolHost("n2", HostState.DOWN, "Not responding")]
    assert without_hosts("slurm", hosts, 3) == (
        "a block needs 3 hosts of slurm at the same time, and only n1 can; n2 is down: Not responding"
    )


def test_a_dry_run_says_what_each_block_asks_for() -> None:
    hosts = [PoolHost(name, HostState.FREE) for name in ("n1", "n2", "n3", "n4")]
    looked = Looked("slurm", hosts, 1, ["driver", "application", "database"])
    assert looked.lines()[-1] == "each block asks for 3 hosts at the same time: driver, application, database"
    assert looked.over == "1 gang of 3 hosts"
    assert Looked("slurm", hosts, 4).over == "4 hosts"
