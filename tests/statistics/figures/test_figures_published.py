"""Study A's published table, and a table of results made from it, through the same code."""

import csv
import json
from pathlib import Path

import pytest

from leadline.figures.everything import figures_of, figures_of_gains
from leadline.figures.extremes import extremes_table
from leadline.figures.foreign import read_gains, rows_of_csv, rows_of_json
from leadline.figures.table import Parameter, ResultTable, Run
from leadline.model.result import RESPONSES

TEXT = (Path(__file__).parents[3] / "docs" / "concepts" / "study-a-published.csv").read_text()  # as printed, 2006
PUBLISHED = [(name, float(gain), float(loss)) for name, gain, loss in list(csv.reader(TEXT.splitlines()))[1:]]


def test_the_published_table_gives_the_published_means() -> None:
    found = extremes_table(read_gains(rows_of_csv(TEXT, "table")), settings=33, replicates=3)
    assert len(found.rows) == 12
    assert found.mean_best == pytest.approx(5.1933, abs=5e-5)
    assert found.mean_worst == pytest.approx(-8.7292, abs=5e-5)
    assert found.median_best == pytest.approx(3.825)
    assert found.median_worst == pytest.approx(-6.59)
    assert found.best_interval is not None
    assert (found.best_interval.low, found.best_interval.high) == pytest.approx((2.84, 7.54), abs=0.005)
    assert found.luck_cv == pytest.approx(4.32, abs=0.005)


def test_luck_alone_gives_the_published_mean_at_the_noise_it_names() -> None:
    rows = read_gains(rows_of_csv(TEXT, "table"))
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
    published = figures_of_gains(extremes_table(read_gains(rows_of_csv(TEXT, "table")))).extremes
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
