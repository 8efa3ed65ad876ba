"""``leadline load``: the driver alone, in the foreground; and progress lines, of one driver as it writes them, of
several as one.
"""

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
from leadline.host.received import json_object_file, opened
from leadline.load.driver import as_own_user, find_binary, option_value
from leadline.load.result import LONGEST
from leadline.load.scenario import find_scenario
from leadline.model.errors import LeadlineError, UsageError, quoted
from leadline.model.received import LONGEST_FIELD, MOST_BYTES, ReceivedError, json_object, number, reading, whole
from leadline.model.record import LoadSecond
from leadline.model.result import DIFFERENCE

_WHAT = "progress"
_WORDS = 20  # lines that are no progress, kept


def as_json(second: LoadSecond) -> str:
    """As leadline-load prints it."""
    document = {
        "t": int(second.second),
        "phase": second.phase,
        "tps": round(second.throughput, 1),
        "p50_ms": round(second.p50_ms, 3),
        "p99_ms": round(second.p99_ms, 3),
        **({} if second.unanswered_from_ms is None else {"unanswered_from_ms": second.unanswered_from_ms}),
        "errors": second.errors,
        "in_flight": second.in_flight,
    }
    return json.dumps(document, separators=(",", ":"))


def as_text(second: LoadSecond) -> str:
    p50, p99 = (f"{second.known(ms):.2f}" for ms in (second.p50_ms, second.p99_ms))
    return (
        f"{second.second:>5.0f} s  {second.phase:<9} {second.throughput:>9.1f}/s  p50 {p50:>8} ms  "
        f"p99 {p99:>8} ms  errors {second.errors}  in flight {second.in_flight}"
    )


class ProgressLog:
    """The output of one driver as it is written. ``ready``: it waits for its start."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._position = 0
        self._rest = b""
        self._words: list[str] = []
        self._fresh: list[LoadSecond] = []
        self.ready = False
        self.seconds: dict[int, LoadSecond] = {}

    def read(self) -> bool:
        """Whether there was something new."""
        try:
            with opened(self._log) as file:
                file.seek(self._position)
                data = file.read(MOST_BYTES)
        except FileNotFoundError:
            return False
        self._position += len(data)
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-LONGEST_FIELD:]
        for line in lines:
            self._line(line.decode(errors="replace"))
        return bool(data)

    def take(self) -> list[LoadSecond]:
        """Read on; the seconds that were not taken yet."""
        self.read()
        fresh, self._fresh = self._fresh, []
        return fresh

    def _line(self, line: str) -> None:
        try:
            document = json_object(line, _WHAT)
            if "ready" in document:
                self.ready = True
                return
            second = LoadSecond(
                second=number(document, "t", _WHAT, most=LONGEST),
                phase=str(document.get("phase")),
                throughput=number(document, "tps", _WHAT),
                p50_ms=number(document, "p50_ms", _WHAT),
                p99_ms=number(document, "p99_ms", _WHAT),
                errors=whole(document, "errors", _WHAT),
                in_flight=whole(document, "in_flight", _WHAT),
                unanswered_from_ms=number(document, "unanswered_from_ms", _WHAT)
                if "unanswered_from_ms" in document
                else None,
            )
        except ReceivedError:
            self._words.append(line)
            del self._words[:-_WORDS]
        else:
            self.seconds[int(second.second)] = second
            self._fresh.append(second)

    def last_words(self) -> str:
        """The end of what is no progress."""
        return "\n".join([*self._words, self._rest.decode(errors="replace")][-_WORDS:]).strip()


def together(logs: Sequence[ProgressLog], after: int) -> list[LoadSecond]:
    """The seconds after ``after`` that every driver has told of, summed over them; the highest percentiles."""
    seconds = []
    second = after + 1
    while all(second in log.seconds for log in logs):
        parts = [log.seconds[second] for log in logs]
        bounds = [part.unanswered_from_ms for part in parts if part.unanswered_from_ms is not None]
        seconds.append(
            LoadSecond(
                second=float(second),
                phase=parts[0].phase,
                throughput=sum(part.throughput for part in parts),
                p50_ms=max(part.p50_ms for part in parts),
                p99_ms=max(part.p99_ms for part in parts),
                errors=sum(part.errors for part in parts),
                in_flight=sum(part.in_flight for part in parts),
                unanswered_from_ms=min(bounds, default=None),
            )
        )
        second += 1
    return seconds


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
