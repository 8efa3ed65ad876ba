"""Labs whose trials leave files: one that all trials have in common, and one of each trial's own."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event

from leadline.design.make import make_plan
from leadline.model.design import Design
from leadline.model.plan import Factor
from leadline.model.study import Study
from leadline.store.claims import Claim
from leadline.store.files import bring, drop_copies, sweep
from leadline.store.lab import Store

CONTENT = b"the same in every trial\n"
TRIALS = 4


def add(store: Store, name: str) -> int:
    """A finished study of four trials, its number."""
    study = Study.model_validate(
        {"study": name, "question": "?", "factors": {"vm.swappiness": [1, 2]}, "responses": ["throughput"]}
    )
    number = store.add_study(
        study, f"study: {name}", make_plan([Factor("vm.swappiness", (1, 2), 1)], Design(replicates=2)), {}, []
    )
    for trial in store.load(number).trials:
        run(store, trial.id, trial.planned.block, name)
    store.claims.release()
    return number


def run(store: Store, trial: int, block: int | Claim, name: str) -> None:
    """A trial with its files."""
    attempt, directory = store.begin_attempt(trial, block)
    (directory / "logs" / "common.log").write_bytes(CONTENT)
    (directory / "raw" / "own.log").write_text(f"trial {trial} of {name} in {store.directory.name}\n")
    store.add_responses(trial, attempt, {"throughput": 100.0 + trial})
    store.add_artefacts(trial, attempt, directory)
    store.finish(trial, attempt)


def run_apart(runners: Sequence[Store], reader: Store, blocks: int = 12) -> int:
    """A study of so many blocks, taken by all runners at once, while a reader fetches, drops its copies and sweeps
    what no trial has. Its number.
    """
    factor = Factor("vm.swappiness", (1, 2), 1)
    study = Study.model_validate({"study": "apart", "question": "?", "factors": {"vm.swappiness": [1, 2]}})
    plan = make_plan([factor], Design(replicates=blocks))
    number = runners[0].add_study(study, "study: apart", plan, {}, [])
    ended = Event()

    def take(store: Store) -> None:
        trials = store.load(number).trials
        for block in range(blocks):
            mine = [trial for trial in trials if trial.planned.block == block]
            claim = store.claims.take(number, block, left=[trial.planned.position for trial in mine])
            if claim is not None:
                for trial in mine:
                    run(store, trial.id, claim, "apart")
                store.claims.end(claim.token)

    def read() -> None:
        while not ended.wait(0.05):
            bring(reader, number)
            drop_copies(reader, [number])
            sweep(reader)

    with ThreadPoolExecutor(len(runners) + 1) as pool:
        reading = pool.submit(read)
        try:
            for each in [pool.submit(take, store) for store in runners]:
                each.result(120)
        finally:
            ended.set()
        reading.result(60)
    return number


def read_back(store: Store, study: int) -> dict[tuple[int, str], bytes]:
    """Files of the study's trials, by position and path."""
    return {
        (trial.planned.position, str(path.relative_to(trial.directory))): path.read_bytes()
        for trial in store.load(study).trials
        if trial.directory is not None
        for path in sorted(trial.directory.rglob("*"))
        if path.is_file()
    }


def contents_in(place: Path) -> set[str]:
    """Digests of what is kept in a directory."""
    return {path.name for path in (place / "sha256").rglob("*") if path.is_file()}


def together(work: Callable[[], object], times: int) -> list[object]:
    begin = Barrier(times)

    def one() -> object:
        begin.wait(30)
        return work()

    with ThreadPoolExecutor(times) as pool:
        return [each.result(60) for each in [pool.submit(one) for _ in range(times)]]
