"""Effects of frames in words: one sentence, a table, Markdown, JSON, and folded stacks of the difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.analysis.frames import ALPHA, FrameEffect, FrameEffects, Recording
from leadline.model.units import rounded, signed
from leadline.report import words
from leadline.report.ci import escaped, markdown_table

MOST_TOLD = 4  # frames of the sentence
MOST_ROWS = 20  # of a table


@dataclass(frozen=True)
class Unit:
    """Of figures: ``what`` was counted, ``factor`` from samples to the unit, ``name`` of the unit. ``shares``: samples
    are divided by all of their recording, so that the total is the same everywhere.
    """

    what: str
    name: str
    factor: float = 1.0
    shares: bool = False


def short(name: str) -> str:
    """``Class.method``."""
    return ".".join(name.replace("/", ".").split(".")[-2:])


def sentence(effects: FrameEffects, unit: Unit) -> str:
    """Which frames carry which share of the difference, or that none is distinguishable."""
    total = effects.total
    head = f"{unit.what}: " if unit.shares else f"{unit.what}: {_change(total, unit)}"
    carriers = effects.carriers or [method for method in effects.methods if method.named]
    parts = [_part(effect, total, unit) for effect in carriers[:MOST_TOLD]]
    more = len(carriers) - len(parts)
    if effects.pair:
        frames = f"most of the difference is {', '.join(parts)}" if parts else "no frame differs much"
        return f"{head}{'' if unit.shares else '; '}{frames}. One pair of recordings: what of it is noise is not known."
    if not parts:
        return f"{head}{'' if unit.shares else '; '}no frame is distinguishable from no change."
    listed = ", ".join(parts) + (f" and {words.plural(more, 'more frame')}" if more > 0 else "")
    return f"{head}{'' if unit.shares else ': '}{listed}."


def _part(effect: FrameEffect, total: FrameEffect, unit: Unit) -> str:
    below = _below(effect)
    if not unit.shares and (total.named or (total.interval is None and total.change)):
        return f"{100 * effect.change / total.change:.0f} % in {below}"
    return f"{_change(effect, unit)} in {below}"


def _below(effect: FrameEffect) -> str:
    """A path by its last two frames: what a method costs is mostly its caller's doing. A method's own samples alone."""
    if len(effect.path) == 1 and effect.own:
        return f"{short(effect.name)} itself"
    return f"{' > '.join(short(name) for name in effect.path[-2:])} and below"


def _change(effect: FrameEffect, unit: Unit) -> str:
    """The change with its interval, in percent of the baseline where that is the total's, else in the unit."""
    whole = not effect.path and effect.baseline
    factor = 100 / effect.baseline if whole else unit.factor
    name = "%" if whole else unit.name
    interval = ""
    if effect.interval is not None:
        interval = f" [{signed(effect.interval.low * factor, 3)}, {signed(effect.interval.high * factor, 3)}]"
    return f"{signed(effect.change * factor, 3)} {name}{interval}"


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
        yield (
            f"The changes of all methods sum to the total's; those too small to judge: {signed(rest, 3)} {unit.name}."
        )


def rows(effects: FrameEffects, unit: Unit) -> list[tuple[str, str, str, str]]:
    """Change with interval, baseline, verdict and frame: the total, carriers, then methods by their own samples."""
    table = [] if unit.shares else [(effects.total, "all samples")]
    table += [(effect, _below(effect)) for effect in effects.carriers]
    judged = [method for method in effects.methods if method.named or effects.pair]
    table += [(method, f"{short(method.name)} itself") for method in judged]
    return [_row(effect, name, unit) for effect, name in table[:MOST_ROWS]]


def _row(effect: FrameEffect, name: str, unit: Unit) -> tuple[str, str, str, str]:
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


def markdown(effects: FrameEffects, unit: Unit) -> str:
    """The sentence, the table and the notes."""
    table = markdown_table(("change", "95 % interval", "before", f"frame ({unit.name})"), rows(effects, unit), "rlrl")
    return "\n".join([f"**{escaped(sentence(effects, unit))}**", "", table, "", *notes(effects, unit)]) + "\n"


def document(effects: FrameEffects, unit: Unit) -> dict[str, Any]:
    """``leadline-explain/1``: figures in ``unit``, intervals null for one pair."""

    def row(effect: FrameEffect) -> dict[str, Any]:
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
        "total": None if unit.shares else row(effects.total),
        "rest": effects.rest * unit.factor,
        "carriers": [row(effect) for effect in effects.carriers],
        "paths": [row(effect) for effect in effects.paths],
        "methods": [row(effect) for effect in effects.methods],
        "notes": list(notes(effects, unit)),
    }


def folded_difference(recordings: Sequence[Recording]) -> str:
    """Lines of stack, samples before and after, for differential flame graphs; the latter on the base of the former."""
    bases = [sum(recording.per for recording in recordings if recording.treated == kind) for kind in (False, True)]
    sums: dict[str, list[float]] = {}
    for recording in recordings:
        scale = bases[0] / bases[1] if recording.treated else 1.0
        for stack, samples in recording.stacks.items():
            sums.setdefault(stack, [0.0, 0.0])[recording.treated] += samples * scale
    return "".join(f"{stack} {round(before)} {round(after)}\n" for stack, (before, after) in sorted(sums.items()))
