"""The options of leadline-load that say when what arrives."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path

from leadline.host.textfile import expanded, is_file
from leadline.load.scenario import populations
from leadline.model.errors import UsageError, shortened
from leadline.model.shapes import PRESETS, profile_points
from leadline.model.units import format_duration, parse_duration, rounded
from leadline.model.workload import Workload


def stated_users(load: Workload) -> int | None:
    """Users of all populations of the workload's scenario with its parameters; None where it has no populations, or
    none that can be counted: what is wrong with it leadline-load says.
    """
    try:
        return int(sum(float(population["users"]) for population in populations(load)))
    except (UsageError, KeyError, TypeError, ValueError, AttributeError):
        return None


def stated_agents(load: Workload) -> list[tuple[int, float]] | None:
    """Users and mean cycle in seconds of every population; None where one does not begin its transactions in cycles,
    or the scenario has no populations that can be counted.
    """
    try:
        described = populations(load)
        if any(population["pause"]["kind"] != "cycle" for population in described):
            return None
        return [(int(float(each["users"])), parse_duration(each["pause"]["mean"])) for each in described]
    except (UsageError, KeyError, TypeError, ValueError, AttributeError):
        return None


Key = tuple[str, ...]  # of the workload
_SHORTEST_SESSION = 100e-6  # seconds; two round trips over loopback take longer


class WorkloadError(UsageError):
    """``key``: the key of the workload that is to blame."""

    def __init__(self, key: Key, message: str) -> None:
        super().__init__(message)
        self.key = key


def check_workload(load: Workload) -> None:
    """What the keys say together. Raises WorkloadError."""
    if load.generator is not None:
        return
    _check_preset(load)
    if "max_sessions" in load.model_fields_set and most_users(load) > load.max_sessions:
        problem = f"{load.max_sessions:,} sessions at most are fewer than the {most_users(load):,} users"
        raise WorkloadError(("max_sessions",), f"{problem}; say {most_users(load)} or more, or leave max_sessions out")
    if load.max_connections is not None and load.connections != "shared":
        raise WorkloadError(("max_connections",), "max_connections belongs to `connections: shared`")
    model, closed = load.arrivals, load.arrivals == "closed"
    if model == "replay":
        if load.replay is None:
            raise WorkloadError((), "replay arrivals need `replay`: a file of times")
        _no_other(load, ("users", "rate", "profile", "bursts"), "replay arrivals have `replay`")
        _check_recording(load, expanded(load.replay))
        return
    if load.replay is not None:
        raise WorkloadError(("replay",), f"a recording belongs to `arrivals: replay`, not {model}")
    if load.speed != 1.0:
        raise WorkloadError(("speed",), "speed belongs to `arrivals: replay`")
    if closed:
        _no_other(load, ("rate", "bursts"), "closed arrivals have `users` or `profile`")
    else:
        _no_other(load, ("users",), f"{model} arrivals have `rate` or `profile`")
    name = "users" if closed else "rate"
    if load.profile is not None and getattr(load, name) is not None:
        raise WorkloadError(("profile",), f"a profile stands instead of `{name}`")
    if load.profile is None and getattr(load, name) is None and not (closed and stated_users(load)):
        unit = "" if closed else " (sessions a second)"
        raise WorkloadError((), f"{model} arrivals need `{name}`{unit} or `profile`")
    _check_size(load)


def _check_size(load: Workload) -> None:
    """Raises WorkloadError for a rate at which nothing arrives, and for one that the cap on sessions keeps away."""
    if load.rate is None or load.arrivals not in ("constant", "poisson"):
        return
    expected = load.rate * load.steady
    if expected < 1:
        problem = (
            f"{load.rate:g} sessions/s are {rounded(expected, 2)} in a steady state of {format_duration(load.steady)}"
        )
        raise WorkloadError(("rate",), f"{problem}: raise `rate` to {rounded(1 / load.steady, 2)}, or `steady`")
    if load.rate * _SHORTEST_SESSION > load.max_sessions:
        problem = f"max_sessions {load.max_sessions:,} keeps {load.rate:,.10g} sessions/s away"
        raise WorkloadError(
            ("rate",), f"{problem}: none may last longer than {format_duration(load.max_sessions / load.rate)}"
        )


def _check_recording(load: Workload, path: Path) -> None:
    """Raises WorkloadError for a recording of which nothing arrives in the steady state; faults of its lines
    leadline-load tells.
    """
    if not is_file(path):
        raise WorkloadError(("replay",), f"no file {shortened(str(path), 200)}: one time in seconds a line")
    begin, end = load.ramp_up * load.speed, (load.ramp_up + load.steady) * load.speed
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            time = next((time for line in lines if (time := float(line or 0)) >= begin), None)
    except (OSError, ValueError):
        return
    if time is None or time >= end:
        problem = (
            f"no session of {load.replay} arrives in the steady state, {begin:.10g} to {end:.10g} s of the recording"
        )
        raise WorkloadError(("replay",), problem if time is None else f"{problem}: the next one at {time:.10g} s")


def _check_preset(load: Workload) -> None:
    if load.preset is None:
        for name in ("clients", "threads"):
            if getattr(load, name) is not None:
                raise WorkloadError((name,), f"{name} belongs to `preset: clients-threads`")
        return
    preset = PRESETS[load.preset]
    for key, value in preset.sets.items():
        if getattr(load, key) != value:
            raise WorkloadError((key,), f"preset {load.preset} has {key} {value}, not {getattr(load, key)}")
    for key in preset.needs:
        if getattr(load, key) is None and not (load.profile is not None and key in ("users", "rate")):
            raise WorkloadError(("preset",), f"preset {load.preset} needs `{key}`")
    if load.clients is not None and load.threads is not None:
        if load.preset != "clients-threads":
            raise WorkloadError(("clients",), "clients and threads belong to `preset: clients-threads`")
        if load.users != load.clients * load.threads:
            raise WorkloadError(("users",), "preset clients-threads has clients x threads users")


def _no_other(load: Workload, names: Sequence[str], instead: str) -> None:
    for name in names:
        if getattr(load, name) is not None:
            raise WorkloadError((name,), f"{instead}, not `{name}`")


def arrival_options(load: Workload) -> list[str]:
    """Options and values. Raises WorkloadError."""
    check_workload(load)
    options = ["--arrivals", load.arrivals]
    if load.arrivals == "replay":
        options += ["--replay", str(expanded(load.replay or "").resolve())]
        return options if load.speed == 1.0 else [*options, "--speed", repr(load.speed)]
    if load.profile is not None:
        options += ["--profile", load.profile]
    elif load.arrivals == "closed":
        options += ["--users", str(load.users)] if load.users is not None else []
    else:
        options += ["--rate", repr(load.rate)]
    return options if load.bursts is None else [*options, "--bursts", load.bursts]


def most_sessions(load: Workload) -> int:
    """The cap on sessions; where none is given, never below the users there will be."""
    return max(load.max_sessions, most_users(load))


def most_users(load: Workload) -> int:
    """Users of closed arrivals, at the highest point of their profile or as the scenario's populations state them; 0
    for open arrivals.
    """
    if load.arrivals == "closed" and load.profile is not None:
        return ceil(max(value for _, value in profile_points(load.profile)))
    if load.arrivals == "closed" and load.users is None:
        return stated_users(load) or 0
    return load.users or 0
