"""A planted neighbour on the simulated machine: the same for everybody, and in the figures it should be in."""

import re
from pathlib import Path

import numpy as np
import pytest

from leadline.checks.files.study import parse_study
from leadline.experiments.results import analysis_of
from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.model.workload import Workload
from leadline.places.simulated import SimulatedTestbed, parse_truth
from leadline.places.simulated.model import Moved, Truth
from leadline.places.simulated.observations import simulate_observations
from leadline.places.simulated.timing import busy, taken
from leadline.places.testbed import RunOptions
from leadline.report import summary
from leadline.report.document import document
from leadline.report.export import export
from leadline.store.lab import Store

KNOBS = [Knob("server.a", Kind.INTEGER, ApplyCost.RESTART, "a", default=10, minimum=0)]
TRUTH = parse_truth(
    "truth: { seed: 4, neighbour: { name: make, share: 60%, busy: 8s, idle: 8s,"
    " moved: [{ when: { server.a: 20 }, scale: 0.5 }] }, noise: { trials: 1%, seconds: 1% } }",
    "truth.yaml",
)
STUDY = """
study: beside
question: does it show?
workload: { users: 20, ramp_up: 5s, steady: 30s, ramp_down: 1s }
factors: { server.a: [10, 20] }
design: { replicates: 6, seed: 3 }
responses: [throughput, p50, cpu_per_transaction]
"""


def test_it_computes_half_of_the_time_and_everybody_sees_the_same() -> None:
    whole = busy(TRUTH, 4, 0.0, 20_000)
    assert 0.45 < whole.mean() < 0.55
    assert np.all((whole >= 0) & (whole <= 1 + 1e-9))
    assert busy(TRUTH, 4, 5_000.0, 100) == pytest.approx(whole[5_000:5_100])
    turns = np.flatnonzero(np.diff((whole > 0.5).astype(int)) > 0)
    assert np.diff(turns).mean() == pytest.approx(16.0, rel=0.2)


def test_a_level_that_moves_it_does_so_from_when_it_is_in_force() -> None:
    schedule = [(0.0, {"server.a": 10}), (50.0, {"server.a": 20})]
    found, alone = taken(TRUTH, 4, 0.0, schedule, 100), 0.6 * busy(TRUTH, 4, 0.0, 100)
    assert found[:50] == pytest.approx(alone[:50])
    assert found[50:] == pytest.approx(alone[50:] / 2)


def test_it_costs_throughput_and_is_recorded_with_its_name(tmp_path: Path) -> None:
    bed = SimulatedTestbed(TRUTH, tmp_path, service_knobs=KNOBS, host=[])
    file = parse_study(STUDY, "s.yaml")
    result = bed.run(file, bed.plan(file), RunOptions())
    record = Store(tmp_path).load(result.study_id)
    used = [trial.machine.taken or 0.0 for trial in record.trials if trial.machine is not None]
    assert len(used) == len(record.trials)
    rates = [trial.responses["throughput"] for trial in record.trials]
    assert np.corrcoef(used, rates)[0, 1] < -0.8
    assert next(trial.machine for trial in record.trials if trial.machine).programs.keys() == {"make"}
    disturbance = analysis_of(record).disturbance
    assert disturbance is not None
    assert disturbance.programs == ("make",)


def test_observations_alone_have_it_too() -> None:
    file = parse_study(STUDY, "s.yaml")
    plan = SimulatedTestbed(TRUTH, Path(), service_knobs=KNOBS, host=[]).plan(file).plan
    seen = simulate_observations(plan, TRUTH, Workload(users=20, ramp_up=5, steady=30))
    assert all(0 <= one.machine["others_cpu"] <= 0.6 for one in seen)
    assert len({one.machine["others_cpu"] for one in seen}) > 5


@pytest.mark.parametrize("key", ["", "covariates: [others_cpu]\n"])
def test_the_second_tile_and_the_answer_say_who_when_and_what_it_cost(tmp_path: Path, key: str) -> None:
    bed = SimulatedTestbed(truth(), tmp_path, service_knobs=KNOBS, host=[])
    file = parse_study(STUDY + key, "s.yaml")
    result = bed.run(file, bed.plan(file), RunOptions())
    record = bed.store.load(result.study_id)
    analysis = analysis_of(record)
    first_tile, item = summary.health(record, analysis, [])[:2]
    assert (first_tile.title, item.title) == ("Answer", "Other programs")
    assert first_tile.state != "good"
    assert item.state == ("warn" if key else "bad")
    when = r"\d+ of \d+ trials disturbed, 00:\d\d to 00:\d\d UTC"
    assert re.fullmatch(when + r"; make \d+ %; intervals \d+\.\d times as wide(, taken out)?", item.detail)
    assert "Other programs (make) used " in analysis.answer
    assert "which makes intervals about " in analysis.answer
    first = analysis.responses[0]
    if key:
        assert "taken out by analysis of covariance" in analysis.answer
        assert any(note.startswith("Analysis of covariance (others_cpu): ") for note in first.notes)
    else:
        assert "Run the study again on a quiet machine" in analysis.answer
        assert first.covariates == ()
    row = document(record, analysis)["trials"][0]["machine"]
    assert row["figures"]["others_cpu"] > 0
    paths = {path.name: path for path in export(record, analysis, tmp_path / "out", ["csv"])}
    head, line = paths["trials.csv"].read_text().splitlines()[:2]
    assert {"others_cpu", "others"} <= set(head.split(","))
    assert "make" in line


def test_what_moves_the_neighbour_is_found_and_not_taken_out(tmp_path: Path) -> None:
    text = STUDY.replace("replicates: 6", "replicates: 12").replace("steady: 30s", "steady: 120s")
    bed = SimulatedTestbed(truth(Moved(when={"server.a": 20}, scale=0.1)), tmp_path, service_knobs=KNOBS, host=[])
    file = parse_study(text + "covariates: [others_cpu]\n", "s.yaml")
    analysis = analysis_of(bed.store.load(bed.run(file, bed.plan(file), RunOptions()).study_id))
    assert not analysis.responses[0].covariates[0].used
    assert "levels move it" in analysis.responses[0].notes[-1]
    assert analysis.responses[0].effects[0].verdict == "better"


def truth(*moved: Moved) -> Truth:
    neighbour = TRUTH.neighbour
    assert neighbour is not None
    return TRUTH.model_copy(update={"neighbour": neighbour.model_copy(update={"moved": moved})})
