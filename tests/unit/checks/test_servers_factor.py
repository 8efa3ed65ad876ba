"""The application server as a factor: what its servers have in common, and what is refused."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from leadline.api.studies import Study
from leadline.checks.stack import servers_of, stacks_of
from leadline.checks.subject import study_catalogue
from leadline.host.base import Host
from leadline.host.files import LocalFiles
from leadline.model.errors import UsageError
from leadline.model.study import StackChoice
from leadline.places.simulated import SimulatedTestbed
from leadline.places.simulated.model import Truth
from leadline.stack.assembly import Stack
from leadline.stack.options import StackOptions
from leadline.stack.registry import SERVER_KNOB, server


def study(**keys: Any) -> Study:
    base = {"study": "which", "question": "Which?", "workload": {"users": 2}, "design": {"replicates": 2}}
    return Study.of({**base, "factors": {"stack.server": ["tomcat", "liberty"]}, **keys})


def planned(tmp_path: Path, asked: Study) -> Any:
    return SimulatedTestbed(Truth(), tmp_path / "lab").plan(asked.file)


def test_each_trial_has_its_server_and_knobs_are_common(tmp_path: Path) -> None:
    asked = study(settings={"jvm.heap": "256m", "server.threads.max": 20})
    plan = planned(tmp_path, asked).plan
    assert {trial.treatment.as_dict()["stack.server"] for trial in plan.trials} == {"tomcat", "liberty"}
    assert servers_of(asked.file.study) == ["tomcat", "liberty"]
    names = {knob.name for knob in study_catalogue(asked.file) if knob.name.startswith("server.")}
    both = [{knob.name for knob in server(name).knobs()} for name in ("tomcat", "liberty")]
    assert names == {name for name in both[0] & both[1] if name.startswith("server.")}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"factors": {"stack.server": ["tomcat", "libertty"]}}, "did you mean liberty?"),
        ({"settings": {"server.calls.by_reference": True}, "stack": {"mode": "session"}}, "mode"),
        ({"stack": {"host": "ssh:app"}}, "the server is a factor of reference applications on this host"),
        ({"settings": {"server.calls.by_reference": True}}, "server.calls.by_reference"),
    ],
)
def test_what_not_every_server_can_is_refused(tmp_path: Path, keys: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as error:
        planned(tmp_path, study(**keys))
    assert said in str(error.value)
    assert "which.yaml:" in str(error.value)


@pytest.mark.parametrize(("store", "said"), [("file", ""), ("memory", "on liberty")])
def test_each_server_takes_the_levels_of_its_own_trials(tmp_path: Path, store: str, said: str) -> None:
    wildfly, liberty = (
        {"server.messaging.store": "memory"},
        {"stack.server": "liberty", "server.messaging.store": store},
    )
    asked = study(
        stack={"mode": "session", "server": "wildfly"},
        factors={"stack.server": ["wildfly", "liberty"], "server.messaging.store": ["file", "memory"]},
        settings={"app.orders": "queue"},
        design={"kind": "configurations", "configurations": {"files": {}, "memory": wildfly, "other": liberty}},
    )
    if said:
        with pytest.raises(UsageError, match=said):
            planned(tmp_path, asked)
    else:
        assert len({trial.treatment for trial in planned(tmp_path, asked).plan.trials}) == 3


def test_a_study_of_one_server_is_as_it_was() -> None:
    own = study(factors={"jvm.heap": ["256m", "512m"]}, stack={"server": "tomcat"})
    assert [choice.server for choice in stacks_of(own.file.study)] == ["tomcat"]
    assert servers_of(own.file.study) == []
    assert SERVER_KNOB.name not in {knob.name for knob in study_catalogue(own.file)}


def test_a_stack_reads_back_the_server_that_it_has_started_last(tmp_path: Path) -> None:
    host = cast(Host, SimpleNamespace(files=LocalFiles(tmp_path)))
    stack = Stack(StackChoice(), host, tmp_path / "stack", StackOptions(servers=["tomcat", "liberty"]))
    assert SERVER_KNOB.name in {knob.name for knob in stack.knobs()}
    assert stack.read_back(SERVER_KNOB.name) == "tomcat"
    stack.server = stack.servers["liberty"]
    assert stack.read_back(SERVER_KNOB.name) == "liberty"
    assert {"tomcat", "liberty"} <= {home.name for home in stack.homes()}
