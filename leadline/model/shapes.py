"""Shapes of load over time and presets, as a study file writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from leadline.model.units import parse_duration

PresetName = Literal["fixed-rate", "many-users", "browser", "clients-threads"]


@dataclass(frozen=True)
class Preset:
    """A load in the shape of a known tool. ``sets``: keys of the workload; ``think``: mean pause, None for the
    scenario's own; ``needs``: keys the user gives; ``embedded``: the scenario must fetch embedded resources.
    """

    tool: str
    sets: Mapping[str, Any]
    needs: tuple[str, ...]
    think: str | None
    embedded: bool
    equivalence: str
    addresses: bool = False  # users connect from many addresses, where the server is on this host


PRESETS: Mapping[str, Preset] = {
    "fixed-rate": Preset(
        tool="httperf",
        sets={"arrivals": "constant"},
        needs=("rate",),
        think="0ms",
        embedded=False,
        equivalence=(
            "as httperf --rate R --num-calls N: R sessions arrive a second, evenly spaced, whatever the server does, "
            "each on a connection of its own, with N transactions (session_length) one after the other. httperf counts "
            "a call from its first byte sent; leadline-load from the moment it was due"
        ),
    ),
    "many-users": Preset(
        tool="Hammerhead",
        sets={"arrivals": "closed"},
        needs=("users",),
        think=None,
        embedded=False,
        equivalence=(
            "as Hammerhead with one address a user: every user has its own session, connection, account and think "
            "time of the scenario; sessions take source addresses in turn (127.0.0.2 to 127.0.0.254 for a server on "
            "this host, else those of --source-address)"
        ),
        addresses=True,
    ),
    "browser": Preset(
        tool="pagepoker",
        sets={"arrivals": "closed"},
        needs=("users",),
        think=None,
        embedded=True,
        equivalence=(
            "as a browser agent: pages with the images, scripts and style sheets they name on the same server, in "
            "parallel over up to six connections a user, cookies and redirects kept; a page ends with its last resource"
        ),
    ),
    "clients-threads": Preset(
        tool="WPT",
        sets={"arrivals": "closed"},
        needs=("clients", "threads"),
        think="0ms",
        embedded=False,
        equivalence=(
            "as N clients with M threads: N x M users, each with a connection of its own, ask for the next page as "
            "soon as the one before has come, without think time"
        ),
    ),
}


def expand(workload: Mapping[str, Any]) -> dict[str, Any]:
    """The workload's keys with those of its preset filled in where they are absent; others are left alone."""
    found = dict(workload)
    preset = PRESETS.get(str(found.get("preset")))
    if preset is None:
        return found
    for key, value in preset.sets.items():
        found.setdefault(key, value)
    clients, threads = found.get("clients"), found.get("threads")
    if found["preset"] == "clients-threads" and isinstance(clients, int) and isinstance(threads, int):
        found.setdefault("users", clients * threads)
    return found


def profile_points(text: str) -> list[tuple[float, float]]:
    """(seconds, value) of ``0s:10,60s:100``. Raises ValueError."""
    points: list[tuple[float, float]] = []
    for word in text.split(","):
        time, colon, value = word.strip().partition(":")
        try:
            if not colon:
                raise ValueError
            points.append((_seconds(time), float(value)))
        except ValueError:
            raise ValueError(f"{word.strip()!r} is not a point TIME:VALUE such as 30s:100") from None
        if not 0 <= points[-1][1] <= 1e8:
            raise ValueError(f"{word.strip()!r}: a value is a number of at least 0")
        if len(points) > 1 and points[-1][0] < points[-2][0]:
            raise ValueError(f"{word.strip()!r} is before the point in front of it: times ascend")
    if max(value for _, value in points) <= 0:
        raise ValueError("the profile never rises above 0")
    return points


def check_profile(text: object) -> object:
    """``text`` itself. Raises ValueError."""
    if isinstance(text, str):
        profile_points(text)
    return text


def check_bursts(text: object) -> object:
    """``2s/3s`` or ``random:2s/3s``. Raises ValueError."""
    if isinstance(text, str):
        on, slash, off = text.removeprefix("random:").partition("/")
        try:
            if not slash or _seconds(on) <= 0 or _seconds(off) <= 0:
                raise ValueError
        except ValueError:
            raise ValueError(f"{text!r} is not ON/OFF such as 2s/3s or random:2s/3s") from None
    return text


def _seconds(text: str) -> float:
    match = re.fullmatch(r"([\d.]+)(ns|us|ms|s|m|min|h)?", text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a duration such as 20s")
    if match[2] in ("ns", "us"):
        return float(match[1]) * (1e-9 if match[2] == "ns" else 1e-6)
    return parse_duration(text)
