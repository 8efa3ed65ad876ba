"""Knobs of the application brokerage: switches it takes as system properties of its server."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from leadline import catalogue
from leadline.model.errors import UsageError
from leadline.model.knob import Knob, Level
from leadline.model.units import format_duration
from leadline.stack.applications.health import ask
from leadline.stack.base import Settings
from leadline.stack.deployment import Feature

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
    found = {"brokerage.mode": str(settings.get(MODE.name, mode))}
    for name in (CALLS.name, ORDERS.name, *_EXTRA):
        if name in settings:
            found[f"brokerage.{_ANSWER[name]}"] = str(settings[name])
    if SUMMARY_CACHE.name in settings:
        seconds = float(settings[SUMMARY_CACHE.name])
        if seconds != int(seconds):
            raise UsageError(
                f"{SUMMARY_CACHE.name} {format_duration(seconds)}: brokerage counts whole seconds;"
                f" the nearest is {round(seconds)}s"
            )
        found["brokerage.summary.ttl"] = str(int(seconds))
    return found


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
