"""The tutorials, run as they stand: their files written, their commands given, what they show found in what is said."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_extending import BLOCK, commands
from typer.testing import CliRunner

from leadline.cli.main import app

DOCS = Path(__file__).parents[3] / "docs"
SIMULATED = (
    "guides/ci",
    "tutorials/gc-log",
    "tutorials/own-study",
    "tutorials/quickstart",
    "tutorials/read-a-report",
    "tutorials/tuning-program",
    "tutorials/why-cpu",
)  # the others have a test of their own
# Of this machine, or minutes long: tests/stack/test_commands.py runs them. The tutorials run simulated studies instead.
ELSEWHERE = {"leadline doctor", "leadline quickstart"}


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def said(command: str) -> str:
    command, fails, told = command.partition(" || echo ")
    if fails:
        done = CliRunner().invoke(app, command.split()[1:])
        assert done.exit_code == 1, f"{command}: {done.output}{done.exception}"
        return f"{done.output} {told}"
    if command.startswith("leadline "):
        done = CliRunner().invoke(app, command.split()[1:])
        assert done.exit_code == 0, f"{command}: {done.output}{done.exception}"
        return done.output
    shell = command.replace("python ", f"{sys.executable} ")
    return subprocess.run(shell, shell=True, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", SIMULATED)
def test_a_tutorial_does_what_it_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    ran = 0
    for block in BLOCK.finditer(text):
        if block["file"]:
            Path(block["file"]).write_text(block["text"], encoding="utf-8")
        elif block["language"] == "console":
            for command, shown in commands(block["text"]):
                if command in ELSEWHERE:
                    continue
                ran += 1
                output = plain(said(command))
                for line in shown:
                    assert line == "..." or plain(line).strip() in output, f"{command}: {line}\n{output}"
        elif block["language"] == "yaml":  # what a command has written
            written = {plain(re.sub(r" *#.*", "", file.read_text())).strip() for file in Path().glob("*.yaml")}
            assert plain(re.sub(r" *#.*", "", block["text"])).strip() in written
    assert ran >= 2
    if Path("report.html").exists():
        html = Path("report.html").read_text(encoding="utf-8")
        assert all(name in html for name in re.findall(r"\*\*(.+?)\*\*", text))
