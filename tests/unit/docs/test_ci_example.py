"""The action of examples/ci: its shell steps run as a runner would run them, on a simulated study."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

EXAMPLES = Path(__file__).parents[3] / "examples"
TRUTH = """\
truth:
  seed: 4
  noise: { trials: 1%, latency_trials: 2% }
  effects:
    - { when: { app.version: head }, percent: { p90: 30% } }
"""


def steps() -> list[dict[str, Any]]:
    action = YAML(typ="safe").load(EXAMPLES / "ci" / "action.yml")
    found: list[dict[str, Any]] = action["runs"]["steps"]
    for step in found:
        for text in step["env"].values():
            name = re.fullmatch(r"\$\{\{ inputs\.(\w+) \}\}", text)
            assert name is not None, text
            assert name[1] in action["inputs"], text
    return found


def run(step: dict[str, Any], place: Path, inputs: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """As `shell: bash` of a composite action."""
    own = {name: inputs[re.sub(r"\W|inputs", "", text)] for name, text in step["env"].items()}
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GITHUB_ACTION_PATH": str(place / "ci"),
        "GITHUB_STEP_SUMMARY": str(place / "summary.md"),
        "GITHUB_OUTPUT": str(place / "output"),
        **own,
    }
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, timeout=900, check=False)


@pytest.mark.timeout(1800)
def test_a_change_that_does_harm_fails_the_build_and_says_by_how_much(tmp_path: Path) -> None:
    for name in ("ci", "shop"):
        shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns("target"))
    (tmp_path / "truth.yaml").write_text(TRUTH)
    for name in ("old.jar", "new.jar"):
        (tmp_path / name).write_text(name)
    inputs = {"base": "old.jar", "head": "new.jar", "study": "gate.study.yaml", "policy": "regression"}
    inputs |= {"options": f"--simulate {tmp_path}/truth.yaml"}
    install, place, compare = steps()
    assert install["run"] == 'python3 -m pip install --quiet "$PACKAGE"', "needs a registry: not run here"
    placed = run(place, tmp_path, inputs)
    assert placed.returncode == 0, placed.stderr
    assert (tmp_path / "ci" / "head" / "app.jar").read_text() == "new.jar"
    done = run(compare, tmp_path, inputs)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^p90, app\.version = head: worse, \[\+\d+\.\d, \+\d+\.\d\] %$", done.stdout, re.MULTILINE)
    assert (tmp_path / "output").read_text() == "outcome=failed\n"
    assert "| p90 | app.version = head | +" in (tmp_path / "summary.md").read_text()
    assert "<failure" in (tmp_path / "leadline-report.xml").read_text()
    assert (tmp_path / "leadline-report.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("reported", "outcomes", "policy", "told"),
    [
        ("passed", ["passed", "skipped"], "regression", "passed"),
        ("passed", ["passed", "skipped"], "equivalence", "inconclusive"),
        ("passed", ["passed", "passed"], "equivalence", "passed"),
        ("failed", ["passed", "failed"], "equivalence", "failed"),
        ("error", ["error"], "regression", "error"),
    ],
)
def test_what_a_policy_makes_of_a_report(
    monkeypatch: pytest.MonkeyPatch, reported: str, outcomes: list[str], policy: str, told: str
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES / "ci")
    gate: Any = importlib.import_module("gate")
    one = {"response": "p90", "setting": "app.version = head", "verdict": "v", "simultaneous": {"low": -1, "high": 2}}
    compared = [{**one, "outcome": each} for each in outcomes]
    report = {"outcome": reported, "answer": "So it is.", "comparisons": compared}
    assert gate.outcome(report, policy) == told
    lines = gate.told(report, policy)
    assert lines[0] == "p90, app.version = head: v, [-1.0, +2.0] %"
    assert lines[-1] == f"{policy}: {told}. So it is."


def test_an_unknown_policy_is_refused(tmp_path: Path) -> None:
    gate = EXAMPLES / "ci" / "gate.sh"
    done = subprocess.run(["bash", gate, "x", "y"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "policy 'y': write regression or equivalence\n")


def test_the_image_is_made_of_what_the_wheel_needs() -> None:
    """Its commands are in order for the shell that runs them; the image itself is built by hand."""
    text = (EXAMPLES / "ci" / "Containerfile").read_text().replace("\\\n", " ")
    commands = re.findall(r"^RUN (.*)$", text, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        done = subprocess.run(["sh", "-n", "-c", command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert re.search(r"^COPY dist/leadline-\*\.whl /opt/$", text, re.MULTILINE)
    assert 'ENTRYPOINT ["leadline"]' in text
    (ran,) = re.findall(r"^#   docker run .* leadline run (\S+)$", text, re.MULTILINE)
    assert (EXAMPLES.parent / ran).is_file(), "from the directory that is mounted"
