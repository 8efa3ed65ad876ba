"""How many users a scenario asks for by itself, and how often they begin: those of its populations."""

from __future__ import annotations

from collections.abc import Mapping

from leadline.load.export.source import Source
from leadline.load.scenario import find_scenario, sent_variables
from leadline.model.errors import UsageError
from leadline.model.workload import Workload


def stated_users(load: Workload) -> int | None:
    """Users of all populations of the workload's scenario with its parameters; None where it has no populations, or
    none that can be counted: what is wrong with it leadline-load says.
    """
    try:
        source = Source(find_scenario(load.scenario), sent_variables(load))
        populations = source.tree.get("populations")
        if not isinstance(populations, Mapping):
            return None
        counts = [
            source.number(population["users"], ("populations", name, "users"))
            for name, population in populations.items()
        ]
    except (UsageError, KeyError, TypeError, ValueError, AttributeError):
        return None
    return int(sum(counts))


def stated_agents(load: Workload) -> list[tuple[int, float]] | None:
    """Users and mean cycle in seconds of every population; None where one does not begin its transactions in cycles,
    or the scenario has no populations that can be counted.
    """
    try:
        source = Source(find_scenario(load.scenario), sent_variables(load))
        agents = []
        for name, population in source.tree["populations"].items():
            where = ("populations", name)
            if population["pause"]["kind"] != "cycle":
                return None
            users = int(source.number(population["users"], (*where, "users")))
            agents.append((users, source.seconds(population["pause"]["mean"], (*where, "pause", "mean"))))
    except (UsageError, KeyError, TypeError, ValueError, AttributeError):
        return None
    return agents
