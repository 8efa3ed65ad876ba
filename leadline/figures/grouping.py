"""Does a prior grouping of the parameters hold? A permutation test of the group labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from leadline.analysis.table import Floats, Ints
from leadline.figures.sensitivity import Sensitivities
from leadline.figures.table import chance, listed, size
from leadline.model.errors import UsageError, nearest
from leadline.model.units import rounded

EXACT_UP_TO = 20_000  # ways to give out the labels that are all gone through
DRAWS = 20_000
SEED = 20_063


@dataclass(frozen=True)
class GroupMean:
    """A group with the mean of its parameters' sensitivities."""

    name: str
    parameters: tuple[str, ...]
    mean: float


@dataclass(frozen=True)
class Grouping:
    """Groups in the order given: the first is the one expected to matter most.

    With two groups ``statistic`` is the first mean minus the second, ``p_value`` one-sided (as much in the expected
    direction) and ``p_two_sided`` either way. With more it is the between-group sum of squares, ``p_value`` has no
    direction and ``p_two_sided`` is None. ``ways``: label patterns looked at, all of them where ``exact``.
    ``corrected``: whether the sensitivities are without what noise adds.
    """

    groups: tuple[GroupMean, ...]
    statistic: float
    p_value: float
    p_two_sided: float | None
    exact: bool
    ways: int
    corrected: bool
    left_out: tuple[str, ...]
    sentence: str


def permute_groups(found: Sensitivities, groups: Mapping[str, Sequence[str]]) -> Grouping:
    """The permutation test of ``groups`` (name -> parameters) on the sensitivities of the parameters.

    The labels are exchangeable if the grouping says nothing: every way to give them out is as likely (exact where there
    are at most 20,000, else 20,000 drawn ones; Phipson and Smyth's (count + 1) / (draws + 1), 2010). Raises UsageError
    for a group without a parameter, an unknown parameter, one in two groups, or a single group.
    """
    names = [row.parameter for row in found.rows]
    _check(names, groups)
    corrected = all(row.corrected is not None for row in found.rows if row.plain is not None)
    values = {row.parameter: row.corrected if corrected else row.plain for row in found.rows}
    used = {name: [p for p in members if values[p] is not None] for name, members in groups.items()}
    for name, members in used.items():
        if not members:
            raise UsageError(f"group {name}: none of its parameters has a sensitivity, so it has no mean")
    chosen = [p for members in used.values() for p in members]
    figures = np.array([values[p] for p in chosen], dtype=np.float64)
    sizes = [len(members) for members in used.values()]
    labels = np.repeat(np.arange(len(sizes)), sizes)
    patterns, exact = _patterns(labels, sizes)
    observed = _statistics(figures, labels[None, :], len(sizes))[0]
    every = _statistics(figures, patterns, len(sizes))
    slack = 1e-9 * max(1e-300, float(np.abs(figures).max()) ** (1 if len(sizes) == 2 else 2))
    extra = 0 if exact else 1
    p_value = (float(np.sum(every >= observed - slack)) + extra) / (len(every) + extra)
    two = (
        (float(np.sum(np.abs(every) >= abs(observed) - slack)) + extra) / (len(every) + extra)
        if len(sizes) == 2
        else None
    )
    means = tuple(
        GroupMean(name, tuple(members), float(figures[labels == number].mean()))
        for number, (name, members) in enumerate(used.items())
    )
    return Grouping(
        groups=means,
        statistic=float(observed),
        p_value=p_value,
        p_two_sided=two,
        exact=exact,
        ways=len(every),
        corrected=corrected,
        left_out=tuple(name for name in names if name not in chosen),
        sentence=_sentence(found, means, p_value, len(every) if exact else None),
    )


def parse_groups(options: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """``red=a,b`` ``blue=c,d`` as groups, each with the place where it stands. Raises UsageError for anything else,
    which quotes nothing: it may be of another file than was meant.
    """
    groups: dict[str, tuple[str, ...]] = {}
    for place, option in options:
        for word in option.split():
            name, equals, members = word.partition("=")
            parts = tuple(part.strip() for part in members.split(",") if part.strip())
            if not equals or not name or not parts:
                raise UsageError(f"{place}: not NAME=PARAMETER,PARAMETER, as in red=vm.swappiness,vm.dirty_ratio")
            if name in groups:
                raise UsageError(f"{place}: the group {name} is given twice; put all its parameters in one list")
            groups[name] = parts
    return groups


def _check(names: Sequence[str], groups: Mapping[str, Sequence[str]]) -> None:
    if len(groups) < 2:
        raise UsageError("a grouping needs two groups or more, as in --groups red=a,b --groups blue=c,d")
    owners: dict[str, str] = {}
    for group, members in groups.items():
        for member in members:
            if member not in names:
                near = nearest(member, list(names))
                hint = f"no parameter {member!r}; did you mean {near}?" if near else f"parameters: {', '.join(names)}"
                raise UsageError(f"group {group} has what is not in the table: {hint}")
            if member in owners:
                again = "twice" if owners[member] == group else f"in group {owners[member]} too"
                raise UsageError(f"group {group}: the parameter {member} is {again}; a parameter has one group")
            owners[member] = group


def _patterns(labels: Ints, sizes: Sequence[int]) -> tuple[Ints, bool]:
    """Label vectors (ways, n): all distinct ones where they are few, else drawn ones."""
    total = math.factorial(sum(sizes)) // math.prod(math.factorial(members) for members in sizes)
    if total > EXACT_UP_TO:
        rng = np.random.default_rng(SEED)
        return rng.permuted(np.tile(labels, (DRAWS, 1)), axis=1), False
    rows: list[list[int]] = [[-1] * len(labels)]
    for number, members in enumerate(sizes):
        wider = []
        for row in rows:
            free = [index for index, label in enumerate(row) if label < 0]
            for chosen in combinations(free, members):
                new = list(row)
                for index in chosen:
                    new[index] = number
                wider.append(new)
        rows = wider
    return np.array(rows), True


def _statistics(values: Floats, patterns: Ints, groups: int) -> Floats:
    means = np.array(
        [np.where(patterns == g, values, 0.0).sum(axis=1) / np.sum(patterns == g, axis=1) for g in range(groups)]
    )
    if groups == 2:
        return np.asarray(means[0] - means[1], dtype=np.float64)
    counts = np.array([[np.sum(patterns[0] == g)] for g in range(groups)])
    return np.asarray(np.sum(counts * (means - values.mean()) ** 2, axis=0), dtype=np.float64)


def _sentence(found: Sensitivities, groups: Sequence[GroupMean], p_value: float, ways: int | None) -> str:
    unit = f" {found.unit}" if found.unit else ""
    parts = [f"{group.name} {size(group.mean)}{unit}" for group in groups]
    how = f"all {ways} ways to give out the labels" if ways else f"{DRAWS:,} drawn labellings"
    text = f"Mean sensitivity: {listed(parts)}; {chance(p_value)} over {how}"
    if p_value < 0.05:
        finding = f"{groups[0].name} matters more, as expected" if len(groups) == 2 else "the groups differ"
        return f"{text}: {finding}."
    few = f" (with so few parameters p cannot be below {rounded(1 / ways, 2)})" if ways and ways < 40 else ""
    return f"{text}: the data do not confirm the grouping{few}."
