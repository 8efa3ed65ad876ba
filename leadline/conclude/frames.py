"""Effects of frames in a sentence."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.conclude.wording import MOST
from leadline.model.frames import (
    PARTS,
    STATEMENT_TIME,
    FrameEffect,
    FrameEffects,
    LevelProfile,
    LevelWaits,
    StudyProfile,
    StudyWaits,
    is_layer,
    is_measured,
)
from leadline.model.units import signed

MOST_TOLD = 4  # frames of the sentence
_MOST_STATEMENTS, _LONGEST_STATEMENT = 2, 60  # of a sentence; characters of one in it


@dataclass(frozen=True)
class Unit:
    """Of figures: ``what`` was counted, ``factor`` from samples to the unit, ``name`` of the unit. ``shares``: samples
    are divided by all of their recording, so that the total is the same everywhere. ``absolute``: the total's change is
    told in the unit, not in percent. ``whole``: what the total is called.
    """

    what: str
    name: str
    factor: float = 1.0
    shares: bool = False
    absolute: bool = False
    whole: str = "all samples"


def short(name: str) -> str:
    """``Class.method``; a statement as it is."""
    return name if " " in name else ".".join(name.replace("/", ".").split(".")[-2:])


def sentence(effects: FrameEffects, unit: Unit) -> str:
    """Which frames carry which share of the difference, or that none is distinguishable."""
    total = effects.total
    head = f"{unit.what}: " if unit.shares else f"{unit.what}: {_change(total, unit)}"
    carriers, most_in = _together(effects)
    most, noun = (_MOST_STATEMENTS, "statement") if carriers and " " in carriers[0].name else (MOST_TOLD, "frame")
    parts = [_part(effect, total, unit) + most_in.get(effect.path, "") for effect in carriers[:most]]
    more = len(carriers) - len(parts)
    if effects.pair:
        frames = f"most of the difference is {', '.join(parts)}" if parts else "no frame differs much"
        return f"{head}{'' if unit.shares else '; '}{frames}. One pair of recordings: what of it is noise is not known."
    if not parts:
        return f"{head}{'' if unit.shares else '; '}no frame is distinguishable from no change."
    listed = ", ".join(parts) + (f" and {more} more {noun}{'s' * (more > 1)}" if more > 0 else "")
    return f"{head}{'' if unit.shares else ': '}{listed}."


def _together(effects: FrameEffects) -> tuple[list[FrameEffect], dict[tuple[str, ...], str]]:
    """Frames that a sentence names, and what follows some: a database, whose statements carry a change together, stands
    for them, with the first of them behind it.
    """
    carriers = list(effects.carriers) or [method for method in effects.methods if method.named]
    statements = [effect for effect in carriers if is_measured(effect.path[0]) and len(effect.path) > 1]
    whole = next((path for path in effects.paths if statements and path.path == statements[0].path[:1]), None)
    if len(statements) < _MOST_STATEMENTS or whole is None or not whole.named:
        return carriers, {}
    rest = [whole if effect is statements[0] else effect for effect in carriers if effect not in statements[1:]]
    return rest, {whole.path: f" (most in {_cut(statements[0].name)})"}


def _cut(statement: str) -> str:
    return statement if len(statement) <= _LONGEST_STATEMENT else f"{statement[: _LONGEST_STATEMENT - 1]}…"


def _part(effect: FrameEffect, total: FrameEffect, unit: Unit) -> str:
    where = below(effect) if effect.path[0] in PARTS else f"in {below(effect)}"
    if not unit.shares and (total.named or (total.interval is None and total.change)):
        return f"{100 * effect.change / total.change:.0f} % {where}"
    return f"{_change(effect, unit)} {where}"


def below(effect: FrameEffect) -> str:
    """A path by its last two frames: what a method costs is mostly its caller's doing. A method's own samples alone."""
    if effect.path[0] in PARTS or (is_measured(effect.path[0]) and len(effect.path) > 1):
        return " in ".join(f"the {name.strip('()')}" if is_measured(name) else _cut(name) for name in effect.path)
    if len(effect.path) == 1 and effect.own:
        return effect.name.strip("()") if is_measured(effect.name) else f"{short(effect.name)} itself"
    layer = effect.path[0] if is_layer(effect.path[0]) else ""
    if effect.name == layer:
        return f"the {effect.name.strip('()')}"
    names = [short(name) for name in effect.path[bool(layer) :][-2:]]
    return f"{' > '.join(names)} and below{f' ({layer})' if layer else ''}"


def _change(effect: FrameEffect, unit: Unit) -> str:
    """The change with its interval, in percent of the baseline where that is the total's, else in the unit."""
    whole = not effect.path and effect.baseline and not unit.absolute
    factor = 100 / effect.baseline if whole else unit.factor
    name = "%" if whole else unit.name
    interval = ""
    if effect.interval is not None:
        interval = f" [{signed(effect.interval.low * factor, 3)}, {signed(effect.interval.high * factor, 3)}]"
    return f"{signed(effect.change * factor, 3)} {name}{interval}"


def told_waits(waits: StudyWaits) -> list[LevelWaits]:
    """Of each level whose change some parts carry, the response furthest out, and statements: the largest
    change first.
    """
    named = [level for level in waits.levels if level.effects.named]
    last = {(level.factor, level.level, level.response == STATEMENT_TIME): level for level in named}
    return sorted(last.values(), key=lambda level: -abs(level.effects.total.change))[:MOST]


def told_frames(profile: StudyProfile) -> list[LevelProfile]:
    """Levels whose change of CPU some frames carry, the largest first."""
    named = [level for level in profile.levels if level.effects.named]
    return sorted(named, key=lambda level: -abs(level.effects.total.change))[:MOST]
