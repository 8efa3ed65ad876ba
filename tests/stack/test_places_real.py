"""Places of a real database's files: copied there, told by the server, brought back; gone after `kill -9`."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.request import urlopen

import pytest
from server_cells import stack
from witnesses import matrix, wait_for

from leadline.host.local import LocalHost
from leadline.host.procfs import mounts
from leadline.model.errors import TrialFailure
from leadline.model.knob import Level
from leadline.model.places import (
    DATA,
    DATABASE_MOUNT,
    DATABASE_TEMPORARY,
    DISK,
    INSTALLATION,
    LOG,
    MOUNTED,
    SCHEDULER,
    SCHEDULERS,
    SERVER_MOUNT,
    STORE,
    TEMPORARY,
)
from leadline.stack import mariadb, places, postgres
from leadline.stack.base import ServiceContext
from leadline.stack.mariadb import MariaDb
from leadline.stack.postgres import Postgres
from leadline.stack.private import PrivateDatabase

pytestmark = [
    pytest.mark.stack,
    pytest.mark.usefixtures("own_cache"),
    pytest.mark.skipif(os.geteuid() != 0, reason="host: only root may mount"),
]
LONGER = matrix("more places and servers take minutes")
MIXED = {
    "postgres": {DATA: "tmpfs", LOG: DISK, DATABASE_TEMPORARY: "ext4", DATABASE_MOUNT: "noatime", SCHEDULER: "kyber"},
    "mariadb": {DATA: "overlay", LOG: "ramdisk", DATABASE_TEMPORARY: DISK},
}
ONE_PLACE = [{DATA: kind, LOG: DISK} for kind in ("tmpfs", "ramdisk", "brd", "xfs", "btrfs")]

STARTS_AND_DIES = """
import os, signal, sys
from contextlib import nullcontext
from pathlib import Path
from leadline.host.local import LocalHost
from leadline.stack.base import ServiceContext
from leadline.stack.postgres import Postgres
home, state, log, dead_man = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], float(sys.argv[4])
host = LocalHost(state=state)
with host.guard(dead_man) if dead_man else nullcontext():
    database = Postgres()
    levels = {"database.log_place": log, "database.data_place": sys.argv[5]}
    if sys.argv[5] == "ext4":
        levels["database.io_scheduler"] = "bfq"
    database.configure(ServiceContext(host, home / "run", home / "logs"), levels)
    database.start()
    database.wait_ready(60)
    print("ready", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def configured(kind: type[PrivateDatabase], home: Path, levels: Mapping[str, Level]) -> PrivateDatabase:
    database = kind()
    host = LocalHost(state=home / "state")
    database.configure(ServiceContext(host, home / "run", home / "logs"), levels)
    return database


def ask(database: PrivateDatabase, statement: str) -> list[list[object]]:
    if isinstance(database, Postgres):
        with postgres.connect(database.endpoint(), timeout=60) as connection:
            return [list(row) for row in connection.run(statement) or []]
    with mariadb.connect(database.endpoint(), timeout=60) as connection:
        return [list(row) for row in mariadb.query(connection, statement)]


def traces(home: Path) -> list[str]:
    """Mounts, loop devices and directories of places."""
    files = [file.read_text() for file in Path("/sys/block").glob("loop*/loop/backing_file")]
    found = [mount.point for mount in mounts() if str(home) in mount.point]
    found += [file for file in files if str(home) in file]
    uses = ("data", "log", "temporary")
    return [*found, *(str(path) for use in uses for path in places.made(home / "run", use))]


def schedulers() -> dict[str, str]:
    """I/O schedulers of this host's devices."""
    return {str(file): file.read_text() for file in Path("/sys/block").glob("*/queue/scheduler")}


def there_and_back(kind: type[PrivateDatabase], home: Path, levels: Mapping[str, Level]) -> None:
    database, before = configured(kind, home, levels), schedulers()
    for name, level in levels.items():
        if level in ("brd", *MOUNTED, *SCHEDULERS) and (why := database.context.host.file_system_lacks(str(level))):
            pytest.skip(f"{'' if 'not installed' in why else 'host: '}{name} = {level}: {why}")
    database.provision(lambda _: None)
    try:
        database.start()
        database.wait_ready(60)
        assert {name: database.read_back(name) for name in levels} == levels
        if SCHEDULER in levels:
            database.apply({SCHEDULER: "mq-deadline"})
            assert database.read_back(SCHEDULER) == "mq-deadline"
        ask(database, "CREATE TABLE kept (id INT)")
        ask(database, "INSERT INTO kept VALUES (7)")
    finally:
        stopped = database.stop()
    assert stopped, database.log_tail()
    assert traces(home) == []
    assert before.items() <= schedulers().items()
    at_rest = configured(kind, home, {})
    try:
        at_rest.start()
        at_rest.wait_ready(60)
        assert ask(at_rest, "SELECT id FROM kept") == [[7]]
        assert {name: at_rest.read_back(name) for name in (DATA, LOG)} == {DATA: DISK, LOG: DISK}
    finally:
        at_rest.stop()
    assert LocalHost(state=home / "state").restore() == []


@pytest.mark.parametrize("kind", [Postgres, MariaDb])
def test_files_go_to_their_places_and_come_back(kind: type[PrivateDatabase], tmp_path: Path) -> None:
    there_and_back(kind, tmp_path, MIXED[kind.name])


@LONGER
@pytest.mark.parametrize("kind", [Postgres, MariaDb])
@pytest.mark.parametrize("levels", ONE_PLACE, ids=lambda levels: levels[DATA])
def test_data_at_every_place(kind: type[PrivateDatabase], levels: dict[str, Level], tmp_path: Path) -> None:
    there_and_back(kind, tmp_path, levels)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Path]:
    """A stopped PostgreSQL with its snapshot ``fresh``."""
    database = configured(Postgres, tmp_path, {})
    database.provision(lambda _: None)
    database.start()
    database.wait_ready(60)
    assert database.stop()
    database.snapshot("fresh")
    yield tmp_path
    LocalHost(state=tmp_path / "state").restore()


def killed(home: Path, log: str, data: str, dead_man: float) -> None:
    argv = [sys.executable, "-c", STARTS_AND_DIES, str(home), str(home / "state"), log, str(dead_man), data]
    said = home / "said"  # no pipe: the watchdog would keep it open
    with said.open("w") as output:
        done = subprocess.run(argv, stdout=output, stderr=output, check=False, timeout=900)
    assert done.returncode == -signal.SIGKILL, said.read_text()
    assert said.read_text().endswith("ready\n")  # after a wait for the host, perhaps


def test_after_kill_9_restore_removes_the_places_and_the_data_are_as_before(cluster: Path) -> None:
    before, of_devices = configured(Postgres, cluster, {}).digest(), schedulers()
    killed(cluster, "tmpfs", "ext4", 0)
    assert traces(cluster)
    host = LocalHost(state=cluster / "state")
    with host.lease():
        told = host.restore()
    kinds = [line.partition(" ")[0] for line in told]
    assert sorted(kind for kind in kinds if not kind.startswith("/sys/block/")) == ["directory", "file", "process"]
    assert len(kinds) == 4
    assert traces(cluster) == []
    assert of_devices.items() <= schedulers().items()
    assert configured(Postgres, cluster, {}).digest() == before


def test_the_watchdog_removes_them_and_data_without_their_log_are_refused(cluster: Path) -> None:
    killed(cluster, "overlay", DISK, 5)
    journal = LocalHost(state=cluster / "state").journal.path
    assert wait_for(lambda: not journal.exists() and not traces(cluster), 60), traces(cluster)
    database = configured(Postgres, cluster, {})
    with pytest.raises(TrialFailure, match="with its log elsewhere, was interrupted: restore it again"):
        database.start()
    database.restore("fresh")
    database.start()
    database.wait_ready(60)
    assert database.read_back(LOG) == DISK
    assert database.stop()


SERVER_PLACES: dict[str, Level] = {INSTALLATION: "overlay", TEMPORARY: "tmpfs", SERVER_MOUNT: "noatime", DATA: "tmpfs"}
QUEUED: dict[str, Level] = {"app.orders": "queue", STORE: "ext4"}


@pytest.mark.parametrize(
    ("server", "more"),
    [
        ("tomcat", {}),
        *(pytest.param(name, QUEUED, marks=LONGER) for name in ("liberty", "wildfly", "tomee", "glassfish")),
    ],
)
def test_a_server_runs_from_its_places(server: str, more: dict[str, Level], tmp_path: Path) -> None:
    made = stack(tmp_path, server, "direct")
    levels = {**SERVER_PLACES, **more}
    try:
        made.up(levels, tmp_path / "trial")
        assert {name: made.read_back(name) for name in levels} == levels
        assert urlopen(f"{made.url()}/", timeout=60).status == 200
    finally:
        unclean = made.down()
    assert unclean == []
    assert [mount.point for mount in mounts() if str(tmp_path) in mount.point] == []
    assert LocalHost(state=tmp_path / "state").restore() == []
