"""Knobs of messaging and of the transaction log, under one set of names for all servers that have them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from leadline import catalogue
from leadline.model.knob import Level
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.deployment import Deployment, Feature
from leadline.stack.servers import places

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
    """Whether the application sends messages at these levels."""
    return Feature.MESSAGING in context.application.features


def consumers(deployment: Deployment, settings: Settings) -> Mapping[str, Level]:
    """Message-driven bean -> how many work at once, for those of which a level says so."""
    if CONSUMERS.name not in settings:
        return {}
    found = (each.receiver for each in deployment.destinations)
    return {receiver.bean: settings[CONSUMERS.name] for receiver in found if receiver.parallel}


def knows(name: str) -> bool:
    """Whether ``name`` is one of these knobs."""
    return name in _NAMES
