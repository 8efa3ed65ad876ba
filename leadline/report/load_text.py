"""The load of a study in words."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePath

from leadline.model.load import RATE, USERS
from leadline.model.shapes import PRESETS, profile_points
from leadline.model.units import format_duration
from leadline.model.workload import Workload


def load_text(load: Workload, varied: Collection[str] = ()) -> str:
    """``40 users``, ``poisson arrivals at 20 sessions/s``, ``users from 10 to 100 over 1m``, a recording, a tool.
    ``varied``: factors of the study, among which its users or its rate may be.
    """
    if USERS in varied:
        return f"users by factor {USERS}"
    if RATE in varied:
        return f"{load.arrivals} arrivals by factor {RATE}"
    if load.generator is not None:
        script = f", {PurePath(load.generator.script).name}" if load.generator.script else ""
        return f"load by {load.generator.name}{script}"
    preset = f" in the shape of {PRESETS[load.preset].tool}" if load.preset else ""
    bursts = f" in bursts of {load.bursts.removeprefix('random:')}" if load.bursts else ""
    if load.bursts and load.bursts.startswith("random:"):
        bursts += " (random)"
    if load.arrivals == "replay":
        faster = "" if load.speed == 1.0 else f" at {load.speed:g} times its speed"
        return f"arrivals as recorded in {PurePath(load.replay or '?').name}{faster}{preset}"
    if load.profile is not None:
        return f"{_profile(load)}{bursts}{preset}"
    if load.arrivals == "closed":
        count = (
            f"the users of {load.scenario}"
            if load.users is None
            else f"{load.users} user{'s' if load.users != 1 else ''}"
        )
        if load.clients is not None and load.threads is not None:
            count += f" ({load.clients} clients x {load.threads} threads)"
        return f"{count}{preset}"
    rate = "no rate" if load.rate is None else f"{load.rate:g} sessions/s"
    return f"{load.arrivals} arrivals at {rate}{bursts}{preset}"


def _profile(load: Workload) -> str:
    points = profile_points(load.profile or "")
    values = [value for _, value in points]
    what = "users" if load.arrivals == "closed" else f"{load.arrivals} arrivals of sessions/s"
    over = format_duration(points[-1][0])
    if len(points) == 1:
        return f"{values[0]:g} {what}"
    if len(points) == 2:
        return f"{what} from {values[0]:g} to {values[1]:g} over {over}"
    return f"{what} by a profile of {len(points)} points over {over}, {min(values):g} to {max(values):g}"
