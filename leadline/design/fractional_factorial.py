"""Regular fractions 2^(k-p) of the full factorial: few runs, a known alias structure, least aberration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leadline.design.aberration import even_part, resolution, signs, word_lengths
from leadline.design.coding import two_level_treatments
from leadline.design.errors import DesignError
from leadline.design.fractions import ADDED
from leadline.design.galois import Ints
from leadline.design.kind import DesignKind
from leadline.design.two_level import refuse_more_levels
from leadline.model.design import Design
from leadline.model.plan import Factor, Treatment

LARGEST_Q = max(q for q, _ in ADDED)
ROMAN = ("", "", "", "III", "IV", "V", "VI", "VII", "VIII")


@dataclass(frozen=True)
class Choice:
    """A fraction: its columns for 2**q runs, and whether the mirror image is added."""

    q: int
    columns: tuple[int, ...]
    foldover: bool

    @property
    def runs(self) -> int:
        return (1 << self.q) * (2 if self.foldover else 1)

    @property
    def word_lengths(self) -> tuple[int, ...]:
        pattern = word_lengths(self.q, self.columns)
        return even_part(pattern) if self.foldover else pattern

    @property
    def resolution(self) -> int | None:
        return resolution(self.word_lengths)

    @property
    def repeats_itself(self) -> bool:
        """Whether the mirror image would be the same runs again: all words are even already."""
        return self.foldover and not any(word_lengths(self.q, self.columns)[::2])


def available(factors: int, foldover: bool = False) -> list[Choice]:
    """Fractions of so many two-level factors, fewest runs first; the full factorial is not among them."""
    choices = []
    for q in range(2, LARGEST_Q + 1):
        added = (3,) if (q, factors) == (2, 3) else ADDED.get((q, factors))
        if added is not None:
            choice = Choice(q, (*(1 << bit for bit in range(q)), *added), foldover)
            if not choice.repeats_itself:
                choices.append(choice)
    return choices


def choose(factors: Sequence[Factor], design: Design) -> Choice:
    """The fraction with the fewest runs that has the resolution (or, given ``runs``, that has these).

    Raises DesignError with what would do.
    """
    refuse_more_levels(factors, "fractional-factorial")
    k, wanted = len(factors), design.resolution
    if k < 3:
        raise DesignError(
            f"design: {k} factor{'s' if k > 1 else ''} cannot be fractioned; full-factorial takes {2**k} runs",
            ("design", "kind"),
        )
    choices = available(k, design.foldover)
    if not choices:
        if design.foldover and available(k):
            raise DesignError(
                f"design: a foldover of {k} factors would only repeat the same runs; set foldover to false, and "
                "replicates to more",
                ("design", "foldover"),
            )
        raise DesignError(
            f"design: {k} factors are more than a fractional-factorial design here can hold; plackett-burman can",
            ("design", "kind"),
        )
    best = [choice for choice in choices if (choice.resolution or k + 1) >= wanted]
    if design.runs is not None:
        sized = [choice for choice in choices if choice.runs == design.runs]
        if not sized:
            sizes = ", ".join(str(choice.runs) for choice in choices)
            raise DesignError(
                f"design: no fraction of {k} factors has {design.runs} runs; there are {sizes}", ("design", "runs")
            )
        if sized[0] not in best:
            raise DesignError(
                f"design: {design.runs} runs of {k} factors reach resolution {_roman(sized[0])} at most, not "
                f"{ROMAN[wanted]}; {_what_would_do(k, wanted, best, choices)}",
                ("design", "runs"),
            )
        return sized[0]
    if not best:
        raise DesignError(
            f"design: no fraction of {k} factors in up to {1 << LARGEST_Q} runs has resolution {ROMAN[wanted]}; "
            f"{_what_would_do(k, wanted, best, choices)}",
            ("design", "resolution"),
        )
    return best[0]


def _roman(choice: Choice) -> str:
    reached = choice.resolution
    return "full" if reached is None else ROMAN[reached] if reached < len(ROMAN) else str(reached)


def _what_would_do(k: int, wanted: int, best: list[Choice], choices: list[Choice]) -> str:
    if best:
        return f"resolution {ROMAN[wanted]} takes {best[0].runs} runs"
    highest = max(choices, key=lambda choice: (choice.resolution or k + 1, -choice.runs))
    text = f"{highest.runs} runs reach {_roman(highest)}"
    if 2**k <= 1 << LARGEST_Q:
        return f"{text}, and full-factorial takes {2**k}"
    return f"{text}, and d-optimal with `model: interactions` takes about {2 + k + k * (k - 1) // 2}"


def matrix(choice: Choice) -> Ints:
    """(runs, factors) of +-1; -1 is the baseline, and the first run is the baseline of every factor."""
    coded = -signs(choice.q)[:, list(choice.columns)]
    return np.vstack([coded, -coded]) if choice.foldover else coded


def count(factors: Sequence[Factor], design: Design) -> int:
    return choose(factors, design).runs


def treatments(factors: Sequence[Factor], design: Design) -> tuple[Treatment, ...]:
    """The runs, the baseline first."""
    return two_level_treatments(factors, matrix(choose(factors, design)))


def notes(factors: Sequence[Factor], design: Design) -> tuple[str, ...]:
    choice = choose(factors, design)
    k, reached = len(factors), choice.resolution
    p = k - (choice.runs.bit_length() - 1)
    meaning = {
        3: "main effects are aliased with two-factor interactions",
        4: "main effects are free of two-factor interactions, which are aliased with each other",
    }.get(reached or 5, "main effects and two-factor interactions are free of each other")
    named = f"of resolution {_roman(choice)}" if reached else "with every combination once"
    folded = f" (a fraction of {1 << choice.q} runs folded over)" if choice.foldover else ""
    return (f"A 2^({k}-{p}) fraction {named} in {choice.runs} runs{folded}: {meaning}.",)


KIND = DesignKind(
    "fractional-factorial",
    treatments,
    count,
    notes,
    screening=True,
    options=frozenset({"resolution", "foldover", "runs"}),
)
