"""``leadline load``: the driver alone, in the foreground."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from leadline.host import here
from leadline.load.driver import as_own_user, find_binary
from leadline.load.scenario import find_scenario
from leadline.model.errors import LeadlineError, UsageError


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
    with as_own_user(argv, _out([*options, *extra]), found) as command:
        return here.foreground(command)[0]


def judge(directory: Path, options: Sequence[str] = ()) -> tuple[bool, str]:
    """Whether the run whose summary is in ``directory`` passed, and the summary as text; its verdict is added to
    summary.json. ``options``: those of ``leadline-load judge``. Raises UsageError, LeadlineError.
    """
    argv = [str(find_binary()), "judge", str(directory), *options]
    done = here.run(argv)
    if done.returncode not in (0, 1) or not done.stdout:
        error = UsageError if done.returncode == 2 else LeadlineError
        raise error(done.stderr.strip().removeprefix("leadline-load: "))
    return done.returncode == 0, done.stdout


def _out(options: Sequence[str]) -> Path:
    for at, option in enumerate(options):
        name, equals, value = option.partition("=")
        if name == "--out":
            return Path(value if equals else "".join(options[at + 1 : at + 2]))
    return Path("leadline-load.out")


def scenario_schema() -> str:
    """The JSON schema of a scenario file. Raises LeadlineError without a binary."""
    return here.run([str(find_binary()), "schema"]).stdout
