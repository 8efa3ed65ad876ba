"""Differential flame graphs of a study, the layers' shares of CPU per transaction under each setting, and the parts of
its response times.

And effects of frames in words: one sentence, a table, Markdown, JSON, and stacks of the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leadline.analysis.frames import Recording, frame_effects
from leadline.conclude import waiting
from leadline.conclude.explanation import Unit, below, sentence, short, unit_of
from leadline.model.errors import UsageError
from leadline.model.frames import (
    ALPHA,
    FrameEffect,
    FrameEffects,
    LevelProfile,
    LevelWaits,
    StudyProfile,
    StudyWaits,
    is_layer,
    is_measured,
)
from leadline.model.record import StudyRecord
from leadline.model.units import rounded, signed
from leadline.observe import stacks
from leadline.observe.stacks import Kind, Stacks, stacks_of
from leadline.report import words
from leadline.report.words import escaped, markdown_table

MOST_ROWS = 20  # of a table


def notes(effects: FrameEffects, unit: Unit) -> Iterator[str]:
    """What the figures rest on."""
    first, second = effects.recordings
    compared = f"{words.plural(first, 'recording')} against {second}"
    compared += f", compared in {effects.blocks} blocks" if effects.blocks else ""
    yield f"{compared}; {words.plural(effects.judged, 'frame')} judged."
    if not effects.pair:
        yield f"Without a difference, at most {100 * ALPHA:.0f} % of such comparisons name any frame."
        yield "Each interval (95 %) holds for its frame by itself."
    if unit.shares:
        yield "Shares are compared: what one frame gains, all others lose. --count compares per request."
    else:
        rest = effects.rest * unit.factor
        parts = "methods" if effects.methods else "parts"
        yield (
            f"The changes of all {parts} sum to the total's; those too small to judge: {signed(rest, 3)} {unit.name}."
        )


def rows(effects: FrameEffects, unit: Unit) -> list[tuple[str, str, str, str]]:
    """Change with interval, baseline, verdict and frame: the total, carriers, then methods by their own samples."""
    layers = [path for path in effects.paths if len(path.path) == 1 and is_layer(path.name)]
    table = [] if unit.shares else [(effects.total, unit.whole)]
    table += [(effect, below(effect)) for effect in dict.fromkeys((*layers, *effects.carriers))]
    judged = [method for method in effects.methods if (method.named or effects.pair) and not is_measured(method.name)]
    table += [(method, f"{short(method.name)} itself") for method in judged]
    return [row(effect, name, unit) for effect, name in table[:MOST_ROWS]]


def row(effect: FrameEffect, name: str, unit: Unit) -> tuple[str, str, str, str]:
    change, interval = signed(effect.change * unit.factor, 3), ""
    if effect.interval is not None:
        low, high = effect.interval.low * unit.factor, effect.interval.high * unit.factor
        interval = f"[{signed(low, 3)}, {signed(high, 3)}]"
    return change, interval, rounded(effect.baseline * unit.factor, 3), name


def lines(effects: FrameEffects, unit: Unit) -> list[str]:
    """The table in text, then the notes."""
    table = [("change", "95 % interval", "before", f"frame ({unit.name})"), *rows(effects, unit)]
    return ["", *words.aligned(table, (-1,)), "", *notes(effects, unit)]


def document(effects: FrameEffects, unit: Unit) -> dict[str, Any]:
    """``leadline-explain/1``: figures in ``unit``, intervals null for one pair."""

    def figures(effect: FrameEffect) -> dict[str, Any]:
        interval = effect.interval
        return {
            "path": list(effect.path),
            "before": effect.baseline * unit.factor,
            "change": effect.change * unit.factor,
            "interval": None if interval is None else [interval.low * unit.factor, interval.high * unit.factor],
            "p_adjusted": effect.p_value,
            "named": effect.named,
        }

    return {
        "format": "leadline-explain/1",
        "answer": sentence(effects, unit),
        "what": unit.what,
        "unit": unit.name,
        "shares": unit.shares,
        "recordings": list(effects.recordings),
        "blocks": effects.blocks,
        "judged": effects.judged,
        "total": None if unit.shares else figures(effects.total),
        "rest": effects.rest * unit.factor,
        "carriers": [figures(effect) for effect in effects.carriers],
        "paths": [figures(effect) for effect in effects.paths],
        "methods": [figures(effect) for effect in effects.methods],
        "notes": list(notes(effects, unit)),
    }


def difference(recordings: Sequence[Recording]) -> dict[str, tuple[int, int]]:
    """By stack the samples before and after, the latter on the base of the former."""
    bases = [sum(recording.per for recording in recordings if recording.treated == kind) for kind in (False, True)]
    sums: dict[str, list[float]] = {}
    for recording in recordings:
        scale = bases[0] / bases[1] if recording.treated else 1.0
        for stack, samples in recording.stacks.items():
            sums.setdefault(stack, [0.0, 0.0])[recording.treated] += samples * scale
    return {stack: (round(before), round(after)) for stack, (before, after) in sorted(sums.items())}


@dataclass(frozen=True)
class Explanation:
    """The effects with their unit, and the recordings that they rest on."""

    effects: FrameEffects
    unit: Unit
    recordings: Sequence[Recording]

    @property
    def answer(self) -> str:
        return sentence(self.effects, self.unit)

    def lines(self) -> list[str]:
        """Table and notes."""
        return lines(self.effects, self.unit)

    def markdown(self) -> str:
        """The sentence, the table and the notes."""
        head = ("change", "95 % interval", "before", f"frame ({self.unit.name})")
        table = markdown_table(head, rows(self.effects, self.unit), "rlrl")
        return "\n".join([f"**{escaped(self.answer)}**", "", table, "", *notes(self.effects, self.unit), ""])

    def document(self) -> dict[str, Any]:
        """The JSON document ``leadline-explain/1``."""
        return document(self.effects, self.unit)

    def folded(self) -> str:
        """Folded stacks with samples before and after."""
        rows = difference(self.recordings).items()
        return "".join(f"{stack} {before} {after}\n" for stack, (before, after) in rows)

    def pprof(self) -> bytes:
        """The same for pprof, with the change."""
        rows = difference(self.recordings).items()
        types = [(name, "count") for name in ("before", "after", "change")]
        return stacks.encode({stack: (before, after, after - before) for stack, (before, after) in rows}, types)


def explain(
    before: Sequence[Path], after: Sequence[Path], kind: Kind, counts: Sequence[int] = (), paired: bool = False
) -> Explanation:
    """``counts``: requests of every recording, one for all or one each, ``before`` first; none compares shares.

    ``paired``: the n-th of one kind is compared with the n-th of the other. Raises UsageError, LeadlineError.
    """
    if not before or not after:
        raise UsageError("two kinds of recordings are compared: leadline explain before-*.jfr -- after-*.jfr")
    files = [*before, *after]
    twice = sorted({str(file) for file in files if files.count(file) > 1})
    if twice:
        raise UsageError(f"{twice[0]} is given twice: a recording counts once")
    if len(counts) not in (0, 1, len(files)):
        raise UsageError(f"--count is given {len(counts)} times; once for all, or once for each of {len(files)} files")
    if paired and len(before) != len(after):
        raise UsageError(f"--paired: {len(before)} recordings cannot be paired with {len(after)}")
    recordings = stacks_of(files, kind)
    sizes = [float(count) for count in counts] * (len(files) if len(counts) == 1 else 1)
    sizes = sizes or [sum(recording.samples.values()) / 100 for recording in recordings]
    compared = [
        Recording(recording.samples, at >= len(before), size, at % len(before) if paired else None)
        for at, (recording, size) in enumerate(zip(recordings, sizes, strict=True))
    ]
    return Explanation(frame_effects(compared), _unit(recordings, kind, by_request=bool(counts)), compared)


def _unit(recordings: Sequence[Stacks], kind: Kind, *, by_request: bool) -> Unit:
    what = {Kind.CPU: "CPU", Kind.ALLOCATION: "Allocation", Kind.WAIT: "Waiting for locks and parked"}[kind]
    if not by_request:
        return Unit(f"{what}, shares", "points of all samples", shares=True)
    period = recordings[0].ns
    if kind is Kind.CPU and (not period or {recording.ns for recording in recordings} != {period}):
        return Unit("CPU per request", "samples per 1,000 requests", 1000.0)
    units = {Kind.CPU: ("ms per request", period / 1e6), Kind.ALLOCATION: ("bytes per request", 1.0)}
    return Unit(f"{what} per request", *units.get(kind, ("µs per request", 1.0)))


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
        rows(effects, unit),
        tuple(notes(effects, unit)),
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
    change, interval, baseline, _ = row(effect, "", unit)
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
