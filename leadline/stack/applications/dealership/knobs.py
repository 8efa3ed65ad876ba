"""Knobs of the application dealership: switches of its server's JVM, and of the supplier emulator."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any

from leadline import catalogue
from leadline.model.knob import Knob, Level
from leadline.stack.base import Settings
from leadline.stack.deployment import Feature

_KNOBS = catalogue.load("dealership")
KNOBS = tuple(_KNOBS.values())
AGENTS = _KNOBS["app.agents"]
CALLS = _KNOBS["app.calls"]
DELIVERIES = _KNOBS["app.deliveries"]
MODE = _KNOBS["app.mode"]
DELAY = _KNOBS["app.supplier_delay"]

MODES: Mapping[str, frozenset[Feature]] = {
    "direct": frozenset({Feature.SERVLETS}),
    "session": frozenset({Feature.SERVLETS, Feature.BEANS}),
}
_OUTSIDE = frozenset({Feature.BEANS, Feature.REMOTE_CLIENTS})
_ANSWER = {
    CALLS.name: "calls",
    DELIVERIES.name: "deliveries",
    MODE.name: "mode",
}  # knob -> key of the application's health answer


def on(mode: str, server: str, servers: Mapping[str, Set[Feature]]) -> list[Knob]:
    """The knobs with the levels refused that cannot be had in a mode on a server. ``servers``: what each can do."""

    def able(needs: Set[Feature]) -> str:
        return " and ".join(name for name, can in servers.items() if needs <= can)

    calls, deliveries, can = CALLS, DELIVERIES, servers[server]
    if Feature.BEANS not in MODES[mode]:
        reason = f"mode {mode} calls no session bean; take mode session, on {able(MODES['session'])}"
        calls = replace(CALLS, refused={"remote": reason})
    elif Feature.REMOTE not in can:
        calls = replace(CALLS, refused={"remote": f"{server} has no remote calls; {able({Feature.REMOTE})} have them"})
    if Feature.MESSAGING not in can:
        reason = f"deliveries go through a queue on {able({Feature.MESSAGING})}, not on {server}"
        deliveries = replace(DELIVERIES, refused={"queue": reason})
    other_modes = {
        other: f"{server} has no such mode, {able(needs)} can run it"
        for other, needs in MODES.items()
        if not needs <= can
    }
    agents = AGENTS
    if not can >= _OUTSIDE:
        reason = f"{server} takes no remote calls of other programs; {able(_OUTSIDE)} can"
        agents = replace(AGENTS, refused={"remote": reason})
    return [agents, calls, deliveries, replace(MODE, refused=other_modes), DELAY]


def queued(settings: Settings) -> bool:
    """Whether deliveries go through a queue."""
    return settings.get(DELIVERIES.name, DELIVERIES.default) == "queue"


def called(settings: Settings) -> bool:
    """Whether the plant's agents call the server remotely."""
    return settings.get(AGENTS.name, AGENTS.default) == "remote"


def features(mode: str, settings: Settings) -> frozenset[Feature]:
    """What a server must be able to do at these levels."""
    features = MODES[str(settings.get(MODE.name, mode))]
    if settings.get(CALLS.name) == "remote":
        features |= {Feature.REMOTE}
    if called(settings):
        features |= _OUTSIDE
    if queued(settings):  # its receivers are beans, whatever the mode of the pages
        features |= {Feature.BEANS, Feature.MESSAGING}
    return features


def properties(mode: str, settings: Settings) -> dict[str, str]:
    """System properties of the server for these levels; a knob without one keeps its default."""
    properties_ = {"dealership.mode": str(settings.get(MODE.name, mode))}
    for name in (CALLS.name, DELIVERIES.name):
        if name in settings:
            properties_[f"dealership.{_ANSWER[name]}"] = str(settings[name])
    return properties_


def level(name: str, health: Mapping[str, Any]) -> Level:
    """A knob's level from what the running application says of itself. Raises LookupError."""
    if name not in _ANSWER:
        raise LookupError(f"dealership has no knob {name}; it has {', '.join(knob.name for knob in KNOBS)}")
    try:
        return str(health[_ANSWER[name]])
    except KeyError:
        raise LookupError(f"dealership does not tell the level of {name}") from None
