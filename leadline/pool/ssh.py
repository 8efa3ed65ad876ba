"""A list of hosts over SSH that get one block each in turn. The driver runs here, so one block runs at a time."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from leadline.host.textfile import read_text
from leadline.model.errors import LeadlineError, UsageError, nearest, quoted
from leadline.model.hosts import ssh_host
from leadline.model.yamltext import load_yaml
from leadline.pool.base import HostState, Job, JobState
from leadline.pool.order import ENDED, LOG

LOCK = "lock"  # held for as long as the block's process lives; its number is in it


def read_hosts(path: Path) -> list[str]:
    """The hosts of a file, ``ssh:NAME`` each. Raises UsageError with file and line."""
    tree = load_yaml(read_text(path), str(path))
    if not isinstance(tree, CommentedMap) or not isinstance(tree.get("hosts"), CommentedSeq) or not tree["hosts"]:
        near = nearest("hosts", [str(key) for key in tree]) if isinstance(tree, CommentedMap) else None
        hint = f"; did you mean hosts where it says {near}?" if near and near != "hosts" else ""
        raise UsageError(f"{path}:1: no list of hosts: write `hosts: [ssh:app1, ssh:app2]`{hint}")
    for key in tree:
        if key != "hosts":
            raise UsageError(f"{path}:{tree.lc.key(key)[0] + 1}: unknown key {quoted(key)}; the file has `hosts` only")
    found: list[str] = []
    for number, word in enumerate(tree["hosts"]):
        where = f"{path}:{tree['hosts'].lc.item(number)[0] + 1}"
        try:
            if not isinstance(word, str) or ssh_host(word) is None:
                raise ValueError(f"{quoted(word)} is no host over SSH; write ssh:NAME, an alias of ~/.ssh/config")
        except ValueError as error:
            raise UsageError(f"{where}: {error}") from None
        if word in found:
            raise UsageError(f"{where}: {word} is there twice; name each host once")
        found.append(word)
    return found


class SshPool:
    """``words``: the hosts, as ``ssh:NAME``."""

    def __init__(self, path: Path, words: Sequence[str]) -> None:
        self.name = f"ssh:{path}"
        self._words = list(words)
        self._next = 0
        self._processes: list[subprocess.Popen[bytes]] = []

    def check(self) -> None:
        """Each host is asked when it gets its first block."""

    def hosts(self) -> Sequence[HostState]:
        return [HostState(word, "listed") for word in self._words]

    def room(self, running: int, drained: Collection[str]) -> int:
        return int(running == 0 and any(word not in drained for word in self._words))

    def choose(self, drained: Collection[str]) -> str:
        for _ in self._words:
            word = self._words[self._next % len(self._words)]
            self._next += 1
            if word not in drained:
                return word
        raise LeadlineError(f"every host of {self.name} is drained")

    def start(self, directory: Path, token: str, host: str, drained: Collection[str]) -> str:  # noqa: ARG002
        words = [sys.executable, "-m", "leadline", "pool", "work", str(directory)]
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # goes with the descriptor to the process, and ends with it
            with (directory / LOG).open("wb") as log:
                process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=[lock]
                )
            self._processes = [one for one in self._processes if one.poll() is None] + [process]
            os.write(lock, str(process.pid).encode())
        finally:
            os.close(lock)
        return str(process.pid)

    def jobs(self, asked: Mapping[str, Path]) -> Mapping[str, Job]:
        found = {}
        for token, directory in asked.items():
            if _alive(directory):
                found[token] = Job(JobState.RUNNING)
            elif (directory / ENDED).exists():
                found[token] = Job(JobState.ENDED)
            else:
                found[token] = Job(JobState.GONE, why=f"its process ended; {directory / LOG} tells more")
        return found

    def end(self, token: str, directory: Path, kill: bool = False) -> None:  # noqa: ARG002
        if _alive(directory):  # so the number is still its own
            number = (directory / LOCK).read_text(encoding="ascii")
            if number:
                os.kill(int(number), signal.SIGKILL if kill else signal.SIGINT)


def _alive(directory: Path) -> bool:
    try:
        with (directory / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
