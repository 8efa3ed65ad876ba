"""The reference application *brokerage* (docs/reference/brokerage.md)."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from leadline import catalogue
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import Knob, Level
from leadline.model.received import from_json
from leadline.model.units import format_duration
from leadline.stack.applications.java import AUDIT_TIMEOUT, JavaApplication, ask, evidence, last_line
from leadline.stack.base import Endpoint, Settings
from leadline.stack.deployment import (
    ConnectionFactory,
    DataSource,
    Deployment,
    Feature,
    Queue,
    Ready,
    Receiver,
    Topic,
)
from leadline.stack.probe import connection_to

# What runs behind brokerage's pages: waiting until the queue of orders is empty, and how long each order took.


_POLL = 0.2
_STILL = 5.0  # seconds without any settlement after which what is missing does not come any more


def drain(
    url: str,
    timeout: float,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Wait until every accepted order is settled and no message waits; the last figures of the queue.

    Messages that a server has lost are not waited for: nothing waits and nothing has moved for five seconds. Raises
    TrialFailure(workload) when the queue is not empty in time, (infrastructure) when the application does not answer.
    """
    began = moved = now()
    settled = -1
    while True:
        try:
            figures = ask("brokerage", url, "/queue", timeout=30.0)
            done, idle = int(figures["settled"]), not int(figures["waiting"]) and not int(figures["in_work"])
            accepted = int(figures["accepted"])
        except (LookupError, ValueError, TypeError) as error:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"the queue of orders cannot be asked: {error}") from error
        if done != settled:
            settled, moved = done, now()
        if idle and (done >= accepted or now() - moved > _STILL):
            return figures
        if now() - began > timeout:
            raise TrialFailure(
                FailureClass.WORKLOAD,
                f"the queue of orders is not empty {timeout:g} s after the load: {accepted} accepted, {done} settled",
                str(figures),
            )
        sleep(_POLL)


def save_times(url: str, path: Path) -> int:
    """Write when each order was accepted and took effect (microseconds of Unix time) as CSV; how many orders.

    Raises TrialFailure(infrastructure).
    """
    at = urlsplit(url)
    connection = connection_to(url, timeout=60)
    try:
        connection.request("GET", f"{at.path}/queue/times", headers={"Connection": "close"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise OSError(f"HTTP {answer.status}")
    except (OSError, http.client.HTTPException) as error:
        raise TrialFailure(
            FailureClass.INFRASTRUCTURE, f"the times of the queued orders cannot be fetched: {error}"
        ) from error
    finally:
        connection.close()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    return max(0, body.count(b"\n") - 1)


# Knobs of the application brokerage: switches it takes as system properties of its server.


_KNOBS = catalogue.load("brokerage")
KNOBS = tuple(_KNOBS.values())
CALLS = _KNOBS["app.calls"]
ORDERS = _KNOBS["app.orders"]
SUMMARY_CACHE = _KNOBS["app.summary_cache"]
MODE = _KNOBS["app.mode"]
_EXTRA = {name: name.removeprefix("app.") for name in _KNOBS if name.startswith("app.extra_")}  # costs of known size

_BEANS = frozenset({Feature.SERVLETS, Feature.BEANS, Feature.PERSISTENCE})
# The container checks all beans of the archive at start, so those of mode orm need their provider in mode session too.
MODES: Mapping[str, frozenset[Feature]] = {
    "direct": frozenset({Feature.SERVLETS}),
    "session": _BEANS,
    "orm": _BEANS,
}
_ANSWER = {
    CALLS.name: "calls",
    ORDERS.name: "orders",
    SUMMARY_CACHE.name: "summary_cache",
    MODE.name: "mode",
    **_EXTRA,
}  # knob -> key of the application's health answer


def on(mode: str, server: str, servers: Mapping[str, Set[Feature]]) -> list[Knob]:
    """The knobs with the levels refused that cannot be had in a mode on a server. ``servers``: what each can do."""

    def able(needs: Set[Feature]) -> list[str]:
        return [name for name, can in servers.items() if needs <= can]

    calls, orders, can = CALLS, ORDERS, servers[server]
    if Feature.BEANS not in MODES[mode]:
        reason = f"mode {mode} calls no session bean; take mode session or orm, on {' or '.join(able(_BEANS))}"
        calls = replace(CALLS, refused={"remote": reason})
    if Feature.MESSAGING not in can:
        reason = f"orders go through a queue on {' and '.join(able({Feature.MESSAGING}))}, not on {server}"
        orders = replace(ORDERS, refused={"queue": reason})
    other_modes = {
        other: f"{server} has no such mode, {' and '.join(able(needs))} can run it"
        for other, needs in MODES.items()
        if not needs <= can
    }
    extra = [_KNOBS[name] for name in _EXTRA]
    return [calls, orders, SUMMARY_CACHE, replace(MODE, refused=other_modes), *extra]


def queued(settings: Settings) -> bool:
    """Whether orders go through a queue."""
    return settings.get(ORDERS.name, ORDERS.default) == "queue"


def features(mode: str, settings: Settings) -> frozenset[Feature]:
    """What a server must be able to do at these levels."""
    features = MODES[str(settings.get(MODE.name, mode))]
    if settings.get(CALLS.name) == "remote":
        features |= {Feature.REMOTE}
    if queued(settings):  # its receivers are beans, whatever the mode of the pages
        features |= _BEANS | {Feature.MESSAGING}
    return features


def properties(mode: str, settings: Settings) -> dict[str, str]:
    """System properties of the server for these levels; a knob without one keeps its default. Raises UsageError."""
    properties_ = {"brokerage.mode": str(settings.get(MODE.name, mode))}
    for name in (CALLS.name, ORDERS.name, *_EXTRA):
        if name in settings:
            properties_[f"brokerage.{_ANSWER[name]}"] = str(settings[name])
    if SUMMARY_CACHE.name in settings:
        seconds = float(settings[SUMMARY_CACHE.name])
        if seconds != int(seconds):
            raise UsageError(
                f"{SUMMARY_CACHE.name} {format_duration(seconds)}: brokerage counts whole seconds;"
                f" the nearest is {round(seconds)}s"
            )
        properties_["brokerage.summary.ttl"] = str(int(seconds))
    return properties_


def level(name: str, health: Mapping[str, Any]) -> Level:
    """A knob's level from what the running application says of itself. Raises LookupError."""
    if name not in _ANSWER:
        raise LookupError(f"brokerage has no knob {name}; it has {', '.join(knob.name for knob in KNOBS)}")
    try:
        answer_text = health[_ANSWER[name]]
    except KeyError:
        raise LookupError(f"brokerage does not tell the level of {name}") from None
    if name in _EXTRA:
        return int(answer_text)
    return float(answer_text) if name == SUMMARY_CACHE.name else str(answer_text)


def change(url: str, levels: Settings) -> None:
    """Have the running application at ``url`` take live levels. Raises LookupError."""
    ask(
        "brokerage",
        url,
        "/extra-costs?" + urlencode({_EXTRA[name]: level for name, level in levels.items()}),
        method="POST",
    )


_ARCHIVE = "brokerage.war"
_QUEUE_ARCHIVE = "brokerage-queue.war"  # with the message-driven beans
_READY = Ready("/health", json={"status": "up"})
_DRAIN_TIMEOUT = 120.0


class Brokerage(JavaApplication):
    name = "brokerage"
    data_code = (
        "leadline/brokerage/data/",
        "leadline/brokerage/sql/schema.sql",
        "leadline/brokerage/sql/indexes.sql",
        "leadline/brokerage/domain/PriceRule",
        "leadline/brokerage/domain/Trade",
        "leadline/common/Batch",
        "leadline/common/Dialect",
        "leadline/common/Passwords",
    )

    def modes(self) -> Sequence[str]:
        return tuple(MODES)

    def scenarios(self) -> Sequence[str]:
        return ("brokerage-classic", "brokerage-json", "brokerage-ping", "brokerage-static")

    def knobs(self) -> Sequence[Knob]:
        return KNOBS

    def knobs_on(self, mode: str, server: str, servers: Mapping[str, Set[Feature]]) -> Sequence[Knob]:
        return on(mode, server, servers)

    def deployment(self, mode: str, settings: Settings) -> Deployment:
        return Deployment(
            name=self.name,
            archive=self.archive(settings),
            context_root="/brokerage",
            data_source=DataSource("jdbc/brokerage"),
            ready=_READY,
            features=features(mode, settings),
            properties=properties(mode, settings),
            persistence_units=("brokerage",),
            connection_factory=ConnectionFactory("jms/brokerageConnections"),
            queues=(
                Queue("jms/brokerageOrders", Receiver("OrderReceiver", parallel=True), "jms/brokerageDeadOrders"),
                Queue("jms/brokerageDeadOrders", Receiver("DeadOrderReceiver")),
            ),
            topics=(Topic("jms/brokerageQuotes", Receiver("QuoteReceiver")),),
        )

    def read_back(self, url: str, knob: str) -> Level:
        return level(knob, ask(self.name, url, _READY.path))

    def change(self, url: str, levels: Settings) -> None:
        change(url, levels)

    def login(self) -> str:
        return "log in as user-000001, password pw-000001"

    def archive(self, settings: Settings | None = None) -> Path:
        name = _QUEUE_ARCHIVE if queued(settings or {}) else _ARCHIVE
        return self.artefact("brokerage-war", name)

    def archives(self) -> Sequence[Path]:
        return (self.archive(), self.archive({ORDERS.name: "queue"}))

    def drain(self, url: str, settings: Settings, times: Path) -> None:
        """Nothing to do unless orders went through a queue."""
        if queued(settings):
            drain(url, _DRAIN_TIMEOUT)
            save_times(url, times)

    def digest(self, database: Endpoint, log: Path) -> str:
        """One hash of the data, free of generated ids, times and interleaving. Raises TrialFailure(infrastructure)."""
        done = self.run_tools("digest", database, [], log, AUDIT_TIMEOUT)
        if done.returncode:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, f"the data could not be read: {last_line(done)}", evidence(done)
            )
        return str(from_json(done.stdout)["digest"])


__all__ = ["Brokerage"]
