"""Scenarios by name or path.

What is told of the users of a closed load.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from recordings import API, SHOP, entry, har
from small_server import small_server
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.load.arrivals import arrival_options, most_sessions, stated_agents, stated_users
from leadline.load.driver import DriverRun
from leadline.load.scenario import built_in_scenarios, find_scenario, preset_variables
from leadline.load.series import asked_in
from leadline.model.errors import UsageError
from leadline.model.workload import Workload


def test_built_in_scenarios_are_found_by_name() -> None:
    assert {"brokerage-classic", "brokerage-json"} <= set(built_in_scenarios())
    assert find_scenario("brokerage-classic").name == "brokerage-classic.yaml"


def test_a_file_is_found_by_its_path(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("scenario: own\n")
    assert find_scenario(str(own)) == own


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("brokerage-clasic", "did you mean brokerage-classic"),
        ("zzz", "built in: brokerage-classic"),
        ("missing.yaml", "scenario file missing.yaml does not exist"),
    ],
)
def test_an_unknown_scenario_says_what_there_is(wanted: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_scenario(wanted)


POPULATIONS = """scenario: two
parameters: { injection: 200 }
populations:
  dealers: { users: "${mul:10:${injection}}", mix: { get: 1 } }
  workers: { users: "${mul:3:${injection}}", mix: { get: 1 } }
transactions: { get: [{ get: / }] }
"""


def test_populations_state_their_users(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(POPULATIONS)
    load = Workload.model_validate({"scenario": str(file), "variables": {"injection": 100}})
    assert arrival_options(load) == ["--arrivals", "closed"]
    assert most_sessions(load) == 1300
    assert arrival_options(load.model_copy(update={"users": 26})) == ["--arrivals", "closed", "--users", "26"]
    with pytest.raises(UsageError, match=r"two\.yaml has populations"):
        preset_variables("clients-threads", str(file), {})


def refused(*words: str) -> str:
    with pytest.raises(UsageError) as caught:
        CliRunner().invoke(app, ["scenario", *words], catch_exceptions=False)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    out = tmp_path / "no" / "x.yaml"
    (tmp_path / "a.har").write_text(har(entry("GET", f"{SHOP}/a", 0)))
    (tmp_path / "a.yaml").write_text(API)
    message = f"'{out}' cannot be written: there is no folder {out.parent}"
    assert refused("from", str(tmp_path / "a.har"), "--out", str(out)) == message
    assert refused("from", str(tmp_path / "a.yaml"), "--out", str(out)) == message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"log": ' + "[" * 5000 + "]" * 5000, "not a HAR file: it is nested too deeply: 64 levels are read"),
        ("openapi: 3.0.0\nx: " + "[" * 5000, "no JSON, as YAML:2: more than 100 lists and mappings in each other"),
    ],
)
def test_endless_nesting_is_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "deep.json"
    file.write_text(text)
    assert refused("from", str(file)) == f"{file}: {said}"


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
