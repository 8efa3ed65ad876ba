"""What the parts of a change suggest: the knob or the code."""

import pytest

from leadline.advice.findings import why
from leadline.model.frames import (
    CONNECTION_WAIT,
    DATABASE_WAIT,
    LOCK_WAIT,
    PAUSED,
    FrameEffect,
    FrameEffects,
    LevelProfile,
    LevelWaits,
)
from leadline.model.result import Interval


def _effects(path: tuple[str, ...], change: float, total: float = 10.0) -> FrameEffects:
    whole = FrameEffect((), 5.0, total, Interval(total - 1, total + 1), 0.01)
    part = FrameEffect(path, 1.0, change, Interval(change - 1, change + 1), 0.01)
    return FrameEffects(whole, (), (part,), (part,), 0.0, 2, (4, 3), 3)


@pytest.mark.parametrize(
    ("path", "layer", "remedy"),
    [
        ((CONNECTION_WAIT, "Orders.buy"), "server", "raise server.datasource.max_connections, or have Orders.buy keep"),
        ((LOCK_WAIT, "Stock.take"), "application", "do less with the lock that Stock.take waits for"),
        ((DATABASE_WAIT, "Stock.find"), "database", "the statements of Stock.find"),
        ((PAUSED,), "jvm", "jvm.heap larger, or another jvm.collector"),
    ],
)
def test_a_wait_names_its_knob_or_code(path: tuple[str, ...], layer: str, remedy: str) -> None:
    (finding,) = why([LevelWaits("a", 1, "a=1", "p99", _effects(path, 9.0), "a=1, p99: +10 ms: 90 %.")], {})
    assert (finding.layer, finding.subject, finding.testable) == (layer, "a=1", False)
    assert remedy in finding.remedy
    assert finding.title == f"most of the change of p99 is {path[0]}"
    (evidence,) = finding.evidence
    assert (evidence.median, evidence.low, evidence.high) == (9.0, 8.0, 10.0)


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        (
            ("JDBC driver", "org.postgresql.jdbc.PgConnection.prepareStatement"),
            "raise server.datasource.statement_cache",
        ),
        (("(garbage collector)",), "jvm.heap larger"),
        (("application", "shop.Web.post", "shop.Orders.price"), "see Orders.price: it uses this CPU"),
    ],
)
def test_cpu_names_its_knob_or_code(path: tuple[str, ...], remedy: str) -> None:
    (finding,) = why([LevelProfile("a", 1, 4.0, _effects(path, 9.0), "a=1: +40 ms of CPU.")], {})
    assert remedy in finding.remedy
    assert finding.evidence[0].median == 36.0, "ms"
    assert finding.responses == ("cpu_per_transaction",)


def test_a_part_of_less_than_half_or_of_the_other_sign_suggests_nothing() -> None:
    for change in (4.0, -9.0):
        assert why([LevelWaits("a", 1, "a=1", "p99", _effects((PAUSED,), change), "a=1, p99: x.")], {}) == []
