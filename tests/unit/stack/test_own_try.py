"""``leadline try``: what of its settings fits into a budget, told before anything starts."""

from pathlib import Path

import pytest
from toy_application import toy

from leadline.experiments import trying
from leadline.model.errors import UsageError

NINE = {f"app.size{number}": "[4, 8]" for number in range(1, 10)}


@pytest.fixture
def stack_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toy with nine knobs, all of them settings to try."""
    path = toy(tmp_path)
    knob = "{ range: [1, 64], argument: '--size=${level}', read_back: { http: /settings, key: pool.size } }"
    before, after = path.read_text().split("knobs:\n", 1)
    knobs = "".join(f"  {name}: {knob}\n" for name in NINE)
    path.write_text(f"{before}knobs:\n{knobs}{after}")
    (tmp_path / "toy.scenario.yaml").write_text("scenario: toy\nmix: { up: 1 }\ntransactions:\n  up:\n    - get: /up\n")
    monkeypatch.setattr(trying, "factors_of", lambda *_: dict(NINE))
    monkeypatch.chdir(tmp_path)
    return path


def tried(stack_file: Path, budget: str) -> trying.Attempt:
    return trying.prepare(stack_file, None, budget, stack_file.parent / "lab", print, lambda _: None, dry_run=True)


@pytest.mark.parametrize(
    ("budget", "kept", "replicates"), [("40m", 9, 2), ("20m", 9, 1), ("7m", 7, 1)], ids=["two", "one", "fewer"]
)
def test_a_budget_takes_replicates_first_then_the_last_settings(
    stack_file: Path, budget: str, kept: int, replicates: int
) -> None:
    attempt = tried(stack_file, budget)
    assert list(attempt.file.study.factors) == list(NINE)[:kept]
    assert attempt.file.study.design.replicates == replicates
    dropped = ", ".join(list(NINE)[kept:])
    wanted = [f"left out, as they do not fit into {budget}: {dropped}"] if dropped else []
    assert [note for note in attempt.notes if "left out" in note] == wanted
    assert not attempt.study.exists(), "a dry run writes nothing"


def test_a_budget_for_no_screening_is_refused_before_a_start(stack_file: Path) -> None:
    with pytest.raises(UsageError, match=r"--budget 2m: the smallest screening of 3 settings takes \d min"):
        tried(stack_file, "2m")
    with pytest.raises(UsageError, match=r"--budget soon: "):
        tried(stack_file, "soon")
