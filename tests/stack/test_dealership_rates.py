"""The audits of rates in real trials: an honest driver passes them, one with twice or half the agents does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from witnesses import matrix

from leadline.host.local import LocalHost
from leadline.lab.real import RealSystem
from leadline.load.scenario import find_scenario
from leadline.model.study import Study

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("own_cache")]

DEALERS, PLANT = "dealer-transactions-have-their-rate", "planned-work-orders-have-their-rate"


def failed(place: Path, scenario: str) -> list[str]:
    """Audits that fail after a load as a trial drives it."""
    study = Study.model_validate(
        {
            "study": "rates",
            "question": "Does the load have its rate?",
            "stack": {"app": "dealership", "server": "tomcat", "mode": "direct", "database": "postgres"},
            "workload": {
                "scenario": scenario,
                "load_units": 10,
                "ramp_up": 3,
                "steady": 24,
                "ramp_down": 1,
                "variables": {"injection_rate": 10},
            },
            "factors": {"jvm.heap": ["256m", "512m"]},
            "responses": ["throughput"],
            "observe": False,
        }
    )
    system = RealSystem(study, LocalHost(state=place / "state"), place / "lab")
    trial = place / "lab" / "trial"
    system.prepare(print)
    system.reset(trial, 1)
    try:
        system.start_database({}, trial)
        system.start_server({}, trial)
        outcome = system.load(trial, 1, lambda _: None)
        audits = {each.name: each for each in system.audit(trial, outcome.counts)}
    finally:
        assert system.stop() == []
    assert audits.keys() > {DEALERS, PLANT}
    return [each.name for each in audits.values() if not each.passed]


@matrix("a start and half a minute of load each; the audits' faults are planted in every test run")
@pytest.mark.parametrize(
    ("planted", "audits"),
    [
        (("", ""), []),
        (("users: ${mul:10:", "users: ${mul:20:"), [DEALERS]),
        (("users: ${mul:10:", "users: ${mul:5:"), [DEALERS]),
        (("users: ${mul:3:", "users: ${mul:6:"), [PLANT]),
        (("users: ${mul:3:", "users: ${mul:1:"), [PLANT]),
    ],
)
def test_a_load_of_other_agents_fails_the_audit_of_their_rate(
    planted: tuple[str, str], audits: list[str], tmp_path: Path
) -> None:
    text = find_scenario("dealership").read_text()
    assert planted[0] in text
    scenario = tmp_path / "dealership.yaml"
    scenario.write_text(text.replace(*planted))
    assert failed(tmp_path, str(scenario)) == audits
