"""Study A's published table, and a table of results made from it, through the same code."""

from __future__ import annotations

import json

import pytest

from leadline.figures import (
    Parameter,
    ResultTable,
    Run,
    extremes_table,
    figures_of,
    figures_of_gains,
    read_gains,
)
from leadline.figures.foreign import rows_of_csv, rows_of_json
from leadline.model.result import RESPONSES

# kernel, best gain and worst loss in percent, as printed (2006)
PUBLISHED = (
    ("2.6.11.12-ac", 2.95, -4.43),
    ("Debian 2.6.8-2", 14.96, -20.93),
    ("Debian 2.4.26", 9.89, -10.88),
    ("Fedora 2.6.11-1.1369", 4.25, -5.77),
    ("2.6.12.3-ck", 6.02, -5.59),
    ("2.6.13-rc3-mm", 3.0, -7.34),
    ("Debian 2.6.11", 5.29, -20.0),
    ("SuSE 2.6.11.4(1)", 2.7, -5.32),
    ("SuSE 2.6.11.4(2)", 3.61, -6.03),
    ("Vanilla 2.6.12.3", 4.04, -3.27),
    ("Vanilla 2.6.14.3", 2.45, -7.15),
    ("Vanilla 2.6.15-rc5", 3.16, -8.04),
)


def csv_text() -> str:
    return "kernel,best_gain,worst_loss\n" + "".join(f"{name},{gain},{loss}\n" for name, gain, loss in PUBLISHED)


def test_the_published_table_gives_the_published_means() -> None:
    found = extremes_table(read_gains(rows_of_csv(csv_text(), "table")), settings=33, replicates=3)
    assert found.mean_best == pytest.approx(5.1933, abs=5e-5)
    assert found.mean_worst == pytest.approx(-8.7292, abs=5e-5)
    assert found.median_best == pytest.approx(3.825)
    assert found.median_worst == pytest.approx(-6.59)
    assert found.best_interval is not None
    assert (found.best_interval.low, found.best_interval.high) == pytest.approx((2.84, 7.54), abs=0.005)
    assert found.luck_cv == pytest.approx(4.32, abs=0.005)


def test_luck_alone_gives_the_published_mean_at_the_noise_it_names() -> None:
    rows = read_gains(rows_of_csv(csv_text(), "table"))
    found = extremes_table(rows, settings=33, replicates=3, cv=4.32)
    assert found.luck_mean == pytest.approx(5.19, abs=0.005)
    assert all(row.luck and row.luck.comparisons == 33 for row in found.rows)
    assert "5.19 %" in found.sentence
    assert "luck" in found.sentence


def test_the_published_document_is_found_wherever_it_stands() -> None:
    table = [{"kernel": name, "gain_pct": gain, "loss_pct": loss} for name, gain, loss in PUBLISHED]
    document = {"design": {"settings": 33}, "other": [{"kernel": "2.4", "pages": 3}], "study": {"table": table}}
    rows = read_gains(rows_of_json(json.dumps(document), "published.json"))
    assert extremes_table(rows).mean_best == pytest.approx(5.1933, abs=5e-5)


def test_results_with_these_extremes_give_the_same_table() -> None:
    """Live data: the same function makes the table, so that a published figure and ours mean the same."""
    runs = []
    for number, (_, gain, loss) in enumerate(PUBLISHED):
        runs.append(Run(number, (-1, -1), 200.0))
        for level, percent in enumerate((gain, 0.5 * (gain + loss), loss)):
            runs.append(Run(number, (level, -1), 200.0 * (1 + percent / 100)))
        runs.append(Run(number, (-1, 0), 200.0))
    names = tuple(name for name, _, _ in PUBLISHED)
    parameters = (Parameter("x", ("1", "2", "3")), Parameter("y", ("1",)))
    live = figures_of(ResultTable(RESPONSES["throughput"], names, parameters, tuple(runs))).extremes
    published = figures_of_gains(extremes_table(read_gains(rows_of_csv(csv_text(), "table")))).extremes
    assert live is not None
    assert published is not None
    for mine, theirs in zip(live.rows, published.rows, strict=True):
        assert (mine.system, mine.best, mine.worst) == (
            theirs.system,
            pytest.approx(theirs.best),
            pytest.approx(theirs.worst),
        )
        assert mine.best_setting == "x=1"
        assert mine.best_interval is None
        assert "repeated" in mine.reason
    assert live.mean_best == pytest.approx(published.mean_best)
    assert live.mean_worst == pytest.approx(published.mean_worst)
    assert live.best_interval is not None
    assert published.best_interval is not None
    assert live.best_interval.low == pytest.approx(published.best_interval.low)
