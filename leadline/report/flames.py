"""Differential flame graphs of a study, and the layers' shares of CPU per transaction under each setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadline.conclude.explanation import unit_of
from leadline.conclude.frames import Unit, below
from leadline.model.frames import FrameEffect, FrameEffects, LevelProfile, StudyProfile
from leadline.model.record import StudyRecord
from leadline.report import frames_text, words

COLOURS = 7  # of layers
_STEPS = (0.1, 0.5)  # changes, of the mean of both, from which on a colour is stronger


@dataclass(frozen=True)
class Frame:
    """``left``, ``width``: shares of the mean of both settings. ``tone``: ``up`` or ``down`` with its strength, empty
    where the change is not distinguishable from none.
    """

    depth: int
    left: float
    width: float
    name: str
    tone: str
    title: str


@dataclass(frozen=True)
class Segment:
    """A layer of a bar: its ms of CPU per transaction, and their share of the longest bar."""

    layer: str
    ms: float
    width: float
    colour: int


@dataclass(frozen=True)
class Flame:
    """A level's graph, callers before the called, with its table."""

    setting: str
    sentence: str
    frames: tuple[Frame, ...]
    unit: str
    rows: Sequence[tuple[str, str, str, str]]
    notes: Sequence[str]

    @property
    def depth(self) -> int:
        return max(frame.depth for frame in self.frames)


@dataclass(frozen=True)
class Flames:
    """``bars``: of the baseline and each level, by name."""

    levels: tuple[Flame, ...]
    bars: Mapping[str, Sequence[Segment]]
    notes: tuple[str, ...]


def flames(record: StudyRecord, profile: StudyProfile | None) -> Flames | None:
    """None where no frame was compared."""
    if profile is None or not profile.levels:
        return None
    return Flames(tuple(_flame(record, level) for level in profile.levels), _bars(record, profile), profile.notes)


def _flame(record: StudyRecord, level: LevelProfile) -> Flame:
    setting = words.setting(record.study, level.factor, level.level)
    unit, effects = unit_of(setting, level.ms), level.effects
    return Flame(
        setting,
        level.sentence,
        _frames(effects, unit),
        unit.name,
        frames_text.rows(effects, unit),
        tuple(frames_text.notes(effects, unit)),
    )


def _mean(effect: FrameEffect) -> float:
    return max(0.0, effect.baseline + effect.change / 2)


def _frames(effects: FrameEffects, unit: Unit) -> tuple[Frame, ...]:
    whole = _mean(effects.total) or 1.0
    called: dict[tuple[str, ...], list[FrameEffect]] = {}
    for effect in effects.paths:
        called.setdefault(effect.path[:-1], []).append(effect)
    frames, waiting = list[Frame](), [(effects.total, 0.0)]
    while waiting:
        effect, left = waiting.pop()
        width = _mean(effect) / whole
        name = effect.name if effect.path else "all CPU"
        frames.append(Frame(len(effect.path), left, width, name, _tone(effect), _title(effect, unit)))
        for child in sorted(called.get(effect.path, ()), key=lambda child: child.name):
            waiting.append((child, left))
            left += _mean(child) / whole
    return tuple(frames)


def _tone(effect: FrameEffect) -> str:
    if not effect.named or not effect.path:
        return ""
    strength = 1 + sum(abs(effect.change) >= step * _mean(effect) for step in _STEPS)
    return f"{'up' if effect.change > 0 else 'down'}{strength}"


def _title(effect: FrameEffect, unit: Unit) -> str:
    change, interval, baseline, _ = frames_text.row(effect, "", unit)
    told = "" if effect.named else ", not distinguishable"
    name = below(effect) if effect.path else "all CPU"
    return f"{name}: {change} {interval} {unit.name}, baseline {baseline}{told}"


def _bars(record: StudyRecord, profile: StudyProfile) -> dict[str, Sequence[Segment]]:
    first = profile.levels[0]
    bars = {"baseline": {layer.name: layer.baseline * first.ms for layer in _layers(first.effects)}}
    for level in profile.levels:
        values = {layer.name: (layer.baseline + layer.change) * level.ms for layer in _layers(level.effects)}
        bars[words.setting(record.study, level.factor, level.level)] = values
    names = list(dict.fromkeys(name for bar in bars.values() for name in sorted(bar, key=lambda name: -bar[name])))
    longest = max(sum(bar.values()) for bar in bars.values()) or 1.0
    return {
        setting: [
            Segment(name.strip("()"), bar[name], bar[name] / longest, names.index(name) % COLOURS)
            for name in names
            if bar.get(name, 0.0) > 0
        ]
        for setting, bar in bars.items()
    }


def _layers(effects: FrameEffects) -> list[FrameEffect]:
    return [effect for effect in effects.paths if len(effect.path) == 1]
