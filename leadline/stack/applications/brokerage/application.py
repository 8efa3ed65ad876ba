"""The reference application *brokerage*: archive, seeded data, audits (docs/reference/brokerage.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.knob import Knob, Level
from leadline.model.received import from_json
from leadline.stack.applications.brokerage import knobs, queue
from leadline.stack.applications.health import ask
from leadline.stack.applications.java import AUDIT_TIMEOUT, JavaApplication, evidence, last_line
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
        return tuple(knobs.MODES)

    def scenarios(self) -> Sequence[str]:
        return ("brokerage-classic", "brokerage-json", "brokerage-ping", "brokerage-static")

    def knobs(self) -> Sequence[Knob]:
        return knobs.KNOBS

    def knobs_on(self, mode: str, server: str, servers: Mapping[str, Set[Feature]]) -> Sequence[Knob]:
        return knobs.on(mode, server, servers)

    def deployment(self, mode: str, settings: Settings) -> Deployment:
        return Deployment(
            name=self.name,
            archive=self.archive(settings),
            context_root="/brokerage",
            data_source=DataSource("jdbc/brokerage"),
            ready=_READY,
            features=knobs.features(mode, settings),
            properties=knobs.properties(mode, settings),
            persistence_units=("brokerage",),
            connection_factory=ConnectionFactory("jms/brokerageConnections"),
            queues=(
                Queue("jms/brokerageOrders", Receiver("OrderReceiver", parallel=True), "jms/brokerageDeadOrders"),
                Queue("jms/brokerageDeadOrders", Receiver("DeadOrderReceiver")),
            ),
            topics=(Topic("jms/brokerageQuotes", Receiver("QuoteReceiver")),),
        )

    def read_back(self, url: str, knob: str) -> Level:
        return knobs.level(knob, ask(self.name, url, _READY.path))

    def change(self, url: str, levels: Settings) -> None:
        knobs.change(url, levels)

    def login(self) -> str:
        return "log in as user-000001, password pw-000001"

    def archive(self, settings: Settings | None = None) -> Path:
        name = _QUEUE_ARCHIVE if knobs.queued(settings or {}) else _ARCHIVE
        return self.artefact("brokerage-war", name)

    def archives(self) -> Sequence[Path]:
        return (self.archive(), self.archive({knobs.ORDERS.name: "queue"}))

    def drain(self, url: str, settings: Settings, times: Path) -> None:
        """Nothing to do unless orders went through a queue."""
        if knobs.queued(settings):
            queue.drain(url, _DRAIN_TIMEOUT)
            queue.save_times(url, times)

    def digest(self, database: Endpoint, log: Path) -> str:
        """One hash of the data, free of generated ids, times and interleaving. Raises TrialFailure(infrastructure)."""
        done = self.run_tools("digest", database, [], log, AUDIT_TIMEOUT)
        if done.returncode:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, f"the data could not be read: {last_line(done)}", evidence(done)
            )
        return str(from_json(done.stdout)["digest"])
