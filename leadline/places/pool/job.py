"""A job: one block of a study, run on a host of a pool by the ordinary life cycle, handed in as a bundle.

``job.json`` says what is to be run. In its directory the job leaves ``bundle`` (``leadline.store.bundle``) and, last of
all, ``end.json``.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml.comments import CommentedMap

import leadline
from leadline.checks.files.study import StudyFile
from leadline.checks.files.yamltree import Places
from leadline.checks.plan import Planned
from leadline.design.make import plan_from_json, plan_to_json
from leadline.host import received
from leadline.host.lease import HostBusyError
from leadline.host.local import LocalHost
from leadline.host.paths import state_dir
from leadline.model.errors import LeadlineError, RestoreError, TrialFailure, UsageError, quoted, shortened, wanted
from leadline.model.plan import Plan
from leadline.model.received import ReceivedError, json_as
from leadline.model.study import Study
from leadline.places.testbed import RunOptions, Testbed
from leadline.store.bundle import write_bundle
from leadline.store.claims import LostClaimError, in_use, is_used
from leadline.trial.interruption import Interruption
from leadline.trial.run import GO_ON, Part

_HOST = re.compile(r"[\w.+@:-]{1,800}")
BUNDLE, END, FACTS = "bundle", "end.json", "host.json"
_WORK = "pool"  # of the state of a host
_MOST_END, _LONGEST = 1 << 20, 800  # bytes of an ending, characters of what it says


@dataclass(frozen=True)
class PoolJob:
    """``study``: the effective one, as JSON; ``text``: its file; ``token``: of the run of the block; ``repeats``: how
    many trials may be measured again; ``kernels``: releases that the study asks its pool for.
    """

    study: dict[str, Any]
    text: str
    plan: str
    block: int
    positions: Sequence[int]
    token: str
    repeats: int = 0
    disposable: bool = False
    kernels: Sequence[str] = ()
    leadline: str = leadline.__version__

    @property
    def file(self) -> StudyFile:
        """Raises UsageError."""
        try:
            study = Study.model_validate(self.study)
        except ValidationError as error:
            problem = error.errors()[0]
            name = ".".join(map(str, problem["loc"]))
            raise UsageError(
                f"the study of the job is not one that this leadline reads: {name}: {wanted(problem)}"
            ) from None
        return StudyFile(study, self.text, Places(f"{study.study}.yaml", CommentedMap(), {}))


def job_of(
    file: StudyFile,
    plan: Plan,
    block: int,
    positions: Sequence[int],
    token: str,
    repeats: int = 0,
    disposable: bool = False,
    kernels: Sequence[str] = (),
) -> PoolJob:
    """A block of a study's plan, or those of its trials that share a boot."""
    study = file.study.model_dump(mode="json", exclude_unset=True)
    return PoolJob(study, file.text, plan_to_json(plan), block, positions, token, repeats, disposable, list(kernels))


def read_job(text: str) -> PoolJob:
    """Raises UsageError for what is no job, or one of another version of leadline."""
    try:
        job = json_as(PoolJob, text, "the job of a pool")
    except ReceivedError as error:
        raise UsageError(f"no job of a pool: {error}") from None
    if job.leadline != leadline.__version__:
        raise UsageError(f"this host has leadline {leadline.__version__}, the study is run by leadline {job.leadline}")
    return job


class EndKind(StrEnum):
    """How a job ended."""

    READY = "ready"  # it could run: nothing was begun
    DONE = "done"  # its bundle has what was measured, which may be less than all
    REFUSED = "refused"  # this host cannot run the study as it is planned
    BUSY = "busy"  # another leadline uses the host
    NOT_RESTORED = "not restored"  # something that was changed could not be put back


@dataclass(frozen=True)
class Ending:
    """``said``: why it ended so, or before its block's end; ``restored``: what of the host was put back."""

    how: EndKind
    host: str
    said: str = ""
    restored: Sequence[str] = ()


def read_ending(directory: Path) -> Ending | None:
    """None while there is none. Raises ReceivedError."""
    try:
        ending = received.json_file_as(Ending, directory / END, _MOST_END)
    except FileNotFoundError:
        return None
    if not _HOST.fullmatch(ending.host):
        raise ReceivedError(str(directory / END), f"{quoted(ending.host)} is no name of a host")
    reason, restored = shortened(ending.said, _LONGEST), [shortened(line, _LONGEST) for line in ending.restored]
    return replace(ending, said=reason, restored=restored)


def look_at(job: PoolJob, host: str, place_of: Callable[[Path, StudyFile], Testbed]) -> Ending:
    """How a job would fare on this machine now. Nothing is changed, no lab is made."""
    try:
        place = place_of(state_dir() / _WORK / "look", job.file)
        _as_given(place.plan(job.file), plan_from_json(job.plan), host)
        entries_left = 0
        if isinstance(place.host, LocalHost):
            place.host.lease().check()
            entries_left = len(place.host.journal.left())
    except HostBusyError as error:
        return Ending(EndKind.BUSY, host, str(error))
    except LeadlineError as error:
        return Ending(EndKind.REFUSED, host, str(error))
    changes = "1 change" if entries_left == 1 else f"{entries_left} changes"
    return Ending(EndKind.READY, host, f"a job first puts back {changes} of an earlier run" if entries_left else "")


def run_job(job: PoolJob, host: str, place_of: Callable[[Path, StudyFile], Testbed], target: Path) -> Ending:
    """Run a job on this machine, ``host`` in the pool; ``target`` gets its bundle and ending. ``place_of`` makes the
    testbed of a study with its lab at a path.
    """
    work = state_dir() / _WORK
    work.mkdir(parents=True, exist_ok=True)
    for stale in [path for path in work.iterdir() if path.is_dir() and not path.name.startswith(".")]:
        if not is_used(work, f"job-{stale.name}"):
            shutil.rmtree(stale, ignore_errors=True)
    with Interruption() as ended_early, in_use(work, f"job-{job.token}"):
        lab = work / job.token
        try:
            ending = _run(job, host, place_of(lab, job.file), target, ended_early.check)
        except (TrialFailure, LostClaimError):  # it was ended before its first trial, or nobody waits for it
            raise
        except RestoreError as error:
            ending = Ending(EndKind.NOT_RESTORED, host, str(error))
        except HostBusyError as error:
            ending = Ending(EndKind.BUSY, host, str(error))
        except LeadlineError as error:
            ending = Ending(EndKind.REFUSED, host, str(error))
        finally:
            shutil.rmtree(lab, ignore_errors=True)
    part = target / f"{END}.part"
    part.write_text(json.dumps(asdict(ending)), encoding="utf-8")
    part.rename(target / END)
    return ending


def _run(job: PoolJob, host: str, place: Testbed, target: Path, go_on: Callable[[], None]) -> Ending:
    file, given_plan = job.file, plan_from_json(job.plan)
    planned = _as_given(place.plan(file), given_plan, host)
    go_on()
    studies: list[int] = []
    options = RunOptions(fresh=True, opened=studies.append, part=Part(frozenset(job.positions), job.repeats))
    failure: LeadlineError | None = None
    ended = None
    try:
        ended = place.run(file, planned, options)
    except LeadlineError as error:
        if not studies:
            raise
        failure = error
    record = place.store.load(studies[0])
    environment = {"host": host, **record.environment}
    for directory in {trial.directory for trial in record.trials if trial.directory is not None}:
        with suppress(OSError):
            (directory / "logs" / FACTS).write_text(json.dumps(environment), encoding="utf-8")
    if not target.is_dir():  # as good as dead for whoever gave it
        raise LostClaimError(f"the job of block {job.block + 1} was given up meanwhile: nothing of it is stored")
    positions = set(job.positions)
    write_bundle(
        place.store, studies[0], target / BUNDLE, positions=positions, block=job.block, token=job.token, host=host
    )
    if ended is None:
        how = EndKind.NOT_RESTORED if isinstance(failure, RestoreError) else EndKind.DONE
        return Ending(how, host, str(failure))
    return Ending(EndKind.DONE, host, ended.stopped.removesuffix(GO_ON), list(ended.restored))


def _as_given(here: Planned, given: Plan, host: str) -> Planned:
    """The plan that was given, with what this host knows of its knobs. Raises UsageError where it cannot run it."""
    if here.plan.factors != given.factors:
        missing = [factor.name for factor in given.factors if factor not in here.plan.factors]
        why = "; ".join(here.skipped) or f"{', '.join(missing) or 'its factors'} cannot be had as planned"
        raise UsageError(f"{host} cannot run the plan: {why}")
    if here.plan.layout != given.layout:
        raise UsageError(f"{host} cannot run the plan: {here.room or 'it lays its trials out in another way'}")
    return replace(here, plan=given)
