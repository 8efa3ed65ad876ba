"""What the load driver's bench calls met, right sessions and equal rates."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

FOLDER = Path(__file__).parents[3] / "bench" / "driver"
NAMES = [path.stem for path in FOLDER.glob("*.py")]


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    before = {name: sys.modules.pop(name) for name in NAMES if name in sys.modules}
    sys.path.insert(0, str(FOLDER))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in ("accuracy", "common", "watch")})
    finally:
        sys.path.remove(str(FOLDER))
        for name in NAMES:
            sys.modules.pop(name, None)
        sys.modules.update(before)


def test_ratios_are_of_pairs(bench: SimpleNamespace) -> None:
    # Rounds differ tenfold, the pairs do not: 1/2 in each.
    found = bench.common.ratio([1, 10, 5], [2, 20, 10])
    assert (found.middle, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))
    found = bench.common.ratio([1, 1], [1, 4])
    # Logarithms 0 and -ln 4: mean -ln 2, standard error ln 2, t of one degree of freedom 12.706.
    assert found.middle == pytest.approx(0.5)
    assert found.high == pytest.approx(0.5 * 2**12.7062, rel=1e-3)
    assert bench.common.ratio([3], [2]).text() == "1.50"


def test_a_target_is_met_by_the_whole_interval(bench: SimpleNamespace) -> None:
    ratio = bench.common.Ratio
    assert ratio(0.4, 0.3, 0.5).lies(0, 0.5) == "met"
    assert ratio(0.4, 0.3, 0.51).lies(0, 0.5) == "not shown"
    assert ratio(0.6, 0.51, 0.7).lies(0, 0.5) == "not met"
    assert ratio(0.4).lies(0, 0.5) == "not shown"
    verdicts = bench.common.Verdicts()
    verdicts.most("half", None, 0.5)
    assert verdicts.rows == [("half", "not measured", "not shown")]
    ratios = {"mean": ratio(1.0, 0.995, 1.005), "p50": ratio(1.02, 1.011, 1.03), "p99": ratio(1.0, 0.98, 1.02)}
    assert bench.accuracy.judged(ratios, 0.01) == ("farthest: p50 1.020 (1.011 to 1.030)", "not met: p50")
    assert bench.accuracy.judged(ratios, 0.03)[1] == "met"
    del ratios["p50"]
    assert bench.accuracy.judged(ratios, 0.01)[1] == "not shown: p99"


def test_only_whole_right_sessions_count(bench: SimpleNamespace) -> None:
    right = {"login": 1000, "logout": 990, "look": 2980, "form": 2990, "act": 1000}
    bench.watch.check(right)
    with pytest.raises(bench.common.Unfit, match="refused 1 of"):
        bench.watch.check({**right, "refused": 1})
    with pytest.raises(bench.common.Unfit, match="1000 of `look` in 1000"):
        bench.watch.check({**right, "look": 1000})  # as from a browser's cache
    bench.watch.keeps(bench.watch.Window(1990, 1.0, 1.0), 2000)
    with pytest.raises(bench.common.Unfit, match="1500 requests/s"):
        bench.watch.keeps(bench.watch.Window(1500, 1.0, 1.0), 2000)


def test_connections_are_as_they_should_be(bench: SimpleNamespace) -> None:
    bench.watch.connects(0.98, False)
    bench.watch.connects(0.1, True)
    for each, shared in ((0.1, False), (2.0, False), (1.0, True)):
        with pytest.raises(bench.common.Unfit, match="connections a session"):
            bench.watch.connects(each, shared)


def test_every_generator_begins_with_another_one(bench: SimpleNamespace) -> None:
    assert [name for _, name in bench.common.turns("abc", 3)] == list("abcbcacab")
