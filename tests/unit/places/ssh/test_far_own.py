"""What goes to a far host with a stack file; the connection is a fake that copies."""

import shutil
from pathlib import Path
from typing import cast

import pytest

from leadline.model.errors import UsageError
from leadline.model.ownstack import OwnFile, OwnStack
from leadline.model.study import StackChoice
from leadline.places.ssh.host import FarHost
from leadline.places.ssh.stack import send_own


class FakeHost:
    """Keeps what it is sent below a directory."""

    name = "ssh:far"

    def __init__(self, there: Path) -> None:
        self.connection = self
        self._there = there

    def send(self, folder: Path, place: str) -> None:
        shutil.copytree(folder, self._there / place.lstrip("/"))


def sent(tmp_path: Path, files: list[str], **stack: object) -> set[str]:
    """The files that arrive beside the stack file."""
    here = tmp_path / "here"
    for name in ("shop.stack.yaml", *files):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text("")
    own = OwnFile(file=str(here / "shop.stack.yaml"), content=OwnStack.model_validate({"stack": "shop", **stack}))
    choice = send_own(StackChoice(own=own), cast(FarHost, FakeHost(tmp_path / "there")), "/srv")
    assert choice.own is not None
    assert choice.own.file == "/srv/own/shop.stack.yaml"
    place = tmp_path / "there" / "srv" / "own"
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()} - {"shop.stack.yaml"}


PORT = ["${port}"]


def test_a_command_goes_with_its_jar_its_sql_and_its_audits(tmp_path: Path) -> None:
    named = {
        "command": ["java", "-jar", "target/shop.jar", *PORT],
        "database": {"kind": "postgres", "sql": ["db/shop.sql"]},
        "audits": [{"name": "sums", "command": ["./sums.sh", "--strict"]}],
    }
    wanted = ["target/shop.jar", "db/shop.sql", "sums.sh"]
    assert sent(tmp_path, [*wanted, "target/other.jar", "README"], **named) == set(wanted)


def test_a_fast_jar_of_quarkus_goes_with_all_that_it_loads(tmp_path: Path) -> None:
    wanted = ["app/quarkus-run.jar", "app/lib/main/a.jar", "app/quarkus/generated.jar"]
    assert sent(tmp_path, wanted, command=["java", "-jar", "app/quarkus-run.jar", *PORT]) == set(wanted)


def test_a_war_goes_with_the_servers_configuration_and_its_data(tmp_path: Path) -> None:
    named = {"war": "shop.war", "server": "liberty", "server_config": "config", "data": {"shared/db": "db"}}
    wanted = ["shop.war", "config/server.xml", "config/lib/a.jar", "db/seed/1.dat"]
    assert sent(tmp_path, [*wanted, "pom.xml"], **named) == set(wanted)


def test_a_running_process_is_restarted_there_by_what_is_here(tmp_path: Path) -> None:
    named = {
        "attach": {"port": 80},
        "mine": True,
        "artifact": "shop.jar",
        "restart": ["./restart.sh"],
        "settings_file": {"path": "/etc/shop.env", "template": "shop.env.in"},
    }
    wanted = ["shop.jar", "restart.sh", "shop.env.in"]
    assert sent(tmp_path, wanted, **named) == set(wanted)


def test_containers_are_started_here_only(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with pytest.raises(UsageError, match="containers are started on this host only, not on ssh:far"):
        sent(tmp_path, ["compose.yaml"], compose={"service": "app"}, port=80)


def test_a_file_outside_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shop.jar").write_text("")
    with pytest.raises(UsageError, match=r"shop\.jar lies outside the stack file's folder, which is what ssh:far gets"):
        sent(tmp_path, [], command=["java", "-jar", "../shop.jar", *PORT])
