"""Slurm: a block is a job on one host of its own. Asked by ``sbatch``, ``squeue``, ``sinfo`` and ``scancel``."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from leadline.model.errors import LeadlineError, UsageError
from leadline.pool.base import HostState, Job, JobState
from leadline.pool.order import LOG

_TOOLS = ("sbatch", "squeue", "sinfo", "scancel")
_SECONDS = 60.0  # within which Slurm must answer
_WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "RESIZING"}
_RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT"}
_AWAY = {
    "DOWN",
    "DRAIN",
    "DRAINED",
    "DRAINING",
    "FAIL",
    "FAILING",
    "NOT_RESPONDING",
    "MAINT",
    "UNKNOWN",
    "POWERED_DOWN",
}
_HELD = {"launch failed requeued held", "JobHeldAdmin", "JobHeldUser"}


class SlurmPool:
    """A partition, the default one where none is named; ``most``: blocks at a time."""

    def __init__(self, partition: str = "", most: int | None = None) -> None:
        self.name = f"slurm:{partition}" if partition else "slurm"
        self._partition = partition
        self._most = most

    def check(self) -> None:
        missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
        if missing:
            raise UsageError(f"--pool {self.name}: {', '.join(missing)} not found: install Slurm's commands here")
        try:
            known = self._nodes()
        except LeadlineError as error:
            raise UsageError(f"--pool {self.name}: {error}") from None
        if not known:
            raise UsageError(f"--pool {self.name}: Slurm has no hosts in that partition; `sinfo` lists partitions")

    def _nodes(self) -> list[dict[str, Any]]:
        option = [f"--partition={self._partition}"] if self._partition else []
        names = set(_run("sinfo", "--noheader", "--Node", "--format=%N", *option).split())
        found = _json("sinfo", "--json")["nodes"]
        return sorted((node for node in found if node["name"] in names), key=lambda node: str(node["name"]))

    def hosts(self) -> Sequence[HostState]:
        found = []
        for node in self._nodes():
            states = {str(node["state"]).upper(), *(str(flag).upper() for flag in node.get("state_flags", ()))}
            told = "+".join(sorted(state.lower() for state in states))
            away = bool(states & _AWAY)
            found.append(HostState(node["name"], told, (str(node.get("reason") or "") or told) if away else ""))
        return found

    def room(self, running: int, drained: Collection[str]) -> int:
        able = sum(not host.drained and host.name not in drained for host in self.hosts())
        return max(0, min(able, self._most or able) - running)

    def choose(self, drained: Collection[str]) -> str:  # noqa: ARG002 - Slurm decides
        return ""

    def start(self, directory: Path, token: str, host: str, drained: Collection[str]) -> str:  # noqa: ARG002
        words = [sys.executable, "-m", "leadline", "pool", "work", str(directory)]
        script = f"#!/bin/sh\nexec {shlex.join(words)}\n"
        options = [
            *("--parsable", "--nodes=1", "--ntasks=1", "--exclusive", "--no-requeue", f"--job-name={_job_name(token)}"),
            *(f"--output={directory / LOG}", f"--chdir={Path.cwd()}"),
            *([f"--partition={self._partition}"] if self._partition else []),
            *([f"--exclude={','.join(sorted(drained))}"] if drained else []),
        ]
        return _run("sbatch", *options, input=script).strip().partition(";")[0]

    def jobs(self, asked: Mapping[str, Path]) -> Mapping[str, Job]:
        if not asked:
            return {}
        rows = {row["name"]: row for row in _json("squeue", "--json")["jobs"]}
        return {token: _state(rows.get(_job_name(token))) for token in asked}

    def end(self, token: str, directory: Path, kill: bool = False) -> None:  # noqa: ARG002
        how = [] if kill else ["--signal=INT", "--full"]
        _run("scancel", *how, f"--name={_job_name(token)}")
        if not kill:  # one that has not begun hears no signal
            _run("scancel", "--state=PENDING", f"--name={_job_name(token)}")


def _job_name(token: str) -> str:
    return f"leadline-{token}"


def _state(row: Mapping[str, Any] | None) -> Job:
    if row is None:
        return Job(JobState.GONE, why="Slurm does not know its job any more")
    state, reason, host = str(row["job_state"]).upper(), str(row.get("state_reason") or ""), str(row.get("nodes") or "")
    if state == "PENDING" and reason in _HELD:
        return Job(JobState.GONE, host, f"Slurm holds its job: {reason}")
    if state in _WAITING:
        return Job(JobState.WAITING, host, "" if reason in ("None", "") else reason)
    if state in _RUNNING:
        return Job(JobState.RUNNING, host)
    if state == "COMPLETED":
        return Job(JobState.ENDED, host)
    return Job(JobState.GONE, host, f"its job ended as {state}")


def _run(*words: str, input: str | None = None) -> str:
    try:
        done = subprocess.run(words, input=input, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LeadlineError(f"{words[0]}: {error}") from error
    if done.returncode:
        raise LeadlineError(f"{shlex.join(words[:3])}: {' '.join(done.stderr.split()) or f'code {done.returncode}'}")
    return done.stdout


def _json(*words: str) -> dict[str, Any]:
    text = _run(*words)
    try:
        return dict(json.loads(text))
    except ValueError as error:
        raise LeadlineError(f"{shlex.join(words)} gives no JSON (Slurm needs its JSON plugins): {error}") from error
