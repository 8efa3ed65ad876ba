"""``leadline load --drivers``: several drivers without a lab."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from ruamel.yaml.comments import CommentedSeq

from leadline.host.local import watched_starts
from leadline.host.paths import Scratch
from leadline.host.textfile import is_file, read_text
from leadline.load import result
from leadline.load.cluster.run import Cluster, DriverJob, told
from leadline.load.command import OUT, judge
from leadline.load.driver import CLIENT
from leadline.load.progress import as_json, as_text
from leadline.load.scenario import find_scenario
from leadline.model.drivers import DriverHost, Drivers
from leadline.model.errors import UsageError, did_you_mean, quoted, wanted
from leadline.model.yamltext import load_yaml


def read_drivers(text: str) -> list[DriverHost]:
    """A YAML file with a list (or with the key ``drivers``, such as a study file), or commands separated by commas.

    Raises UsageError with file and line.
    """
    path = Path(text)
    if is_file(path):
        return _from_file(path)
    if path.suffix in (".yaml", ".yml"):
        raise UsageError(f"--drivers {text}: no such file")
    words = [word.strip() for word in text.split(",")]
    return _checked(words, "--drivers")


def _from_file(path: Path) -> list[DriverHost]:
    tree = load_yaml(read_text(path), str(path))
    drivers = tree.get("drivers") if isinstance(tree, dict) else tree
    if not isinstance(drivers, CommentedSeq) or not drivers:
        raise UsageError(f"{path}:1: write a list of drivers, or the key drivers with one")

    def place(index: int) -> str:
        return f"{path}:{drivers.lc.item(index)[0] + 1}"

    return _checked(drivers, str(path), place)


def _checked(found: list[Any], source: str, place: Any = None) -> list[DriverHost]:
    adapter: TypeAdapter[list[DriverHost]] = TypeAdapter(Drivers)
    try:
        return adapter.validate_python(found)
    except ValidationError as error:
        problem = error.errors()[0]
        where = problem["loc"]
        here = place(where[0]) if place and where and isinstance(where[0], int) else source
        if problem["type"] == "extra_forbidden":
            key = str(where[-1])
            keys = list(DriverHost.model_fields)
            hint = did_you_mean(key, keys) or f"keys here: {', '.join(keys)}"
            raise UsageError(f"{here}: unknown key {key!r}; {hint}") from error
        name = f"{where[-1]}: " if len(where) > 1 else ""
        raise UsageError(f"{here}: {name}{wanted(problem)} (found {quoted(problem['input'])})") from error


_OURS = ("--share", "--start-at", "--dead-man-switch")
_BOUNDS = ("--limit-errors", "--limit-dropped", "--fail")
_DEAD_MAN = 5.0  # seconds
_POLL = 0.1


def check(drivers: Sequence[DriverHost]) -> list[str]:
    """A sentence about every host. Raises TrialFailure(infrastructure) for the first that cannot be used."""
    with Scratch() as place, watched_starts(_DEAD_MAN) as start, Cluster(drivers, place, place, start) as cluster:
        return list(told(cluster.open()))


def run(
    scenario: str, options: Sequence[str], drivers: Sequence[DriverHost], say: Callable[[str], None]
) -> bool | None:
    """Runs the drivers with the options of leadline-load; whether they passed, None when the user ended them before
    their plan.

    Results as of one driver go to ``--out`` (``leadline-load.out``), ``--replace`` and ``--progress`` as leadline-load
    has them: nothing is removed before every driver has taken its options. Raises UsageError,
    TrialFailure(infrastructure) when a host is lost.
    """
    pairs = option_pairs(options)
    last = dict(pairs)
    for option in _OURS:
        if option in last:
            raise UsageError(f"{option} cannot stand beside --drivers, which sets it for each")
    if CLIENT[0] in last:
        raise UsageError(f"{CLIENT[0]} cannot stand beside --drivers: its key does not leave this host")
    out = Path(last.get("--out", OUT))
    progress = last.get("--progress", "text" if sys.stdout.isatty() else "none")
    if progress not in ("json", "text", "none"):
        raise UsageError(f"--progress {progress}: not one of json, text, none")
    urls = [value for name, value in pairs if name == "--url"]
    rest = [(name, value) for name, value in pairs if name not in ("--out", "--progress", "--url")]
    job = DriverJob(find_scenario(scenario), urls, rest)
    if result.REPLACE not in last:
        result.refuse(out)

    def clear() -> None:
        result.remove(out, in_use=[out / "drivers" / driver.name for driver in drivers])

    with watched_starts(_DEAD_MAN) as start, Cluster(drivers, out, out / "logs", start) as cluster:
        for line in told(cluster.open()):
            if progress == "text":
                say(line)
        cluster.begin(job, clear if result.REPLACE in last else lambda: None)
        stopped = _follow(cluster, progress, say)
        cluster.collect()
    bounds = [word for option in pairs if option[0] in _BOUNDS for word in option]
    passed, text = judge(out, bounds)
    sys.stdout.write(text) if progress != "json" else sys.stderr.write(text)
    return None if stopped else passed


def _follow(cluster: Cluster, progress: str, say: Callable[[str], None]) -> bool:
    stopped = False
    while True:
        try:
            running = cluster.running()
            for second in cluster.poll():
                if progress != "none":
                    say(as_json(second) if progress == "json" else as_text(second))
            if not running:
                return stopped
            time.sleep(_POLL)
        except KeyboardInterrupt:
            stopped = True
            cluster.stop()


def option_pairs(options: Sequence[str]) -> list[tuple[str, str]]:
    """Options and values, ``--name value`` or ``--name=value``; an empty value for ``--name`` alone."""
    pairs = []
    at = 0
    while at < len(options):
        option = options[at]
        name, equals, value = option.partition("=")
        if not name.startswith("--"):
            raise UsageError(f"unexpected word {option!r}: options are written --name value")
        if not equals and at + 1 < len(options) and not options[at + 1].startswith("--"):
            value = options[at + 1]
            at += 1
        pairs.append((name, value))
        at += 1
    return pairs
