"""Knobs of messaging and of the transaction log, under one set of names for all servers that have them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from leadline import catalogue
from leadline.model.knob import Level
from leadline.model.places import DEFAULTS, DISK, SERVER_MOUNT
from leadline.stack import places
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.deployment import Deployment, Feature

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
