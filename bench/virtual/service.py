"""`Service.java` in guests and on this machine: built once, a trial is a start, a warm-up and measured requests."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from statistics import median

from bench.kernels.guests import image, java_tree, tell
from leadline.host import here
from leadline.host.local import LocalHost
from leadline.model.errors import LeadlineError
from leadline.places.guest import initramfs, kernels, machine
from leadline.places.guest.boot import Boot
from leadline.places.guest.initramfs import Node
from leadline.places.guest.machine import Saved
from leadline.places.guest.results import Outcome

LIMIT = 300.0  # seconds of this machine's time, for a guest or a trial
MEMORY = 640 << 20  # bytes of a guest
OPTIONS = ("-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_HERE = Path(__file__).parent
_PROPERTY = "-Dsun.net.httpserver.nodelay=true"


@dataclass(frozen=True)
class Load:
    """What a trial does: the handler's loop in rounds, bytes of a response, clients, requests."""

    rounds: int = 100_000
    size: int = 512
    clients: int = 1
    warm_up: int = 1500
    requests: int = 500
    options: Sequence[str] = OPTIONS

    def arguments(self, directory: str) -> list[str]:
        numbers = (self.rounds, self.size, self.clients, self.warm_up)
        return [*self.options, _PROPERTY, "Service", directory, *map(str, numbers)]


@dataclass(frozen=True)
class Treatment:
    """Set before the measured requests: extra rounds of a handler; instructions of a system-call filter, 0 for none."""

    extra: int = 0
    instructions: int = 0


@dataclass(frozen=True)
class Measured:
    """``nanos`` for all requests together and ``each`` of them, ``typical`` is their median; ``facts`` of the guest."""

    nanos: int
    each: tuple[int, ...]
    text: str
    wall_seconds: float
    facts: Mapping[str, str] = field(default_factory=dict)  # of the guest

    @property
    def typical(self) -> float:
        return median(self.each)


def read(text: str, wall_seconds: float, facts: Mapping[str, str] | None = None) -> Measured:
    """What the service wrote."""
    total, *each = map(int, text.split())
    return Measured(total, tuple(each), text, wall_seconds, facts or {})


class Bench:
    """The service, a guest's image and a host in the temporary folder ``directory``. Raises LeadlineError."""

    def __init__(self, directory: Path, kernel: str = "6.1-cloud", more: Sequence[Path] = ()) -> None:
        self.directory = directory
        self.host = LocalHost(state=directory / "state")
        build = directory / "java"
        tree = dict(java_tree(build, [_HERE / "Service.java", *more], "java.base,jdk.httpserver"))
        self.java = str(build / "jre" / "bin" / "java")
        self.classes = str(build / "app")
        self.filter = self._compiled(directory / "filter.so")
        if self.filter:
            tree["app/filter.so"] = Node(self.filter)
        self.kernel = kernels.provision(kernel, tell)
        archive = image(self.kernel, directory, initramfs.cached(tree, directory / "parts"))
        self.boot = Boot(self.kernel.image, archive, MEMORY)
        self._numbers = count(1)  # threads may ask

    def _compiled(self, target: Path) -> Path | None:
        """The filter, or None without a C compiler."""
        if (compiler := shutil.which("cc")) is None:
            return None
        argv = [compiler, "-O2", "-shared", "-fPIC", "-o", str(target), str(_HERE / "filter.c")]
        done = here.run(argv, timeout=60)
        if done.returncode:
            raise LeadlineError(f"cc failed: {done.stderr.strip()[-300:]}")
        return target

    def place(self) -> Path:
        """A directory for one guest or trial."""
        return self.directory / f"trial-{next(self._numbers)}"

    # -- in a guest

    def start(self, load: Load) -> str:
        """Of a job: the service is started and warmed."""
        words = " ".join(load.arguments("/tmp"))
        return (
            f"cd /tmp; /jre/bin/java -cp /app {words} >/tmp/said 2>&1 & service=$!\n"
            "until [ -s /tmp/warm ]; do\n"
            '  kill -0 $service || fail workload "the service ended: $(head -n 3 /tmp/said)"; sleep 0.05\ndone\n'
        )

    def measure(self, load: Load, treatment: Treatment) -> str:
        """Of a job: the treatment is set, the requests are measured."""
        words = f"{treatment.extra} {treatment.instructions} {load.requests} /app/filter.so"
        return (
            f"echo {words} >/tmp/go.part; mv /tmp/go.part /tmp/go\n"
            "until [ -s /tmp/out ]; do\n"
            '  [ -d /proc/$service ] || fail workload "the service ended: $(head -n 3 /tmp/said)"; sleep 0.05\ndone\n'
            "put out /tmp/out\n"
        )

    def warmed(self, load: Load, seed: int) -> Saved:
        """A world: a guest with a warm service. The caller removes it."""
        boot = replace(self.boot, seed=seed)
        job = self.start(load) + "echo $service >/tmp/service; save warm\n"
        return machine.boot_and_save(self.host, boot, job, self.place(), "warm", LIMIT)

    def fork(self, saved: Saved, load: Load, treatment: Treatment | None = None) -> Measured:
        """The world goes on under a treatment."""
        job = "service=$(cat /tmp/service)\n" + self.measure(load, treatment or Treatment())
        return _measured(machine.fork(self.host, saved, job, self.place(), LIMIT))

    def booted(self, load: Load, boot: Boot, treatment: Treatment | None = None) -> Measured:
        """A trial of its own from a guest's boot to its end."""
        job = self.start(load) + self.measure(load, treatment or Treatment())
        return _measured(machine.run(self.host, boot, job, self.place(), LIMIT))

    # -- on this machine

    def native(self, load: Load, treatment: Treatment | None = None, before: Sequence[str] = ()) -> Measured:
        """The same trial in real time on this machine; ``before`` begins the command line."""
        chosen = treatment or Treatment()
        with tempfile.TemporaryDirectory(dir=self.directory) as name:
            words = f"{chosen.extra} {chosen.instructions} {load.requests} {self.filter}"
            Path(name, "go").write_text(words)
            begin = time.monotonic()
            done = here.run([*before, self.java, "-cp", self.classes, *load.arguments(name)], timeout=LIMIT)
            wall = time.monotonic() - begin
            if done.returncode:
                raise LeadlineError(f"the service ended with {done.returncode}: {done.stderr.strip()[-300:]}")
            return read(Path(name, "out").read_text(), wall)


def _measured(outcome: Outcome) -> Measured:
    return read((outcome.files / "out").read_text(), outcome.wall_seconds, outcome.facts)
