"""What is told of the users of a closed load."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from small_server import small_server

from leadline.load.arrivals import stated_agents, stated_users
from leadline.load.driver import DriverRun
from leadline.load.series import asked_in
from leadline.model.workload import Workload

SCENARIO = """
scenario: agents
parameters: { rate: 1, cycle: 100ms }
populations:
  some:
    users: ${mul:4:${rate}}
    pause: { kind: cycle, shape: exponential, mean: "${cycle}" }
    mix: { get: 1 }
transactions:
  get: [{ get: / }]
"""


def asked(place: Path, takes: float = 0.0, **load: Any) -> dict[str, Any] | None:
    scenario = place / "agents.yaml"
    scenario.write_text(SCENARIO)
    plan = {"scenario": str(scenario), "ramp_up": 1, "steady": 2, "ramp_down": 0.2, **load}
    with small_server(takes) as url:
        run = DriverRun(Workload.model_validate(plan), url, 1, place / "driver", plan.get("variables", {}))
        subprocess.run(run.argv(), stdout=subprocess.DEVNULL, check=True, timeout=30)
    return asked_in(run.out, str(scenario))


def test_users_of_a_fast_server_ask_as_often_as_their_cycles_say(tmp_path: Path) -> None:
    found = asked(tmp_path, variables={"rate": 5})
    assert found is not None
    assert (found["scenario"], found["variables"]) == ("agents", {"rate": "5", "cycle": "100ms"})
    assert found["seconds"] == 2.5
    assert found["waiting"] < 5
    assert found["asked"]["get"] == pytest.approx(20 * 2.5 / 0.0993 + 20, rel=0.2)


def test_users_of_a_slow_server_wait(tmp_path: Path) -> None:
    found = asked(tmp_path, takes=0.5)
    assert found is not None
    assert found["waiting"] > 2.5
    assert found["asked"]["get"] >= 4 * 2.5 / 0.0993 * (1 - found["waiting"] / 4)


@pytest.mark.parametrize("load", [{"users": 3}, {"arrivals": "poisson", "rate": 5}, {"profile": "0s:1,2s:4"}])
def test_other_loads_have_no_rate_of_their_own(load: dict[str, Any], tmp_path: Path) -> None:
    assert asked(tmp_path, **load) is None


def test_a_load_without_a_summary_is_not_known(tmp_path: Path) -> None:
    assert asked_in(tmp_path, "dealership") is None


def test_agents_of_dealership_are_in_proportion_to_the_injection_rate() -> None:
    load = Workload(scenario="dealership", load_units=20, variables={"injection_rate": 20})
    assert stated_agents(load) == [(200, 10.0), (60, 0.65)]
    assert stated_users(load) == 260


def test_cycles_are_those_of_the_parameters() -> None:
    load = Workload(scenario="dealership", variables={"dealer_cycle": "2s"})
    assert stated_agents(load) == [(10, 2.0), (3, 0.65)]


def test_users_who_think_are_no_agents() -> None:
    assert stated_agents(Workload(scenario="brokerage-classic", users=5)) is None
