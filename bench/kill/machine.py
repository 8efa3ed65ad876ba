"""The machine as a study may leave it, and one leadline on it."""

from __future__ import annotations

import json
import os
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
from typing import Any

from leadline.host import procfs
from leadline.host.lease import Lease
from leadline.host.local import LocalHost
from leadline.host.mounts import mounts
from leadline.host.paths import cache_dir
from leadline.host.privilege import USERS, User
from leadline.load.driver import find_binary

ORDINARY = 60700  # an ordinary user, whom nothing else on a host has (see leadline.host.privilege)
PACKAGE = Path(__file__).parents[2]
# One of a pair and a choice, whose files look different; and one of a service, which needs no root.
KERNEL = {"vm.dirty_ratio": [20, 40], "mm.transparent_hugepage.enabled": ["madvise", "never"]}
SERVICE = {"server.datasource.max_connections": [40, 2]}
QUEUE = {
    "app.orders": "queue",
    "server.messaging.reliability": "reliable-persistent",
    "server.messaging.store": "file",
    "server.messaging.store_place": "tmpfs",
}
PATIENCE = 300.0  # seconds until something that must come has come
HOST_FREE = 1200.0  # seconds that other leadlines may use the host
PASSING = 120.0  # seconds until another leadline's level has been put back
# These change by themselves, or say what is there rather than what is set.
_LIVE = re.compile(
    r"/proc/sys/(fs/(.*-nr|.*-state|quota/.*|aio-nr|binfmt_misc/.*)|vm/(stat_refresh|drop_caches)|net/.*/(stable_secret|"
    r"nf_conntrack_count|flush)|net/ipv[46]/(conf|neigh)/(?!all/|default/).*|net/netfilter/.*|dev/.*|kernel/(perf_event_max_sample_rate|random/.*|ns_last_pid|pty/nr|sched_domain/.*|tainted))"
)


def until(condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def settings() -> dict[str, str]:
    """All of /proc/sys, what leadline can set below /sys, swap: what must be as it was."""
    host = LocalHost(state=Path("/nonexistent"))
    paths = {host.knob_path(knob.name) for knob in host.knobs()} | {Path("/proc/swaps")}
    paths |= {Path(folder, name) for folder, _, names in os.walk("/proc/sys") for name in names}
    found = {}
    for path in paths:
        if not _LIVE.fullmatch(str(path)):
            try:
                found[str(path)] = path.read_text(errors="replace").strip()
            except OSError as error:  # it can be written only, or has no value
                found[str(path)] = str(error.strerror)
    found["/proc/swaps"] = " ".join(line.split()[0] for line in found["/proc/swaps"].splitlines()[1:])
    return found


def calm_settings() -> dict[str, str]:
    """The same while no other leadline uses the host."""
    lease = Lease()
    lease.acquire(HOST_FREE)
    try:
        return settings()
    finally:
        lease.release()


def altered(before: Mapping[str, str]) -> list[str]:
    """Settings that are not as they were; what another leadline has set for a while does not count."""

    def differ(now: Mapping[str, str]) -> list[str]:
        return [f"{name} was {was!r}, is {now.get(name)!r}" for name, was in before.items() if now.get(name) != was]

    # a leadline in another network namespace has a lease of its own: its settings pass, what was left does not
    until(lambda: not differ(settings()), PASSING)
    return differ(settings()) and differ(calm_settings())


@dataclass(frozen=True)
class Traces:
    """What a leadline has written into its journal that it makes: none of it may stay."""

    users: frozenset[int] = frozenset()
    undone: bool = True
    marks: frozenset[str] = frozenset()
    paths: frozenset[Path] = frozenset()

    @classmethod
    def of(cls, journal: Path) -> Traces:
        users, marks, paths = set(), set(), set()
        made, done = set(), set()
        for line in journal.read_bytes().splitlines() if journal.exists() else []:
            try:
                entry = json.loads(line)
                data = {**entry, **entry.get("data", {})}
            except (ValueError, AttributeError):  # torn by the kill
                continue
            made |= {data["id"]} if "id" in data else set()
            done |= {data["done"]} if "done" in data else set()
            users |= {data["user"]} if "user" in data else set()
            marks |= {data["token"]} if "token" in data else set()
            if data.get("kind") in ("cgroup", "tree", "ramdisk"):
                paths.add(Path(data["target"]))
        return cls(frozenset(users), not made - done, frozenset(marks), frozenset(paths))

    def left(self) -> list[str]:
        found = [f"{path}" for path in self.paths if path.exists()]
        points = [Path(mount.point) for mount in mounts()]
        found += [f"mount {point}" for point in points if any(point.is_relative_to(path) for path in self.paths)]
        for pid in procfs.all_processes():
            stat = procfs.read_stat(pid)
            if stat is None or not stat.alive or pid == os.getpid():
                continue
            if procfs.users(pid) & self.users or any(procfs.carries_mark(pid, mark) for mark in self.marks):
                found.append(f"process {pid} {stat.name}")
        for folder in ("/tmp", "/var/tmp", "/dev/shm"):
            for path in Path(folder).iterdir():
                try:
                    found += [f"file {path}"] if path.lstat().st_uid in self.users else []
                except FileNotFoundError:
                    continue
        return found


def leftovers(place: Path) -> list[str]:
    """Processes that were started for ``place``, sockets, mounts, temporary files and files of services' users."""
    found = []
    own = str(place).encode()
    for pid in procfs.all_processes():
        try:
            folder = Path(f"/proc/{pid}")
            command = (folder / "cmdline").read_bytes()
            texts = command + (folder / "environ").read_bytes() + os.fsencode((folder / "cwd").readlink())
            stat = procfs.read_stat(pid)
        except OSError:
            continue
        if pid != os.getpid() and stat is not None and stat.alive and own in texts:
            found.append(f"process {pid} {command.replace(bytes(1), b' ').decode(errors='replace')[:160]}")
    found += [f"mount {mount.point}" for mount in mounts() if Path(mount.point).is_relative_to(place)]
    found += [
        f"socket {line.split()[-1]}" for line in Path("/proc/net/unix").read_text().splitlines() if str(place) in line
    ]
    # the JVM removes what jna and others of its libraries unpack when it ends in order, and only then
    found += [
        f"file {path}" for path in (place / "tmp").iterdir() if not re.match(r"hsperfdata_|jna-|libnetty", path.name)
    ]
    found += [f"file {path}" for path in place.rglob("*") if path.lstat().st_uid in USERS]
    return found


@dataclass
class Leadline:
    """leadline in a directory of its own: lab, state, temporary files.

    ``stack``: ``SERVER[/DATABASE][+switchback|+queue|+httpd]``; ``ordinary``: an ordinary user; ``short``: one factor.
    """

    place: Path
    stack: str
    ordinary: bool = False
    short: bool = False
    lab: Path = field(init=False)
    state: Path = field(init=False)

    def __post_init__(self) -> None:
        self.lab, self.state = self.place / "lab", self.place / "state"
        for part in (self.place, self.place / "tmp", self.lab, self.state):
            part.mkdir(parents=True, exist_ok=True)
        (self.place / "killed.yaml").write_text(json.dumps(self._study(), indent=1))
        if self.ordinary:
            self._share_distributions()
            subprocess.run(["chown", "-R", f"{ORDINARY}:{ORDINARY}", str(self.place), str(self._cache)], check=True)

    @property
    def uid(self) -> int | None:
        return ORDINARY if self.ordinary else None

    @property
    def _cache(self) -> Path:
        return self.place.parent / "cache" if self.ordinary else cache_dir()

    def _share_distributions(self) -> None:
        """The ordinary user's cache begins with what root has unpacked."""
        (self._cache / "dist").mkdir(parents=True, exist_ok=True)
        for path in (cache_dir() / "dist").glob("[!.]*"):
            if not (self._cache / "dist" / path.name).exists():
                (self._cache / "dist" / path.name).symlink_to(path)

    def _study(self) -> dict[str, object]:
        base, _, kind = self.stack.partition("+")
        server, _, database = base.partition("/")
        root = not self.ordinary and os.geteuid() == 0
        host = LocalHost(state=Path("/nonexistent"))
        kernel = {name: levels for name, levels in KERNEL.items() if root and host.knob_path(name).exists()}
        factors = kernel if kind == "switchback" else {**kernel, **SERVICE}
        if self.short:
            factors = dict([next(iter(factors.items()))])
        load = {"ramp_up": "1s", "steady": "6s" if kind == "switchback" else "2s", "ramp_down": "0s"}
        design: dict[str, object] = {"replicates": 2 if self.short else 40, "seed": 3}
        design |= {"switchback": {"slot": "2s"}} if kind == "switchback" else {"sentinels": None}
        levels: dict[str, object] = {"jvm.heap": "256m"}
        if kind == "queue":
            levels |= {**QUEUE, **({"server.messaging.store_place": "ramdisk"} if root else {})}
        if kind == "httpd":
            levels |= {"web.server": "httpd"}
        return {
            "study": "killed",
            "question": "What is left?",
            "stack": {
                "server": server,
                "mode": "orm" if kind == "queue" else "direct",
                "database": database or "postgres",
            },
            "workload": {"users": 5, "variables": {"think": "20ms"}, **load},
            "factors": factors,
            "settings": levels,
            "placement": {"server_memory": "1500m", "database_memory": "700m"} if root else {},
            "design": design,
            "responses": ["throughput", "p50"],
            "dead_man": "1s",
        }

    def environment(self, wait: float = 900.0) -> Mapping[str, str]:
        return {
            **os.environ,
            "LEADLINE_STATE": str(self.state),
            "LEADLINE_CACHE": str(self._cache),
            "LEADLINE_WAIT": str(wait),
            "PYTHONPATH": str(PACKAGE),
            "COLUMNS": "200",
        }

    def argv(self, *arguments: str | Path) -> list[str]:
        temporary = ["env", f"TMPDIR={self.place / 'tmp'}"]
        command = [*temporary, sys.executable, "-m", "leadline.cli", *map(str, arguments)]
        if not self.ordinary:
            return command
        reads = [Path(sys.prefix), Path(sys.base_prefix), PACKAGE, cache_dir() / "dist", find_binary()]
        return [*User(ORDINARY).prefix(self.place, reads, [self._cache]), *command]

    def begin(self, *arguments: str | Path, log: str = "run.log", wait: float = 900.0) -> subprocess.Popen[bytes]:
        """Start it; what it says goes to the log. ``wait``: seconds for a host that another leadline uses."""
        with (self.place / log).open("wb") as output:
            return subprocess.Popen(
                self.argv(*arguments),
                cwd=self.place,
                env=self.environment(wait),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(self, lab: Path | None = None, log: str = "run.log", wait: float = 900.0) -> subprocess.Popen[bytes]:
        return self.begin("run", "killed.yaml", "--lab", lab or self.lab, log=log, wait=wait)

    def said(self, log: str = "run.log") -> str:
        return (self.place / log).read_text(errors="replace")

    def call(self, *arguments: str | Path, wait: float = 900.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*arguments),
            cwd=self.place,
            env=self.environment(wait),
            capture_output=True,
            text=True,
            timeout=wait + PATIENCE,
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

    def traces(self) -> Traces:
        return Traces.of(self.state / "undo/local.jsonl")

    def _asked(self, query: str) -> list[tuple[Any, ...]]:
        """Of the lab's database; nothing while it is just being made."""
        if not (self.lab / "lab.sqlite").exists():
            return []
        with sqlite3.connect(self.lab / "lab.sqlite") as lab_file:
            try:
                return lab_file.execute(query).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" not in str(error):
                    raise
                return []

    def step(self) -> str:
        """The step of a trial that goes on now."""
        if not self.watchdogs():
            return "before the host is taken"
        found = self._asked("SELECT name, ended FROM steps ORDER BY id DESC LIMIT 1")
        return f"after {found[0][0]}" if found and found[0][1] else found[0][0] if found else "before the first trial"

    def steps(self) -> list[tuple[str, float]]:
        """Steps of finished trials and the seconds that they took."""
        found = self._asked(
            "SELECT steps.name, max(steps.ended - steps.started) FROM steps JOIN trials ON trials.id = trial_id"
            " WHERE trials.state = 'done' AND steps.ended IS NOT NULL GROUP BY steps.name"
        )
        return [(str(name), float(seconds)) for name, seconds in found]

    def done(self) -> int:
        """Finished trials, counted."""
        return sum(int(number) for (number,) in self._asked("SELECT count(*) FROM trials WHERE state = 'done'"))

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
                    for table in ("responses", "readings", "audits", "artefacts", "slots", "slot_responses")
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

    def problems(self, before: Mapping[str, str], kept: Mapping[int, str], made: Traces | None = None) -> list[str]:
        """What is altered, left, lost or damaged."""
        found = altered(before)

        def left() -> list[str]:
            return [*leftovers(self.place), *(made.left() if made else [])]

        until(lambda: not left(), 5.0)
        found += [f"left: {what}" for what in left()]
        if not self.traces().undone:
            found.append("the undo journal holds what is not undone")
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
