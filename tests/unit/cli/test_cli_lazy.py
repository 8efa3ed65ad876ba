"""The table of commands says what the commands themselves say."""

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leadline.cli.lazy import COMMANDS, GROUPS, LazyCommands
from leadline.cli.main import app


def test_every_command_is_in_one_group() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_values_and_no_type_of_the_code(name: str) -> None:
    told = CliRunner().invoke(app, [name, "--help"], prog_name="leadline", terminal_width=200).output
    assert told.startswith(f"Usage: leadline {name}")
    assert "{" not in told.splitlines()[0]
    assert not re.search(r"<(str|int|float|path|list)|range>|\b(None|Path)\b", told), told


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["run", "quick"], {"quickstart"}),
        (["show", "mine"], {"mine-too"}),
        (["run", "own"], {"own.yaml"}),
        (["up", "tom"], {"tomcat", "tomee"}),
        (["knobs", "vm.dirty_r"], {"vm.dirty_ratio"}),
        (["run", "x", "--factor", "vm.dirty_r"], {"vm.dirty_ratio="}),
        (["run", "x", "--set", "stack.s"], {"stack.server="}),
        (["power", "x", "--response", "thro"], {"throughput"}),
    ],
)
def test_words_complete(words: list[str], found: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").touch()
    (tmp_path / "lab").mkdir()
    with sqlite3.connect(tmp_path / "lab" / "lab.sqlite") as lab:
        lab.execute("create table studies (id integer, name text)")
        lab.execute("insert into studies values (1, 'mine-too')")
    given = {"_LEADLINE_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(["leadline", *words])}
    result = CliRunner().invoke(app, [], prog_name="leadline", env={**given, "COMP_CWORD": str(len(words))})
    assert set(result.output.split()) == found


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_agrees_with_the_command(name: str) -> None:
    command = LazyCommands(name="leadline").get_command(None, name)
    assert command.name == name
    assert (command.help or "").split("\n\n")[0].replace("\n", " ").strip() == COMMANDS[name][1]


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from leadline.cli.main import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('scipy', 'altair', 'sqlalchemy', 'polars') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("words", [["show"], ["run"], ["lab", "list"]])
def test_help_loads_no_large_library(words: list[str]) -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from leadline.cli.main import app\n"
        f"assert CliRunner().invoke(app, [*{words}, '--help']).exit_code == 0\n"
        "print(*{'altair', 'numpy', 'polars', 'scipy', 'sqlalchemy'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
