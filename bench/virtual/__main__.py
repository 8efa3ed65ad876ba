"""Virtual time beside real time: each comparison prints a table. One guest runs at a time."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

from bench.virtual import planted
from bench.virtual.service import Bench
from leadline.model.errors import LeadlineError

NAMES = ("planted",)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.virtual", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--kernel", default="6.1-cloud")
    parser.add_argument("--worlds", type=int, default=5, help="seeds, and pairs of trials in real time")
    parser.add_argument("--longer", type=int, default=20, help="times the requests in longer real trials")
    given = parser.parse_args()
    print(f"python -m bench.virtual {shlex.join(sys.argv[1:])}\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="virtual-") as name:
        try:
            bench = Bench(Path(name), given.kernel)
            print(planted.run(bench, given.worlds, given.longer))
        except LeadlineError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
