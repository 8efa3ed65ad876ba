"""Randomness of plans: SHA-256 of the seed and a purpose, so a seed gives the same plan on every version of Python."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from leadline.model.plan import Treatment


def derived(seed: int, *purpose: object) -> bytes:
    """32 bytes that depend on the seed and the purpose only."""
    return hashlib.sha256("/".join(str(part) for part in (seed, *purpose)).encode()).digest()


def block_seed(seed: int, block: int) -> int:
    """Seed of every trial of one block, below 2**48.

    All trials of a block share it: common random numbers. Two treatments of a block then get the same users and the
    same requests, and what that sample of work does to the response goes into the block, not into the comparison.
    """
    return int.from_bytes(derived(seed, "trials of block", block)[:6], "big")


def shuffled(treatments: Sequence[Treatment], seed: int, *purpose: object) -> list[Treatment]:
    """A random order: sorted by a hash of seed, purpose and treatment; repeats of a treatment are spread, too."""
    counts: Counter[str] = Counter()
    places = []
    for treatment in treatments:
        repeat = counts[treatment.key]
        counts[treatment.key] = repeat + 1
        places.append((derived(seed, *purpose, treatment.key, *([repeat] if repeat else [])), treatment))
    return [treatment for _, treatment in sorted(places, key=lambda place: place[0])]
