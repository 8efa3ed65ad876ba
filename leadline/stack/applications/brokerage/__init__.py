"""The reference application *brokerage* (docs/reference/brokerage.md)."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from leadline import catalogue
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import Knob
from leadline.model.received import from_json
from leadline.model.units import format_duration
from leadline.stack.applications.java import AUDIT_TIMEOUT, READY, JavaApplication, able, ask, evidence, last_line
from leadline.stack.base import (
    ConnectionFactory,
    DataSource,
    Deployment,
    Endpoint,
    Feature,
    Queue,
    Receiver,
    Settings,
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
CALLS = _KNOBS["app.calls"]
ORDERS = _KNOBS["app.orders"]
SUMMARY_CACHE = _KNOBS["app.summary_cache"]

_BEANS = frozenset({Feature.SERVLETS, Feature.BEANS, Feature.PERSISTENCE})
# The container checks all beans of the archive at start, so those of mode orm need their provider in mode session too.
MODES: Mapping[str, frozenset[Feature]] = {
    "direct": frozenset({Feature.SERVLETS}),
    "session": _BEANS,
    "orm": _BEANS,
}
_ARCHIVE = "brokerage.war"
_QUEUE_ARCHIVE = "brokerage-queue.war"  # with the message-driven beans
_DRAIN_TIMEOUT = 120.0


class Brokerage(JavaApplication):
    name = "brokerage"
    code = ("leadline/brokerage/domain/PriceRule", "leadline/brokerage/domain/Trade")
    mode_features = MODES
    answers: ClassVar[Mapping[str, str]] = {
        CALLS.name: "calls",
        ORDERS.name: "orders",
        SUMMARY_CACHE.name: "summary_cache",
        "app.mode": "mode",
    }
    queue = ORDERS

    def scenarios(self) -> Sequence[str]:
        return ("brokerage-classic", "brokerage-json", "brokerage-ping", "brokerage-static")

    def knobs_on(self, mode: str, server: str, servers: Mapping[str, Set[Feature]]) -> Sequence[Knob]:
        calls, orders = CALLS, ORDERS
        if Feature.BEANS not in MODES[mode]:
            able_servers = able(_BEANS, servers).replace(" and ", " or ")
            reason = f"mode {mode} calls no session bean; take mode session or orm, on {able_servers}"
            calls = replace(CALLS, refused={"remote": reason})
        if Feature.MESSAGING not in servers[server]:
            reason = f"orders go through a queue on {able({Feature.MESSAGING}, servers)}, not on {server}"
            orders = replace(ORDERS, refused={"queue": reason})
        return [calls, orders, SUMMARY_CACHE, self.mode_on(server, servers), *self.extra_costs()]

    def features(self, mode: str, settings: Settings) -> frozenset[Feature]:
        features = super().features(mode, settings)  # the queue's receivers are beans, whatever the mode of the pages
        return features | _BEANS | {Feature.MESSAGING} if self.queued(settings) else features

    def properties(self, mode: str, settings: Settings) -> dict[str, str]:
        levels = dict(settings)
        seconds = levels.pop(SUMMARY_CACHE.name, None)
        properties = super().properties(mode, levels)
        if seconds is None:
            return properties
        if float(seconds) != int(seconds):
            raise UsageError(
                f"{SUMMARY_CACHE.name} {format_duration(float(seconds))}: brokerage counts whole seconds;"
                f" the nearest is {round(float(seconds))}s"
            )
        return {**properties, "brokerage.summary.ttl": str(int(seconds))}

    def deployment(self, mode: str, settings: Settings) -> Deployment:
        return Deployment(
            name=self.name,
            archive=self.archive(settings),
            context_root="/brokerage",
            data_source=DataSource("jdbc/brokerage"),
            ready=READY,
            features=self.features(mode, settings),
            properties=self.properties(mode, settings),
            persistence_units=("brokerage",),
            connection_factory=ConnectionFactory("jms/brokerageConnections"),
            queues=(
                Queue("jms/brokerageOrders", Receiver("OrderReceiver", parallel=True), "jms/brokerageDeadOrders"),
                Queue("jms/brokerageDeadOrders", Receiver("DeadOrderReceiver")),
            ),
            topics=(Topic("jms/brokerageQuotes", Receiver("QuoteReceiver")),),
        )

    def login(self) -> str:
        return "log in as user-000001, password pw-000001"

    def archive(self, settings: Settings | None = None) -> Path:
        name = _QUEUE_ARCHIVE if self.queued(settings or {}) else _ARCHIVE
        return self.artefact("brokerage-war", name)

    def archives(self) -> Sequence[Path]:
        return (self.archive(), self.archive({ORDERS.name: "queue"}))

    def drain(self, url: str, settings: Settings, times: Path) -> None:
        """Nothing to do unless orders went through a queue."""
        if self.queued(settings):
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
