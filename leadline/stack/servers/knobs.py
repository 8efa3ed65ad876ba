"""The knobs of the servers and of messaging under one set of names; their files in the catalogue add
own defaults and ranges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from leadline import catalogue
from leadline.model.errors import UsageError
from leadline.model.knob import Knob, Level
from leadline.model.places import DEFAULTS, DISK, SERVER_MOUNT
from leadline.stack import places
from leadline.stack.base import Deployment, Feature, ServiceContext, Settings

UPKEEP = 5  # seconds between two looks at a pool whose connections have a limit

_KNOBS = catalogue.load("server")

MAX_CONNECTIONS = _KNOBS["server.datasource.max_connections"]
MIN_CONNECTIONS = _KNOBS["server.datasource.min_connections"]
STATEMENT_CACHE = _KNOBS["server.datasource.statement_cache"]
CONNECTION_TIMEOUT = _KNOBS["server.datasource.connection_timeout"]
IDLE_TIMEOUT = _KNOBS["server.datasource.idle_timeout"]
MAX_AGE = _KNOBS["server.datasource.max_age"]
PURGE_POLICY = _KNOBS["server.datasource.purge_policy"]
VALIDATION = _KNOBS["server.datasource.validation"]
THREADS = _KNOBS["server.threads.max"]
MIN_THREADS = _KNOBS["server.threads.min"]
HTTP_CONNECTIONS = _KNOBS["server.http.max_connections"]
ACCEPT_QUEUE = _KNOBS["server.http.accept_queue"]
KEEP_ALIVE = _KNOBS["server.http.max_keep_alive_requests"]
HTTP2 = _KNOBS["server.http.http2"]
TLS = _KNOBS["server.tls"]
COMPRESSION = _KNOBS["server.http.compression"]
MONITORING = _KNOBS["server.monitoring"]
BEAN_INSTANCES = _KNOBS["server.beans.max_instances"]
ACCESS_LOG = _KNOBS["server.access_log"]


_UNITS = {"milliseconds": (1, 1000), "seconds": (1, 1), "minutes": (60, 1)}  # seconds as a fraction


@dataclass(frozen=True)
class Way:
    """How a server has a knob: the variable that carries its level, and where it tells it (``place``: a bean, an
    element, a resource). All ``attributes`` have one value; ``words`` are the server's for levels; ``lines`` are in its
    configuration only where there is a level.
    """

    variable: str = ""
    place: str = ""
    attributes: tuple[str, ...] = ()
    form: Literal["plain", "negated", "milliseconds", "seconds", "minutes"] = "plain"
    words: Mapping[str, str] = field(default_factory=dict)
    lines: tuple[str, ...] = ()

    @property
    def attribute(self) -> str:
        return self.attributes[0]

    def written(self, name: str, level: Level, title: str) -> str:
        """As the server takes it. Raises UsageError for parts of the unit that it counts, with the nearest level."""
        if self.form in _UNITS:
            numerator, denominator = _UNITS[self.form]
            count = float(level) * denominator / numerator
            if self.form != "milliseconds" and count != int(count):
                near = f"{max(1, round(count))}{self.form[0]}"
                raise UsageError(f"{name} {float(level):g} s: {title} counts whole {self.form}; the nearest is {near}")
            return str(round(count))
        text = str(level != (self.form == "negated")).lower() if isinstance(level, bool) else str(level)
        return self.words.get(text, text)

    def level(self, name: str, value: object, title: str) -> Level:
        """The level from the attribute's value. Raises LookupError, ValueError."""
        if value is None or (self.form in _UNITS and float(str(value)) < 0):
            raise LookupError(f"{title} has no limit for {name}")
        if self.form in _UNITS:
            numerator, denominator = _UNITS[self.form]
            return float(str(value)) * numerator / denominator
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if "true" in self.words:
            return text == self.words["true"]
        text = next((word for word, theirs in self.words.items() if theirs == text), text)
        if text in ("true", "false"):
            return (text == "true") != (self.form == "negated")
        return text if self.words else int(text)


def ways_of(server: str) -> dict[str, Way]:
    """How the server has its knobs, by their names."""
    ways = {}
    for name, row in catalogue.ways(server).items():
        values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
        ways[name] = Way(**values)
    return ways


def check_bounds(settings: Mapping[str, Level], least: Knob, most: Knob, default: Level | None) -> None:
    """Raises UsageError for more kept than the maximum, of threads or connections; ``default``: of the maximum."""
    least_level, limit = settings.get(least.name), settings.get(most.name, default)
    if isinstance(least_level, int) and isinstance(limit, int) and least_level > limit:
        raise UsageError(f"{least.name} {least_level} is more than {most.name} {limit}; set at most {limit}")


_COMMON = catalogue.load("server")
RELIABILITY = _COMMON["server.messaging.reliability"]
STORE = _COMMON["server.messaging.store"]
STORE_PLACE = _COMMON["server.messaging.store_place"]
CONSUMERS = _COMMON["server.messaging.consumers"]
LOG_PLACE = _COMMON["server.transactions.log_place"]
KNOBS = (RELIABILITY, STORE, STORE_PLACE, CONSUMERS, LOG_PLACE)
_NAMES = frozenset(knob.name for knob in KNOBS)
NONE = "no messaging: the application sends no messages at its levels"
_FOLDERS = {STORE_PLACE.name: "messages", LOG_PLACE.name: "transactions"}


def in_memory(settings: Settings) -> bool:
    """Whether a store or a log is placed in memory."""
    return any(settings.get(name, DISK) != DISK for name in _FOLDERS)


def directories(context: ServiceContext, settings: Settings, server: str) -> Mapping[str, Path]:
    """Where the message store and the log of transactions go, by their knobs; what lies in memory is made here, empty.

    What a RAM disk is made of is told in a file among the trial's artefacts. Raises UsageError, TrialFailure.
    """
    wanted = {name: str(settings.get(name, DISK)) for name in _FOLDERS}
    options = str(settings.get(SERVER_MOUNT, DEFAULTS))
    directories_ = {DISK: context.directory}
    file_systems = []
    for level in sorted(set(wanted.values()) - {DISK}):
        directories_[level], file_system = places.make_at(
            context.host, context.directory, level, places.STORES, options
        )
        file_systems.append(f"{level}: {file_system}\n")
    if file_systems:
        context.artefacts.mkdir(parents=True, exist_ok=True)
        (context.artefacts / f"{server}-ram-disk.txt").write_text("".join(file_systems))
    return {name: directories_[level] / _FOLDERS[name] for name, level in wanted.items()}


def in_use(context: ServiceContext) -> bool:
    """Whether the application sends messages at these levels."""
    return Feature.MESSAGING in context.application.features


def consumers(deployment: Deployment, settings: Settings) -> Mapping[str, Level]:
    """Message-driven bean -> how many work at once, for those of which a level says so."""
    if CONSUMERS.name not in settings:
        return {}
    receivers = (destination.receiver for destination in deployment.destinations)
    return {receiver.bean: settings[CONSUMERS.name] for receiver in receivers if receiver.parallel}


def knows(name: str) -> bool:
    """Whether ``name`` is one of these knobs."""
    return name in _NAMES
