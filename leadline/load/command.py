"""``leadline load``: the driver alone, in the foreground."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

from leadline.host import here
from leadline.host.bystanders import Bystanders, Others, listening
from leadline.host.paths import Scratch
from leadline.host.received import json_object_file
from leadline.load.driver import as_own_user, find_binary, option_value
from leadline.load.scenario import find_scenario
from leadline.model.disturbance import DIFFERENCE
from leadline.model.errors import LeadlineError, UsageError, quoted
from leadline.model.received import ReceivedError, number, reading

FILE = "host.json"
_MOST = 64 * 1024  # bytes of it


def keep_others(directory: Path, others: Others | None) -> None:
    """Writes what was seen beside a load to the directory of its results."""
    if others is not None:
        (directory / FILE).write_text(json.dumps(asdict(others)) + "\n", encoding="utf-8")


def read_others(directory: Path) -> Others | None:
    """None where it was not recorded. Raises UsageError where the file is damaged."""
    path = directory / FILE
    try:
        document = json_object_file(path, _MOST)
        with reading(str(path)):
            shares = {name: number(document["programs"], name, str(path)) for name in document["programs"]}
        return Others(number(document, "others", str(path)), number(document, "steal", str(path)), shares)
    except FileNotFoundError:
        return None
    except ReceivedError as error:
        raise UsageError(f"{error}; remove it, and the loads are compared without it") from None


def disturbance(before: Others | None, now: Others | None) -> str:
    """Why two loads cannot be compared: other programs took much more of the CPUs beside one of them; else empty."""
    if before is None or now is None or abs(before.taken - now.taken) <= DIFFERENCE:
        return ""
    return (
        f"not known: other programs took {before} of the CPUs before and {now} now, and what differs may be theirs; "
        "`leadline load --alternate URL_A URL_B` loads both servers in turns"
    )


OUT = "leadline-load.out"  # where results go by default
USERS = 10  # of a URL without a scenario


def run_scenario(scenario: str, options: Sequence[str]) -> int:
    """Runs leadline-load with ``options`` as they are; its exit code. ``--out`` defaults to ``OUT``,
    ``--progress`` to text on a terminal. Raises LeadlineError without a binary, UsageError without such a scenario.
    """
    names = {option.split("=", 1)[0] for option in options}
    extra: list[str] = []
    if "--out" not in names:
        extra += ["--out", OUT]
    if "--progress" not in names and sys.stdout.isatty():
        extra += ["--progress", "text"]
    path, out = find_scenario(scenario), Path(option_value("--out", options, OUT))
    argv = [str(find_binary()), "run", str(path), *options, *extra]
    beside = Bystanders(server_of(option_value("--url", options, "")))
    with as_own_user(argv, out, path) as command:
        code = here.foreground(command)[0]
    if code in (0, 1) and (out / "summary.json").is_file():
        keep_others(out, beside.used())
    return code


def of_url(url: str, options: Sequence[str]) -> list[str]:
    """Options of leadline-load that get one URL again and again with the scenario ``url``: ten users for ten seconds
    unless the options say otherwise; ``--duration`` is ``--steady``, ``--rate`` comes at constant intervals. Raises
    UsageError.
    """
    parts = urlsplit(url)
    if not parts.hostname:
        raise UsageError(f"{quoted(url)} names no host: write http://HOST[:PORT][/PATH]")
    words = [
        "--steady" + word.removeprefix("--duration") if word.partition("=")[0] == "--duration" else word
        for word in options
    ]
    names = {word.partition("=")[0] for word in words}
    if "--url" in names:
        raise UsageError(f"{quoted(url)} is the URL already: leave out --url, or name a scenario")
    path = parts.path.removeprefix("/") + (f"?{parts.query}" if parts.query else "")
    words += ["--url", f"{parts.scheme}://{parts.netloc}", "--var", f"path={path}"]
    if not names & {"--users", "--rate", "--profile", "--replay"}:
        words += ["--users", str(USERS)]
    if names & {"--rate"} and "--arrivals" not in names:
        words += ["--arrivals", "constant"]
    return words


def server_of(url: str) -> set[int]:
    """Processes of this host that listen where a URL points; none where it points elsewhere."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return set()
    host = parts.hostname or ""
    return listening(port) if host in ("localhost", "::1") or host.startswith("127.") else set()


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


def scenario_schema() -> str:
    """The JSON schema of a scenario file. Raises LeadlineError without a binary."""
    return here.run([str(find_binary()), "schema"]).stdout
