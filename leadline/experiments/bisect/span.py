"""What lies between two ends: ordered levels of one factor, or the settings in which two hosts differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leadline.host.textfile import is_file, read_text
from leadline.model.bounds import RawLevel
from leadline.model.errors import UsageError, did_you_mean, shortened
from leadline.model.study import MOST_LEVELS, Study
from leadline.model.yamltext import Places, load_yaml, plain
from leadline.planning.bisection import Changes
from leadline.planning.probes import halves, prefixes


@dataclass(frozen=True)
class Candidates:
    """Of a factor whose levels have an order of their own: ``between`` gives them from one to another; ``named`` tells
    whether a text looks like a level.
    """

    named: Callable[[str], bool]
    between: Callable[[str, str], Sequence[RawLevel]]


Listed = Mapping[str, Candidates]  # by factor


@dataclass(frozen=True)
class Span:
    """``steps``: the ordered levels of ``factors`` (one), from the end A to the end B; else of each of them its level
    at both ends. ``source``: where they were named, for errors.
    """

    factors: tuple[str, ...]
    steps: tuple[tuple[RawLevel, ...], ...]
    ordered: bool
    source: str

    @property
    def changes(self) -> int:
        return len(self.steps[0]) - 1 if self.ordered else len(self.factors)

    def treatments(self, seed: int) -> tuple[Changes, ...]:
        """What can be tried: every level, or sets of settings."""
        return prefixes(self.changes) if self.ordered else halves(self.changes, seed)

    def levels(self, held: Changes) -> dict[str, RawLevel]:
        """The levels of a treatment."""
        if self.ordered:
            return {self.factors[0]: self.steps[0][len(held)]}
        return {name: pair[at in held] for at, (name, pair) in enumerate(zip(self.factors, self.steps, strict=True))}

    def label(self, held: Changes) -> str:
        """A treatment in words: its level, or which settings are those of B."""
        if self.ordered:
            return f"{self.factors[0]}={self.steps[0][len(held)]}"
        if len(held) in (0, self.changes):
            return "B" if held else "A"
        return "A with " + ", ".join(self.factors[at] for at in sorted(held)) + " of B"

    def change(self, group: Sequence[int]) -> str:
        """Changes that are concluded on together, in words."""
        if self.ordered:
            first, last = self.steps[0][group[0]], self.steps[0][group[-1] + 1]
            return f"{self.factors[0]} from {first} to {last}"
        return " or ".join(f"{self.factors[at]} from {self.steps[at][0]} to {self.steps[at][1]}" for at in group)


def span_of(study: Study, factor: str | None, first: str | None, last: str | None, listed: Listed) -> Span:
    """From ``--from`` and ``--to``: two files of settings, two levels of a ``listed`` factor with what lies between
    them, or two of the study's levels. Raises UsageError.
    """
    if first is not None and last is not None:
        if factor is None and is_file(first) and is_file(last):
            return _settings(Path(first), Path(last))
        for name, candidates in listed.items():
            if factor in (None, name) and candidates.named(first) and candidates.named(last):
                return _span(name, candidates.between(first, last))
    return _levels(study, factor, first, last)


def _settings(first: Path, last: Path) -> Span:
    a, b = _read(first), _read(last)
    for side, other, mine, theirs in ((a, b, first, last), (b, a, last, first)):
        if lone := [name for name in side if name not in other]:
            raise UsageError(f"{theirs}: {lone[0]} is in {mine} only; write its level here, too, or leave it out there")
    names = tuple(name for name in a if (a[name], type(a[name])) != (b[name], type(b[name])))
    if not names:
        raise UsageError(f"--to {last}: every setting has the level that it has in {first}; nothing to bisect")
    if len(names) > MOST_LEVELS:
        raise UsageError(f"--to {last}: {len(names)} settings differ from {first}; {MOST_LEVELS} are the most")
    return Span(names, tuple((a[name], b[name]) for name in names), False, f"--from {first} --to {last}")


def _read(path: Path) -> dict[str, RawLevel]:
    tree = load_yaml(read_text(path), str(path))
    if not isinstance(tree, Mapping):
        raise UsageError(f"{path}:1: no settings: write them as `settings:` with knob: level below")
    places = Places(str(path), tree, {})
    document = plain(tree, places)
    settings = document.get("settings", document)
    if not isinstance(settings, Mapping) or not settings:
        raise UsageError(f"{path}:1: no settings: write them as `settings:` with knob: level below")
    for name, level in settings.items():
        if not isinstance(level, bool | int | float | str):
            raise UsageError(f"{places.where(('settings', name))}: {name}: a level is one number, word or switch")
    return {str(name): level for name, level in settings.items()}


def _levels(study: Study, factor: str | None, first: str | None, last: str | None) -> Span:
    name = _factor(study, factor)
    levels = list(study.factors[name])
    at = 0 if first is None else _index(name, levels, "--from", first)
    until = len(levels) - 1 if last is None else _index(name, levels, "--to", last)
    return _span(name, levels[at : until + 1] if at <= until else levels[until : at + 1][::-1])


def _span(name: str, levels: Sequence[RawLevel]) -> Span:
    if len(set(levels)) < 2:
        raise UsageError(f"--to {levels[-1]}: that is where it begins; name another level of {name}")
    if len(levels) > MOST_LEVELS:
        raise UsageError(f"--to {levels[-1]}: {len(levels)} levels of {name} lie between; {MOST_LEVELS} are the most")
    return Span((name,), (tuple(levels),), True, f"--factor {name}")


def _factor(study: Study, factor: str | None) -> str:
    names = list(study.factors)
    if factor is not None:
        if factor not in names:
            hint = did_you_mean(factor, names) or "add its levels: --levels a,b,c"
            raise UsageError(f"--factor {factor}: the study has no such factor; {hint}")
        return factor
    if len(names) != 1:
        names_text = ", ".join(names) or "none"
        raise UsageError(
            f"--factor is missing: the study's factors are {names_text}; name one, or two files of settings"
        )
    return names[0]


def _index(name: str, levels: Sequence[RawLevel], option: str, text: str) -> int:
    written = _written(levels)
    if text not in written:
        hint = did_you_mean(text, written) or f"its levels are {shortened(', '.join(written), 200)}"
        raise UsageError(f"{option} {text}: {name} has no such level; {hint}")
    return written.index(text)


def _written(levels: Sequence[RawLevel]) -> list[str]:
    return [str(level).lower() if isinstance(level, bool) else str(level) for level in levels]
