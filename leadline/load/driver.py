"""leadline-load as a process: the binary, its command line, its results."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from leadline.host import here
from leadline.host.base import ProcessSpec
from leadline.host.textfile import expanded
from leadline.load import result
from leadline.load.arrivals import arrival_options, most_sessions
from leadline.load.scenario import find_scenario, parameters, preset_variables, sent_variables, source_address
from leadline.model.errors import LeadlineError, UsageError, did_you_mean, quoted, shortened
from leadline.model.hosts import DriverHost, shares
from leadline.model.workload import Workload

_TIMEOUT = 120.0  # seconds; it reads the files of the scenario, a recording too, beside whatever else runs
_NOWHERE = "http://127.0.0.1:9"  # nothing is sent there


def check_variables(load: Workload) -> None:
    """Raises UsageError for a variable that the scenario does not declare."""
    names = list(parameters(find_scenario(load.scenario)))
    for name in load.variables:
        if name == "units":
            raise UsageError("units is workload.load_units, which scales the data as well; write it there")
        if name not in names:
            hint = did_you_mean(name, names) or f"its parameters: {', '.join(names) or 'none'}"
            raise UsageError(f"scenario {load.scenario} has no parameter {quoted(name)}; {hint}")


def check_by_driver(
    load: Workload,
    seed: int,
    drivers: Sequence[DriverHost] = (),
    tls: tuple[Path | None, Sequence[Path]] = (None, ()),
) -> None:
    """leadline-load reads the scenario, its files and every option, as it will in a trial; ``tls``: what it trusts and
    shows at an https URL. Raises UsageError with what it says, one line for each problem; LeadlineError where it is not
    built.
    """
    url = _NOWHERE.replace("http:", "https:") if tls[0] else _NOWHERE
    run = DriverRun(load, url, seed, Path("out"), sent_variables(load), ca=tls[0], client=tls[1])
    argv = [*run.argv(), "--dry-run"]
    if drivers:
        argv += ["--share", max(shares(drivers), key=_size)]
    files = [find_scenario(load.scenario), *([expanded(load.replay)] if load.replay else [])]
    files += [path for path in (tls[0], *tls[1]) if path is not None]
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


CLIENT = ("--client-certificate", "--client-key")  # the last of them that is given names the file of the private key
_PACKAGE = Path(__file__).parent.parent
_LOST = 0.01  # share of transactions that the driver lets fail
_MOST_BESIDE = 500  # files beside a scenario


def find_binary() -> Path:
    """The driver's binary: the packaged one, else the one built in this checkout. Raises LeadlineError."""
    candidates = [
        _PACKAGE / "_bin" / "leadline-load",
        _PACKAGE.parent / "driver" / "target" / "release" / "leadline-load",
    ]
    for path in candidates:
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise LeadlineError(
        "the load driver leadline-load is not built; "
        "run `cargo build --release --locked --manifest-path driver/Cargo.toml` in the checkout"
    )


def _written(value: str | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class DriverRun:
    """One run to be started. ``variables`` are parameters of the scenario; ``cpus`` as in ``0,2-3``."""

    workload: Workload
    url: str
    seed: int
    out: Path
    variables: Mapping[str, str | int | float] = field(default_factory=dict)
    cpus: str | None = None
    ca: Path | None = None  # PEM file of certificates to trust, for an https URL
    client: Sequence[Path] = ()  # PEM files of certificate and private key to show there, or one of both
    windows: Sequence[tuple[float, float]] = ()  # seconds from the start: load only in these
    population_urls: Mapping[str, str] = field(default_factory=dict)  # of populations with another server
    told: bool = False  # starts when a line `start NANOSECONDS` of unix time comes on its standard input
    errors: float = 0.0  # share of transactions that may fail; below the driver's own bound that bound stands

    @property
    def seconds(self) -> float:
        """Planned length of the run, without the drain of what is then still in flight."""
        return self.workload.ramp_up + self.workload.steady + self.workload.ramp_down

    def argv(self) -> list[str]:
        """The command line. Raises UsageError for keys that do not fit together, LeadlineError without a binary."""
        first = [str(find_binary()), "run", str(find_scenario(self.workload.scenario))]
        where = ["--url", self.url, "--out", str(self.out)]
        options = [word for option in self.options() for word in option]
        return [*first, *where, *options, *self.bounds, "--progress", "json", "--verdict", "file"]

    @property
    def bounds(self) -> list[str]:
        """Options of the verdict."""
        share = f"{self.errors:g}"
        return ["--limit-errors", share, "--limit-dropped", share] if self.errors > _LOST else []

    def options(self) -> list[tuple[str, str]]:
        """Names and values of the options that tell of the load. Raises UsageError for keys that do not fit."""
        load = self.workload
        words = arrival_options(load)
        pairs = list(zip(words[::2], words[1::2], strict=True))
        for option in ("ramp_up", "steady", "ramp_down", "timeout"):
            pairs.append((f"--{option.replace('_', '-')}", f"{round(getattr(load, option) * 1e6)}us"))
        pairs += [("--population-url", f"{name}={url}") for name, url in self.population_urls.items()]
        if self.windows:
            spans = ",".join(f"{begin:g}s-{end:g}s" for begin, end in self.windows)
            pairs.append(("--windows", spans))
        if self.told:
            pairs.append(("--start-at", "stdin"))
        pairs += [("--seed", str(self.seed)), ("--max-sessions", str(most_sessions(load)))]
        addresses = load.source_address or source_address(load.preset, self.url)
        if addresses is not None:
            pairs.append(("--source-address", addresses))
        if load.http != "auto":
            pairs.append(("--http", load.http))
        if self.ca is not None:
            pairs.append(("--ca", str(self.ca)))
        pairs += zip(CLIENT, map(str, self.client), strict=False)
        if load.requests_per_connection is not None:
            pairs.append(("--requests-per-connection", str(load.requests_per_connection)))
        if load.connections != "session":
            pairs.append(("--connections", load.connections))
        if load.max_connections is not None:
            pairs.append(("--max-connections", str(load.max_connections)))
        if load.cpu_latency is not None:
            pairs.append(("--cpu-latency", f"{round(load.cpu_latency * 1e6)}us"))
        if load.grid is not None:
            pairs.append(("--grid", f"{round(load.grid * 1e6)}us"))
        variables = dict(self.variables)
        if load.preset is not None:
            variables |= preset_variables(load.preset, load.scenario, variables)
        return [*pairs, *(("--var", f"{name}={_written(value)}") for name, value in variables.items())]

    def spec(self, output: Path) -> ProcessSpec:
        """The process for a host to start; its progress lines (JSON, one a second) go to ``output``."""
        self.out.mkdir(parents=True, exist_ok=True)
        trust = [self.ca] if self.ca is not None else []
        reads = [*scenario_reads(find_scenario(self.workload.scenario)), *trust, *self.client[:-1]]
        latency = self.workload.cpu_latency is not None
        return ProcessSpec(
            "driver",
            self.argv(),
            output,
            cpus=self.cpus,
            owns=(self.out,),
            reads=reads,
            realtime=True,
            latency=latency,
            key=self.client[-1] if self.client else None,
            input=self.told,
        )


def option_value(option: str, options: Sequence[str], otherwise: str) -> str:
    """The value of an option of leadline-load, which is written in two words or in one; ``otherwise`` without it."""
    for word, following in pairwise((*options, "")):
        name, equals, value = word.partition("=")
        if name == option:
            return value if equals else following
    return otherwise


def scenario_reads(scenario: Path) -> list[Path]:
    """The scenario and what lies beside it, where its feeds are: what the driver's user must reach."""
    try:
        beside = [path for path in sorted(scenario.parent.iterdir())[:_MOST_BESIDE] if not path.name.startswith(".")]
    except OSError:
        beside = []
    return [scenario, *(path for path in beside if path.is_dir() or path.stat().st_mode & 0o004)]


@contextmanager
def as_own_user(argv: Sequence[str], out: Path, scenario: Path) -> Iterator[list[str]]:
    """The command line of a driver in the foreground, as a user of its own where leadline is root; ``out`` is that
    user's meanwhile. Files of others in it stay root's, and then the driver does, too: it says so. Raises UsageError.
    """
    if not here.is_root():
        yield list(argv)
        return
    ours = {*result.FILES, result.RAW}
    try:
        out.mkdir(parents=True, exist_ok=True)
        strange = next((name for name in sorted(os.listdir(out)) if name not in ours), None)  # noqa: PTH208
    except OSError:  # the driver says what is wrong with it
        yield list(argv)
        return
    if strange is not None:
        print(f"leadline: {out} holds {strange}, so leadline-load runs as root: name a new --out", file=sys.stderr)
        yield list(argv)
        return
    latency = any(word.partition("=")[0] == "--cpu-latency" for word in argv)
    values = [Path(word.partition("=")[2] or word) for word in argv[2:]]
    key = Path(word) if (word := option_value(CLIENT[1], argv, option_value(CLIENT[0], argv, ""))) else None
    trust = [Path(option_value(name, argv, "")) for name in ("--ca", CLIENT[0])]  # relative ones, too
    files = [path for path in (*filter(Path.is_absolute, values), *trust) if path.is_file() and path != key]
    reads = [Path(argv[0]), *scenario_reads(scenario), *files]
    with here.own_user(argv, Path.cwd(), reads, [out], realtime=True, latency=latency, key=key) as command:
        yield command
