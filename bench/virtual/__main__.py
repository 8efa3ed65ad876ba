"""Virtual time, by itself and beside real time: each benchmark prints a table.

`agree`: rank correlation of effects in both times. `cost`: trials per minute of each kind of host. `determinism`: the
same trials again and again; it fails (exit code 1) where one digit differs. `planted`: changes of half a percent that
are known, looked for in both times, one guest at a time.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

from bench.virtual import agree, cost, determinism, planted
from bench.virtual.service import Bench
from leadline.model.errors import LeadlineError

NAMES = ("agree", "cost", "determinism", "planted")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.virtual", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--kernel", default="6.1-cloud")
    parser.add_argument("--worlds", type=int, default=5, help="of planted: seeds, and pairs of trials in real time")
    parser.add_argument("--seeds", type=int, default=3, help="of agree and determinism")
    parser.add_argument("--trials", type=int, default=5, help="of agree: in real time; of cost: of each kind")
    parser.add_argument("--runs", type=int, default=5, help="of determinism: how often each trial is repeated")
    parser.add_argument("--longer", type=int, default=20, help="of planted: times the requests in longer real trials")
    given = parser.parse_args()
    print(f"python -m bench.virtual {shlex.join(sys.argv[1:])}\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="virtual-") as name:
        try:
            bench = Bench(Path(name), given.kernel, [agree.PROGRAM] if given.name == "agree" else [])
            if given.name == "determinism":
                same, text = determinism.run(bench, given.seeds, given.runs)
                print(text)
                return 0 if same else 1
            if given.name == "agree":
                print(agree.run(bench, given.seeds, given.trials))
            elif given.name == "cost":
                print(cost.run(bench, given.trials))
            else:
                print(planted.run(bench, given.worlds, given.longer))
        except LeadlineError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
