"""The scalability law on exact and on simulated data, and what it says to those that tell too little."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from leadline.capacity.scaling import scaling
from leadline.checks.files.study import parse_study
from leadline.cli.main import app
from leadline.model.errors import UsageError
from leadline.places.simulated import SimulatedTestbed, parse_truth
from leadline.places.testbed import RunOptions
from leadline.report.capacities import scaling_answer, scaling_document, scaling_lines

SIZES = np.repeat([1.0, 2, 4, 8, 16], 2)


def law(n: np.ndarray, contention: float, coherency: float, rate: float = 100.0) -> np.ndarray:
    return rate * n / (1 + contention * (n - 1) + coherency * n * (n - 1))


def noisy(contention: float, coherency: float, seed: int = 1) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(0, 0.01, len(SIZES))
    return law(SIZES, contention, coherency) * np.exp(noise)


def test_exact_data_give_their_coefficients() -> None:
    found = scaling("cpus", SIZES, law(SIZES, 0.05, 0.004))
    assert found.rate == pytest.approx(100, rel=1e-4)
    assert found.contention == pytest.approx(0.05, rel=1e-3)
    assert found.coherency == pytest.approx(0.004, rel=1e-3)
    assert found.peak == pytest.approx((0.95 / 0.004) ** 0.5, rel=1e-3)  # Gunther 2007, (4.33)
    assert found.holds


def test_linear_data_have_no_peak_and_no_ceiling_is_claimed() -> None:
    found = scaling("cpus", SIZES, noisy(0.0, 0.0))
    assert found.peak is None
    assert found.contention_interval.low == 0
    assert scaling_answer(found).endswith("neither contention nor coherency can be told from none.")


def test_contention_alone_has_a_ceiling() -> None:
    found = scaling("cpus", SIZES, noisy(0.2, 0.0))
    assert found.peak is None
    assert found.ceiling == pytest.approx(500, rel=0.1)
    assert "no number does more than" in scaling_answer(found)


def test_a_peak_within_what_was_measured_and_one_beyond() -> None:
    assert "beyond what was measured" not in scaling_answer(scaling("cpus", SIZES, noisy(0.02, 0.02)))
    assert "beyond what was measured" in scaling_answer(scaling("cpus", SIZES, noisy(0.02, 0.002)))


def test_data_that_follow_another_law_are_told() -> None:
    capped = np.minimum(SIZES, 4) * 100 * np.exp(np.random.default_rng(1).normal(0, 0.002, len(SIZES)))
    found = scaling("cpus", SIZES, capped)
    assert not found.holds
    assert any(line.startswith("The law does not hold: the sizes lie ") for line in scaling_lines(found))
    assert scaling_answer(found).endswith("; but the law does not hold.")


def test_other_programs_are_a_doubt() -> None:
    assert not scaling("cpus", SIZES, noisy(0.1, 0.0), taken=0.4).holds


@pytest.mark.parametrize(
    ("counts", "rates", "words"),
    [([1, 2, 4], [1, 2, 3], "good trials at 3 sizes, 1, 2, 4"), ([1, 2, 4, 8], [1, 2, 3, 0], "not above 0")],
)
def test_too_little_is_refused(counts: list[float], rates: list[float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        scaling("cpus", counts, rates)


def test_the_document_is_json() -> None:
    found = json.loads(json.dumps(scaling_document(scaling("cpus", SIZES, noisy(0.0, 0.0)))))
    assert found["peak"] is None
    assert found["contention"]["low"] == 0
    assert [size["n"] for size in found["sizes"]] == [1, 2, 4, 8, 16]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("lab")
    truth = "truth: { seed: 1, server: { cores: 8, demand: 3ms, database_demand: 1ms, delay: 2ms, think: 20ms } }"
    file = parse_study(
        "study: sizes\nquestion: how far?\nworkload: { ramp_up: 2s, steady: 10s, ramp_down: 1s, users: 20 }\n"
        "factors: { load.users: [1, 2, 4, 8, 16], jvm.collector: [g1, parallel] }\n"
        "design: { replicates: 2, kind: full-factorial, sentinels: null }\n",
        "sizes.yaml",
    )
    bed = SimulatedTestbed(parse_truth(truth, "truth.yaml"), found, host=[])
    bed.run(file, bed.plan(file), RunOptions())
    return found


def run(lab: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["capacity", "sizes", *words, "--lab", str(lab)])


def test_the_command_says_what_more_gains(lab: Path) -> None:
    done = run(lab, "--scaling", "load.users")
    assert done.exit_code == 0, done.output
    assert "fitted from 10 trials at 5 sizes of load.users" in done.stdout
    assert done.stdout.splitlines()[0].startswith("SIMULATED: 16 of load.users do the work of ")
    assert json.loads(run(lab, "--scaling", "load.users", "--json").stdout)["simulated"] is True


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--scaling", "load.user"), "did you mean load.users?"),
        (("--scaling", "jvm.collector"), "no number and no list of CPUs"),
        (("--scaling", "load.users", "--pool", "3"), "--pool means nothing beside --scaling"),
    ],
)
def test_what_cannot_be_is_told(lab: Path, words: tuple[str, ...], told: str) -> None:
    done = run(lab, *words)
    assert isinstance(done.exception, UsageError)
    assert told in str(done.exception)
