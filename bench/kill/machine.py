"""The machine as a study may leave it, and one leadline on it."""

from __future__ import annotations

import json
import os
import pwd
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from leadline.host import procfs
from leadline.host.local import LocalHost
from leadline.host.mounts import mounts

STUDY = """\
study: killed
question: What is left?
stack: {{ server: {server}, mode: direct }}
workload: {{ users: 5, variables: {{ think: 20ms }}, ramp_up: 1s, steady: 2s, ramp_down: 0s }}
factors:
{factors}
settings: {{ jvm.heap: 256m }}
design: {{ replicates: 2, sentinels: null, seed: 3 }}
responses: [throughput, p50]
dead_man: 1s
"""
# One of a pair and a choice, whose files look different; and one of a service, which needs no root.
KERNEL = {
    "vm.dirty_ratio": [20, 40],
    "mm.transparent_hugepage.enabled": ["madvise", "never"],
}
SERVICE = {"server.datasource.max_connections": [40, 2]}
PATIENCE = 300.0  # seconds until something that must come has come


def until(condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def settings() -> dict[str, str]:
    """All of /proc/sys and /sys that leadline can set, swap, mounts, control groups: what must be as it was."""
    host = LocalHost(state=Path("/nonexistent"))
    found = {}
    for knob in host.knobs():
        try:
            found[knob.name] = host.knob_path(knob.name).read_text().strip()
        except OSError as error:
            found[knob.name] = error.strerror
    found["swap"] = " ".join(line.split()[0] for line in Path("/proc/swaps").read_text().splitlines()[1:])
    return found


def leftovers(place: Path, uid: int | None) -> list[str]:
    """Processes that were started for ``place`` or belong to the user, sockets, mounts and temporary files there."""
    found = []
    own = str(place).encode()
    for pid in procfs.all_processes():
        try:
            folder = Path(f"/proc/{pid}")
            command = (folder / "cmdline").read_bytes()
            texts = command + (folder / "environ").read_bytes()
            mine = uid is not None and folder.stat().st_uid == uid
            stat = procfs.read_stat(pid)
        except OSError:
            continue
        if pid != os.getpid() and stat is not None and stat.alive and (own in texts or mine):
            found.append(f"process {pid} {command.replace(bytes(1), b' ').decode(errors='replace')[:160]}")
    found += [f"mount {mount.point}" for mount in mounts() if Path(mount.point).is_relative_to(place / "private")]
    found += [
        f"socket {line.split()[-1]}" for line in Path("/proc/net/unix").read_text().splitlines() if str(place) in line
    ]
    # the JVM removes what jna and others of its libraries unpack when it ends in order, and only then
    found += [
        f"file {path}" for path in (place / "tmp").iterdir() if not re.match(r"hsperfdata_|jna-|libnetty", path.name)
    ]
    return found


@dataclass
class Leadline:
    """leadline in a directory of its own: lab, state, temporary files; as another user if ``user`` is named."""

    place: Path
    server: str
    user: str = ""
    short: bool = False  # a study of one factor
    lab: Path = field(init=False)
    state: Path = field(init=False)

    def __post_init__(self) -> None:
        self.lab, self.state = self.place / "lab", self.place / "state"
        root = not self.user and os.geteuid() == 0
        factors = {**KERNEL, **SERVICE} if root else SERVICE
        present = {name: levels for name, levels in factors.items() if name in SERVICE or name in settings()}
        if self.short:
            present = dict([next(iter(present.items()))])
        text = "".join(f"  {name}: {json.dumps(levels)}\n" for name, levels in present.items())
        for part in (self.place, self.place / "tmp", self.lab, self.state):
            part.mkdir(parents=True, exist_ok=True)
        (self.place / "killed.yaml").write_text(STUDY.format(server=self.server, factors=text.rstrip()))
        if self.user:
            subprocess.run(["chown", "-R", self.user, str(self.place)], check=True)

    @property
    def uid(self) -> int | None:
        return pwd.getpwnam(self.user).pw_uid if self.user else None

    def environment(self) -> Mapping[str, str]:
        own = {"LEADLINE_STATE": str(self.state), "TMPDIR": str(self.place / "tmp"), "COLUMNS": "200"}
        if self.user:
            own["HOME"] = str(self.place)
        return {**os.environ, **own}

    def argv(self, *arguments: str | Path) -> list[str]:
        user = []
        if self.user:
            entry = pwd.getpwnam(self.user)
            user = [
                "setpriv",
                f"--reuid={entry.pw_uid}",
                f"--regid={entry.pw_gid}",
                "--clear-groups",
                "--inh-caps=-all",
            ]
        return [*user, sys.executable, "-m", "leadline.cli", *map(str, arguments)]

    def begin(self, *arguments: str | Path, log: str = "run.log") -> subprocess.Popen[bytes]:
        """Start it; what it says goes to the log."""
        with (self.place / log).open("wb") as output:
            return subprocess.Popen(
                self.argv(*arguments),
                cwd=self.place,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(self, lab: Path | None = None, log: str = "run.log") -> subprocess.Popen[bytes]:
        return self.begin("run", "killed.yaml", "--lab", lab or self.lab, log=log)

    def said(self, log: str = "run.log") -> str:
        return (self.place / log).read_text(errors="replace")

    def call(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*arguments),
            cwd=self.place,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def watchdogs(self) -> list[int]:
        own = str(self.state).encode()
        found = []
        for pid in procfs.all_processes():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if b"leadline.host.watchdog" in command and own in command:
                found.append(pid)
        return found

    def loading(self) -> bool:
        """Whether a trial's load goes on at this moment."""
        own = str(self.place).encode()
        for pid in procfs.all_processes():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if b"leadline-load" in command.split(b"\0")[0] and own in command:
                return True
        return False

    # -- what must not be lost

    def finished(self, lab: Path | None = None) -> dict[int, str]:
        """Finished trials with everything that is stored of them and the hashes of their files, as one text each."""
        path = (lab or self.lab) / "lab.sqlite"
        if not path.exists():
            return {}
        found = {}
        with sqlite3.connect(path) as lab_file:
            if not lab_file.execute("SELECT 1 FROM sqlite_master WHERE name = 'artefacts'").fetchall():
                return {}  # it is just being made
            for trial, attempt in lab_file.execute("SELECT id, attempt FROM trials WHERE state = 'done'").fetchall():
                key = (trial, attempt)
                rows = [
                    lab_file.execute(f"SELECT * FROM {table} WHERE trial_id = ? AND attempt = ? ORDER BY 1, 2, 3", key)
                    for table in ("responses", "readings", "audits", "artefacts")
                ]
                told = repr([row.fetchall() for row in rows])
                folder = (lab or self.lab) / "trials" / str(trial) / f"attempt-{attempt}"
                files = {
                    str(file): sha256(file.read_bytes()).hexdigest() for file in folder.rglob("*") if file.is_file()
                }
                found[trial] = told + repr(sorted(files.items()))
        return found

    def damage(self, lab: Path | None = None) -> str:
        """Empty if the lab's database is whole."""
        path = (lab or self.lab) / "lab.sqlite"
        if not path.exists():
            return ""
        with sqlite3.connect(path) as lab_file:
            told = [row[0] for row in lab_file.execute("PRAGMA integrity_check")]
            told += [str(row) for row in lab_file.execute("PRAGMA foreign_key_check")]
        return "" if told == ["ok"] else "; ".join(told)

    def problems(self, before: Mapping[str, str], kept: Mapping[int, str]) -> list[str]:
        """What is altered, left, lost or damaged."""
        if self.user:
            before = {}  # it may not set any
        until(lambda: settings().items() >= before.items(), 5.0)
        now = settings()
        found = [f"{name} was {value!r}, is {now[name]!r}" for name, value in before.items() if now[name] != value]
        until(lambda: not leftovers(self.place, self.uid), 5.0)
        found += [f"left: {what}" for what in leftovers(self.place, self.uid)]
        if (self.state / "undo/local.jsonl").exists():
            found.append("the undo journal is not empty")
        if damage := self.damage():
            found.append(f"the lab is damaged: {damage}")
        after = self.finished()
        found += [f"trial {trial} is lost or altered" for trial, text in kept.items() if after.get(trial) != text]
        logs: Iterable[Path] = [*self.place.glob("*.log"), self.state / "watchdog.log"]
        found += [f"traceback in {log.name}" for log in logs if log.exists() and "Traceback" in log.read_text()]
        return found


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Signal a process that may be gone."""
    procfs.send(pid, number)


def gone(pid: int) -> bool:
    stat = procfs.read_stat(pid)
    return stat is None or not stat.alive
