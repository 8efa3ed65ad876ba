"""The table of commands says what the commands themselves say."""

from __future__ import annotations

import subprocess
import sys

import pytest

from leadline.cli.lazy import COMMANDS, LazyCommands


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
