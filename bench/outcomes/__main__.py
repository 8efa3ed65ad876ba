"""``python -m bench.outcomes [FROZEN [MIXED]]``: so many loads of a frozen server, and of random mixes of outcomes."""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from bench.outcomes.loads import Freeze, frozen, mixed
from bench.outcomes.server import serving

_AT_ONCE = 4


def freezes() -> list[Freeze]:
    """Every second of a load of three, for one second, five, for good."""
    return [Freeze(second, seconds) for second, seconds in product(range(3), (1.0, 5.0, None))]


def _frozen(directory: Path, number: int) -> list[str]:
    freeze = freezes()[number % len(freezes())]
    with serving() as server:
        return frozen(directory / f"frozen-{number}", server, freeze, number)


def _mixed(directory: Path, number: int) -> list[str]:
    with serving() as server:
        return mixed(directory / f"mixed-{number}", server, number)


def main() -> int:
    counts = [int(word) for word in sys.argv[1:]] or [200, 200]
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(_AT_ONCE) as pool:
        jobs = [
            (kind, number) for kind, count in zip((_frozen, _mixed), counts, strict=False) for number in range(count)
        ]
        wrong = [line for lines in pool.map(lambda job: job[0](Path(place), job[1]), jobs) for line in lines]
    print(f"{len(jobs)} loads, {len(wrong)} figures wrong", *wrong[:50], sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
