"""The page of the five published studies: that of its table, and every command is planned."""

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


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(set(COMMANDS)))
def test_every_command_is_planned(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = shlex.split(command)[1:]
    done = CliRunner().invoke(app, words if words[0] == "figures" else [*words, "--dry-run"])
    assert done.exit_code == 0, done.output
