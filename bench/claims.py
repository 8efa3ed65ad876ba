"""Two takers and 10,000 blocks of one trial: every block is taken once, and each trial runs once.

    python bench/claims.py [BLOCKS] [TAKERS]

Prints what each taker got and how long it took; ends with code 1 where a block was given twice or never.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

from leadline.design import make_plan
from leadline.lab.store import Store
from leadline.model.design import Design
from leadline.model.plan import Factor, Plan, PlannedTrial
from leadline.model.study import Study

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


def main(blocks: int = 10_000, takers: int = 2) -> int:
    with tempfile.TemporaryDirectory() as folder:
        lab = Path(folder) / "lab"
        study = study_of(Store(lab), blocks)
        begun = time.monotonic()
        with multiprocessing.get_context("spawn").Pool(takers) as pool:
            got = pool.starmap(take_all, [(lab, study, blocks, f"taker {number}") for number in range(takers)])
        seconds = time.monotonic() - begun
        attempts = [trial.attempt for trial in Store(lab).load(study).trials]
    taken = sorted(block for one in got for block in one)
    print(f"{blocks} blocks, taken by {' and '.join(str(len(one)) for one in got)}, in {seconds:.0f} s")
    good = taken == list(range(blocks)) and attempts == [1] * blocks
    print("each was given once and ran once" if good else f"given: {len(taken)}, different: {len(set(taken))}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
