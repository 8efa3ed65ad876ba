"""Studies on several hosts between which effects differ: how often intervals, verdicts and the test of it are right.

``python tests/statistics/analysis/test_statistics_hosts.py 1000`` prints the table of docs/evidence/statistics.md.
"""

import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats
from simulated_study import pseudo_factors
from witnesses import matrix

from leadline.analysis.study import analyse
from leadline.design.make import make_plan
from leadline.model.design import Design
from leadline.model.errors import FailureClass
from leadline.model.knob import Level
from leadline.model.plan import Plan
from leadline.model.result import Observation, ResponseAnalysis, Verdict

Named = tuple[str, Level]
RANDOM_FROM = 6  # hosts, from which on intervals are for hosts like these


@dataclass(frozen=True)
class Case:
    """``shares``: blocks of each host. ``differ``: standard deviation of an effect between hosts, of logarithms.
    ``noisy``: how many times the noise of the others the first host has. ``effect``: mean of all effects.
    """

    shares: tuple[int, ...]
    differ: float = 0.0
    noisy: float = 1.0
    effect: float = 0.0

    def plan(self) -> Plan:
        return make_plan(pseudo_factors(2), Design(replicates=sum(self.shares), seed=1, sentinels=None))

    def hosts(self) -> list[int]:
        """The host of each block: in turn, as long as one has blocks left."""
        return [host for turn in range(max(self.shares)) for host, share in enumerate(self.shares) if turn < share]


def run(case: Case, plan: Plan, seed: int) -> tuple[list[Observation], Mapping[Named, list[float]]]:
    """A study, and the true effects on each host."""
    rng, hosts = np.random.default_rng(seed), case.hosts()
    levels = [(one.factor, one.level) for one in plan.comparisons]
    true = {one: [case.effect + float(rng.normal(0, case.differ)) for _ in case.shares] for one in levels}
    own, blocks = rng.normal(0, 0.2, len(case.shares)), rng.normal(0, 0.03, len(hosts))
    found = []
    for trial in plan.trials:
        host = hosts[trial.block]
        noise = 0.03 * (case.noisy if host == 0 else 1.0)
        value = 6 + own[host] + blocks[trial.block] + rng.normal(0, noise)
        value += sum(true[one][host] for one in trial.treatment.levels if one in true)
        place = (trial.position + 1, trial.position, trial.block, trial.replicate, trial.role, trial.treatment)
        responses = {"throughput": math.exp(value)}
        found.append(Observation(*place, 60.0 * trial.position, responses, host=f"host-{host}"))
    return found, true


@dataclass(frozen=True)
class Rates:
    """Shares. ``coverage``: plain intervals that hold the truth, ``naive``: the same of an analysis that knows nothing
    of hosts; ``wrong``: studies of which a simultaneous interval misses the truth; ``differ``: studies that say that
    effects differ; ``claims``: studies with a wrong verdict on a host; ``told``: of all levels on all hosts those
    called better or worse.
    """

    coverage: float
    wrong: float
    naive: float
    differ: float
    claims: float
    told: float


def rates(case: Case, studies: int) -> Rates:
    plan, counts = case.plan(), Counter[str]()
    for seed in range(studies):
        observations, true = run(case, plan, seed)
        one = analyse(plan, observations, ["throughput"]).responses[0]
        alone = [replace(each, host="") for each in observations]
        naive = analyse(plan, alone, ["throughput"], verdicts_only=True).responses[0]
        mean = {level: _mean(case, own) for level, own in true.items()}
        held = list(_held(one, mean, simultaneous=False))
        counts["intervals"] += len(held)
        counts["held"] += sum(held)
        counts["naive"] += sum(_held(naive, mean, simultaneous=False))
        counts["wrong"] += not all(_held(one, mean, simultaneous=True))
        across = one.across_hosts
        assert across is not None
        counts["differ"] += across.differ
        verdicts = [
            (each.verdict, true[each.factor, each.level][int(each.host.removeprefix("host-"))])
            for each in across.effects
        ]
        counts["claims"] += any(_mistaken(verdict, effect) for verdict, effect in verdicts)
        counts["told"] += sum(verdict in (Verdict.BETTER, Verdict.WORSE) for verdict, _ in verdicts)
        counts["places"] += len(verdicts)
    shares = [counts["held"] / counts["intervals"], counts["wrong"] / studies, counts["naive"] / counts["intervals"]]
    return Rates(*shares, counts["differ"] / studies, counts["claims"] / studies, counts["told"] / counts["places"])


def _mean(case: Case, own: Sequence[float]) -> float:
    """What the intervals are for: hosts like these, or the mean over these."""
    return 100 * math.expm1(case.effect if len(case.shares) >= RANDOM_FROM else float(np.mean(own)))


def _held(one: ResponseAnalysis, mean: Mapping[Named, float], *, simultaneous: bool) -> Iterator[bool]:
    for effect in one.effects:
        interval = effect.simultaneous if simultaneous else effect.interval
        assert interval is not None
        yield interval.contains(mean[effect.factor, effect.level])


def _mistaken(verdict: Verdict, effect: float) -> bool:
    if verdict is Verdict.EQUIVALENT:
        return abs(100 * math.expm1(effect)) > 2
    told = {Verdict.BETTER: 1, Verdict.WORSE: -1}.get(verdict, 0)
    return told != 0 and told * effect <= 0


CASES = {
    "2 hosts of 4 blocks": Case((4, 4)),
    "2 hosts of 4 blocks, effects differ by 5 %": Case((4, 4), 0.05),
    "4 hosts of 3 blocks": Case((3, 3, 3, 3)),
    "4 hosts of 3 blocks, effects differ by 5 %": Case((3, 3, 3, 3), 0.05),
    "8 hosts of 2 blocks": Case((2,) * 8),
    "8 hosts of 2 blocks, effects differ by 5 %": Case((2,) * 8, 0.05),
    "8 hosts of 1 to 4 blocks, effects differ by 5 %": Case((4, 4, 3, 2, 2, 1, 1, 1), 0.05),
    "3 hosts of 6, 3 and 2 blocks, effects differ by 5 %": Case((6, 3, 2), 0.05),
    "4 hosts of 4 blocks, one with 3 times the noise": Case((4, 4, 4, 4), 0.0, 3.0),
    "the same, effects differ by 5 %": Case((4, 4, 4, 4), 0.05, 3.0),
}
LONGER = matrix("some hundred simulated studies more")
STUDIES = 60
ERROR = math.sqrt(0.05 * 0.95 / STUDIES)  # of a share of 5 %


@pytest.mark.parametrize(
    "name",
    [
        "2 hosts of 4 blocks, effects differ by 5 %",
        "8 hosts of 2 blocks",
        "4 hosts of 4 blocks, one with 3 times the noise",
        *(
            pytest.param(name, marks=LONGER)
            for name in (
                "4 hosts of 3 blocks",
                "4 hosts of 3 blocks, effects differ by 5 %",
                "8 hosts of 1 to 4 blocks, effects differ by 5 %",
            )
        ),
    ],
)
def test_intervals_hold_and_no_host_is_said_to_win_that_does_not(name: str) -> None:
    found = rates(CASES[name], STUDIES)
    assert found.coverage >= 0.95 - 3 * ERROR
    assert found.wrong <= 0.05 + 3 * ERROR
    assert found.claims <= 0.05 + 3 * ERROR
    if CASES[name].differ == 0:
        assert found.differ <= 0.05 + 3 * ERROR, "the test of treatment x host keeps its level"


def test_an_analysis_that_knows_nothing_of_hosts_says_too_much_of_others() -> None:
    found = rates(Case((4,) * 8, 0.05), STUDIES)
    assert found.naive < 0.85 < 0.95 - 3 * ERROR <= found.coverage
    assert found.differ > 0.8
    assert found.told > 0.05


def test_each_host_counts_the_same_whatever_its_blocks() -> None:
    plan, case = Case((6, 3, 2)).plan(), Case((6, 3, 2))
    observations, _ = run(case, plan, 1)
    one = analyse(plan, observations, ["throughput"]).responses[0]
    assert one.across_hosts is not None
    for effect in one.effects:
        own = [each.percent for each in one.across_hosts.of(effect.factor, effect.level)]
        logs = [math.log1p((each or 0.0) / 100) for each in own]
        assert effect.percent == pytest.approx(100 * math.expm1(float(np.mean(logs))))


def test_many_hosts_are_the_analysis_of_variance_with_treatment_by_host_random() -> None:
    """Balanced and with equal noise: the mean square of treatment x host is the error, with its degrees of freedom."""
    plan = make_plan(pseudo_factors(1), Design(replicates=18, seed=1, sentinels=None))
    case = Case((3,) * 6, 0.05)
    observations, _ = run(case, plan, 7)
    effect = analyse(plan, observations, ["throughput"]).responses[0].effects[0]
    logs = {
        (each.block, each.treatment == plan.baseline): math.log(each.responses["throughput"]) for each in observations
    }
    moved = np.array([logs[block, False] - logs[block, True] for block in range(18)])
    by_host = np.array([moved[host::6].mean() for host in range(6)])
    mean_square = 3 * float(by_host.var(ddof=1))
    reach = float(stats.t.ppf(0.975, 5)) * math.sqrt(mean_square / 18)
    assert effect.interval is not None
    assert effect.df == 5
    ends = [100 * math.expm1(float(by_host.mean()) + side * reach) for side in (-1, 1)]
    assert (effect.interval.low, effect.interval.high) == pytest.approx(tuple(ends))


def test_a_level_that_fails_on_all_hosts_but_one_costs_the_others_nothing() -> None:
    case = Case((2,) * 6)
    plan = case.plan()
    level = plan.comparisons[0]
    named = (level.factor, level.level)
    observations, _ = run(case, plan, 3)
    broken = [
        replace(each, responses={}, failure=FailureClass.CONFIGURATION)
        if each.host != "host-0" and named in each.treatment.levels
        else each
        for each in observations
    ]
    whole, left = (analyse(plan, each, ["throughput"]).responses[0] for each in (observations, broken))
    lost, *_ = (one for one in left.effects if (one.factor, one.level) == named)
    assert lost.verdict is Verdict.UNDETERMINED
    assert lost.reason.startswith("fewer than two hosts can compare it")
    assert left.across_hosts is not None
    assert f"Of 6 hosts there are figures of {level.factor}={level.level} on 1." in left.across_hosts.holds
    others = [{one.factor: one.percent for one in each.effects if one.factor != level.factor} for each in (whole, left)]
    assert others[0] == pytest.approx(others[1])


def main(studies: int) -> None:
    """The table."""
    for name, case in CASES.items():
        found = rates(case, studies)
        figures = (found.naive, found.coverage, found.wrong, found.differ, found.claims, found.told)
        print(f"| {name} | {' | '.join(f'{figure:.3f}' for figure in figures)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
