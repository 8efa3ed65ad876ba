"""What two-level designs refuse, and the words they share."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.design.errors import DesignError
from leadline.model.plan import Factor


def refuse_more_levels(factors: Sequence[Factor], kind: str) -> None:
    """Raises DesignError when a factor has more than two levels, with the design that would do."""
    larger = [factor for factor in factors if len(factor.levels) > 2]
    if not larger:
        return
    named = ", ".join(f"{factor.name} ({len(factor.levels)})" for factor in larger[:5])
    more = f" and {len(larger) - 5} more" if len(larger) > 5 else ""
    if all(len(factor.levels) == 3 for factor in factors):
        other = "definitive-screening takes three levels of every factor"
    else:
        other = "d-optimal takes any mixture of level counts"
    raise DesignError(
        f"design: {kind} takes two levels of every factor, but more are given for {named}{more}; {other}, "
        "or name two levels",
        ("design", "kind"),
    )
