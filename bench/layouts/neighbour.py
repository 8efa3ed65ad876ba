"""A busy neighbour: one process that computes and rests in turns of exponential length, mean 8 s each.

    python -m bench.layouts.neighbour SEED

It ends when its standard input does, so that it outlives whoever started it by nothing.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

MEAN = 8.0  # seconds of a turn


@contextmanager
def neighbour(seed: int) -> Iterator[None]:
    """One beside what is done inside; ended however this ends, ``kill -9`` included."""
    command = [sys.executable, "-m", "bench.layouts.neighbour", str(seed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            yield
        finally:
            process.kill()


def main(seed: int) -> None:
    def end_with_input() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=end_with_input, daemon=True).start()
    chance = random.Random(seed)
    while True:
        until = time.monotonic() + chance.expovariate(1 / MEAN)
        while time.monotonic() < until:
            pass
        time.sleep(chance.expovariate(1 / MEAN))


if __name__ == "__main__":
    main(int(sys.argv[1]))
