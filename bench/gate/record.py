"""Records slots of a gate's study whose two sides are the same, beside a busy neighbour.

python -m bench.gate.record DIR BLOCKS
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import leadline
from bench.layouts.neighbour import neighbour
from leadline.checks.files.stack import read_stack
from leadline.experiments.gate import of_stack_files, server_study

STACK = 'stack: shop\ncommand: [java, -Xmx64m, -cp, "CLASSES", Shop, "${port}"]\nready: { path: /items/1 }\n'
SCENARIO = """\
scenario: shop
mix: { item: 1 }
transactions: { item: [ { get: /items/1 } ] }
pause: { kind: think, shape: exponential, mean: 20ms }
"""


def study(place: Path, blocks: int) -> leadline.Study:
    """A gate of two stack files that are the same, with short slots, that nothing ends early."""
    shutil.copy(Path(__file__).with_name("Shop.java"), place)
    subprocess.run(["javac", "-d", str(place), str(place / "Shop.java")], check=True)
    (place / "shop.scenario.yaml").write_text(SCENARIO)
    for side in ("base", "head"):
        (place / side).mkdir(exist_ok=True)
        (place / side / "shop.stack.yaml").write_text(STACK.replace("CLASSES", str(place)))
    own = of_stack_files(*(read_stack(place / side / "shop.stack.yaml") for side in ("base", "head")))
    keys = server_study(own, place / "shop.scenario.yaml", ["cpu>3%"], 900.0, 1)
    del keys["fail"], keys["budget"]
    keys["workload"] |= {"ramp_up": "3s", "steady": "8s"}
    keys["design"] = {"replicates": blocks, "seed": 1, "sentinels": None, "rotation": {"otherwise": "one-by-one"}}
    return leadline.Study.of({**keys, "study": "null"})


def main() -> None:
    place, blocks = Path(sys.argv[1]).absolute(), int(sys.argv[-1])
    place.mkdir(parents=True, exist_ok=True)
    with neighbour(3):
        run = leadline.run(study(place, blocks), place / "lab", fresh=True)
    print(run.stopped or "complete", run.page)


if __name__ == "__main__":
    main()
