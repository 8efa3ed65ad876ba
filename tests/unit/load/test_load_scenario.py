"""Scenarios by name or path."""

from pathlib import Path

import pytest
from recordings import API, SHOP, entry, har
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.load.arrivals import arrival_options, most_sessions
from leadline.load.scenario import built_in_scenarios, find_scenario, preset_variables
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
