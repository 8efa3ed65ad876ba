"""Knobs of messaging and of the transaction log, under one set of names for all servers that have them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.servers import places

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
    "File system of the message store: the lab's disk, or memory (a tmpfs, or ext4 on a RAM disk), which a power"
    " failure empties",
    default=places.DISK,
    choices=places.CHOICES,
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
    "File system of the log of transactions over more than one resource: the lab's disk, or memory (a tmpfs,"
    " or ext4 on a RAM disk)",
    default=places.DISK,
    choices=places.CHOICES,
)
_FOLDERS = {STORE_PLACE.name: "messages", LOG_PLACE.name: "transactions"}
KNOBS = (RELIABILITY, STORE, STORE_PLACE, CONSUMERS, LOG_PLACE)


def in_memory(settings: Settings) -> bool:
    """Whether a store or a log is placed in memory."""
    return any(settings.get(name, places.DISK) != places.DISK for name in _FOLDERS)


def directories(context: ServiceContext, settings: Settings, server: str) -> Mapping[str, Path]:
    """Where the message store and the log of transactions go, by their knobs; what lies in memory is made here, empty.

    What a RAM disk is made of is told in a file among the trial's artefacts. Raises UsageError, TrialFailure.
    """
    wanted = {name: settings.get(name, places.DISK) for name in _FOLDERS}
    found = {places.DISK: context.directory}
    if places.TMPFS in wanted.values():
        found[places.TMPFS] = places.make(context.host, context.directory)
    if places.RAMDISK in wanted.values():
        found[places.RAMDISK], told = places.make_disk(context.host, context.directory)
        context.artefacts.mkdir(parents=True, exist_ok=True)
        (context.artefacts / f"{server}-ram-disk.txt").write_text(f"{told}\n")
    return {name: found[str(level)] / _FOLDERS[name] for name, level in wanted.items()}


def in_use(context: ServiceContext) -> bool:
    """Whether the application sends orders through a queue."""
    return context.properties.get(ORDERS) == _QUEUE
