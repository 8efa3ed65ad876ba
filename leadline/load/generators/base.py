"""What a load generator is to leadline: a command to run, and results to read."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import SplitResult, urlsplit

from leadline.host.textfile import expanded, is_file
from leadline.load.result import LONGEST, MOST, Latency
from leadline.model.errors import LeadlineError, UsageError, nearest
from leadline.model.received import number, reading


def split_url(url: str) -> SplitResult:
    """Raises UsageError for what is no URL, or has no such port."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise UsageError(f"--url {url}: {error}") from None
    return parts


PRINTED = "printed.txt"
LONGEST_MS = 1e10  # of one request: four months
_PLACEHOLDER = re.compile(r"\$?\$\{(?P<name>[^}]*)\}?")

MeasuredFrom = Literal["intended start", "send"]
Model = Literal["open", "closed", "unknown"]

SENT = (
    "latencies are counted from the moment {name} sent a request, not from when it was due: what had to wait for "
    "the generator or a free connection looks faster than it was"
)
CLOSED = (
    "{name} was closed: a user or connection asks again only after its response, so a server that "
    "stalls is asked less, "
    "and latencies show what was sent, not what independent users would have met"
)


@dataclass(frozen=True)
class Meaning:
    """What the latencies of a run stand for."""

    measured_from: MeasuredFrom
    model: Model
    sentence: str


def meaning_of(name: str, model: Model) -> Meaning:
    """Of a tool that measures from the send."""
    words = CLOSED if model == "closed" else SENT
    return Meaning("send", model, words.format(name=name))


@dataclass(frozen=True)
class Job:
    """A run to be made. ``script`` and ``program`` as the user named them; ``raw`` takes the tool's own files;
    ``seconds`` is what placeholders say, the script's own length counts.
    """

    url: str
    raw: Path
    seconds: float
    seed: int = 1
    script: str | None = None
    options: Sequence[str] = ()
    program: str | None = None

    @property
    def address(self) -> SplitResult:
        """Raises UsageError."""
        return split_url(self.url)

    @property
    def port(self) -> int:
        return self.address.port or (443 if self.address.scheme == "https" else 80)

    @property
    def words(self) -> list[str]:
        """The options with their placeholders filled in; ``$${`` stands for ``${``. Raises UsageError for others."""
        address = self.address
        values = {
            "url": self.url,
            "scheme": address.scheme,
            "host": address.hostname or "",
            "port": str(self.port),
            "path": address.path or "/",
            "seconds": str(self.whole_seconds),
            "seed": str(self.seed),
        }

        def fill(found: re.Match[str]) -> str:
            name = found["name"]
            if found[0].startswith("$$"):
                return found[0][1:]
            if name in values and found[0].endswith("}"):
                return values[name]
            close = nearest(name, list(values)) if name else None
            hint = f"did you mean ${{{close}}}?" if close else f"there are {', '.join(f'${{{n}}}' for n in values)}"
            raise UsageError(f"--options: unknown placeholder {found[0]}; {hint} ($${{ is a ${{ for the tool itself)")

        return [_PLACEHOLDER.sub(fill, option) for option in self.options]

    @property
    def names_server(self) -> bool:
        """Whether the options say where the server is."""
        return any(word in option for option in self.options for word in ("${url}", "${host}"))

    @property
    def environment(self) -> dict[str, str]:
        """What every tool finds in its environment."""
        return {
            "LEADLINE_URL": self.url,
            "LEADLINE_SECONDS": str(self.whole_seconds),
            "LEADLINE_SEED": str(self.seed),
        }

    @property
    def whole_seconds(self) -> int:
        return max(1, round(self.seconds + 0.49))

    def has(self, *flags: str) -> bool:
        """Whether the options hold one of these flags (``-d`` also as ``-d10s``, ``--rate`` also as ``--rate=3``)."""
        for word in self.options:
            for flag in flags:
                short = not flag.startswith("--") and word.startswith(flag)
                if word == flag or word.startswith(f"{flag}=") or (short and not word.startswith("--")):
                    return True
        return False

    def script_file(self, tool: str) -> Path:
        """Raises UsageError without a script or file of that name."""
        if self.script is None:
            raise UsageError(f"{tool} runs a script of its own: name it")
        path = expanded(self.script)
        if not is_file(path):
            raise UsageError(f"no file {self.script}: the script {tool} is to run")
        return path.resolve()

    def find(self, tool: str, how: str) -> str:
        """The program. Raises LeadlineError saying ``how`` to get it."""
        which = shutil.which(self.program or tool)
        if which is None:
            raise LeadlineError(f"{self.program or tool} is not on the PATH; {how}")
        return which


@dataclass(frozen=True)
class Command:
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """One request. Unix seconds; ``error`` is its kind or empty; response and service time in ms."""

    name: str
    end: float
    response_ms: float
    service_ms: float
    error: str = ""

    @property
    def due(self) -> float:
        """When it was due, of a tool that does not tell when it was sent."""
        return self.end - self.response_ms / 1000

    @property
    def unanswered(self) -> bool:
        """Given up after that time; how long it would have taken is not known."""
        return self.error == "timeout" and self.response_ms > 0

    @property
    def timed(self) -> bool:
        """Whether its times are among the latencies."""
        return not self.error or self.unanswered


@dataclass(frozen=True)
class Totals:
    """What a tool says of a whole run when it keeps no single request. ``reason``: what is missing, and why."""

    name: str
    seconds: float
    ok: int
    errors: Mapping[str, int]
    latency: Latency
    reason: str = ""


@dataclass(frozen=True)
class Findings:
    """Results of a run: single requests, or totals. ``dropped``: arrivals the tool planned and did not make;
    ``missing``: what the single requests lack.
    """

    version: str
    meaning: Meaning
    samples: Sequence[Sample] = ()
    totals: Totals | None = None
    dropped: int = 0
    missing: str = ""


class Generator(Protocol):
    """One tool: one module in this folder, registered in ``registry``."""

    @property
    def name(self) -> str: ...
    @property
    def per_second(self) -> bool:
        """Whether it keeps single requests, so that seconds and warm-up can be judged."""

    def check(self, job: Job) -> str:
        """The program. Raises UsageError for a job that cannot be run, LeadlineError where the tool is not there."""

    def command(self, job: Job) -> Command:
        """What to start; ``job.raw`` is there. Raises as ``check``."""

    def read(self, job: Job) -> Findings:
        """What the ended run left in ``job.raw`` (``PRINTED``: what it printed), read by ``results_of``. Raises OSError
        where it is not there, LeadlineError or ValueError, TypeError, LookupError where it is not as it should be.
        """


def results_of(tool: Generator, job: Job) -> Findings:
    """What the ended run left. Raises LeadlineError where it is not there or not as the tool writes it."""
    what = f"what {tool.name} left in {job.raw}"
    try:
        with reading(what):
            findings = tool.read(job)
    except OSError as error:
        raise missing(tool.name, error) from None
    if totals := findings.totals:
        latencies = {name: value for name, value in asdict(totals.latency).items() if value is not None}
        figures = {"seconds": totals.seconds, "ok": totals.ok, **totals.errors, **latencies}
        for name in figures:
            number(figures, name, what, most=MOST)
        number(figures, "seconds", what, most=LONGEST)
    return findings


def status_kind(status: int) -> str:
    """The error kind of a status code; empty for a good one."""
    return "" if 200 <= status < 400 else f"status_{status // 100}xx" if 100 <= status < 600 else "protocol"


def missing(tool: str, what: object) -> LeadlineError:
    """Of results that are not there or not as the tool writes them."""
    return LeadlineError(f"{tool} left no results that can be read: {what}")
