"""Two loads compared: intervals of simulated seconds, and real results."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from small_server import SCENARIO, small_server
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.load.against import changes
from leadline.load.driver import find_binary
from leadline.load.series import SecondResponses


def seconds(rng: np.random.Generator, slower: float = 1.0, failed: int = 0, count: int = 20) -> list[SecondResponses]:
    found = []
    for _ in range(count):
        values, counts = np.unique(np.round(rng.lognormal(1.5, 0.5, rng.poisson(40)) * slower, 1), return_counts=True)
        found.append(SecondResponses(tuple(values.tolist()), tuple(counts.tolist()), failed))
    return found


def test_joint_intervals_seldom_tell_equal_loads_apart() -> None:
    rng = np.random.default_rng(7)
    wrong = sum(any(row.distinguishable for row in changes(seconds(rng), seconds(rng))) for _ in range(60))
    assert wrong <= 9  # 3 expected; more than 9 with a chance of 0.1 %


def test_what_was_planted_is_found_and_nothing_else() -> None:
    rng = np.random.default_rng(7)
    found = {row.measure: row for row in changes(seconds(rng), seconds(rng, slower=1.5, failed=3))}
    assert {name for name, row in found.items() if not row.distinguishable} == {"throughput", "p999"}
    p50, errors = found["p50"], found["errors"]
    assert p50.low is not None
    assert p50.high is not None
    assert p50.low < 50 < p50.high
    assert errors.change == pytest.approx(100 * 3 / 43, abs=0.5)
    assert found["p999"].reason == "too few responses: 5000 needed in each"


def test_seconds_of_the_same_arrivals_are_compared_in_pairs() -> None:
    def width(paired: bool) -> float:
        rng = np.random.default_rng(7)
        before = seconds(rng)
        now = [SecondResponses(tuple(2 * v for v in one.values_ms), one.counts, 0) for one in before]
        throughput = changes(before, now, paired)[0]
        assert throughput.low is not None
        assert throughput.high is not None
        return throughput.high - throughput.low

    assert width(paired=True) == 0 < width(paired=False)


def test_loads_in_which_nothing_succeeded_have_no_change() -> None:
    nothing = [SecondResponses((), (), 5)] * 6
    found = changes(nothing, nothing)
    assert {row.reason for row in found[:-1]} == {"no transaction succeeded"}
    assert not found[-1].distinguishable


@pytest.fixture(scope="module")
def loads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of the same load of two servers, ``fast`` and ``slow``, at the same time, and of a short one."""
    place = tmp_path_factory.mktemp("loads")
    (place / "one.yaml").write_text(SCENARIO)
    with small_server() as fast, small_server(takes=0.02) as slow:
        runs = []
        for name, url, steady in (("fast", fast, "5s"), ("slow", slow, "5s"), ("short", fast, "1s")):
            argv = [find_binary(), "run", "one.yaml", "--url", url, "--out", name, "--steady", steady]
            argv += ["--arrivals", "poisson", "--rate", "5"]
            runs.append(subprocess.Popen(argv, cwd=place, stdout=subprocess.DEVNULL))
        assert [run.wait(timeout=60) for run in runs] == [0, 0, 0]
    return place


def test_results_are_compared_without_a_run(loads: Path) -> None:
    words = ["load", "--against", str(loads / "fast"), "--out", str(loads / "slow")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].endswith("5 s before and 5 s now:")
    p50 = next(line for line in lines if line.startswith("p50 ms"))
    assert p50.endswith("higher")
    assert any(line.startswith("differs: url: http://127.0.0.1:") for line in lines)
    document = json.loads(CliRunner().invoke(app, [*words, "--json"]).output)
    assert document["format"] == "leadline-against/1"
    rows = {row["measure"]: row for row in document["changes"]}
    assert rows["p50"]["distinguishable"]
    assert rows["p50"]["before"] < 15 < 20 <= rows["p50"]["now"]


@pytest.mark.parametrize(
    ("condition", "code", "state"), [("p50>20%", 1, "broken"), ("p50>90000%", 0, "kept"), ("throughput<-10%", 4, "")]
)
def test_conditions_are_held_against_the_changes(loads: Path, condition: str, code: int, state: str) -> None:
    words = ["load", "--against", str(loads / "fast"), "--out", str(loads / "slow"), "--fail", condition]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == code, done.output
    assert f"--fail {condition}: {state}" in done.output


def test_what_cannot_be_compared_is_said_before_a_run(loads: Path, tmp_path: Path) -> None:
    for before, message in (
        (tmp_path, "holds no results of a load"),
        (loads / "short", "has 1 whole seconds, an interval needs at least 5: lengthen --steady"),
    ):
        words = ["load", str(loads / "one.yaml"), "--url", "http://h", "--out", str(tmp_path / "out")]
        done = CliRunner().invoke(app, [*words, "--against", str(before)])
        assert message in str(done.exception)
        assert not (tmp_path / "out").exists()
    same = CliRunner().invoke(app, ["load", "--against", str(loads / "fast"), "--out", str(loads / "fast")])
    assert "name another --out" in str(same.exception)
