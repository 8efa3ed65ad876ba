"""Fuzz the readers of leadline: `python -m bench.fuzz study --minutes 60`, all of them without a name."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from bench.fuzz.run import fuzz, keep
from bench.fuzz.targets import targets


def main() -> int:
    known = targets()
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="READER", help=f"of {', '.join(known)}; all when none is given")
    parser.add_argument("--minutes", type=float, help="for each reader")
    parser.add_argument("--inputs", type=int, help="for each reader (10,000 without --minutes)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, help="seconds of CPU for one input")
    parser.add_argument("--out", type=Path, default=Path("fuzz-faults"), help="where inputs of faults are kept")
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(known)):
        parser.error(f"no reader {', '.join(unknown)}; there are {', '.join(known)}")
    count = given.inputs or (None if given.minutes else 10_000)
    faulty = False
    for name in given.names or list(known):
        until = time.monotonic() + 60 * given.minutes if given.minutes else None
        target = known[name]()
        found = fuzz(target, count=count, until=until, seed=given.seed, limit=given.limit or target.seconds)
        keep(found, given.out, name)
        told = ", ".join(f"{number:,} {what}" for what, number in sorted(found.counts.items()))
        print(f"{name}: {sum(found.counts.values()):,} inputs: {told}; slowest {found.slowest:.2f} s", flush=True)
        for where in found.faults:
            print(f"  {where}", flush=True)
        faulty = faulty or bool(found.faults)
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main())
