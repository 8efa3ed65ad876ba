"""Shapes of load over time and presets, as a study file writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address
from typing import Any, Literal

from leadline.model.errors import quoted
from leadline.model.units import parse_duration

PresetName = Literal["fixed-rate", "many-users", "browser", "clients-threads"]
_LONGEST_PROFILE = 10_000
_LONGEST_RANGE = 65_536  # addresses, as in leadline-load

# Options of leadline-load that a study has no use for, by the key that people look for: what to do instead.
_TLS = (
    "TLS is the stack's: write `server.tls: on` in `settings`, or `web.tls: on` with a `web.server`, and the driver "
    "trusts its certificate; of an application of your own `tls` in its stack file; for a server that runs: "
    "`leadline load SCENARIO --url https://HOST --ca FILE`"
)
_SERVERS = (
    "a study loads the one server of its stack; for servers of your own, with weights: "
    "`leadline load SCENARIO --url URL=2 --url URL=1`"
)
_CONNECTIONS = "write `requests_per_connection: N`; 1 is a connection for each request"
NOT_IN_WORKLOAD: Mapping[str, str] = {
    **dict.fromkeys(("tls", "https", "ca", "insecure", "client_certificate", "client_key"), _TLS),
    **dict.fromkeys(("url", "urls", "target", "targets"), _SERVERS),
    **dict.fromkeys(("keep_alive", "connection_per_request"), _CONNECTIONS),
    "seed": "write `design.seed`",
}


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
    keys = dict(workload)
    named = keys.get("preset")
    preset = PRESETS.get(named) if isinstance(named, str) else None
    if preset is None:
        return keys
    for key, value in preset.sets.items():
        keys.setdefault(key, value)
    clients, threads = keys.get("clients"), keys.get("threads")
    if keys["preset"] == "clients-threads" and isinstance(clients, int) and isinstance(threads, int):
        keys.setdefault("users", clients * threads)
    return keys


def profile_points(text: str) -> list[tuple[float, float]]:
    """(seconds, value) of ``0s:10,60s:100``. Raises ValueError."""
    if len(text) > _LONGEST_PROFILE:
        raise ValueError(f"a profile of {len(text):,} characters; at most {_LONGEST_PROFILE:,} are read")
    points: list[tuple[float, float]] = []
    for word in text.split(","):
        time, colon, value = word.strip().partition(":")
        try:
            if not colon:
                raise ValueError
            points.append((_seconds(time), float(value)))
        except ValueError:
            raise ValueError(f"{word.strip()!r} is not a point TIME:VALUE such as 30s:100") from None
        if not 0 <= points[-1][1] <= 1e6:
            raise ValueError(f"{word.strip()!r}: a value is a number from 0 to 1,000,000")
        if points[-1][0] > 7 * 86400:
            raise ValueError(f"{word.strip()!r} is later than 7 days")
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


def check_addresses(text: object) -> object:
    """``A,B`` or ``FIRST-LAST`` of IPv4 addresses, as leadline-load reads them. Raises ValueError."""
    if isinstance(text, str) and len(text) > 4096:
        raise ValueError("more than 4,096 characters of addresses; write FIRST-LAST")
    for part in text.split(",") if isinstance(text, str) else ():
        ends = [word.strip() for word in part.split("-", 1)]
        try:
            addresses = [ip_address(word) for word in ends]
        except ValueError:
            raise ValueError(f"{part.strip()!r} is not an address such as 127.0.0.2, or FIRST-LAST") from None
        if len(addresses) == 1:
            continue
        first, last = addresses
        if not (isinstance(first, IPv4Address) and isinstance(last, IPv4Address) and first <= last):
            raise ValueError(f"{part.strip()!r}: a range is FIRST-LAST of IPv4 addresses")
        if int(last) - int(first) >= _LONGEST_RANGE:
            raise ValueError(f"{part.strip()!r}: more than {_LONGEST_RANGE} addresses")
    return text


def address_count(text: str) -> int:
    """Addresses in a text that ``check_addresses`` lets pass."""
    total = 0
    for part in text.split(","):
        ends = [int(ip_address(word.strip())) for word in part.split("-", 1)]
        total += ends[-1] - ends[0] + 1
    return total


def http_word(found: object) -> object:
    """``1.1`` and ``2`` as words, since YAML reads them as numbers."""
    if isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < 100:
        return f"{found:g}"
    return found


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9.]{1,30}(ns|us|ms|s|m|min|h)?", text.strip()):
        raise ValueError(f"{quoted(text)} is not a duration such as 20s")
    return parse_duration(text)
