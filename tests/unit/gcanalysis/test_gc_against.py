"""GC logs against each other: what differs is told, and nothing where only chance does.

python tests/unit/gcanalysis/test_gc_against.py 400
"""

import sys

import numpy as np
import pytest

from leadline.gcanalysis.against import LogBlocks, blocks_of, differences, which_differ
from leadline.gcanalysis.events import Events, GcCpu, GcLog, Heap, Jvm, Pause

MIB = 1 << 20


def log(seed: int, times: float = 1.0, count: int = 400, bursts: bool = False) -> GcLog:
    """Ten minutes with pauses of about 10 ms, ``times`` as long; in ``bursts`` those of one are alike."""
    random = np.random.default_rng(seed)
    made = GcLog(jvms=[Jvm("G1", last=600.0)], lines=count, understood=count)
    at = np.sort(random.uniform(1, 599, count))
    alike = np.ones(count)
    if bursts:
        centres = np.sort(random.uniform(20, 580, count // 10))
        at = np.clip(np.repeat(centres, 10) + random.uniform(0, 5, 10 * len(centres)), 1, 599)
        alike = np.repeat(random.lognormal(0, 0.3, len(centres)), 10)[np.argsort(at)]
        at.sort()
    pauses, cpu = [], []
    for n, (end, ms) in enumerate(zip(at, times * alike * random.lognormal(2.3, 0.5, count), strict=True)):
        heap = Heap(100 * MIB, 20 * MIB)
        pauses.append(Pause(float(end), None, 0, n, "Pause Young", "Young", "", float(ms), heap))
        cpu.append(GcCpu(float(end), None, 0, n, float(ms) / 500, 0.0, float(ms) / 1e3))
    made.pauses, made.cpu = Events.of(Pause, pauses), Events.of(GcCpu, cpu)
    return made


def blocks(*args: float, name: str = "") -> LogBlocks:
    found = blocks_of(name, log(*args))  # type: ignore[arg-type]
    assert found is not None
    return found


def test_longer_pauses_are_told_with_an_interval_and_the_same_log_is_not() -> None:
    told = {one.figure: one for one in differences([blocks(1)], [blocks(2, 2.0)])}
    assert set(told) == {"pause p50", "pause p99", "pauses", "time paused", "allocation", "collector CPU"}
    for figure in ("pause p50", "time paused", "collector CPU"):
        low, high = told[figure].low, told[figure].high
        assert low is not None
        assert high is not None
        assert low < 100 < high
        assert told[figure].verdict == "higher"
    assert not told["pauses"].verdict
    again = differences([blocks(1)], [blocks(1)])
    assert [(one.percent, one.verdict) for one in again] == [(0.0, "")] * 6


def wrong_pairs(pairs: int, bursts: bool = False) -> int:
    """How many pairs of logs of the same settings are told to differ in some figure."""
    wrong = 0
    for seed in range(pairs):
        a, b = (blocks(one, 1.0, 400, bursts) for one in (seed, seed + pairs))
        wrong += any(one.verdict for one in differences([a], [b]))
    return wrong


def test_chance_alone_is_seldom_told() -> None:
    assert wrong_pairs(40) <= 5  # 2 expected


def test_figures_are_those_of_the_pauses_and_few_have_no_interval() -> None:
    ten = blocks(3, 1.0, 10)
    p50 = differences([ten], [blocks(4)])[0]
    assert p50.a == sorted(ten.ms)[4]  # observed, nearest rank
    assert (p50.low, p50.verdict) == (None, "")


def test_three_logs_a_side_differ_by_what_starts_of_a_jvm_differ() -> None:
    a = [blocks(n, 1 + n / 2) for n in range(3)]
    b = [blocks(n, 1.2 + n / 2) for n in range(10, 13)]
    assert not any(one.verdict for one in differences(a, b))  # a fifth more, where starts differ by half
    assert all(one.low is not None for one in differences(a, b))


def test_the_pod_that_differs_is_named() -> None:
    pods = [blocks(n, name=f"pod-{n}") for n in range(5)]
    assert which_differ(pods) == {}
    found = which_differ([*pods, blocks(9, 1.8, name="pod-9")])
    assert list(found) == ["pod-9"]
    assert {one.figure for one in found["pod-9"]} >= {"pause p50", "time paused"}


def test_a_log_without_times_is_not_cut() -> None:
    timeless = log(1)
    timeless.timeless = True
    assert blocks_of("", timeless) is None
    assert differences([blocks(1)], [blocks(2)])[0].percent == pytest.approx(0, abs=30)


if __name__ == "__main__":
    number = int(sys.argv[1])
    print(f"{wrong_pairs(number) / number:.3f}, in bursts {wrong_pairs(number, bursts=True) / number:.3f}")
