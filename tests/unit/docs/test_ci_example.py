"""The action of examples/ci: its shell steps run as a runner would run them, on a simulated study."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML

from leadline.cli.main import app

EXAMPLES = Path(__file__).parents[3] / "examples"
TRUTH = """\
truth:
  seed: 4
  noise: { trials: 1%, latency_trials: 2% }
  effects:
    - { when: { app.build: head }, percent: { cpu_per_transaction: 12% } }
"""
HARMLESS = TRUTH.partition("  effects:")[0]
STACK = """\
stack: shop
command: [java, -jar, target/shop.jar, "--server.port=${port}"]
scenario: shop.scenario.yaml
"""
SCENARIO = """\
scenario: shop
mix: { item: 1 }
transactions:
  item:
    - get: /items/1
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
        "GITHUB_STEP_SUMMARY": str(place / "summary.md"),
        "GITHUB_OUTPUT": str(place / "output"),
        **own,
    }
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, timeout=900, check=False)


@pytest.mark.parametrize(
    ("truth", "code", "verdict"), [(TRUTH, 1, "regression"), (HARMLESS, 0, "no change")], ids=("harm", "none")
)
def test_the_action_fails_the_build_where_harm_is_shown(
    truth: str, code: int, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "truth.yaml").write_text(truth)
    (tmp_path / "shop.scenario.yaml").write_text(SCENARIO)
    (tmp_path / "shop.stack.yaml").write_text(STACK)
    (tmp_path / "target").mkdir()
    for name in ("old.jar", "new.jar", "target/shop.jar"):
        (tmp_path / name).write_text(name)
    inputs = {"base": "old.jar", "head": "new.jar", "fail": "cpu>3%\np90>20%\n", "undecided": "pass"}
    inputs |= {"budget": "15m", "options": "--stack shop.stack.yaml --simulate truth.yaml"}
    install, gate = steps()
    assert install["run"] == 'python3 -m pip install --quiet "$PACKAGE"', "needs a registry: not run here"
    done = run(gate, tmp_path, inputs)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.startswith(f"SIMULATED: {verdict}")
    assert (tmp_path / "output").read_text().startswith(f"verdict={verdict}")
    assert "| cpu&gt;3% | " in (tmp_path / "summary.md").read_text()
    assert ("<failure" in (tmp_path / "leadline-gate.xml").read_text()) == bool(code)


def test_the_job_for_gitlab_calls_a_gate_as_it_is() -> None:
    job = YAML(typ="safe").load(EXAMPLES / "ci" / "gitlab.yml")["performance"]
    (call,) = [line for line in job["script"] if line.startswith("leadline gate")]
    command: Any = typer.main.get_command(app)
    gate = command.get_command(typer.Context(command), "gate")
    words = shlex.split(call)[2:]
    known = {option for parameter in gate.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


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
    (ran,) = re.findall(r"^#   docker run .* leadline gate base.jar head.jar --stack (\S+)$", text, re.MULTILINE)
    assert (EXAMPLES.parent / ran).is_file(), "from the directory that is mounted"
