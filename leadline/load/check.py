"""The driver's own word on a workload before anything starts: ``leadline-load check`` with all options of a run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from leadline.host import here
from leadline.host.textfile import expanded
from leadline.load.driver import DriverRun
from leadline.load.scenario import find_scenario, parameters, sent_variables
from leadline.model.drivers import DriverHost, shares
from leadline.model.errors import UsageError, nearest, quoted, shortened
from leadline.model.workload import Workload

_TIMEOUT = 20.0  # seconds; it reads the files of the scenario, a recording too
_NOWHERE = "http://127.0.0.1:9"  # nothing is sent there


def check_variables(load: Workload) -> None:
    """Raises UsageError for a variable that the scenario does not declare."""
    names = list(parameters(find_scenario(load.scenario)))
    for name in load.variables:
        if name == "units":
            raise UsageError("units is workload.load_units, which scales the data as well; write it there")
        if name not in names:
            near = nearest(name, names)
            hint = f"did you mean {near}?" if near else f"its parameters: {', '.join(names) or 'none'}"
            raise UsageError(f"scenario {load.scenario} has no parameter {quoted(name)}; {hint}")


def check_by_driver(load: Workload, seed: int, drivers: Sequence[DriverHost] = ()) -> None:
    """leadline-load reads the scenario, its files and every option, as it will in a trial. Raises UsageError with what
    it says, one line for each problem; LeadlineError where it is not built.
    """
    run = DriverRun(load, _NOWHERE, seed, Path("out"), sent_variables(load))
    argv = [*run.argv(), "--dry-run"]
    if drivers:
        argv += ["--share", max(shares(drivers), key=_size)]
    files = [find_scenario(load.scenario), *([expanded(load.replay)] if load.replay else [])]
    if problems := _asked(tuple(argv), tuple(file.stat().st_mtime_ns for file in files)):
        raise UsageError("\n".join(problems))


def _size(share: str) -> int:
    first, _, last = share.partition("/")[0].partition("-")
    return int(last) - int(first)


@lru_cache(maxsize=64)
def _asked(argv: tuple[str, ...], changed: tuple[int, ...]) -> tuple[str, ...]:  # noqa: ARG001 - a new file is read again
    try:
        done = here.run(argv, timeout=_TIMEOUT)
    except TimeoutError:
        return (f"leadline-load did not read it within {_TIMEOUT:g} s",)
    except (OSError, ValueError) as error:
        return (f"leadline-load cannot be asked: {error}",)
    if done.returncode == 0:
        return ()
    errors = done.stderr.splitlines()
    return tuple(shortened(line.removeprefix("leadline-load: "), 300) for line in errors) or (
        f"leadline-load: code {done.returncode}",
    )
