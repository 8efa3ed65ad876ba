"""A job: one block of a study, run on a host of a pool by the ordinary life cycle, handed in as a bundle.

``job.json`` says what is to be run. In its directory the job leaves ``bundle`` (``leadline.store.bundle``) and, last of
all, ``end.json``. A gang is several hosts at the same time for one job.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml.comments import CommentedMap

import leadline
from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned
from leadline.design.make import plan_from_json, plan_to_json
from leadline.host import received
from leadline.host.lease import HostBusyError
from leadline.host.local import LocalHost
from leadline.host.paths import state_dir
from leadline.model.errors import LeadlineError, RestoreError, TrialFailure, UsageError, quoted, shortened, wanted
from leadline.model.hosts import ssh_host
from leadline.model.plan import Plan
from leadline.model.received import ReceivedError, json_as
from leadline.model.study import Study
from leadline.model.yamltext import Places
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


_BETWEEN = "+"  # in a gang's name: no host's name has it


def _together(study: Study) -> dict[str, list[str]]:
    """What each host that the study names runs, in the order of the gang's hosts after the first."""
    roles_by_host: dict[str, list[str]] = {}
    for driver in study.drivers:
        if driver.destination:
            roles_by_host.setdefault(_machine(driver.destination), []).append(f"driver {driver.name}")
    for role, host in study.stack.ssh_hosts.items():
        roles_by_host.setdefault(_machine(host.name), []).append(role)
    return roles_by_host


def _machine(name: str) -> str:
    """The host of ``user@host:port``, with its port."""
    return name.rpartition("@")[2]


def roles(study: Study) -> list[str]:
    """What runs on each host of the study's gang; of a study on one host it is all there is."""
    hosts, roles_by_host = study.stack.ssh_hosts, _together(study)
    together = {"application": "application" if "database" in hosts else "application and database"}
    return [
        _first(study),
        *(" and ".join(together.get(role, role) for role in roles_there) for roles_there in roles_by_host.values()),
    ]


def _first(study: Study) -> str:
    """What the host runs that has the job."""
    elsewhere = [bool(driver.destination) for driver in study.drivers]
    drives = ["driver"] if not all(elsewhere) or not elsewhere else []
    serves = ["services"] if any(elsewhere) and not study.stack.ssh_hosts else []
    return " and ".join(drives + serves) or "leadline"


def placed(study: Study, hosts: Sequence[str]) -> Study:
    """The study with hosts of the pool in place of those that it names; users and ports stay. Raises UsageError."""
    wanted = roles(study)
    if len(hosts) != len(wanted):
        raise UsageError(f"the job has {len(hosts)} hosts ({', '.join(hosts)}), its roles are {', '.join(wanted)}")
    at = dict(zip(_together(study), hosts[1:], strict=True))
    if not at:
        return study
    stack = study.stack
    services_here = not stack.ssh_hosts
    drivers = [
        driver.moved(at[_machine(driver.destination)], hosts[0] if services_here else driver.server)
        if driver.destination
        else driver
        for driver in study.drivers
    ]
    if services_here:
        return study.model_copy(update={"drivers": drivers})
    if stack.hosts is None:
        named: dict[str, object] = {"host": _at(stack.host, at)}
    else:
        of_roles = {role: _at(word, at) for role, word in stack.hosts.named().items()}
        named = {"hosts": stack.hosts.model_copy(update=of_roles)}
    return study.model_copy(update={"drivers": drivers, "stack": stack.model_copy(update=named)})


def _at(word: str, hosts: Mapping[str, str]) -> str:
    """``ssh:root@app:22`` and n2 are ``ssh:root@n2:22``."""
    host = ssh_host(word)
    assert host is not None
    user, at, place = host.name.rpartition("@")
    _, colon, port = place.partition(":")
    return str(replace(host, name=f"{user}{at}{hosts[place]}{colon}{port}"))


def on_hosts(job: PoolJob, hosts: Sequence[str]) -> PoolJob:
    """The job with its study placed. Raises UsageError."""
    study = placed(job.file.study, hosts)
    return replace(job, study=study.model_dump(mode="json", exclude_unset=True))


def name_of(hosts: Sequence[str]) -> str:
    """Of a gang, as one host of the study."""
    return _BETWEEN.join(hosts)


def hosts_of(name: str) -> list[str]:
    """Of a gang's name."""
    return name.split(_BETWEEN)


def blamed(name: str, why: str) -> list[str]:
    """Hosts of a gang that the reason names, as ``ssh:HOST`` or in an ssh command."""
    before = r"\bssh(?:(?:\+sudo)?:|(?:\s[^\s()]+)*\s)(?:[\w.-]+@)?"
    return [host for host in hosts_of(name) if re.search(rf"{before}{re.escape(host)}\b(?![.-])", why)]
