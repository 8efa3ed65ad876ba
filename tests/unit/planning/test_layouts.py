"""Plain trials, switchback and rotation compared on one question: components, what is possible, which is proposed."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leadline.checks.files.study import find_study
from leadline.checks.plan import Planned
from leadline.design.make import make_plan
from leadline.experiments.pilot import compare_layouts
from leadline.layouts import layout_of
from leadline.model.design import Design, Rotation
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor, Plan
from leadline.model.result import Interval
from leadline.model.workload import Workload
from leadline.places.testbed import LocalTestbed
from leadline.planning.forecast import JOB, Setup, forecast
from leadline.planning.layouts import Compared, Question, compared, components_of
from leadline.planning.noise import Component, Noise, assumed, cv_of, variance_of
from leadline.planning.wording import layout_lines

RESTART = Factor("server.pool", (10, 2), 10, apply_cost=ApplyCost.RESTART)
LIVE = Factor("vm.swappiness", (60, 0), 60, apply_cost=ApplyCost.LIVE)
PLAIN = Design(replicates=6, sentinels=None)
LOAD = Workload(ramp_up=10.0, steady=20.0, ramp_down=0.0)


def component(variance: float) -> Component:
    return Component(variance, Interval(0.0, 2 * variance, 0.95), 20)


def plain(start_and_machine: float, second: float, steady: float = 20.0) -> Noise:
    """As 12 trials with per-second series tell."""
    whole = start_and_machine + second / steady
    return Noise("throughput", "pilot", False, 12, component(whole), whole, second=second, steady=steady)


def rotation(start: float, second: float, steady: float = 20.0) -> Noise:
    """As the instances of a rotation tell, which have no series."""
    whole = start + second / steady
    return Noise("throughput", "pilot", False, 12, component(whole), whole)


def question(*factors: Factor, design: Design = PLAIN, workload: Workload = LOAD, **keys: Any) -> Question:
    return Question(factors, design, workload, 15.0, **keys)


def of(asked: Question, noise: Noise, other: Noise | None = None, effect: float | None = None) -> Compared:
    return compared(asked, make_plan(asked.factors, asked.design), noise, other, effect)


def row(found: Compared, name: str) -> Any:
    return next(each for each in found.layouts if each.name == name)


def test_pilots_of_both_layouts_tell_start_and_machine_apart() -> None:
    found = components_of(plain(0.0025, 0.004), rotation(0.0004, 0.004), question(RESTART))
    assert (found.second, found.assumed) == (0.004, ())
    assert found.start == pytest.approx(0.0004)
    assert found.machine == pytest.approx(0.0021)
    turned = components_of(
        rotation(0.0004, 0.004), plain(0.0025, 0.004), question(RESTART, design=Design(rotation=Rotation()))
    )
    assert turned == found


def test_what_no_pilot_tells_is_assumed_and_said() -> None:
    found = components_of(assumed("throughput", 4.3, "given"), None, question(RESTART))
    assert found.assumed == ("seconds", "start")
    assert found.second / 20 + found.start + found.machine == pytest.approx(variance_of(4.3))
    one = components_of(plain(0.0025, 0.004), None, question(RESTART))
    assert one.assumed == ("start",)
    assert one.start + one.machine == pytest.approx(0.0025)
    slots = Noise("throughput", "pilot", False, 4, None, 0.0009, component(0.0009), between_slots=0.002, slot_seconds=5)
    two = components_of(slots, None, question(RESTART))
    assert (two.second, two.start + two.machine) == pytest.approx((0.01, 0.0009))


def test_the_row_of_the_study_itself_is_its_forecast() -> None:
    asked = question(RESTART)
    noise = plain(0.0025, 0.004)
    plan = make_plan(asked.factors, asked.design)
    told = forecast(plan, noise, asked.setup(asked.design, asked.workload), effect=5.0, design=asked.design)
    own = next(each for each in of(asked, noise, effect=5.0).layouts if each.own)
    assert own.name == "plain"
    assert own.smallest == pytest.approx(told.smallest[0.8])
    assert told.need is not None
    assert own.need == pytest.approx(told.need.seconds)


def test_so_it_is_side_by_side_with_noise_that_is_assumed_of_plain_trials() -> None:
    design = PLAIN.model_copy(update={"rotation": Rotation()})
    asked = question(RESTART, design=design)
    plan = layout_of(design).plan(asked.factors, design, LOAD, ())
    noise = assumed("throughput", 4.3, "given")
    told = forecast(plan, noise, asked.setup(design, LOAD), design=design).smallest[0.8]
    (own,) = (each for each in compared(asked, plan, noise, None).layouts if each.own)
    assert own.name == "rotation"
    assert own.smallest == pytest.approx(told, rel=0.001)


def test_rotation_pays_where_the_machine_makes_the_noise_and_not_where_the_start_does() -> None:
    noise = plain(0.0025, 0.002)
    found = of(question(RESTART), noise, rotation(0.0001, 0.002))
    assert found.best is not None
    assert found.best.name == "rotation"
    assert found.best.seconds == pytest.approx(found.seconds, rel=0.2)
    short = question(RESTART, workload=LOAD.model_copy(update={"ramp_up": 2.0}))
    started = compared(short, make_plan([RESTART], PLAIN), noise, rotation(0.0025, 0.002))
    gained = row(found, "plain").smallest / row(found, "rotation").smallest
    nothing = row(started, "plain").smallest / row(started, "rotation").smallest
    assert gained > 2 > 1.4 > nothing


def test_an_instance_is_measured_as_long_as_kalibera_and_jones_say() -> None:
    start, second = 0.001, 0.03
    workload = LOAD.model_copy(update={"steady": 20.0})
    design = PLAIN.model_copy(update={"replicates": 40})
    found = of(question(RESTART, design=design, workload=workload), plain(0.005, second), rotation(start, second))
    slots = math.ceil(math.sqrt((15 + 10) / 4 * (second / 3) / start))
    chosen = row(found, "rotation")
    assert chosen.slots == slots * chosen.trials
    assert chosen.write["workload.steady"] == f"{4 * slots}s"


def test_live_factors_change_in_slots_and_the_least_known_factor_counts() -> None:
    live = of(question(LIVE), plain(0.0025, 0.004))
    assert row(live, "switchback").smallest < row(live, "plain").smallest / 2
    both = of(question(LIVE, RESTART), plain(0.0025, 0.004))
    assert row(both, "switchback").smallest > row(live, "switchback").smallest


def test_a_layout_that_cannot_be_says_why() -> None:
    found = of(question(RESTART), plain(0.0025, 0.004))
    assert "design.switchback needs a factor that can be changed" in row(found, "switchback").reason
    dear = replace(RESTART, apply_cost=ApplyCost.REBOOT)
    assert "reboot" in row(of(question(dear), plain(0.0025, 0.004)), "rotation").reason


def test_instances_that_do_not_fit_stand_in_smaller_blocks_or_not_at_all() -> None:
    levels = Factor("server.pool", (10, 2, 5, 20, 40), 10, apply_cost=ApplyCost.RESTART)

    def room(most: int) -> Callable[[Plan], tuple[str, int]]:
        def check(plan: Plan) -> tuple[str, int]:
            largest = max(sum(trial.block == one.block for trial in plan.trials) for one in plan.trials)
            return ("too much memory" if largest > most else "", most)

        return check

    design = Design(replicates=6, sentinels=None)
    some = of(question(levels, design=design, room=room(3)), plain(0.0025, 0.004))
    write = row(some, "rotation").write
    assert (write["design.blocks"], write["design.block_size"]) == ("incomplete", "3")
    none = of(question(levels, design=design, room=room(1)), plain(0.0025, 0.004))
    assert row(none, "rotation").reason == "too much memory"


@pytest.mark.parametrize("name", ["quickstart", "collectors", "statement-cache", "vmm"])
def test_what_is_proposed_is_the_plan_that_was_told(name: str, tmp_path: Path) -> None:
    place = LocalTestbed(tmp_path)

    def planned(*overrides: str) -> Planned:
        return place.plan(find_study(name, overrides))

    noise = assumed("throughput", 4.3, "given")
    first = planned()
    found = compare_layouts(find_study(name).study, first, tmp_path, noise, 20.0)
    proposed = [each for each in found.layouts if each.write]
    assert proposed
    for each in proposed:
        plan = planned(*(f"{key}={value}" for key, value in each.write.items())).plan
        assert len(plan.trials) == each.trials
        assert sum(len(trial.slots) for trial in plan.trials) in (0, each.slots)
        assert plan.layout == each.name


def test_the_table_says_its_noise_and_what_to_write() -> None:
    found = of(question(RESTART), plain(0.0025, 0.004), rotation(0.0001, 0.004), effect=3.0)
    lines = layout_lines(found)
    assert f"start {cv_of(0.0001):.3g} %" in lines[0]
    assert "assumed" not in lines[0]
    assert [line.split()[0] for line in lines[1:4]] == ["plain", "switchback", "rotation"]
    assert lines[1].endswith("this study")
    assert lines[4].startswith("best: rotation, by --set design.rotation.slot=4s")
    alone = replace(found, layouts=tuple(each for each in found.layouts if each.own))
    assert layout_lines(alone)[-1] == "best: plain, as this study is"


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
