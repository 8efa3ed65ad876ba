"""How strictly each proposal of a session is judged, so that the whole session keeps anything wrong in 5 of 100.

Online fallback (Tian and Ramdas, Statistical Methods in Medical Research 30, 2021, 976-993): a proposal has a share of
the error rate by its number, and that of the one before it where that one was shown to be better. The first eight
have 0.1175 each, the j-th after them 0.06 / (j (j + 1)). The rate of a proposal is settled before its first trial and
its trials are its own, so the bound holds however proposals are chosen, repeated or stopped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from leadline.model import distributions

RATE = 0.05  # share of sessions that may keep anything that is not better
POWER = 0.8
_MOST = 1_000  # blocks, as of any study
_EQUAL, _THEIRS = 8, 0.94  # so many first proposals have equal parts of this share


def rate_of(shown: Sequence[bool]) -> float:
    """One-sided error rate of the next proposal. ``shown``: of each before it, whether it was shown to be better."""
    carried = 0.0
    for number, better in enumerate([*shown, False], 1):
        rate = RATE * _share(number) + carried
        carried = rate if better else 0.0
    return rate


def _share(number: int) -> float:
    after = number - _EQUAL
    return _THEIRS / _EQUAL if after <= 0 else (1 - _THEIRS) / (after * (after + 1))


def blocks_at(rate: float, alone: int) -> int:
    """Blocks that find at ``rate`` what ``alone`` blocks find in one comparison alone, judged on both sides."""

    def needed(alpha: float) -> float:
        return float(distributions.norm.isf(alpha) + distributions.norm.ppf(POWER)) ** 2

    return min(_MOST, math.ceil(alone * needed(rate) / needed(RATE / 2)))
