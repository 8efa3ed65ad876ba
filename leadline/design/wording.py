"""Properties of a design as sentences."""

from __future__ import annotations

from collections import Counter

from leadline.design.kinds import KINDS
from leadline.design.properties import DesignProperties, EffectProperties, Mixed

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
