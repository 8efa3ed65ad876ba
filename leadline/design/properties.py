"""What a plan can tell: effects that can be estimated, what they are mixed with, how exactly, at what cost; and
the same as sentences.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from leadline.design.coding import Floats, Ints, Term, level_indices, model_matrix, model_terms, model_width
from leadline.design.definitive_screening import ordered_levels
from leadline.design.fractional_factorial import resolution, word_lengths
from leadline.design.kinds import KINDS
from leadline.design.order import dear_changes, dear_factors, is_live
from leadline.model.plan import Plan, Role

# Regular two-level fractions: found in a coded matrix, with defining relation and aliases. G. E. P. Box and J. S.
# Hunter (1961), Technometrics 3, 311-351 and 449-458.


Effect = tuple[int, ...]  # factor indices, ascending: one for a main effect, two for an interaction
WORDS = 64  # words of a defining relation that are listed; beyond it the shortest


@dataclass(frozen=True)
class Alias:
    """An effect that moves the responses of a design exactly as another does, or (sign -1) exactly against it."""

    effect: Effect
    sign: int


@dataclass(frozen=True)
class RegularFraction:
    """A fraction of 2**q different runs. ``columns`` holds one number a factor: bits below q say which of the basic
    factors' columns it is the product of, bit q that the product is turned around.
    """

    q: int
    columns: tuple[int, ...]

    @property
    def word_lengths(self) -> tuple[int, ...]:
        """Words of length 1, 2, ... k in the defining relation."""
        return word_lengths(self.q, [column & ((1 << self.q) - 1) for column in self.columns])

    @property
    def resolution(self) -> int | None:
        """Length of the shortest word; None for a full factorial."""
        return resolution(self.word_lengths)

    def _key(self, effect: Effect) -> tuple[int, int]:
        mixed = 0
        for factor in effect:
            mixed ^= self.columns[factor]
        return mixed & ((1 << self.q) - 1), -1 if mixed >> self.q else 1

    def aliases(self, effects: Sequence[Effect], order: int = 2) -> dict[Effect, tuple[Alias, ...]]:
        """For each effect all others of at most ``order`` factors that cannot be told from it, shortest first."""
        groups: dict[int, list[Alias]] = defaultdict(list)
        factors = range(len(self.columns))
        for size in range(1, order + 1):
            for other in itertools.combinations(factors, size):
                key, sign = self._key(other)
                groups[key].append(Alias(other, sign))
        chains = {}
        for effect in effects:
            key, sign = self._key(effect)
            chains[effect] = tuple(
                Alias(alias.effect, alias.sign * sign) for alias in groups[key] if alias.effect != effect
            )
        return chains

    def words(self) -> tuple[Alias, ...]:
        """The defining relation without its identity, shortest words first: all of up to 64, else those up to four
        factors. Each word's product of columns is constant, with the given sign.
        """
        generators = [
            tuple(sorted([factor, *self._basics(column)]))
            for factor, column in enumerate(self.columns)
            if factor not in self._basic_factors().values()
        ]
        if 2 ** len(generators) <= WORDS:
            words = set()
            for chosen in _subsets(generators):
                word: set[int] = set()
                for generator in chosen:
                    word ^= set(generator)
                words.add(tuple(sorted(word)))
        else:
            words = {
                word
                for size in (1, 2, 3, 4)
                for word in itertools.combinations(range(len(self.columns)), size)
                if self._key(word)[0] == 0
            }
        return tuple(Alias(word, self._key(word)[1]) for word in sorted(words, key=lambda word: (len(word), word)))

    def _basic_factors(self) -> dict[int, int]:
        """Bit -> the factor whose column it is."""
        return {
            column.bit_length() - 1: factor
            for factor, column in enumerate(self.columns)
            if column >> self.q == 0 and column.bit_count() == 1 and column not in self.columns[:factor]
        }

    def _basics(self, column: int) -> list[int]:
        basic = self._basic_factors()
        return [basic[bit] for bit in range(self.q) if column >> bit & 1]


def _subsets(items: Sequence[Effect]) -> Iterator[tuple[Effect, ...]]:
    for size in range(1, len(items) + 1):
        yield from itertools.combinations(items, size)


def regular_fraction(coded: Ints) -> RegularFraction | None:
    """The fraction that a matrix (runs, factors) of +-1 is, None if it is none.

    A regular fraction has 2**q different rows, all equally often, of which some q columns form a full factorial and
    all others are products of these, up to a sign.
    """
    rows, counts = np.unique(coded, axis=0, return_counts=True)
    q = int(math.log2(len(rows))) if len(rows) else 0
    if len(rows) != 1 << q or len(set(counts.tolist())) > 1 or q == 0:
        return None
    every = (1 << len(rows)) - 1
    reduced: dict[int, tuple[int, int]] = {len(rows) - 1: (every, 1 << q)}  # leading bit -> (vector, combination)
    columns: list[int] = []
    count = 0
    for column in rows.T:
        vector = sum(1 << index for index, value in enumerate(column) if value < 0)
        combination = 0
        while vector and (vector.bit_length() - 1) in reduced:
            other, mixed = reduced[vector.bit_length() - 1]
            vector ^= other
            combination ^= mixed
        if vector:
            if count == q:
                return None
            reduced[vector.bit_length() - 1] = (vector, combination ^ (1 << count))
            columns.append(1 << count)
            count += 1
        else:
            columns.append(combination)
    return RegularFraction(q, tuple(columns)) if count == q else None


TOLERANCE = 1e-6
LARGEST_MODEL = 1200  # columns of mains and interactions that are still looked at
LARGEST_WORK = 5e8  # rows times squared columns


@dataclass(frozen=True)
class Mixed:
    """Another effect that an effect holds a share of: 1 is all of it, with its sign."""

    effect: str
    weight: float
    factors: int  # in it: 1 for a main effect, 2 for a two-factor interaction


@dataclass(frozen=True)
class EffectProperties:
    """A main effect or a two-factor interaction.

    ``estimable``: main effects beside all other main effects, interactions beside all main effects and interactions.
    ``inflation``: variance relative to an orthogonal, balanced design of as many trials (1 is best), None where it is
    not known. ``whole_plot``: compared between whole plots. ``aliases``: two-factor interactions that a main effect
    holds a share of; for an interaction, the effects it cannot be told from.
    """

    name: str
    estimable: bool
    inflation: float | None = None
    whole_plot: bool = False
    aliases: tuple[Mixed, ...] = ()

    @property
    def clear(self) -> bool:
        return self.estimable and not self.aliases


@dataclass(frozen=True)
class DesignProperties:
    """Counts, exactness and aliases of a plan.

    ``runs``: different treatments; ``parameters``: the mean and all main effects; ``residual_df``: left beside these
    and blocks. ``d_efficiency``: percent, of the runs for main effects (with interactions where a D-optimal design has
    them). ``correlation``: the largest between columns of different main effects inside blocks. ``dear_changes``: by
    apply cost. ``interactions`` is empty where there are too many to look at; ``remarks`` says so. In a definitive
    screening design a main effect's aliases are those of its straight line. For a ``regular`` fraction: ``resolution``
    (None where nothing is aliased), ``word_lengths`` from length 3 on, and the words of the defining relation.
    """

    kind: str
    trials: int
    baseline_trials: int
    runs: int
    blocks: int
    plots: int | None
    slots: int
    parameters: int
    residual_df: int
    mains: tuple[EffectProperties, ...]
    interactions: tuple[EffectProperties, ...]
    d_efficiency: float | None
    correlation: float | None
    dear_changes: Mapping[str, int] = field(default_factory=dict)
    regular: bool = False
    resolution: int | None = None
    word_lengths: tuple[int, ...] = ()
    defining_relation: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def describe_design(plan: Plan) -> DesignProperties:
    """Properties of a plan as it is, computed from its trials (slots, where it has some)."""
    factors = plan.factors
    rows = [
        (treatment, trial.position if trial.slots else trial.block, trial.role)
        for trial in plan.trials
        for treatment in ([slot.treatment for slot in trial.slots] or [trial.treatment])
    ]
    indices = level_indices(factors, [treatment for treatment, _, _ in rows])
    blocks = np.unique([block for _, block, _ in rows], return_inverse=True)[1]
    design = np.array([role is not Role.SENTINEL for _, _, role in rows])
    mains_width = model_width(factors, interactions=False)
    width = model_width(factors, interactions=True)
    crossed = width <= LARGEST_MODEL and len(rows) * width**2 <= LARGEST_WORK
    straight = plan.kind == "definitive-screening" and all(len(factor.levels) == 3 for factor in factors)
    if straight:
        full, terms = _straight_model(plan, indices)
    else:
        full, terms = model_matrix(factors, indices, crossed), model_terms(factors, crossed)
    inside = _inside_blocks(full, blocks)
    cells = KINDS[plan.kind].cells if plan.kind in KINDS else False
    regular = _regular(plan, indices[design]) if not cells else None
    mains = [term for term in terms if len(term.factors) == 1]
    pairs = [term for term in terms if len(term.factors) == 2]
    alias = _alias_matrix(full[design], mains_width) if crossed and not cells else None
    remarks = [] if crossed else [_too_many(width - mains_width)]
    if cells and len(factors) > 1:
        remarks.append("Each effect holds at the baseline of all other factors; interactions cannot be seen.")
    if straight and alias is not None and alias.size:
        remarks.append(_curvature(alias, mains))
    names = [factor.name for factor in factors]
    dear = {factor.name for factor in dear_factors(factors)}
    slotted = any(trial.slots for trial in plan.trials)
    between = {factor.name for factor in factors if slotted and not is_live(factor)}
    if between:
        remarks.append(f"Compared between trials, with the noise between them besides: {', '.join(sorted(between))}.")
    rank = int(np.linalg.matrix_rank(inside[:, 1:mains_width]))
    effects = _mains(names, dear, mains, pairs, inside[:, :mains_width], alias, straight)
    if between:
        whole = np.unique([trial.block for trial in plan.trials for _ in trial.slots or (trial,)], return_inverse=True)[
            1
        ]
        wide = _mains(names, dear, mains, pairs, _inside_blocks(full[:, :mains_width], whole), alias, straight)
        effects = [outer if outer.name in between else inner for inner, outer in zip(effects, wide, strict=True)]
    return DesignProperties(
        kind=plan.kind,
        trials=len(plan.trials),
        baseline_trials=sum(trial.role is not Role.TREATMENT for trial in plan.trials),
        runs=len(np.unique(indices, axis=0)),
        blocks=len({trial.block for trial in plan.trials}),
        plots=len({trial.plot for trial in plan.trials}) if dear else None,
        slots=sum(len(trial.slots) for trial in plan.trials),
        parameters=mains_width,
        residual_df=len(rows) - int(blocks.max() + 1) - rank,
        mains=tuple(effects),
        interactions=_interactions(names, dear, pairs, inside, regular) if crossed else (),
        d_efficiency=_efficiency(plan, full[design], mains_width),
        correlation=_largest_correlation(inside, mains),
        dear_changes=dear_changes(factors, [trial.treatment for trial in plan.trials]),
        regular=regular is not None,
        resolution=None if regular is None else regular.resolution,
        word_lengths=() if regular is None else regular.word_lengths[2:],
        defining_relation=() if regular is None else _relation(regular, names),
        remarks=tuple(remarks),
    )


def _too_many(columns: int) -> str:
    return f"The {columns:,} columns of two-factor interactions are too many to look at."


def _curvature(alias: Floats, mains: Sequence[Term]) -> str:
    share = np.abs(alias[[term.columns[1] for term in mains]]).max()
    return (
        f"Straight-line effects, low to high, are meant; curvature holds shares of up to {share:.2f} of "
        "two-factor interactions, and so does a difference from a middle level."
    )


def _straight_model(plan: Plan, indices: Ints) -> tuple[Floats, tuple[Term, ...]]:
    """Three ordered levels: for each factor a straight line and a curvature, interactions between straight lines."""
    count = len(plan.factors)
    coded = np.empty(indices.shape)
    for number, factor in enumerate(plan.factors):
        order = ordered_levels(factor)
        coded[:, number] = np.array([order.index(level) - 1.0 for level in factor.levels])[indices[:, number]]
    mains = np.stack([coded * np.sqrt(1.5), (coded**2 - 2 / 3) * np.sqrt(4.5)], axis=2).reshape(len(coded), -1)
    pairs = list(itertools.combinations(range(count), 2))
    products = [coded[:, [a]] * coded[:, [b]] for a, b in pairs]
    terms = [Term((number,), (1 + 2 * number, 2 + 2 * number)) for number in range(count)]
    terms += [Term(pair, (1 + 2 * count + number,)) for number, pair in enumerate(pairs)]
    return np.hstack([np.ones((len(coded), 1)), mains, *products]), tuple(terms)


def _inside_blocks(model: Floats, blocks: Ints) -> Floats:
    """Columns minus their means in each block."""
    counts = np.bincount(blocks)
    sums = np.zeros((len(counts), model.shape[1]))
    np.add.at(sums, blocks, model)
    return np.asarray(model - (sums / counts[:, None])[blocks])


def _regular(plan: Plan, indices: Ints) -> RegularFraction | None:
    if any(len(factor.levels) != 2 for factor in plan.factors):
        return None
    baseline = np.array([factor.levels.index(factor.baseline) for factor in plan.factors])
    return regular_fraction(np.where(indices == baseline, -1, 1))


def _alias_matrix(model: Floats, mains_width: int) -> Floats:
    """(mains, interactions): what a fitted main effect holds of each interaction (Box and Wilson's alias matrix)."""
    solved = np.linalg.lstsq(model[:, :mains_width], model[:, mains_width:], rcond=None)[0]
    return np.asarray(solved)


def _mains(
    names: Sequence[str],
    dear: set[str],
    terms: Sequence[Term],
    pairs: Sequence[Term],
    inside: Floats,
    alias: Floats | None,
    straight: bool,
) -> list[EffectProperties]:
    lost = _null_space(inside[:, 1:])
    inverse = np.linalg.pinv(inside[:, 1:].T @ inside[:, 1:])
    mains = []
    for term in terms:
        name = names[term.factors[0]]
        columns = [column - 1 for column in term.columns]
        estimable = not np.any(np.abs(lost[:, columns]) > TOLERANCE)
        inflation = float(len(inside) * np.mean(np.diag(inverse)[columns])) if estimable else None
        mixed = []
        for pair in pairs if alias is not None and estimable else ():
            assert alias is not None
            asked = term.columns[:1] if straight else term.columns
            part = alias[np.ix_(asked, [column - inside.shape[1] for column in pair.columns])]
            weight = float(part.flat[int(np.argmax(np.abs(part)))])
            if abs(weight) > TOLERANCE:
                mixed.append(Mixed(_name(pair, names), round(weight, 6), len(pair.factors)))
        mixed.sort(key=lambda one: -abs(one.weight))
        mains.append(EffectProperties(name, estimable, inflation, name in dear, tuple(mixed)))
    return mains


def _interactions(
    names: Sequence[str], dear: set[str], pairs: Sequence[Term], inside: Floats, regular: RegularFraction | None
) -> tuple[EffectProperties, ...]:
    lost = _null_space(inside[:, 1:])
    chains = {} if regular is None else regular.aliases([pair.factors for pair in pairs])
    return tuple(
        EffectProperties(
            name=_name(pair, names),
            estimable=not np.any(np.abs(lost[:, [column - 1 for column in pair.columns]]) > TOLERANCE),
            whole_plot=all(names[factor] in dear for factor in pair.factors),
            aliases=tuple(
                Mixed(" x ".join(names[factor] for factor in alias.effect), float(alias.sign), len(alias.effect))
                for alias in chains.get(pair.factors, ())
            ),
        )
        for pair in pairs
    )


def _null_space(model: Floats) -> Floats:
    """(k, columns): an orthonormal basis of what the columns cannot tell apart."""
    values, vectors = np.linalg.eigh(model.T @ model)
    return np.asarray(vectors.T[values <= 1e-9 * max(float(values.max(initial=0.0)), 1.0)])


def d_efficiency(model: Floats) -> float | None:
    """100 |X'X|^(1/p) / n in percent: 100 for an orthogonal, balanced design. None where X'X is singular."""
    runs, width = model.shape
    if np.linalg.matrix_rank(model) < width:
        return None
    sign, logarithm = np.linalg.slogdet(model.T @ model)
    return float(100.0 * np.exp(logarithm / width) / runs) if sign > 0 else None


def _efficiency(plan: Plan, model: Floats, mains_width: int) -> float | None:
    """For interactions where the plan can estimate them all in a D-optimal design, else for main effects."""
    if plan.kind == "d-optimal" and model.shape[1] > mains_width:
        whole = d_efficiency(model)
        if whole is not None:
            return whole
    return d_efficiency(model[:, :mains_width])


def _largest_correlation(inside: Floats, mains: Sequence[Term]) -> float | None:
    if len(mains) < 2:
        return None
    columns = inside[:, 1 : mains[-1].columns[-1] + 1]
    norms = np.linalg.norm(columns, axis=0)
    if np.any(norms < TOLERANCE):
        return None
    matrix = np.abs((columns / norms).T @ (columns / norms))
    for term in mains:
        own = [column - 1 for column in term.columns]
        matrix[np.ix_(own, own)] = 0.0
    return float(min(1.0, matrix.max()))


def _relation(regular: RegularFraction, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        ("-" if word.sign < 0 else "") + " x ".join(names[factor] for factor in word.effect) for word in regular.words()
    )


def _name(term: Term, names: Sequence[str]) -> str:
    return " x ".join(names[factor] for factor in term.factors)


CHAINS = 40  # lines of aliases that are printed
ROMAN = {3: "III", 4: "IV", 5: "V", 6: "VI", 7: "VII", 8: "VIII"}


def properties_text(properties: DesignProperties) -> list[str]:
    """Lines for a terminal: size, exactness, aliases, cost of changes."""
    p = properties
    plots = f", {p.plots} whole plots" if p.plots is not None else ""
    slots = f", {p.slots} slots" if p.slots else ""
    lines = [
        f"{_count(p.runs, 'treatment')} in {_count(p.blocks, 'block')}{plots}{slots}; "
        f"{_count(p.baseline_trials, 'baseline trial')}; {_count(max(p.residual_df, 0), 'degree')} of freedom left for "
        f"the noise beside {_count(p.parameters - 1, 'figure')} of main effects"
    ]
    lost = [effect.name for effect in p.mains if not effect.estimable]
    if lost:
        lines.append(f"cannot be estimated: {', '.join(lost)}")
    lines += _exactness(p)
    if p.dear_changes:
        between = [effect.name for effect in p.mains if effect.whole_plot]
        lines.append(
            f"costly changes: {', '.join(f'{number} of {cost}' for cost, number in p.dear_changes.items())}; "
            f"whole-plot effects: {', '.join(between)}"
        )
    lines += aliases_text(p)
    return [*lines, *p.remarks]


def _exactness(p: DesignProperties) -> list[str]:
    parts = []
    inflations = [effect.inflation for effect in p.mains if effect.inflation is not None]
    if inflations:
        low, high = min(inflations), max(inflations)
        span = f"{low:.2f}" if high - low < 0.005 else f"{low:.2f} to {high:.2f}"
        parts.append(f"variance of main effects {span} times that of an orthogonal design of as many trials")
    if p.d_efficiency is not None:
        parts.append(f"D-efficiency {p.d_efficiency:.1f} %")
    if p.correlation is not None:
        parts.append(f"largest correlation of main effects {p.correlation:.2f}")
    return ["; ".join(parts)] if parts else []


def aliases_text(properties: DesignProperties) -> list[str]:
    """Defining relation and alias chains of a regular fraction; shares of interactions in others."""
    p = properties
    if p.regular and p.resolution is None:
        return ["full factorial: no effect is aliased with another"]
    lines: list[str] = []
    if p.regular and p.resolution is not None:
        counted = ", ".join(
            f"{words} of length {length}" for length, words in enumerate(p.word_lengths[:6], start=3) if words
        )
        lines.append(f"resolution {ROMAN.get(p.resolution, p.resolution)}; words: {counted}")
        lines.append("I = " + " = ".join(p.defining_relation[:CHAINS]) + _more(len(p.defining_relation)))
    mixed = [effect for effect in p.mains if effect.aliases]
    mains = [_chain(effect) for effect in mixed] if p.regular else _shares(mixed)
    chains = _chains(p.interactions)
    lines += [*mains[:CHAINS], *([_more(len(mains)).strip()] if len(mains) > CHAINS else [])]
    lines += [*chains[:CHAINS], *([_more(len(chains)).strip()] if len(chains) > CHAINS else [])]
    if p.interactions and not (p.kind in KINDS and KINDS[p.kind].cells):
        clear = sum(effect.clear for effect in p.mains)
        estimable = sum(effect.estimable for effect in p.interactions)
        lines.append(
            f"{clear} of {_count(len(p.mains), 'main effect')} free of two-factor interactions; "
            f"{estimable} of {_count(len(p.interactions), 'interaction')} estimable beside all others"
        )
    return lines


def _chain(effect: EffectProperties) -> str:
    chain = " ".join([effect.name, *(_signed(mixed) for mixed in effect.aliases[:CHAINS])])
    return chain + _more(len(effect.aliases))


def _shares(effects: list[EffectProperties]) -> list[str]:
    """What main effects hold of interactions, effects with the same shares together."""
    groups: dict[str, list[str]] = {}
    for effect in effects:
        shares = Counter(f"{abs(mixed.weight):.2f}" for mixed in effect.aliases)
        if len(shares) <= 2:
            text = " and ".join(f"{share} of {_count(number, 'interaction')}" for share, number in shares.items())
        else:
            largest = next(iter(shares))
            text = f"up to {largest} of {_count(len(effect.aliases), 'interaction')}"
        groups.setdefault(text, []).append(effect.name)
    return [
        f"{', '.join(names[:CHAINS])}{_more(len(names))} hold{'s' if len(names) == 1 else ''} {lines}, with one "
        "sign or "
        "the other"
        for lines, names in groups.items()
    ]


def _signed(mixed: Mixed) -> str:
    return f"{'-' if mixed.weight < 0 else '+'} {mixed.effect}"


def _chains(interactions: tuple[EffectProperties, ...]) -> list[str]:
    """Each set of interactions that move together once; those aliased with main effects are in their lines."""
    named: set[str] = set()
    lines = []
    for effect in interactions:
        pairs = [mixed for mixed in effect.aliases if mixed.factors > 1]
        if effect.name in named or not pairs or len(pairs) < len(effect.aliases):
            continue
        named |= {effect.name, *(mixed.effect for mixed in pairs)}
        lines.append(" ".join([effect.name, *(_signed(mixed) for mixed in pairs)]))
    return lines


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _more(total: int) -> str:
    return f" and {total - CHAINS} more" if total > CHAINS else ""
