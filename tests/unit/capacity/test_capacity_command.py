"""``leadline capacity`` on simulated studies: text, JSON, CSV, and what it says to studies that tell too little."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from leadline.checks.files.study import parse_study
from leadline.cli.main import app
from leadline.experiments.results import analysis_of
from leadline.places.simulated import SimulatedTestbed, parse_truth
from leadline.places.testbed import RunOptions
from leadline.report.charts.effects import against_load
from leadline.store.lab import Store

TRUTH = """
truth:
  seed: 1
  server: { cores: 2, demand: 3ms, database_demand: 1ms, delay: 2ms, think: 100ms }
  effects: [{ when: { server.threads.max: 10 }, set: { pool: 10 } }]
  failures: [{ when: { load.users: 9 }, probability: 1, class: configuration }]
"""
STUDY = """
study: {name}
question: how far does it go?
workload: {{ ramp_up: 2s, steady: 10s, ramp_down: 1s, users: 20 }}
factors: {{ {factors} }}
design: {{ replicates: 2, kind: full-factorial, sentinels: null }}
responses: [throughput, mean, cpu_per_transaction]
"""
STUDIES = {
    "curve": "load.users: [5, 10, 20, 40, 80]",
    "pools": "load.users: [10, 40, 120], server.threads.max: [10, 50]",
    "heaps": "load.users: [10, 40, 120], jvm.heap: [256m, 512m]",
    "no-load": "jvm.heap: [256m, 512m]",
    "two-loads": "load.users: [5, 9, 10]",
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("lab")
    truth = parse_truth(TRUTH, "truth.yaml")
    bed = SimulatedTestbed(truth, found, host=[])
    for name, factors in STUDIES.items():
        file = parse_study(STUDY.format(name=name, factors=factors), "s.yaml")
        bed.run(file, bed.plan(file), RunOptions())
    return found


def run(lab: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["capacity", *words, "--lab", str(lab)])


def test_the_knee_the_limit_and_untested_loads(lab: Path, tmp_path: Path) -> None:
    table = tmp_path / "curve.csv"
    done = run(lab, "curve", "--cpus", "2", "--predict", "30,120", "--out", str(table), "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["knee"]["value"] == pytest.approx(53, rel=0.05)
    assert found["knee"]["low"] < found["knee"]["value"] < found["knee"]["high"]
    assert found["capacity"]["value"] == pytest.approx(500, rel=0.05)
    assert (found["limit"], found["holds"], found["simulated"]) == ("cpu", True, True)
    assert found["answer"].startswith("SIMULATED: Responses slow down from 5")
    assert [row["load"] for row in found["predictions"]] == [30, 120]
    assert len(found["left_out"]) == 5
    assert found["mean_error"]["throughput"] < 0.1
    with table.open() as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["throughput"]) for row in rows] == pytest.approx(
        [row["throughput"] for row in found["predictions"]]
    )


def test_the_text_has_demands_errors_and_evidence(lab: Path) -> None:
    done = run(lab, "curve", "--cpus", "2")
    assert done.exit_code == 0, done.output
    for words in (
        "demand of the server: ",
        "predicted (* measured)",
        " *80 users",
        "mean error: ",
        "CPU saturates first",
    ):
        assert words in done.stdout


def test_a_pool_is_a_station(lab: Path) -> None:
    found = json.loads(run(lab, "pools", "--cpus", "2", "--pool", "5,50", "--predict", "60", "--json").stdout)
    assert found["pool"] == {"knob": "server.threads.max", "level": 10}
    assert [row["pool"] for row in found["predictions"]] == [5, 50]
    assert found["predictions"][0]["throughput"] < found["predictions"][1]["throughput"]


def test_another_factor_is_held_at_a_level(lab: Path) -> None:
    found = json.loads(run(lab, "heaps", "--cpus", "2", "--at", "jvm.heap=512m", "--json").stdout)
    assert (found["at"], found["trials"]) == ("jvm.heap = 512m", 6)


def test_the_report_shows_responses_against_the_load(lab: Path) -> None:
    records = {record.study.study: record for record in Store(lab).studies()}
    heaps = records["heaps"]
    drawn = against_load(heaps, analysis_of(heaps).responses[0])
    assert drawn is not None
    assert drawn.name == "load-throughput"
    means, trials = drawn.spec["datasets"].values()
    assert (len(means), len(trials)) == (6, 12)
    assert {row["setting"] for row in means} == {"jvm.heap = 256m", "jvm.heap = 512m"}
    assert against_load(records["no-load"], analysis_of(heaps).responses[0]) is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["no-load"], "no-load does not vary its load (its factors: jvm.heap)"),
        (["two-loads", "--cpus", "2"], "good trials at 2 loads, 5, 10 (2 trials failed): a model needs 3"),
        (["curve"], "say --cpus N"),
        (["curve", "--cpus", "2", "--pool", "5"], "the study varies no pool"),
        (["curve", "--cpus", "2", "--predict", "many"], "--predict: 'many' is not a number"),
        (["curve", "--cpus", "2", "--predict", "0"], "the nearest is 0.001"),
        (["curve", "--cpus", "2", "--at", "jvm.heap=1g"], "--at jvm.heap: no factor of curve beside its load"),
        (["heaps", "--cpus", "2", "--at", "jvm.heap=1g"], "its levels are 256m, 512m"),
        (["heaps", "--cpus", "2", "--at", "jvm.heap"], "write it as knob=level"),
    ],
)
def test_what_cannot_be_fitted_says_why(lab: Path, words: list[str], told: str) -> None:
    done = run(lab, *words)
    assert done.exit_code != 0
    assert told in str(done.exception)
