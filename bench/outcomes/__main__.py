"""``python -m bench.outcomes [FROZEN [MIXED]]``: so many loads of a frozen server, and of random mixes of outcomes.

Prints a line for each load with a wrong figure, or without any, and the sum; ends with code 1 where there is one.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import product
from pathlib import Path

from bench.outcomes.loads import frozen, mixed
from bench.outcomes.server import Freeze, serving

_AT_ONCE = 4


def freezes() -> list[Freeze]:
    """Every second of a load of three, for one second, five, for good."""
    return [Freeze(second, seconds) for second, seconds in product(range(3), (1.0, 5.0, None))]


def _frozen(directory: Path, number: int) -> list[str]:
    return frozen(directory / f"frozen-{number}", freezes()[number % len(freezes())], number)


def _mixed(directory: Path, number: int) -> list[str]:
    with serving() as server:
        return mixed(directory / f"mixed-{number}", server, number)


def main() -> int:
    counts = [int(word) for word in sys.argv[1:]] or [200, 200]
    loads: list[tuple[Callable[[Path, int], list[str]], int]] = [
        (kind, number) for kind, count in zip((_frozen, _mixed), counts, strict=False) for number in range(count)
    ]
    wrong, lost, begun = 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(_AT_ONCE) as pool:
        names = {pool.submit(kind, Path(place), number): f"{kind.__name__[1:]} {number}" for kind, number in loads}
        for ended, load in enumerate(as_completed(names), 1):
            if error := load.exception():
                lost += 1
                lines = [f"no load: {error!r}"]
            else:
                lines = load.result()
                wrong += len(lines)
            for line in lines:
                print(f"{names[load]}: {line}", flush=True)
            if ended % 50 == 0:
                print(f"{ended} of {len(loads)} after {time.monotonic() - begun:.0f} s", flush=True)
    print(f"{len(loads) - lost} loads of {counts} measured, {lost} not; {wrong} figures wrong")
    return 1 if wrong or lost else 0


if __name__ == "__main__":
    sys.exit(main())
