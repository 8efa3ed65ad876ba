"""What a scenario's populations state of their users and cycles."""

from __future__ import annotations

from leadline.load.populations import stated_agents, stated_users
from leadline.model.workload import Workload


def test_agents_of_dealership_are_in_proportion_to_the_injection_rate() -> None:
    load = Workload(scenario="dealership", load_units=20, variables={"injection_rate": 20})
    assert stated_agents(load) == [(200, 10.0), (60, 0.65)]
    assert stated_users(load) == 260


def test_cycles_are_those_of_the_parameters() -> None:
    load = Workload(scenario="dealership", variables={"dealer_cycle": "2s"})
    assert stated_agents(load) == [(10, 2.0), (3, 0.65)]


def test_users_who_think_are_no_agents() -> None:
    assert stated_agents(Workload(scenario="brokerage-classic", users=5)) is None
