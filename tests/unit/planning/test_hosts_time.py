"""The wall time of a plan whose blocks run on several hosts at the same time."""

from __future__ import annotations

import pytest

from leadline.design import make_plan
from leadline.model.design import Design
from leadline.model.plan import Factor, Plan
from leadline.planning.forecast import JOB, Setup


def plan_of(blocks: int) -> Plan:
    """Blocks of two trials."""
    nap = Factor("nap", ("short", "long"), "short", pseudo=True)
    return make_plan([nap], Design(replicates=blocks, blocks="by-replicate", sentinels=None))


@pytest.mark.parametrize(("hosts", "rounds"), [(1, 6), (2, 3), (4, 2), (6, 1), (20, 1)])
def test_each_host_runs_one_block_at_a_time(hosts: int, rounds: int) -> None:
    setup = Setup(overhead=10.0, steady=30.0, hosts=hosts)
    assert setup.seconds(plan_of(6)) == pytest.approx(rounds * (2 * 40.0 + JOB))


def test_here_there_are_no_jobs() -> None:
    assert Setup(overhead=10.0, steady=30.0).seconds(plan_of(6)) == pytest.approx(12 * 40.0)
