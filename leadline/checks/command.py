"""What a study of a command asks of its host, checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from leadline.host.base import Ability, Host
from leadline.host.java import find_java
from leadline.host.timed import instructions
from leadline.model.command import CACHE, COLD, MOUNT, PLACE, CommandLoad
from leadline.model.errors import UsageError
from leadline.model.knob import Level
from leadline.model.places import MOUNTED
from leadline.model.study import Study

Problem = tuple[tuple[str | int, ...], str]


def refused(study: Study, command: CommandLoad, host: Host, levels: Mapping[str, Sequence[Level]]) -> list[Problem]:
    """Why a study of a command cannot run here, with the key to blame. ``levels``: all of each factor and setting."""
    problems: list[Problem] = []
    if command.java is not None:
        try:
            find_java(command.java)
        except UsageError as error:
            problems.append((("command", "java"), str(error)))
    for path in command.files:
        if not Path(path).exists():
            problems.append((("command", "files"), f"{path} is not there"))
    key = "factors" if CACHE in study.factors else "settings"
    if COLD in levels.get(CACHE, ()) and (why := host.lacks(Ability.DROP_PAGE_CACHE)):
        problems.append(((key, CACHE), f"the page cache cannot be dropped here ({why}); leave cold out"))
    if "instructions" in study.responses and instructions() is None:
        sentence = (
            "this host counts no instructions (a virtual machine without counters, or kernel.perf_event_paranoid)"
        )
        problems.append((("responses",), f"{sentence}; leave the response out"))
    if MOUNT in levels and set(levels.get(PLACE, ())) - set(MOUNTED) != set():
        of = "factors" if MOUNT in study.factors else "settings"
        some = ", ".join(MOUNTED)
        problems.append(
            ((of, MOUNT), f"{MOUNT} is of a file system of its own: all levels of {PLACE} must be of {some}")
        )
    return problems
