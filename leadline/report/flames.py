"""Differential flame graphs of a study, the layers' shares of CPU per transaction under each setting, and the parts of
its response times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leadline.conclude import waiting
from leadline.conclude.explanation import Unit, below, unit_of
from leadline.model.frames import FrameEffect, FrameEffects, LevelProfile, LevelWaits, StudyProfile, StudyWaits
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
    """A layer of a bar: its ms, and their share of the longest bar."""

    layer: str
    ms: float
    width: float
    colour: int


@dataclass(frozen=True)
class Flame:
    """A level's graph, callers before the called, with its table; without a graph of a response time's parts."""

    setting: str
    sentence: str
    frames: tuple[Frame, ...]
    unit: str
    rows: Sequence[tuple[str, str, str, str]]
    notes: Sequence[str]

    @property
    def depth(self) -> int:
        return max((frame.depth for frame in self.frames), default=0)


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
    levels = {words.setting(record.study, level.factor, level.level): level for level in profile.levels}
    graphs = [_flame(name, level, unit_of(name, level.ms, profile.compiled)) for name, level in levels.items()]
    return Flames(
        tuple(graphs), _bars((name, "", level.effects, level.ms) for name, level in levels.items()), profile.notes
    )


def waits(record: StudyRecord, recorded: StudyWaits | None) -> Flames | None:
    """Tables of the parts of response times; None where nothing of them was recorded."""
    if recorded is None:
        return None
    named = [(words.setting(record.study, level.factor, level.level), level) for level in recorded.levels]
    tables = [_flame(f"{name}, {of.response}", of, waiting.unit_of(name, of.response)) for name, of in named]
    bars = _bars((name, of.response, of.effects, 1.0) for name, of in named)
    return Flames(tuple(tables), bars, (*recorded.slow, *recorded.notes))


def _flame(setting: str, level: LevelProfile | LevelWaits, unit: Unit) -> Flame:
    effects = level.effects
    return Flame(
        setting,
        level.sentence,
        _frames(effects, unit) if isinstance(level, LevelProfile) else (),
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
        name = effect.name if effect.path else unit.whole
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
    name = below(effect) if effect.path else unit.whole
    return f"{name}: {change} {interval} {unit.name}, baseline {baseline}{told}"


def _bars(levels: Iterable[tuple[str, str, FrameEffects, float]]) -> dict[str, Sequence[Segment]]:
    """``levels``: name, response, effects, ms of their unit. A baseline for each response."""
    bars: dict[str, dict[str, float]] = {}
    for name, response, effects, ms in levels:
        baseline, setting = (f"{of}, {response}" if response else of for of in ("baseline", name))
        layers = [path for path in effects.paths if len(path.path) == 1]
        bars.setdefault(baseline, {layer.name: layer.baseline * ms for layer in layers})
        bars[setting] = {layer.name: (layer.baseline + layer.change) * ms for layer in layers}
    names = list(dict.fromkeys(name for bar in bars.values() for name in sorted(bar, key=lambda name: -bar[name])))
    longest = max(sum(ms for ms in bar.values() if ms > 0) for bar in bars.values()) or 1.0
    return {
        setting: [
            Segment(name.strip("()"), bar[name], bar[name] / longest, names.index(name) % COLOURS)
            for name in names
            if bar.get(name, 0.0) > 0
        ]
        for setting, bar in bars.items()
    }
