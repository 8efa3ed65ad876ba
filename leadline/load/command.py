"""``leadline load``: the driver alone, in the foreground."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from leadline.host import here
from leadline.host.scratch import Scratch
from leadline.load.driver import as_own_user, find_binary
from leadline.load.scenario import find_scenario
from leadline.model.errors import LeadlineError, UsageError

OUT = "leadline-load.out"  # where results go by default


def run_scenario(scenario: str, options: Sequence[str]) -> int:
    """Runs leadline-load with ``options`` as they are; its exit code. ``--out`` defaults to ``OUT``,
    ``--progress`` to text on a terminal. Raises LeadlineError without a binary, UsageError without such a scenario.
    """
    given = {option.split("=", 1)[0] for option in options}
    extra: list[str] = []
    if "--out" not in given:
        extra += ["--out", OUT]
    if "--progress" not in given and sys.stdout.isatty():
        extra += ["--progress", "text"]
    found = find_scenario(scenario)
    argv = [str(find_binary()), "run", str(found), *options, *extra]
    with as_own_user(argv, Path(option_value("--out", options, OUT)), found) as command:
        return here.foreground(command)[0]


def check_bounds(options: Sequence[str]) -> None:
    """Raises UsageError for options of ``leadline-load judge`` that it does not take."""
    with Scratch() as nothing:
        done = here.run([str(find_binary()), "judge", str(nothing), *options])
    if done.returncode == 2:
        raise UsageError(done.stderr.strip().removeprefix("leadline-load: "))


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


def option_value(option: str, options: Sequence[str], otherwise: str) -> str:
    """The value of an option of leadline-load, which is written in two words or in one; ``otherwise`` without it."""
    for word, following in pairwise((*options, "")):
        name, equals, value = word.partition("=")
        if name == option:
            return value if equals else following
    return otherwise


def scenario_schema() -> str:
    """The JSON schema of a scenario file. Raises LeadlineError without a binary."""
    return here.run([str(find_binary()), "schema"]).stdout
