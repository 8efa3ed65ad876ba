"""A database that refuses connections, and one that dies and comes back under load."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leadline.host.local import LocalHost
from leadline.load.driver import find_binary
from leadline.load.scenario import find_scenario
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.knob import Level
from leadline.model.study import StackChoice
from leadline.stack.assembly import Stack
from leadline.stack.options import StackOptions

pytestmark = pytest.mark.stack

POOL: dict[str, Level] = {"server.datasource.max_connections": 40, "database.max_connections": 10}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    shutil.rmtree(tmp_path / "home", ignore_errors=True)  # data of a hundred megabytes and more


def started(place: Path, database: str, settings: dict[str, Level]) -> Stack:
    choice = StackChoice.model_validate({"server": "tomcat", "mode": "direct", "database": database})
    options = StackOptions(database_port=LocalHost().free_port())
    made = Stack(choice, LocalHost(state=place / "state"), place / "home", options)
    made.provision(lambda _: None)
    made.prepare_data(lambda _: None)
    made.reset_data(place / "trial")
    made.up(settings, place / "trial")
    return made


def load(place: Path, url: str, users: int, steady: str) -> subprocess.Popen[bytes]:
    command = [
        str(find_binary()),
        "run",
        str(find_scenario("brokerage-json")),
        "--url",
        url,
        "--out",
        str(place / "out"),
    ]
    return subprocess.Popen([*command, "--users", str(users), "--steady", steady, "--var", "think=1ms"])


def counts(place: Path) -> dict[str, Any]:
    total = json.loads((place / "out" / "summary.json").read_text())["total"]
    return {name: {"ok": count["ok"], "failed": count["failed"]} for name, count in total.items()}


@pytest.mark.parametrize("database", ["postgres", "mariadb"])
def test_a_pool_larger_than_the_database_allows_fails_with_its_words(place: Path, database: str) -> None:
    made = started(place, database, POOL)
    try:
        made.check_connections()
        assert load(place, made.url(), users=40, steady="2s").wait(60) == 1, "errors above the limit fail the run"
        with pytest.raises(TrialFailure, match=f"{database} refused connections of tomcat's pool: ") as caught:
            made.check_connections()
    finally:
        made.down()
    assert caught.value.failure_class is FailureClass.CONFIGURATION
    assert "too many" in caught.value.evidence.lower() or "reserved" in caught.value.evidence
