"""A simulated server and host in virtual time: a study whose truth is known.

``read_truth(path)`` reads a truth file; ``SimulatedTestbed`` runs whole studies on it with the real
store; ``simulate_observations(plan, truth, workload, seed)`` yields the observations alone, thousands of trials a
second; ``rates(...)`` tells how often the analysis of such studies is right.
docs/concepts/simulation.md explains the model.
"""

from __future__ import annotations

from leadline.places.simulated.model import Model, bound
from leadline.places.simulated.observations import simulate_observations
from leadline.places.simulated.rates import Rates, rates
from leadline.places.simulated.testbed import SimulatedTestbed, parse_truth, read_truth
from leadline.places.simulated.truth import Truth

__all__ = [
    "Model",
    "Rates",
    "SimulatedTestbed",
    "Truth",
    "bound",
    "parse_truth",
    "rates",
    "read_truth",
    "simulate_observations",
]
