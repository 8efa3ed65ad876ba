"""Runs the comparisons whose results are in the docs: `make bench`, or `python -m bench NAME ...` for some of them."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = {
    "driver": ["driver/run.py"],
    "observers": ["observers/cost.py"],
    "coverage": ["statistics/coverage.py", "100"],
    "claims": ["claims", "--blocks", "2000"],  # a module of this package
    "outcomes": ["outcomes", "200", "200"],
    "gc": ["gc/run.py", "--mb", "10", "--rounds", "3", "--only", "25 "],
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCRIPTS)}; all when none is given")
    names = parser.parse_args().names or list(SCRIPTS)
    if unknown := sorted(set(names) - set(SCRIPTS)):
        parser.error(f"no comparison {', '.join(unknown)}; there are {', '.join(SCRIPTS)}")
    failed = []
    for name in names:
        script, *options = SCRIPTS[name]
        program = [f"bench/{script}"] if script.endswith(".py") else ["-m", f"bench.{script}"]
        print(f"\n# {name}: python {' '.join([*program, *options])}\n", flush=True)
        if subprocess.run([sys.executable, *program, *options], cwd=HERE.parent, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
