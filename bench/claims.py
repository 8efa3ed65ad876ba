"""Processes that take blocks of one trial at once, on SQLite and on PostgreSQL: each block is given and run once.

    python -m bench.claims [--blocks 10000] [--takers 2 4] [--stores sqlite postgresql]

Prints a row for each store and number of takers; ends with code 1 where a block was given twice or never.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

from bench.teamserver import STORES, labs
from leadline.design.make import make_plan
from leadline.model.design import Design
from leadline.model.plan import Factor, Plan, PlannedTrial
from leadline.model.study import Study
from leadline.store.lab import Store

STUDY = {"study": "claims", "question": "Who gets it?", "factors": {"vm.swappiness": [1, 2]}}


def planned(blocks: int) -> Plan:
    """So many blocks of one trial."""
    plan = make_plan([Factor("vm.swappiness", (1, 2), 1)], Design(replicates=2))
    first = plan.trials[0]
    trials = tuple(
        PlannedTrial(number, number, number, first.role, first.treatment, number) for number in range(blocks)
    )
    return Plan(plan.kind, plan.seed, plan.factors, trials)


def study_of(store: Store, blocks: int) -> int:
    """A study of so many blocks in the lab."""
    return store.add_study(Study.model_validate(STUDY), "study: claims", planned(blocks), {}, [])


def take_all(lab: Path, study: int, blocks: int, owner: str) -> list[int]:
    """Take blocks in the plan's order and run the trial of each; what was got."""
    store, got = Store(lab, owner=owner), []
    trials = [trial.id for trial in store.load(study).trials]
    for block in range(blocks):
        claim = store.claims.take(study, block, left=[block])
        if claim is not None:
            got.append(block)
            attempt, _ = store.begin_attempt(trials[block], claim)
            store.finish(trials[block], attempt)
            store.claims.end(claim.token)
    return got


def compete(lab: Path, blocks: int, takers: int) -> tuple[float, int, int, bool]:
    """Seconds, the fewest and the most blocks that one got, whether each was given once and ran once."""
    study = study_of(Store(lab), blocks)
    owners = [(lab, study, blocks, f"taker {number}") for number in range(takers)]
    with multiprocessing.get_context("spawn").Pool(takers, initializer=Store, initargs=(lab,)) as pool:
        begun = time.monotonic()
        got = pool.starmap(take_all, owners, chunksize=1)
        seconds = time.monotonic() - begun
    attempts = [trial.attempt for trial in Store(lab).load(study).trials]
    taken = sorted(block for one in got for block in one)
    counts = [len(one) for one in got]
    return seconds, min(counts), max(counts), taken == list(range(blocks)) and attempts == [1] * blocks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=10_000)
    parser.add_argument("--takers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--stores", nargs="+", choices=STORES, default=STORES)
    asked = parser.parse_args()
    print("| store | takers | blocks | seconds | blocks/s | fewest, most of one | each given and run once |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, labs(Path(folder), asked.stores) as new_lab:
        for store in asked.stores:
            for takers in asked.takers:
                seconds, fewest, most, good = compete(new_lab(store, f"takers_{takers}"), asked.blocks, takers)
                row = [store, takers, f"{asked.blocks:,}", f"{seconds:.0f}", f"{asked.blocks / seconds:.0f}"]
                row += [f"{fewest:,}, {most:,}", "yes" if good else "NO"]
                print(f"| {' | '.join(map(str, row))} |", flush=True)
                wrong += not good
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
