"""Knobs of the application brokerage: switches it takes as system properties of its server."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from leadline import catalogue
from leadline.model.errors import UsageError
from leadline.model.knob import Knob, Level
from leadline.model.study import StackChoice
from leadline.model.units import format_duration
from leadline.stack.base import Settings
from leadline.stack.probe import connection_to

_KNOBS = catalogue.load("brokerage")
KNOBS = tuple(_KNOBS.values())
CALLS = _KNOBS["app.calls"]
ORDERS = _KNOBS["app.orders"]
SUMMARY_CACHE = _KNOBS["app.summary_cache"]
MODE = _KNOBS["app.mode"]

_BEANS = ("session", "orm")  # modes whose servlets call beans
_ANSWER = {
    CALLS.name: "calls",
    ORDERS.name: "orders",
    SUMMARY_CACHE.name: "summary_cache",
    MODE.name: "mode",
}  # knob -> key of the application's health answer


def for_stack(choice: StackChoice, modes: Mapping[str, Sequence[str]], queues: Sequence[str]) -> list[Knob]:
    """The knobs with the levels refused that a stack cannot have. ``modes``: server -> modes it runs; ``queues``:
    servers with messaging.
    """
    calls, orders = CALLS, ORDERS
    if choice.mode not in _BEANS:
        able = [server for server, can in modes.items() if set(_BEANS) & set(can)]
        reason = f"mode {choice.mode} calls no session bean; take mode session or orm, on {' or '.join(able)}"
        calls = replace(CALLS, refused={"remote": reason})
    if choice.server not in queues:
        reason = f"orders go through a queue on {' and '.join(queues)}, not on {choice.server}"
        orders = replace(ORDERS, refused={"queue": reason})
    other_modes = {}
    for other in (other for other in MODE.choices if other not in modes[choice.server]):
        able = [server for server, can in modes.items() if other in can]
        other_modes[other] = f"{choice.server} has no such mode, {' and '.join(able)} can run it"
    return [calls, orders, SUMMARY_CACHE, replace(MODE, refused=other_modes)]


def queued(settings: Settings) -> bool:
    """Whether orders go through a queue."""
    return settings.get(ORDERS.name, ORDERS.default) == "queue"


def properties(settings: Settings) -> dict[str, str]:
    """System properties of the server for these levels; a knob without one keeps its default. Raises UsageError."""
    found = {}
    if MODE.name in settings:
        found["brokerage.mode"] = str(settings[MODE.name])
    if CALLS.name in settings:
        found["brokerage.calls"] = str(settings[CALLS.name])
    if ORDERS.name in settings:
        found["brokerage.orders"] = str(settings[ORDERS.name])
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
        said = health[_ANSWER[name]]
    except KeyError:
        raise LookupError(f"brokerage does not tell the level of {name}") from None
    return float(said) if name == SUMMARY_CACHE.name else str(said)


def ask(url: str, path: str, timeout: float = 10.0) -> dict[str, Any]:
    """The JSON object at ``url`` + ``path`` of the running application. Raises LookupError."""
    at = urlsplit(url + path)
    connection = connection_to(url, timeout)
    try:
        connection.request("GET", f"{at.path}?{at.query}" if at.query else at.path, headers={"Connection": "close"})
        answer = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise LookupError(f"brokerage does not answer at {url}{path}: {error}") from error
    finally:
        connection.close()
    if not isinstance(answer, dict):
        raise LookupError(f"{url}{path} is not an object")
    return answer
