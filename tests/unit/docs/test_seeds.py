"""The page of the five published studies: that of its table, and every command is planned."""

import json
import runpy
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leadline.cli.main import app

ROOT = Path(__file__).parents[3]
SEEDS = runpy.run_path(str(ROOT / "tools" / "seeds.py"))
COMMANDS = [row["command"] for entries in SEEDS["rows"]().values() for row in entries]


def test_the_page_is_that_of_the_table() -> None:
    assert SEEDS["PAGE"].read_text(encoding="utf-8") == SEEDS["page"](), "run python tools/seeds.py"


def test_the_figures_of_pages_on_three_kernels_are_those_of_the_stored_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SEEDS["EVIDENCE"])
    page = (SEEDS["EVIDENCE"] / "kernels.md").read_text(encoding="utf-8")
    table = ["analyse", "kernels-web.csv", "--by", "guest.kernel", "--baseline", "6.1-cloud", "--block", "block"]
    done = CliRunner().invoke(app, [*table, "--json"])
    assert done.exit_code == 0, done.output
    rows = {row["response"]: row["levels"] for row in json.loads(done.output)["responses"]}
    for response in ("throughput", "user_cpu_per_transaction", "system_cpu_per_transaction", "cpu_per_transaction"):
        for effect in rows[response]:
            assert f"| {effect['percent']:+.1f} % [".replace("-", "−") in page, (response, effect)


def test_the_figures_of_three_kernels_are_those_of_the_stored_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SEEDS["EVIDENCE"])
    page = (SEEDS["EVIDENCE"] / "study-a.md").read_text(encoding="utf-8")
    done = CliRunner().invoke(app, ["figures", "kernels-vmm.csv", "--json"])
    assert done.exit_code == 0, done.output
    figures = json.loads(done.output)
    for row in figures["sensitivity"]["rows"]:
        name, value = row["parameter"].removeprefix("vm."), row["corrected"]
        assert f"| `{name}` | {value:.2f} [" in page or value == 0, row
    assert [(row["failed"], row["runs"]) for row in figures["failures"]["systems"]] == [(0, 69)] * 3
    assert all(f"| {row['best']:+.2f} % [" in page for row in figures["extremes"]["rows"])


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(set(COMMANDS)))
def test_every_command_is_planned(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = shlex.split(command)[1:]
    done = CliRunner().invoke(app, words if words[0] == "figures" else [*words, "--dry-run"])
    assert done.exit_code == 0, done.output
