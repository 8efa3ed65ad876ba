"""Machine time for 80 % power: the published protocol against leadline's plans, at a family-wise error of 5 %.

python bench/statistics/power.py [--studies N] [--only PART ...] [--within SHARE ...]

The parts can be run beside each other: ``--only blocks "every run" looks``, ``--only one-at-a-time in``, ``--only
"D-optimal in"``.

Question: 33 settings (11 factors, three levels beside the default), one of which has a true effect of 2, 5 or 10 % on
throughput; how long must the machine run until that setting is called so in four of five studies, when in at most one
of twenty studies without effects anything is called?

Published protocol: every setting in adjacent repeats, the defaults in ten thirds as many runs before them, 1260 s a
run; a gain is the ratio to the defaults' mean. It corrects for nothing; here it gets the best threshold it could have,
the 95th percentile of the largest |gain| without effects under the same noise (simulated).

Noise: coefficient of variation of a run 4.3 %, of which the share ``within`` (of the variance) comes from inside the
600 s of its steady state and the rest from what differs between lives of a server. The publication does not tell the
share, so three are computed, or those of ``--within``, measured ones for instance. ``days``: besides, each 24 h have
an effect of their own of 2 % (assumed, not published).

Leadline's plans: half-widths of simultaneous intervals and errors of estimates come from the lab's own analysis of
simulated pilot studies; both shrink with the root of the plan's size, which gives the size for 80 % power, and of slots
with the number of server instances, so their size comes from a second pilot of about that size; a further simulation
checks the power, of as many studies as --studies says, fewer where one takes long; where two
would take more than a minute the row says so instead. Plans with looks have a tenth more replicates than the published
protocol; their hours are what the simulated studies took on average. Live factors
change in slots of 30 s of which 10 s are left out; a trial of slots has the published ramps (660 s) and a steady state
of about two hours.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from sequential import sequential  # noqa: E402

from leadline.analysis.study import analyse  # noqa: E402
from leadline.design.make import make_plan  # noqa: E402
from leadline.layouts import switchback_plan  # noqa: E402
from leadline.model.design import Design, Switchback  # noqa: E402
from leadline.model.knob import ApplyCost  # noqa: E402
from leadline.model.plan import Factor, Plan  # noqa: E402
from leadline.model.result import Observation, Verdict  # noqa: E402
from leadline.model.workload import Workload  # noqa: E402
from leadline.places.simulated import Model, Truth, simulate_observations  # noqa: E402
from leadline.planning.looks import State  # noqa: E402

CV = 0.043
RUN, RAMPS, STEADY = 1260.0, 660.0, 600.0
SLOT, WASH_OUT, LONG = 30.0, 10.0, 7200.0
RUNS = 48  # treatments of the D-optimal designs; 34 is the least for 33 effects
CORRELATION = 0.5  # of neighbouring seconds
DAY, DAY_CV = 86400.0, 0.02
EFFECTS = (0.02, 0.05, 0.10)
LOOKS = 5
PER_SLOT = 0.0045  # seconds of CPU to analyse a slot; a trial takes about as much
PATIENCE = 60.0  # seconds of CPU for the check of one row
FACTORS = [Factor(f"vm.k{number:02d}", (0, 1, 2, 3), 0, apply_cost=ApplyCost.LIVE) for number in range(1, 12)]
PLANTED = {(factor.name, 1) for factor in FACTORS}  # in the check of power: one level of every factor
Z = 0.8416  # of 80 %


@dataclass(frozen=True)
class Scenario:
    """``within``: share of a run's variance from inside its steady state; ``days``: whether days differ."""

    within: float
    days: bool

    @property
    def name(self) -> str:
        return f"{self.within:.0%} within a server instance{', days differ' if self.days else ''}"

    def truth(self, effect: float = 0.0) -> Truth:
        """With ``effect`` at the planted levels."""
        spread = (1 + CORRELATION) / (1 - CORRELATION)  # long-run over single variance
        return Truth.model_validate(
            {
                "noise": {
                    "trials": CV * math.sqrt(1 - self.within),
                    "seconds": CV * math.sqrt(self.within * STEADY / spread),
                    "autocorrelation": CORRELATION,
                },
                "effects": [
                    {"when": {name: level}, "percent": {"throughput": effect}}
                    for name, level in sorted(PLANTED)
                    if effect
                ],
                "overhead": 1e-3,
                "server": {"startup": 1e-3},
            }
        )


@dataclass(frozen=True)
class Way:
    """A way to plan. ``plan(size)``: of so many units (replicates or blocks of slots); ``hours(size)`` it takes."""

    name: str
    pilot: int
    studies: int
    plan: Callable[[int], Plan]
    workload: Workload

    def hours(self, size: int) -> float:
        if size > 40 * self.pilot:  # more than can be planned at once: studies of the pilot's size, one after another
            return self.hours(self.pilot) * size / self.pilot
        ramps = self.workload.ramp_up + self.workload.ramp_down
        seconds = 0.0
        for trial in self.plan(size).trials:
            slots = sum(slot.seconds for slot in trial.slots)
            seconds += ramps + (slots or self.workload.steady)
        return seconds / 3600


PUBLISHED = Workload(users=30, ramp_up=480, steady=STEADY, ramp_down=180)


def ways() -> list[Way]:
    return [
        Way("one-at-a-time, blocks", 4, 12, lambda size: make_plan(FACTORS, Design(replicates=size)), PUBLISHED),
        Way(
            "D-optimal, every run varies all factors",
            2,
            12,
            lambda size: make_plan(FACTORS, Design(kind="d-optimal", runs=RUNS, replicates=size)),
            PUBLISHED,
        ),
        Way("switchback, one-at-a-time in slots", 28, 2, lambda size: _slots(size, "one-at-a-time"), PUBLISHED),
        Way("switchback, D-optimal in slots", 20, 2, lambda size: _slots(size, "d-optimal"), PUBLISHED),
    ]


def _shortened(plan: Plan, slots: int) -> Plan:
    """The first so many slots of a plan."""
    kept, left = [], slots
    for trial in plan.trials:
        if left > 0:
            kept.append(replace(trial, slots=trial.slots[:left]))
            left -= len(kept[-1].slots)
    return replace(plan, trials=tuple(kept))


@cache
def _slots(size: int, kind: str) -> Plan:
    """So many blocks of slots, in lives of about two hours."""
    first = _lives(1, kind).trials[0].slots
    treatments = len({slot.treatment for slot in first})
    return _shortened(_lives(math.ceil(size * treatments / len(first)), kind), size * treatments)


@cache
def _lives(number: int, kind: str) -> Plan:
    keys = {"kind": kind, "replicates": number, "switchback": Switchback(slot=SLOT, wash_out=WASH_OUT)}
    runs = {"runs": RUNS} if kind == "d-optimal" else {}
    return switchback_plan(FACTORS, Design.model_validate(keys | runs), PUBLISHED.model_copy(update={"steady": LONG}))


@dataclass(frozen=True)
class Judged:
    """Of many studies, in logarithms: typical half-width of simultaneous intervals, error of estimates; shares of
    planted levels found and of studies with a verdict elsewhere.
    """

    half: float
    error: float
    found: float
    wrong: float


def judged(way: Way, size: int, scenario: Scenario, effect: float, studies: int, seed: int) -> Judged:
    """Simulate and analyse."""
    plan, truth = way.plan(size), scenario.truth(effect)
    model = Model(truth, way.workload)
    halves, squares, found, wrong = [], [], 0, 0
    for number in range(studies):
        observations = simulate_observations(plan, truth, way.workload, seed + number, model=model, wash_out=WASH_OUT)
        if scenario.days:
            observations = _with_days(observations, seed + number)
        result = analyse(plan, observations, ["throughput"]).responses[0]
        elsewhere = False
        for one in result.effects:
            if one.simultaneous is None or one.percent is None:
                continue
            planted = (one.factor, one.level) in PLANTED and effect > 0
            true = math.log1p(effect) if planted else 0.0
            halves.append(math.log((100 + one.simultaneous.high) / (100 + one.simultaneous.low)) / 2)
            squares.append((math.log1p(one.percent / 100) - true) ** 2)
            found += planted and one.verdict is Verdict.BETTER
            elsewhere |= not planted and one.verdict in (Verdict.BETTER, Verdict.WORSE)
        wrong += elsewhere
    most = len(PLANTED) * studies
    return Judged(float(np.mean(halves)), math.sqrt(float(np.mean(squares))), found / most, wrong / studies)


def _with_days(observations: list[Observation], seed: int) -> list[Observation]:
    first = min(one.started for one in observations)
    days = np.random.default_rng([seed, 5]).normal(0.0, DAY_CV, 2000)
    return [
        replace(
            one,
            responses={
                name: value * math.exp(days[int((one.started - first) // DAY)]) for name, value in one.responses.items()
            },
        )
        for one in observations
    ]


def looked(replicates: int, scenario: Scenario, effect: float, studies: int, seed: int) -> tuple[Judged, float]:
    """The one-at-a-time plan with looks, played as the lab does it; and the hours it took on average."""
    plan, truth = make_plan(FACTORS, Design(replicates=replicates)), scenario.truth(effect)
    model = Model(truth, PUBLISHED)
    found, wrong, trials = 0, 0, 0
    for number in range(studies):
        every = simulate_observations(plan, truth, PUBLISHED, seed + number, model=model)
        every = _with_days(every, seed + number) if scenario.days else every
        state, taken = sequential(plan, every, LOOKS)
        called = {(one.comparison.factor, one.comparison.level): one.state for one in state.settlings}
        planted = PLANTED if effect else set()
        found += sum(called[each] is State.BETTER for each in planted)
        wrong += any(called[each] in (State.BETTER, State.WORSE) for each in called if each not in planted)
        trials += taken
    return Judged(0.0, 0.0, found / studies / len(PLANTED), wrong / studies), trials / studies * RUN / 3600


def adaptive(options: argparse.Namespace) -> None:
    """The rows of plans that end when they know enough, and what they call without effects."""
    scenario = Scenario(0.25, False)
    checks = max(4, options.studies)
    for effect in (*EFFECTS, 0.0):
        if not options.only or any(word in "looks" for word in options.only):
            repeats = math.ceil(1.1 * (published_runs(scenario, effect or 0.05) or (600, 0.0))[0])
            own = 2 if effect == 0.02 else checks if effect else 4 * checks
            _row(
                f"one-at-a-time, blocks, {LOOKS} interim analyses",
                scenario,
                effect,
                *looked(repeats, scenario, effect, own, 1),
                own,
            )


def _row(name: str, scenario: Scenario, effect: float, check: Judged, hours: float, studies: int) -> None:
    before = published_hours(scenario.days, effect) if effect else None
    cells = [
        name,
        scenario.name,
        f"{effect:.0%}",
        f"{before:.0f}" if before else "",
        f"{hours:.3g}",
        f"{before / hours:.1f}" if before else "",
        f"{check.found:.2f} of {studies}" if effect else "",
        f"{check.wrong:.2f}" + ("" if effect else f" of {studies}"),
    ]
    print("| " + " | ".join(cells) + " |", flush=True)


def published_runs(scenario: Scenario, effect: float, most: int = 600) -> tuple[int, float] | None:
    """Least number of adjacent repeats for 80 % power, and that power; None beyond ``most``."""
    low, high = 1, 2
    while _published_power(scenario, effect, high) < 0.8:
        low, high = high, high * 2
        if high > most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _published_power(scenario, effect, middle) >= 0.8 else (middle, high)
    return high, _published_power(scenario, effect, high)


def _published_power(scenario: Scenario, effect: float, repeats: int, studies: int = 1000) -> float:
    rng = np.random.default_rng([repeats, scenario.days])
    defaults = max(1, round(10 * repeats / 3))
    count = defaults + 33 * repeats
    day = (np.arange(count) * RUN // DAY).astype(int)
    gains = np.empty((studies, 33))
    for study in range(studies):
        runs = rng.normal(0.0, CV, count)
        if scenario.days:
            runs += rng.normal(0.0, DAY_CV, int(day[-1]) + 1)[day]
        gains[study] = runs[defaults:].reshape(33, repeats).mean(axis=1) - runs[:defaults].mean()
    threshold = float(np.quantile(np.abs(gains).max(axis=1), 0.95))
    return float(np.mean(gains + math.log1p(effect) > threshold))


@cache
def published_hours(days: bool, effect: float) -> float | None:
    """Of the protocol with the least number of repeats; tells it on standard error. None beyond the search."""
    needed = published_runs(Scenario(0.25, days), effect)
    name = f"published protocol, {'days differ' if days else 'no days'}, {effect:.0%}"
    if needed is None:
        print(f"{name}: more than 600 adjacent repeats (7,600 h)", file=sys.stderr, flush=True)
        return None
    total = max(1, round(10 * needed[0] / 3)) + 33 * needed[0]
    hours = total * RUN / 3600
    text = f"{needed[0]} adjacent repeats, {total} runs, {hours:.0f} h, power {needed[1]:.2f}"
    print(f"{name}: {text}", file=sys.stderr, flush=True)
    return hours


def units(way: Way, scenario: Scenario, effect: float, pilot: Judged, per_unit: int) -> int:
    """For 80 % power: from the pilot, and of slots from a second one of about that size, as far as it takes seconds:
    critical values depend on how many server instances there are.
    """

    def needed(size: int, found: Judged) -> int:
        return max(1, math.ceil(size * ((found.half + Z * found.error) / math.log1p(effect)) ** 2))

    first = needed(way.pilot, pilot)
    if per_unit == len(way.plan(1).trials):
        return first
    second = min(first, int(PATIENCE / 4 / (PER_SLOT * per_unit)))
    return needed(second, judged(way, second, scenario, 0.0, 1, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=6, help="that check the power of a plan")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of ways or scenarios")
    parser.add_argument("--within", nargs="*", type=float, default=[], help="shares of the noise, of slots alone")
    options = parser.parse_args()
    scenarios = [Scenario(0.25, False), Scenario(0.05, False), Scenario(1.0, False), Scenario(0.25, True)]
    scenarios = [Scenario(share, False) for share in options.within] or scenarios
    print("| plan | noise | effect | published h | leadline h | times less | power, checked | wrong elsewhere |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    if not options.within:
        adaptive(options)
    for way in ways():
        for scenario in scenarios:
            if options.only and not any(word in f"{way.name} {scenario.name}" for word in options.only):
                continue
            if way.plan(1).trials[0].slots == () and scenario.within != 0.25:
                continue  # whole runs do not see where their noise comes from
            begun = time.process_time()
            per_unit = sum(max(1, len(trial.slots)) for trial in way.plan(1).trials)
            pilot = judged(way, way.pilot, scenario, 0.0, way.studies, 1)
            for effect in EFFECTS:
                size = units(way, scenario, effect, pilot, per_unit)
                per_study = PER_SLOT * size * per_unit
                checks = min(options.studies, int(PATIENCE / per_study))
                check = judged(way, size, scenario, effect, checks, 10_001) if checks >= 2 else None
                hours = way.hours(size)
                before = published_hours(scenario.days, effect)
                cells = [
                    way.name,
                    scenario.name,
                    f"{effect:.0%}",
                    f"{before:.0f}" if before else "> 7,600",
                    f"{hours:.3g}",
                    f"{'' if before else '> '}{(before or 7600.0) / hours:.1f}",
                    f"{check.found:.2f} of {checks}" if check else f"not checked: {per_study:.0f} s of CPU a study",
                    f"{check.wrong:.2f}" if check else "",
                ]
                print("| " + " | ".join(cells) + " |", flush=True)
            print(
                f"{way.name}, {scenario.name}: {time.process_time() - begun:.0f} s of CPU", file=sys.stderr, flush=True
            )


if __name__ == "__main__":
    main()
