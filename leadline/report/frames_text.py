"""Effects of frames in words: one sentence, a table, Markdown, JSON, and stacks of the difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from leadline.analysis.frames import Recording
from leadline.conclude.frames import Unit, below, sentence, short
from leadline.model.frames import ALPHA, FrameEffect, FrameEffects, is_layer, is_measured
from leadline.model.units import rounded, signed
from leadline.report import words

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
    widths = [max(len(row[at]) for row in table) for at in range(3)]
    text = ["  ".join([*(row[at].rjust(widths[at]) for at in range(3)), row[3]]) for row in table]
    return ["", *text, "", *notes(effects, unit)]


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
