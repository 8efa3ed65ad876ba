"""Two servers loaded in turns, a URL without a scenario, and what other programs did beside a load."""

from __future__ import annotations

import json
import math
import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_server import small_server
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.host.bystanders import Bystanders, Others, listening
from leadline.load import against
from leadline.load.against import SLOT, blocks_of, paired_changes, slots_of
from leadline.load.command import disturbance, of_url, read_others
from leadline.load.series import WindowResult
from leadline.model.errors import UsageError
from leadline.model.result import AtLeast


def window(throughput: float, p50: float) -> WindowResult:
    times = dict.fromkeys(("mean", "p50", "p90", "p95", "p99", "p999", "max"), p50)
    counts = {"ok": round(4 * throughput), **dict.fromkeys(("failed", "skipped", "dropped", "unanswered"), 0)}
    return WindowResult(seconds=4, **counts, throughput=throughput, errors=0.0, **times)


def test_each_block_has_a_slot_of_each_server_and_no_second_belongs_to_both() -> None:
    order = blocks_of(100, seed=3)
    assert len(order) == 10
    assert sum(order) == 5, "each server comes first as often"
    first, second = (slots_of(order, side) for side in (0, 1))
    assert sorted([*first, *second]) == list(range(0, 100, SLOT))
    assert {at // (2 * SLOT) for at in first} == {at // (2 * SLOT) for at in second} == set(range(10))
    assert blocks_of(100, seed=3) == order != blocks_of(100, seed=4)
    with pytest.raises(UsageError, match="at least 50s"):
        blocks_of(20, seed=1)


def test_a_neighbour_that_comes_and_goes_is_no_change_and_a_slower_server_is() -> None:
    rng = np.random.default_rng(5)
    neighbour = rng.uniform(0.5, 1.0, 12)  # of the speed that is left in a block

    def slots(slower: float) -> list[WindowResult | None]:
        speeds = neighbour * rng.normal(1.0, 0.01, 12)
        return [window(400 * speed / slower, 5 * slower / speed) for speed in speeds]

    same = {row.measure: row for row in paired_changes(slots(1.0), slots(1.0))}
    assert not any(row.distinguishable for row in same.values())
    slower = {row.measure: row for row in paired_changes(slots(1.0), slots(1.2))}
    assert slower["throughput"].distinguishable
    assert slower["throughput"].change == pytest.approx(-16.7, abs=2)
    assert slower["p50"].change == pytest.approx(20, abs=2)
    nothing = WindowResult(4, 0, 9, 0, 0, 0, 0.0, *[math.nan] * 7, errors=1.0)
    found = paired_changes([nothing] * 6, slots(1.0)[:6])
    assert {row.reason for row in found[:-1]} == {"only 0 blocks have a figure of both"}
    assert found[-1].change == pytest.approx(-100)


def test_of_lower_bounds_there_is_no_change() -> None:
    cut = replace(window(400, 5), p99=AtLeast(1000.0))
    found = {row.measure: row for row in paired_changes([window(400, 5)] * 5, [*[window(400, 5)] * 4, cut])}
    assert (found["p99"].change, found["p99"].at_least) == (None, ("now",))
    assert found["p50"].change is not None


def test_a_slower_server_is_found_and_none_where_both_are_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real servers and drivers; a response takes 100 ms, so that what else runs here hardly shows."""
    monkeypatch.setattr(against, "SLOT", 2)

    def measured(name: str, *takes: float) -> dict[str, Any]:
        with ExitStack() as servers:
            urls = [f"{servers.enter_context(small_server(seconds))}/page" for seconds in takes]
            words = ["--users", "1", "--steady", "20s", "--out", str(tmp_path / name), "--json"]
            result = CliRunner().invoke(app, ["load", "--alternate", *urls, *words])
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        assert (document["format"], document["refused"]) == ("leadline-against/1", "")
        assert [document["before"], document["now"]] == [url.removesuffix("/page") for url in urls]
        return next(row for row in document["changes"] if row["measure"] == "p50")

    slower, alike = measured("slower", 0.001, 0.1), measured("alike", 0.1, 0.1)
    assert slower["distinguishable"]
    assert slower["low"] > 100
    assert abs(alike["change"]) < 50


def test_a_comparison_is_refused_where_other_programs_differ() -> None:
    quiet, busy = Others(0.02, 0.0), Others(0.41, 0.02, {"cc1": 0.4})
    assert disturbance(busy, quiet).startswith(
        "not known: other programs took 43 % (cc1) of the CPUs before and 2 % now"
    )
    assert disturbance(quiet, Others(0.05, 0.0)) == ""
    assert disturbance(None, busy) == ""


@pytest.mark.parametrize("text", ["{}", "[1]", '{"others": NaN, "steal": 0, "programs": {}}', "[" * 5000, "x" * 70000])
def test_a_damaged_record_of_the_host_is_refused(tmp_path: Path, text: str) -> None:
    assert read_others(tmp_path) is None
    (tmp_path / "host.json").write_text(text)
    with pytest.raises(UsageError, match="is damaged"):
        read_others(tmp_path)


def test_a_url_needs_no_scenario() -> None:
    assert of_url("http://h:80/a/b?c=1", []) == ["--url", "http://h:80", "--var", "path=a/b?c=1", "--users", "10"]
    timed = of_url("http://h", ["--duration", "5s", "--rate=9"])
    assert timed == ["--steady", "5s", "--rate=9", "--url", "http://h", "--var", "path=", "--arrivals", "constant"]
    assert of_url("https://h/", ["--duration=5s", "--users", "3"])[:3] == ["--steady=5s", "--users", "3"]
    for url, options in (("http://", []), ("http://h", ["--url", "http://g"])):
        with pytest.raises(UsageError):
            of_url(url, options)


def test_loads_of_a_url_say_what_else_the_host_did(tmp_path: Path) -> None:
    with small_server() as url:
        assert os.getpid() in listening(int(url.rpartition(":")[2]))
        for name in ("one", "other"):
            result = CliRunner().invoke(
                app, ["load", f"{url}/page", "--users", "2", "--duration", "5s", "--out", str(tmp_path / name)]
            )
            assert result.exit_code == 0, result.output
    seen = [read_others(tmp_path / name) for name in ("one", "other")]
    assert all(one is not None and 0 <= one.taken <= 1 for one in seen)
    for name, share in (("one", 0.6), ("other", 0.01)):
        record = json.dumps({"others": share, "steal": 0.0, "programs": {"cc1": share}})
        (tmp_path / name / "host.json").write_text(record)
    told = CliRunner().invoke(app, ["load", "--against", str(tmp_path / "one"), "--out", str(tmp_path / "other")])
    assert told.output.startswith("not known: other programs took 60 % (cc1) of the CPUs before and 1 % now"), (
        told.output
    )
    assert "higher" not in told.output
    assert "lower" not in told.output


def test_known_processes_are_no_bystanders() -> None:
    beside = Bystanders({1}).used()
    assert beside is None or beside.others >= 0
