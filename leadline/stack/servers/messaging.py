"""Knobs of messaging and of the transaction log, under one set of names for all servers that have them."""

from __future__ import annotations

from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.servers.places import DISK, TMPFS

ORDERS = "brokerage.orders"  # system property of the application
_QUEUE = "queue"

RELIABILITY = Knob(
    "server.messaging.reliability",
    Kind.CHOICE,
    ApplyCost.RESTART,
    "What a message survives, from best-effort (dropped when the server runs short) to assured (in the store before the"
    " sender goes on)",
    choices=(
        "best-effort-nonpersistent",
        "express-nonpersistent",
        "reliable-nonpersistent",
        "reliable-persistent",
        "assured-persistent",
    ),
)
STORE = Knob(
    "server.messaging.store",
    Kind.CHOICE,
    ApplyCost.RESTART,
    "Where the server keeps messages",
    choices=("file", "memory", "database"),
)
STORE_PLACE = Knob(
    "server.messaging.store_place",
    Kind.CHOICE,
    ApplyCost.RESTART,
    "File system of the message store: the lab's disk, or memory, which a power failure empties",
    default=DISK,
    choices=(DISK, TMPFS),
)
CONSUMERS = Knob(
    "server.messaging.consumers",
    Kind.INTEGER,
    ApplyCost.RESTART,
    "Messages of the queue that are processed at a time; each holds a connection of the pool",
    unit="messages",
    minimum=1,
    maximum=10_000,
)
LOG_PLACE = Knob(
    "server.transactions.log_place",
    Kind.CHOICE,
    ApplyCost.RESTART,
    "File system of the log of transactions over more than one resource: the lab's disk, or memory",
    default=DISK,
    choices=(DISK, TMPFS),
)
KNOBS = (RELIABILITY, STORE, STORE_PLACE, CONSUMERS, LOG_PLACE)


def in_memory(settings: Settings) -> bool:
    """Whether a store or a log is placed in memory."""
    return TMPFS in (settings.get(STORE_PLACE.name), settings.get(LOG_PLACE.name))


def in_use(context: ServiceContext) -> bool:
    """Whether the application sends orders through a queue."""
    return context.properties.get(ORDERS) == _QUEUE
