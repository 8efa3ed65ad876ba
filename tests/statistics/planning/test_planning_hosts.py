"""The forecast of a plan on several hosts is what the analysis of such studies reports."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from simulated_study import SimulatedSystem, pseudo_factors

from leadline.analysis import analyse
from leadline.design import make_plan
from leadline.model.design import Design
from leadline.model.plan import Plan
from leadline.model.result import Observation
from leadline.planning.components import variance_of
from leadline.planning.forecast import Setup, forecast
from leadline.planning.hosts import Hosting, over_hosts
from leadline.planning.noise import assumed
from leadline.planning.wording import forecast_lines

SIGMA = math.sqrt(variance_of(4.0))


def plan_of(replicates: int) -> Plan:
    return make_plan(pseudo_factors(3), Design(replicates=replicates, sentinels=None))


def on_hosts(plan: Plan, seed: int, hosts: int, differ: float) -> list[Observation]:
    rng, found = np.random.default_rng(seed), []
    levels = [(factor.name, level) for factor in plan.factors for level in factor.levels if level != factor.baseline]
    own = {one: rng.normal(0, differ, hosts) for one in levels}
    for each in SimulatedSystem(cv=0.04).run(plan, seed):
        host = each.block % hosts
        moved = sum(own[one][host] for one in each.treatment.levels if one in own)
        found.append(
            replace(each, host=f"host-{host}", responses={"throughput": each.responses["throughput"] * math.exp(moved)})
        )
    return found


@pytest.mark.parametrize(("hosts", "replicates", "differ"), [(2, 8, 0.03), (4, 12, 0.0), (8, 16, 0.03)])
def test_the_smallest_effect_is_what_the_analysis_reports(hosts: int, replicates: int, differ: float) -> None:
    plan = plan_of(replicates)
    smallest = over_hosts(plan, SIGMA, Hosting(hosts, 100 * differ), (0.8,)).smallest[0.8]
    studies = [analyse(plan, on_hosts(plan, seed, hosts, differ), ["throughput"]) for seed in range(25)]
    told = [study.responses[0].detectable or math.inf for study in studies]
    assert float(np.median(told)) == pytest.approx(smallest, rel=0.2)


def test_hosts_that_get_no_block_are_not_counted() -> None:
    found = over_hosts(plan_of(4), SIGMA, Hosting(9), (0.8,))
    assert (found.used, found.random) == (4, False)
    noise = assumed("throughput", 4.0, "given")
    lines = forecast_lines(forecast(plan_of(4), noise, Setup(30, 30), hosts=Hosting(9)))
    assert any(line.startswith("on 4 hosts (5 more have no block): smallest effect ") for line in lines)


def test_more_hosts_find_less_where_effects_differ_than_the_same_blocks_on_one() -> None:
    plan, noise = plan_of(16), assumed("throughput", 4.0, "given")
    found = forecast(plan, noise, Setup(30, 30), hosts=Hosting(8, 5.0, "given"))
    assert found.hosts is not None
    assert (found.hosts.random, found.hosts.df) == (True, 7)
    alone, over = found.smallest[0.8], found.hosts.smallest[0.8]
    assert alone is not None
    assert over is not None
    assert over > alone
    assert "for hosts like these, where an effect differs by 5 % from host to host (given)" in " ".join(
        forecast_lines(found)
    )


def test_one_host_has_nothing_to_differ_from() -> None:
    with pytest.raises(ValueError, match="1 host: nothing can differ"):
        over_hosts(plan_of(4), SIGMA, Hosting(1), (0.8,))
