"""Power and sizes against another library, against the analysis, and against simulated studies."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from simulated_study import SimulatedSystem, pseudo_factors
from statsmodels.stats.power import TTestIndPower

from leadline.analysis.study import analyse
from leadline.design.make import make_plan
from leadline.layouts import switchback_plan
from leadline.model.design import Design, Switchback
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor, Plan
from leadline.model.result import Observation, Verdict
from leadline.model.workload import Workload
from leadline.planning.forecast import Hosting, Setup, forecast, needed, over_hosts, replicates_of, sigma_of
from leadline.planning.noise import Noise, assumed, variance_of
from leadline.planning.power import log_effect, percent, precision_of, t_power
from leadline.planning.wording import forecast_lines

SETUP = Setup(overhead=30.0, steady=30.0)


@pytest.mark.parametrize(("size", "count"), [(0.5, 10), (0.8, 20), (1.2, 8), (2.5, 4), (0.2, 300)])
def test_power_of_two_groups_is_statsmodels(size: float, count: int) -> None:
    df = 2 * count - 2
    critical = float(stats.t.ppf(0.975, df))
    expected = TTestIndPower().power(size, count, 0.05)
    assert t_power(size * math.sqrt(count / 2), df, critical) == pytest.approx(expected, abs=1e-6)


def test_the_smallest_effect_is_what_the_analysis_reports() -> None:
    """Of plain plans, of squares, which spend degrees of freedom on places, of incomplete blocks, which compare inside
    alone, and of a fraction, where interactions are estimated beside the levels.
    """
    square, short = {"blocks": "latin", "replicates": 8}, {"blocks": "incomplete", "block_size": 3, "replicates": 4}
    designs: list[tuple[int, dict[str, Any]]] = [
        (4, {"sentinels": 6}),
        (3, {"kind": "full-factorial", "sentinels": 6}),
        (3, square),
        (6, short),
        (5, {"kind": "fractional-factorial", "replicates": 2}),
    ]
    for factors, design in designs:
        plan = make_plan(pseudo_factors(factors), Design(**({"replicates": 3, "sentinels": None} | design)))
        found = precision_of(plan)
        assert not isinstance(found, str)
        smallest = found.smallest(math.sqrt(variance_of(4.0)), 0.8)
        assert smallest is not None
        studies = [analyse(plan, SimulatedSystem(cv=0.04).run(plan, seed), ["throughput"]) for seed in range(25)]
        told = [study.responses[0].detectable for study in studies]
        assert float(np.median(told)) == pytest.approx(percent(smallest), rel=0.15)


@pytest.mark.parametrize(("kind", "replicates"), [("one-at-a-time", 3), ("full-factorial", 2)])
def test_the_predicted_power_is_what_simulated_studies_have(kind: str, replicates: int) -> None:
    """Also where the analysis estimates degrees of freedom from few trials."""
    plan = make_plan(pseudo_factors(3), Design(kind=kind, replicates=replicates, sentinels=None))
    found = precision_of(plan)
    assert not isinstance(found, str)
    sigma = math.sqrt(variance_of(4.0))
    effect = found.smallest(sigma, 0.8)
    assert effect is not None
    assert found.power(effect, sigma) == pytest.approx(0.8, abs=1e-3)
    hits = 0
    for seed in range(300):
        system = SimulatedSystem(effects={("pseudo2", "b"): math.exp(effect)}, cv=sigma)
        analysis = analyse(plan, system.run(plan, seed), ["throughput"]).responses[0]
        hits += any(each.factor == "pseudo2" and each.verdict is Verdict.BETTER for each in analysis.effects)
    assert hits / 300 == pytest.approx(0.8, abs=3 * math.sqrt(0.16 / 300))


def test_an_effect_needs_what_is_said() -> None:
    """The replicates that are named reach the wanted power in a plan made with them; one fewer does not."""
    sigma = math.sqrt(variance_of(4.3))
    plan = make_plan(pseudo_factors(3), Design(replicates=3, sentinels=None))
    found = precision_of(plan)
    assert not isinstance(found, str)
    need = needed(plan, found, sigma, SETUP, 5.0, 0.8)
    assert need.replicates is not None
    powers = []
    for replicates in (need.replicates - 1, need.replicates):
        larger = precision_of(make_plan(plan.factors, Design(replicates=replicates, sentinels=None)))
        assert not isinstance(larger, str)
        powers.append(larger.power(log_effect(5.0), sigma))
    assert powers[0] < 0.8 <= powers[1] + 1e-3
    assert need.trials == 4 * need.replicates
    assert need.seconds == pytest.approx(60.0 * need.trials)


def test_the_published_study_could_not_have_found_five_percent() -> None:
    """33 settings, three replicates, coefficient of variation of 4.3 %, judged together."""
    plan = make_plan(pseudo_factors(33), Design(replicates=3, sentinels=None))
    found = forecast(plan, assumed("throughput", 4.3, "published"), SETUP, effect=5.0)
    assert found.comparisons == 33
    assert found.chance is not None
    assert found.chance < 0.1
    assert found.smallest[0.8] == pytest.approx(27.8, abs=1.5)  # 14.7 if all settings had the same noise


def test_a_forecast_says_what_would_halve_it_and_which_design_is_cheaper() -> None:
    design = Design(replicates=3, sentinels=None)
    plan = make_plan(pseudo_factors(4), design)
    found = forecast(
        plan, assumed("throughput", 4.3, "given"), SETUP, effect=5.0, design=design, workload=Workload(users=5)
    )
    assert "replicates instead of 3" in found.halve[0]
    assert found.need is not None
    assert found.need.kind == "one-at-a-time"
    factorial = next(each for each in found.others if each.kind == "full-factorial")
    assert (factorial.seconds or 0) < (found.need.seconds or 0)


def test_noise_between_trials_is_not_taken_away_by_longer_ones() -> None:
    plan = make_plan(pseudo_factors(2), Design(replicates=3, sentinels=None))
    rng = np.random.default_rng(2)
    windows = tuple(1 + rng.normal(0, 0.05, 60) for _ in range(9))
    noise = Noise("throughput", "x@1", False, 9, None, 0.04**2, second=0.05**2, steady=60.0, windows=windows)
    long, short = (sigma_of(plan, noise, Setup(30.0, steady)) for steady in (600.0, 6.0))
    assert long == pytest.approx(math.sqrt(0.04**2 - 0.05**2 / 60 + 0.05**2 / 600))
    assert short == pytest.approx(math.sqrt(0.04**2 - 0.05**2 / 60 + 0.05**2 / 6), rel=1e-6)
    assert "longer trials cannot halve it" in forecast(plan, noise, Setup(30.0, 60.0)).lasting


def test_slots_are_planned_with_the_noise_of_neighbouring_windows() -> None:
    """White noise of 5 % a second, trials that differ by 4 %: only the former is in slots."""
    rng = np.random.default_rng(4)
    windows = tuple(1 + rng.normal(0, 0.05, 600) for _ in range(9))
    noise = Noise("throughput", "x@1", False, 9, None, 0.04**2, second=0.05**2, steady=600.0, windows=windows)
    assert noise.slot(10, 2) == pytest.approx(0.05**2 / 8, rel=0.1)
    design = Design(replicates=2, switchback=Switchback(slot=10.0, wash_out=2.0), sentinels=None)
    plan = switchback_plan(pseudo_factors(2), design, Workload(users=5, ramp_up=10.0, steady=300.0))
    found = forecast(plan, noise, Setup(30.0, 300.0, 2.0))
    assert found.slots == 60
    assert found.cv == pytest.approx(100 * 0.05 / math.sqrt(8), rel=0.1)
    assert found.smallest[0.8] is not None
    unknown = forecast(plan, assumed("throughput", 4.3, "given"), Setup(30.0, 300.0, 2.0))
    assert unknown.smallest[0.8] is None
    assert "noise of slots is not known" in unknown.reason


def test_a_plan_without_repeats_says_so() -> None:
    plan = make_plan(pseudo_factors(3), Design(replicates=2, sentinels=None))
    single = plan.__class__(plan.kind, plan.seed, plan.factors, plan.trials[:4])
    found = forecast(single, assumed("throughput", 4.3, "given"), SETUP)
    assert found.smallest == {0.8: None, 0.9: None}
    assert "nothing to estimate the noise from" in found.reason
    assert replicates_of(plan) == 2


@pytest.mark.parametrize("effect", [0.0, -100.0, math.inf])
def test_an_effect_that_is_none_is_refused(effect: float) -> None:
    with pytest.raises(ValueError, match="cannot be planned for"):
        log_effect(effect)


def test_squares_and_incomplete_blocks_are_forecast_beside_the_other_designs() -> None:
    """Squares grow by whole squares and lose the degrees of freedom of their places; effects are as exact as ever."""
    factors, load = pseudo_factors(3), Workload(users=5, ramp_up=10.0, steady=30.0)
    design = Design(replicates=4, sentinels=None)
    plain = make_plan(factors, design)
    found = forecast(plain, assumed("throughput", 4.3, "given"), SETUP, effect=6.0, design=design, workload=load)
    others = {need.kind: need for need in found.others}
    for kind in ("one-at-a-time, latin blocks", "one-at-a-time, williams blocks"):
        assert others[kind].replicates is not None
        assert others[kind].replicates % 4 == 0
        assert others[kind].trials == 4 * others[kind].replicates
    assert others["one-at-a-time, incomplete blocks"].trials is not None
    latin = make_plan(factors, Design(replicates=4, sentinels=None, blocks="latin"))
    square = forecast(latin, assumed("throughput", 4.3, "given"), SETUP)
    assert (found.df, square.df) == (9, 6)
    assert square.smallest[0.8] > found.smallest[0.8], "what places take is missing where levels have their own noise"


@pytest.mark.parametrize(
    ("factors", "design"),
    [(3, {"replicates": 3}), (5, {"kind": "fractional-factorial"}), (3, {"blocks": "latin", "replicates": 4})],
)
def test_a_repeated_plan_is_forecast_as_one_that_is_planned_so(factors: int, design: dict[str, Any]) -> None:
    small, large = (
        precision_of(make_plan(pseudo_factors(factors), Design(**{"sentinels": None, "replicates": 2} | design | more)))
        for more in ({}, {"replicates": 2 * int(design.get("replicates", 2))})
    )
    assert not isinstance(small, str)
    assert not isinstance(large, str)
    found = small.repeated(2)
    assert (found.df, found.error) == pytest.approx((large.df, large.error), rel=1e-6)
    assert found.own == pytest.approx(large.own, rel=0.15)  # what its estimate costs is drawn


def test_whole_plots_of_one_trial_are_trials() -> None:
    """A kernel's factor alone makes a plot of every trial: three levels in four blocks have 12 - 4 - 2 degrees."""
    kernel = Factor("host.hugepages", (0, 1, 2), 0, apply_cost=ApplyCost.KERNEL)
    found = precision_of(make_plan([kernel], Design(replicates=4, sentinels=None)))
    assert not isinstance(found, str)
    assert found.df == 6


def test_factors_between_trials_with_slots_have_a_forecast_of_their_own() -> None:
    """Two levels between eight trials in four blocks: a t test on 3 degrees of freedom at the pair's share of 5 %."""
    rng = np.random.default_rng(4)
    windows = tuple(1 + rng.normal(0, 0.05, 600) for _ in range(9))
    noise = Noise("throughput", "x@1", False, 9, None, 0.04**2, second=0.05**2, steady=600.0, windows=windows)
    design = Design(replicates=4, switchback=Switchback(slot=10.0, wash_out=2.0), sentinels=None)
    factors = [*pseudo_factors(2), Factor("server.pool", (1, 2), 1)]
    plan = switchback_plan(factors, design, Workload(users=5, ramp_up=10.0, steady=300.0))
    found = forecast(plan, noise, Setup(30.0, 300.0, 2.0), effect=20.0)
    assert found.between is not None
    assert found.reason == ""
    assert (found.between.factors, found.between.df) == (("server.pool",), 3)
    slots = len(plan.trials[0].slots)
    sigma = math.sqrt(0.04**2 - 0.05**2 / 600 + math.log1p((found.cv / 100) ** 2) / slots)
    critical = stats.t.isf(0.05 / 3 / 2, 3)
    size = math.log1p(found.between.smallest[0.8] / 100)
    assert t_power(size / (sigma * math.sqrt(2 / 4)), 3, critical) == pytest.approx(0.8, abs=0.01)
    assert "between trials (server.pool): smallest effect" in "\n".join(forecast_lines(found))
    told = forecast(plan, assumed("throughput", 2.0, "given", slots=True), Setup(30.0, 300.0, 2.0))
    assert told.between is not None
    assert told.between.smallest[0.8] is None
    assert "--cv gave that of slots" in told.between.reason


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
def test_the_smallest_effect_is_what_the_analysis_reports_hosts(hosts: int, replicates: int, differ: float) -> None:
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


@pytest.mark.parametrize(("effect", "proposed"), [(0.1, True), (20.0, False)])
def test_what_real_time_cannot_find_is_for_the_counted_lane(effect: float, proposed: bool) -> None:
    noise = assumed("throughput", 4.3, "given")
    lines = forecast_lines(forecast(plan_of(4), noise, SETUP, effect=effect))
    assert any("design.kind=forks" in line for line in lines) is proposed
