"""A pool that Slurm places: each block is a job that has a node for itself.

Slurm's own programs are asked (sbatch, squeue, sinfo, scancel), in their plain text. A job is never requeued by Slurm:
leadline decides what runs again. Its directory lies in the lab, which the nodes share.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leadline.host import here
from leadline.model.errors import LeadlineError, UsageError, quoted, shortened
from leadline.places.pool import base

_AHEAD = 8  # jobs at most that wait while each host runs one: Slurm starts the next as soon as a host is free
_ASKED = 60.0  # seconds that an answer may take
_LONGEST = 1000  # characters of a word of an answer
_NUMBER = re.compile("[0-9]{1,19}")  # of a job
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED", "STOPPED")
_RUNNING = ("RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "RESIZING")
_HELD = ("held", "NodeFail", "launch failed", "BadConstraints", "DependencyNeverSatisfied")
_NO_NODE = ("", "(null)", "None assigned")
_STATES = {
    "idle": base.HostState.FREE,
    "alloc": base.HostState.BUSY,
    "allocated": base.HostState.BUSY,
    "mixed": base.HostState.BUSY,
    "completing": base.HostState.BUSY,
    "reserved": base.HostState.BUSY,
    "drained": base.HostState.DRAINED,
    "draining": base.HostState.DRAINED,
    "drain": base.HostState.DRAINED,
}


@dataclass
class SlurmPool(base.Pool):
    """``where``: partition, leadline's program on the nodes, further options."""

    where: base.Partition
    name: str = "slurm"
    outlives: bool = True
    pause: float = 1.0  # its controller serves others, too
    _drained: dict[str, str] = field(default_factory=dict)
    _together: int = 1  # hosts of a job

    @property
    def program(self) -> list[str]:
        """Of leadline on the nodes."""
        if self.where.leadline is not None:
            return [self.where.leadline]
        program = shutil.which(sys.argv[0]) or shutil.which("leadline")
        return [str(Path(program).absolute())] if program else [sys.executable, "-m", "leadline.cli"]

    def _ask(self, argv: Sequence[str], given: str = "") -> str:
        if shutil.which(argv[0]) is None:
            raise UsageError(f"--pool {self.name}: no program {argv[0]} on the path; Slurm's clients are wanted here")
        try:
            done = here.run(argv, given.encode(), timeout=_ASKED)
        except OSError as error:
            raise base.PoolSilentError(f"--pool {self.name}: {argv[0]}: {error}") from error
        if done.returncode:
            reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            kind = LeadlineError if argv[0] == "sbatch" else base.PoolSilentError
            raise kind(f"--pool {self.name}: {argv[0]}: {reason}")
        return done.stdout

    def _words(self, program: str, line: str, count: int) -> list[str]:
        """Of a line of a program. Raises PoolSilentError for a line that is none of its."""
        words = [shortened(word.strip(), _LONGEST) for word in line.split("|", count - 1)]
        if len(words) != count:
            raise base.PoolSilentError(f"--pool {self.name}: {program} answered {quoted(line)}, not what it was asked")
        return words

    def _partition(self) -> list[str]:
        return [f"--partition={self.where.partition}"] if self.where.partition else []

    def hosts(self) -> list[base.PoolHost]:
        return self._hosts(self._partition())

    def _hosts(self, of: Sequence[str]) -> list[base.PoolHost]:
        """Those of sinfo's options."""
        listing = self._ask(["sinfo", "--noheader", "--Node", "--format=%N|%T|%E", *of])
        pool_hosts: dict[str, base.PoolHost] = {}
        for line in listing.splitlines():
            name, state, reason = self._words("sinfo", line, 3)
            silent = state.endswith("*")  # it does not answer
            kind = _STATES.get(state.strip("*~#%$@^-!").lower(), base.HostState.DOWN)
            why = "" if reason == "none" else reason
            if silent and kind is not base.HostState.DRAINED:
                kind, why = base.HostState.DOWN, why or "it does not answer"
            if kind is base.HostState.DOWN:
                why = why or state
            if name in self._drained:
                kind, why = base.HostState.DRAINED, self._drained[name]
            pool_hosts[name] = base.PoolHost(name, kind, why)
        return list(pool_hosts.values())

    @property
    def kernels(self) -> Sequence[str]:
        return list(self.where.kernels)

    def look(self, job: Mapping[str, Any]) -> list[base.PoolHost]:
        """Only a job could try a plan on a node; which kernels a node can boot, Slurm knows."""
        constraints = {kernel: self.where.kernels[kernel] for kernel in job["kernels"]}
        if not constraints:
            return self.hosts()
        listing = self._ask(["sinfo", "--noheader", "--Node", "--format=%N|%f", *self._partition()])
        answers = (self._words("sinfo", line, 2) for line in listing.splitlines())
        features = {name: words.split(",") for name, words in answers}
        return [_able(host, constraints, features.get(host.name, [])) for host in self.hosts()]

    def gather(self, hosts: int) -> None:
        self._together = hosts

    def room(self, jobs: int) -> int:
        able = sum(map(base.takes_jobs, self.hosts())) // self._together
        # With kernels none waits: it would have the node between two boots of a block, whose next job needs that node.
        ahead = 0 if self.where.kernels else min(able, _AHEAD)
        return able + ahead - jobs

    def usable(self) -> bool:
        return self.room(0) > 0

    def submit(self, directory: Path, title: str, wish: base.Wish) -> str:
        program = shlex.join([*self.program, "pool", "job", str(directory / base.JOB)])
        host = "$SLURMD_NODENAME"
        if self._together > 1:
            host = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -s -d,)'
        script = f'#!/bin/sh\nexec {program} --as "{host}"\n'
        options = [
            *("--parsable", f"--job-name={title}", f"--output={directory / base.OUTPUT}", f"--chdir={directory}"),
            *(f"--nodes={self._together}", "--ntasks-per-node=1", "--exclusive", "--no-requeue", "--open-mode=append"),
            *self._partition(),
            *([f"--exclude={','.join(sorted(self._drained))}"] if self._drained else []),
            *([f"--constraint={self.where.kernels[wish.kernel]}"] if wish.kernel else []),
            *([f"--nodelist={wish.host}"] if wish.host else []),
            *([f"--dependency=afterany:{wish.after}"] if wish.after else []),
            *self.where.options,
        ]
        name = self._ask(["sbatch", *options], script).strip().partition(";")[0]
        if not _NUMBER.fullmatch(name):  # it would be an option of scancel
            raise LeadlineError(f"--pool {self.name}: sbatch answered {quoted(name)}, not the number of a job")
        return name

    def states(self, names: Collection[str]) -> Mapping[str, base.JobStatus]:
        listing = self._ask(["squeue", "--noheader", "--states=all", "--format=%i|%T|%N|%r", "--me"])
        answers = (self._words("squeue", line, 4) for line in listing.splitlines())
        statuses = dict(self._status(*words) for words in answers if words[0] in names)  # others are not leadline's
        # Slurm forgets a job some minutes after its end.
        return {name: statuses.get(name, base.JobStatus(base.JobState.ENDED)) for name in names}

    def _status(self, name: str, state: str, node: str, reason: str) -> tuple[str, base.JobStatus]:
        host = "" if node in _NO_NODE else node
        why = "" if reason == "None" else reason
        if state in _WAITING:
            if any(word in why for word in _HELD):  # it would wait for ever
                self.cancel(name)
                return name, base.JobStatus(base.JobState.LOST, host, why)
            return name, base.JobStatus(base.JobState.WAITING, host, why)
        if state in _RUNNING:
            return name, base.JobStatus(base.JobState.RUNNING, host)
        if state == "COMPLETED":
            return name, base.JobStatus(base.JobState.ENDED, host)
        return name, base.JobStatus(
            base.JobState.LOST, host, f"Slurm says {state}{f' ({why})' if why else ''}{self._gone(host)}"
        )

    def _gone(self, hosts: str) -> str:
        """Which of a gang's hosts take no more jobs, and why."""
        if self._together == 1 or not hosts:
            return ""
        return "".join(
            f"; {host.name} is {host.state}: {host.why or 'no reason is known'}"
            for host in self._hosts([f"--nodes={hosts}"])
            if not base.takes_jobs(host)
        )

    def cancel(self, name: str) -> None:
        self._ask(["scancel", name])

    def drain(self, host: str, why: str) -> None:
        self._drained[host] = why

    def close(self) -> None:
        """Jobs are Slurm's."""


def _able(host: base.PoolHost, constraints: Mapping[str, str], features: Sequence[str]) -> base.PoolHost:
    """The host, given no job where it lacks a feature of a constraint; alternatives are Slurm's to choose from."""
    for kernel, constraint in constraints.items():
        lacking = [word for word in re.findall(r"[\w.:=-]+", constraint) if word not in features]
        if lacking and "|" not in constraint and base.takes_jobs(host):
            why = f"it has no feature {lacking[0]}, by which kernel {kernel} is asked for"
            return base.PoolHost(host.name, base.HostState.DRAINED, why)
    return host
