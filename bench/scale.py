"""Many hosts, 100 simulated trials each: what their bundles, the store and an interim analysis take.

    python -m bench.scale [1000 10000 100000 1000000] [--stores sqlite postgresql] [--seconds 600]

A study is the largest plan that the planner makes: 100 blocks of 100 trials. A host takes a block, and its bundle of
rows, without files, is taken in as that of a real host. Ends after ``--seconds`` with what was reached until then.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from bench.teamserver import STORES, labs
from leadline.design import make_plan, plan_to_json
from leadline.model.plan import Factor, Plan
from leadline.model.record import TrialState
from leadline.model.result import Observation
from leadline.model.study import Study
from leadline.places.simulated import Truth, simulate_observations
from leadline.planning.looks import schedule
from leadline.store.bundle import MANIFEST, ROWS, Contents, Manifest, digest_of, of_attempts, plan_digest
from leadline.store.claims import Claim
from leadline.store.files import disk_use
from leadline.store.intake import take_block
from leadline.store.lab import Store, study_key
from leadline.trial.looks import Looking

OF_A_HOST, HOSTS = 100, 100  # trials of a host; hosts of a study
STEPS = ("reset", "apply", "start", "verify", "warm", "load", "collect", "audit", "stop")
FACTORS = [Factor(f"pseudo{n}", tuple("abcd"), "a", pseudo=True) for n in range(1, 34)]  # 33 x 3 levels and a baseline
STUDY = {
    "study": "scale",
    "question": "How does it grow?",
    "workload": {"users": 10, "ramp_up": 10, "steady": 600},
    "pseudo_factors": {factor.name: list("abcd") for factor in FACTORS},
    "responses": ["throughput", "p50", "p90", "p99", "cpu_per_transaction"],
}


@dataclass
class Taken:
    """``seconds``: of taking bundles in alone; ``cpu``: those of this process, without the server's."""

    trials: int = 0
    bundles: int = 0
    seconds: float = 0.0
    cpu: float = 0.0


def studied(hosts: int) -> tuple[Study, Plan]:
    """A study of so many blocks, by the planner."""
    design = {"kind": "one-at-a-time", "replicates": max(2, hosts), "sentinels": None, "looks": 2}
    study = Study.model_validate({**STUDY, "design": design})
    return study, make_plan(FACTORS, study.design.model_copy(update={"looks": 1}))


def rows_of(observation: Observation) -> dict[str, list[dict[str, Any]]]:
    """What a trial leaves in each table of attempts."""
    key, began = {"position": observation.position, "attempt": 1}, observation.started
    done = {"failure": None, "failure_message": "", "evidence": ""}
    level = {"phase": "before", "wanted": '"a"', "found": '"a"', "matches": True}
    rows: dict[str, list[dict[str, Any]]] = {table.name: [] for table in of_attempts()}
    rows["attempts"] = [{**key, "started": began, "ended": began + 620, **done, "token": None}]
    rows["steps"] = [{**key, "name": name, "started": began, "ended": began + 1, "detail": ""} for name in STEPS]
    rows["readings"] = [{**key, "knob": f"pseudo{n}", **level} for n in range(1, 4)]
    rows["audits"] = [{**key, "name": f"audit {n}", "passed": True, "detail": "as it should be"} for n in range(3)]
    rows["responses"] = [{**key, "name": name, "value": value} for name, value in observation.responses.items()]
    rows["machine_use"] = [{**key, "slot": -1, "name": "others", "value": 0.01}]
    return rows


def write_bundle(directory: Path, study: Study, plan: str, claim: Claim, seen: Sequence[Observation]) -> None:
    """As ``leadline.store.bundle`` writes that of a block, from what was simulated."""
    told = {"failure": None, "failure_message": "", "evidence": "", "steady": None, "phases": None}
    trials = [
        {"position": one.position, "state": TrialState.DONE, "attempt": 1, "started": one.started}
        | {"ended": one.started + 620, **told}
        for one in seen
    ]
    tables: dict[str, list[dict[str, Any]]] = {}
    for one in seen:
        for name, rows in rows_of(one).items():
            tables.setdefault(name, []).extend(rows)
    directory.mkdir(parents=True)
    (directory / ROWS).write_text(json.dumps(asdict(Contents({"name": study.study}, trials, tables, []))))
    files = {ROWS: digest_of(directory / ROWS)}
    told_of = (study.study, study_key(study), plan_digest(plan), files, claim.block, claim.token, claim.host)
    (directory / MANIFEST).write_text(json.dumps(asdict(Manifest(*told_of))))


def fill(store: Store, trials: int, scratch: Path, deadline: float) -> Taken:
    """So many trials from hosts that take block after block, or fewer at the deadline (``time.monotonic``)."""
    taken = Taken()
    while taken.trials < trials and time.monotonic() < deadline:
        study, plan = studied(min(HOSTS, (trials - taken.trials) // OF_A_HOST))
        number, written = store.add_study(study, "study: scale", plan, {}, []), plan_to_json(plan)
        seen = simulate_observations(plan, Truth(seed=number), study.workload)
        for block in range(1 + max(trial.block for trial in plan.trials)):
            if time.monotonic() > deadline:
                break
            claim = store.claims.take(number, block, host=f"host {block}")
            assert claim is not None
            mine = [one for one in seen if one.block == block]
            write_bundle(scratch / "bundle", study, written, claim, mine)
            since, cpu = time.perf_counter(), time.process_time()
            assert take_block(store, scratch / "bundle") == len(mine)
            taken.seconds, taken.cpu = (
                taken.seconds + time.perf_counter() - since,
                taken.cpu + time.process_time() - cpu,
            )
            taken.trials, taken.bundles = taken.trials + len(mine), taken.bundles + 1
            shutil.rmtree(scratch / "bundle")
    return taken


def timed(work: Callable[[], object]) -> str:
    """Seconds, and those of the CPU."""
    begun, cpu = time.perf_counter(), time.process_time()
    work()
    return f"{time.perf_counter() - begun:.1f} ({time.process_time() - cpu:.1f})"


def measured(store: Store, taken: Taken, kind: str) -> str:
    """A row of the table."""
    with store.transaction() as connection:
        rows = sum(connection.execute(select(func.count()).select_from(table)).scalar_one() for table in of_attempts())
    files = store.directory.glob("lab.sqlite*")
    size = store.server_bytes() if store.address else disk_use(*files)
    newest = store.ids()[0]
    load = timed(lambda: store.load(newest))
    record = store.load(newest)
    first, _ = schedule(record.plan, 2)
    after = next(trial for trial in record.trials if trial.planned.block == first)
    looking = Looking(store, newest, record.plan, 2, "throughput", lambda _text: None)
    interim = timed(lambda: looking.before(after))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        f"| {kind} | {taken.trials:,} | {taken.bundles:,} | {taken.seconds:.0f} ({taken.cpu:.0f}) |"
        f" {taken.bundles / taken.seconds:.1f} |"
        f" {taken.trials / taken.seconds:,.0f} | {rows:,} | {size / 1e6:,.0f} | {load} | {interim} |"
        f" {memory:,.0f} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trials", type=int, nargs="*", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--stores", nargs="+", choices=STORES, default=STORES)
    parser.add_argument("--seconds", type=float, default=600.0)
    asked = parser.parse_args()
    print(
        "| store | trials | bundles | taken in, s (CPU) | bundles/s | trials/s | rows | MB on disk |"
        " load a study, s (CPU) | interim analysis, s (CPU) | memory, MiB |\n| --- |" + " ---: |" * 10
    )
    deadline = time.monotonic() + asked.seconds
    with tempfile.TemporaryDirectory() as folder, labs(Path(folder), asked.stores) as new_lab:
        for trials in asked.trials:
            for kind in asked.stores:
                store = Store(new_lab(kind, f"trials_{trials}"))
                taken = fill(store, trials, Path(folder), deadline)
                if not taken.bundles:
                    print(f"{asked.seconds:.0f} s are over before {trials:,} trials on {kind}", file=sys.stderr)
                    return 0
                print(measured(store, taken, kind), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
