"""``leadline load``: the driver alone, in the foreground."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from leadline.load.driver import as_own_user, find_binary
from leadline.load.scenario import find_scenario


def run_scenario(scenario: str, options: Sequence[str]) -> int:
    """Runs leadline-load with ``options`` as they are; its exit code. ``--out`` defaults to ``leadline-load.out``,
    ``--progress`` to text on a terminal. Raises LeadlineError without a binary, UsageError without such a scenario.
    """
    given = {option.split("=", 1)[0] for option in options}
    extra: list[str] = []
    if "--out" not in given:
        extra += ["--out", "leadline-load.out"]
    if "--progress" not in given and sys.stdout.isatty():
        extra += ["--progress", "text"]
    found = find_scenario(scenario)
    argv = [str(find_binary()), "run", str(found), *options, *extra]
    with as_own_user(argv, _out([*options, *extra]), found) as command, subprocess.Popen(command) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue  # the terminal signalled the driver too: it writes its results and ends


def _out(options: Sequence[str]) -> Path:
    for at, option in enumerate(options):
        name, equals, value = option.partition("=")
        if name == "--out":
            return Path(value if equals else "".join(options[at + 1 : at + 2]))
    return Path("leadline-load.out")


def scenario_schema() -> str:
    """The JSON schema of a scenario file. Raises LeadlineError without a binary."""
    return subprocess.run([str(find_binary()), "schema"], capture_output=True, text=True, check=True).stdout
