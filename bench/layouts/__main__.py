"""One question by plain trials, switchback and rotation on a real stack, on a quiet machine and beside a neighbour.

    python -m bench.layouts --place DIR [--minutes 7.5] [--studies 6] [--layouts plain,rotation] [--where quiet]
    python -m bench.layouts --place DIR --summary

Costs of known size are planted: CPU time and waiting that are changed live, a statement that needs a restart; a twin
changes nothing. Each study has the same machine time. The kind of study with the fewest so far is next, so that they
alternate; studies are kept in DIR, and a bench can be ended and gone on with. The neighbour is busy half of the time.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import leadline
from bench.layouts.neighbour import neighbour
from bench.layouts.summary import CPU, STATEMENTS, TWIN, WAIT, Case, components_table, effects_table, widths_table

WHERE = ("beside", "quiet")
QUESTION: Mapping[str, Any] = {
    "question": "Which of the planted costs are found, and what is found where nothing differs?",
    "stack": {"app": "brokerage", "mode": "direct", "server": "tomcat", "database": "postgres"},
    "pseudo_factors": {TWIN: ["one", "other"]},
    "pseudo_apply_costs": {TWIN: "restart"},
    "settings": {"jvm.heap": "256m"},
    "responses": ["throughput", "p50", "steady_cpu_per_transaction"],
    "covariates": ["others_cpu"],
}
COSTS = {CPU: 25, WAIT: 2000, STATEMENTS: 1}
LOAD = {"users": 40, "variables": {"think": "60ms"}, "ramp_down": "1s"}
SLOTS = {"slot": "4s", "wash_out": "1s"}
LAYOUTS: Mapping[str, dict[str, Any]] = {
    "plain": {"workload": {**LOAD, "ramp_up": "6s", "steady": "12s"}, "design": {"sentinels": None}},
    "rotation": {
        "workload": {**LOAD, "ramp_up": "5s", "steady": "12s"},
        "design": {"rotation": {**SLOTS, "instances": 2}},
    },
    "live": {  # a rotation of alike instances: everything changes in slots, the twin too
        "pseudo_apply_costs": {},
        "workload": {**LOAD, "ramp_up": "15s", "steady": "80s"},
        "design": {"kind": "full-factorial", "rotation": {"slot": "5s", "wash_out": "1s", "instances": 4}},
    },
    "switchback": {
        "workload": {**LOAD, "ramp_up": "8s", "steady": "24s"},
        "design": {"sentinels": None, "switchback": SLOTS},
    },
}
MOST = {"live": 4}  # replicates; of others 30: more than the budget lets begin


def study(layout: str, where: str, number: int, minutes: float, costs: Sequence[str]) -> leadline.Study:
    keys = {"study": f"{layout}-{where}-{number}", **QUESTION, **LAYOUTS[layout], "budget": f"{60 * minutes:g}s"}
    keys["factors"] = {cost: [0, COSTS[cost]] for cost in costs}
    keys["design"] = {**LAYOUTS[layout]["design"], "replicates": MOST.get(layout, 30), "seed": number}
    return leadline.Study.of(keys)


def cases(place: Path) -> list[Case]:
    """The studies so far, the oldest first."""
    if not (place / "lab.sqlite").exists():
        return []
    records = sorted(leadline.load_lab(place).studies(), key=lambda one: one.record.id)
    return [Case.of(one.record, one.analysis) for one in records]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.layouts", description=__doc__.splitlines()[0])
    parser.add_argument("--place", type=Path, required=True, help="lab of the studies, gone on with")
    parser.add_argument("--minutes", type=float, default=7.5, help="of machine time for each study")
    parser.add_argument("--studies", type=int, default=6, help="how many to run now")
    parser.add_argument("--layouts", default="plain,rotation,switchback", help="of them, separated by commas")
    parser.add_argument("--where", default=",".join(WHERE), help="beside (a neighbour), quiet, or both")
    parser.add_argument("--costs", default=",".join(COSTS), help="planted ones, separated by commas")
    parser.add_argument("--summary", action="store_true", help="tables of the studies so far")
    options = parser.parse_args()
    costs = options.costs.split(",")
    kinds = [(layout, where) for where in options.where.split(",") for layout in options.layouts.split(",")]
    if unknown := {*costs, *(name for kind in kinds for name in kind)} - {*LAYOUTS, *WHERE, *COSTS}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join((*LAYOUTS, *WHERE, *COSTS))}")
    if "live" in options.layouts and STATEMENTS in costs and not options.summary:
        parser.error(f"the layout live cannot change {STATEMENTS} in slots: name other --costs or --layouts")
    if not options.summary:
        done = Counter((case.layout, case.where) for case in cases(options.place))
        for _ in range(options.studies):
            layout, where = min(kinds, key=lambda kind: done[kind])
            done[layout, where] += 1
            number = done[layout, where]
            with neighbour(number) if where == "beside" else nullcontext():
                run = leadline.run(study(layout, where, number, options.minutes, costs), options.place)
            print(f"{layout} {where} {number}: {run.stopped or 'complete'}", file=sys.stderr, flush=True)
    found = cases(options.place)
    for table in (widths_table, effects_table, components_table):
        print("\n".join(table(found)), end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
