"""The reference application *brokerage*: archive, seeded data, audits (docs/reference/brokerage.md)."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

import leadline
from leadline.host import here
from leadline.host.base import Completed
from leadline.host.java import find_java
from leadline.host.jvm import java_environment
from leadline.host.scratch import Scratch
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.knob import Knob, Level
from leadline.stack.applications.brokerage import knobs, queue
from leadline.stack.base import AuditResult, Endpoint, Progress, Settings
from leadline.stack.deployment import (
    ConnectionFactory,
    DataSource,
    Deployment,
    Feature,
    Queue,
    Ready,
    Receiver,
    Topic,
)
from leadline.stack.maven import build

_PACKAGE = Path(leadline.__file__).resolve().parent
_ARCHIVE = "brokerage.war"
_QUEUE_ARCHIVE = "brokerage-queue.war"  # with the message-driven beans
_TOOLS = "brokerage-tools.jar"
_MODULES = ("common", "brokerage-core", "brokerage-war", "brokerage-tools")
# What decides the loaded data, inside the tools' jar.
_DATA_CODE = (
    "leadline/brokerage/data/",
    "leadline/brokerage/sql/schema.sql",
    "leadline/brokerage/sql/indexes.sql",
    "leadline/brokerage/domain/PriceRule",
    "leadline/brokerage/domain/Trade",
    "leadline/common/Batch",
    "leadline/common/Dialect",
    "leadline/common/Passwords",
)
_READY = Ready("/health", json={"status": "up"})
_LOAD_TIMEOUT = 900.0
_AUDIT_TIMEOUT = 300.0
_DRAIN_TIMEOUT = 120.0
_EVIDENCE_LINES = 20


class Brokerage:
    """Found in the checkout (``workloads/*/target``) or in the installed package (``leadline/_java``).

    ``package`` is the folder of the Python package; the checkout is the folder around it when it holds the sources.
    """

    def __init__(self, package: Path = _PACKAGE, java_home: Path | None = None) -> None:
        self._package = package
        self._java_home = java_home

    @property
    def name(self) -> str:
        return "brokerage"

    @property
    def version(self) -> str:
        """As the archive's manifest says. Raises LeadlineError when it is not built."""
        with zipfile.ZipFile(self._built(self.archive())) as war:
            manifest = war.read("META-INF/MANIFEST.MF").decode()
        for line in manifest.splitlines():
            if line.startswith("Implementation-Version:"):
                return line.partition(":")[2].strip()
        raise LeadlineError(f"{self.archive()} does not say its version; build it again")

    def modes(self) -> Sequence[str]:
        return tuple(knobs.MODES)

    def scenarios(self) -> Sequence[str]:
        return ("brokerage-classic", "brokerage-json", "brokerage-ping", "brokerage-static")

    def knobs(self) -> Sequence[Knob]:
        return knobs.KNOBS

    def knobs_on(self, mode: str, server: str, servers: Mapping[str, Set[Feature]]) -> Sequence[Knob]:
        return knobs.on(mode, server, servers)

    def deployment(self, mode: str, settings: Settings) -> Deployment:
        return Deployment(
            name=self.name,
            archive=self.archive(settings),
            context_root="/brokerage",
            data_source=DataSource("jdbc/brokerage"),
            ready=_READY,
            features=knobs.features(mode, settings),
            properties=knobs.properties(mode, settings),
            persistence_units=("brokerage",),
            connection_factory=ConnectionFactory("jms/brokerageConnections"),
            queues=(
                Queue("jms/brokerageOrders", Receiver("OrderReceiver", parallel=True), "jms/brokerageDeadOrders"),
                Queue("jms/brokerageDeadOrders", Receiver("DeadOrderReceiver")),
            ),
            topics=(Topic("jms/brokerageQuotes", Receiver("QuoteReceiver")),),
        )

    def read_back(self, url: str, knob: str) -> Level:
        return knobs.level(knob, knobs.ask(url, _READY.path))

    def change(self, url: str, levels: Settings) -> None:
        knobs.change(url, levels)

    def login(self) -> str:
        return "log in as user-000001, password pw-000001"

    # the artefacts -------------------------------------------------------------------------------------------

    def archive(self, settings: Settings | None = None) -> Path:
        name = _QUEUE_ARCHIVE if knobs.queued(settings or {}) else _ARCHIVE
        return self._artefact("brokerage-war", name)

    def tools(self) -> Path:
        """The jar that loads, audits, compares and replays (``java -jar ... --help``)."""
        return self._artefact("brokerage-tools", _TOOLS)

    def build(self, progress: Progress) -> None:
        """Build what is missing or older than its sources; nothing to do in an installed package.

        Raises LeadlineError with Maven's own words.
        """
        workloads = self._sources()
        if workloads is None:
            self._built(self.archive())
            self._built(self.tools())
            return
        made = (self.archive(), self.archive({knobs.ORDERS.name: "queue"}), self.tools())
        build("the application brokerage", workloads, _MODULES, _source_files(workloads), made, progress)

    # the data ------------------------------------------------------------------------------------------------

    def data_key(self, load_units: int, seed: int) -> str:
        """``brokerage-u<units>-s<seed>-<hash of schema and generator>``. Raises LeadlineError when it is not built."""
        digest = hashlib.sha256()
        with zipfile.ZipFile(self._built(self.tools())) as jar:
            for name in sorted(jar.namelist()):
                if name.startswith(_DATA_CODE) and not name.endswith("/"):
                    digest.update(name.encode() + b"\0" + hashlib.sha256(jar.read(name)).digest())
        return f"brokerage-u{load_units}-s{seed}-{digest.hexdigest()[:12]}"

    def load_data(self, database: Endpoint, load_units: int, seed: int, log: Path) -> None:
        """Drop what is there, create the tables and fill them. Raises TrialFailure(infrastructure)."""
        done = self._run("load", database, _scale(load_units, seed), log, _LOAD_TIMEOUT)
        if done.returncode:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"the data of brokerage could not be loaded: {_last_line(done)}",
                _evidence(done),
            )

    def drain(self, url: str, settings: Settings, times: Path) -> None:
        """Nothing to do unless orders went through a queue."""
        if knobs.queued(settings):
            queue.drain(url, _DRAIN_TIMEOUT)
            queue.save_times(url, times)

    def audit(
        self, database: Endpoint, load_units: int, seed: int, counts: Mapping[str, Mapping[str, int]], log: Path
    ) -> Sequence[AuditResult]:
        """All audits, also those that did not pass. Raises TrialFailure(infrastructure) when they could not be run."""
        plain = {name: {"ok": int(count["ok"]), "failed": int(count["failed"])} for name, count in counts.items()}
        with Scratch(shared=True) as scratch:
            file = scratch / "counts.json"
            file.write_text(json.dumps(plain), encoding="utf-8")
            file.chmod(0o644)  # read by another user
            arguments = [*_scale(load_units, seed), "--counts", str(file)]
            done = self._run("audit", database, arguments, log, _AUDIT_TIMEOUT)
        try:
            audits = [
                AuditResult(
                    str(each["name"]),
                    bool(each["passed"]),
                    str(each["detail"]),
                    str(each["name"]).startswith("rows-are-counts-"),
                )
                for each in json.loads(done.stdout)["audits"]
            ]
        except (ValueError, KeyError, TypeError):
            audits = []
        failed = any(not each.passed for each in audits)
        if not audits or done.returncode != (1 if failed else 0):
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"the audits of brokerage could not be run: {_last_line(done)}",
                _evidence(done),
            )
        return audits

    def digest(self, database: Endpoint, log: Path) -> str:
        """One hash of the data, free of generated ids, times and interleaving. Raises TrialFailure(infrastructure)."""
        done = self._run("digest", database, [], log, _AUDIT_TIMEOUT)
        if done.returncode:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, f"the data could not be read: {_last_line(done)}", _evidence(done)
            )
        return str(json.loads(done.stdout)["digest"])

    # -----------------------------------------------------------------------------------------------------------

    def _sources(self) -> Path | None:
        workloads = self._package.parent / "workloads"
        return workloads if (workloads / "brokerage-war" / "pom.xml").is_file() else None

    def _artefact(self, module: str, name: str) -> Path:
        workloads = self._sources()
        return workloads / module / "target" / name if workloads else self._package / "_java" / name

    def _built(self, path: Path) -> Path:
        if path.is_file():
            return path
        remedy = "run `make install`" if self._sources() else "the installation is damaged, install leadline again"
        raise LeadlineError(f"brokerage is not built: {path} does not exist; {remedy}")

    def _run(
        self, subcommand: str, database: Endpoint, arguments: Sequence[str], log: Path, timeout: float
    ) -> Completed:
        """The password goes by the environment: a command line can be read by every user of the host."""
        java = (self._java_home or find_java()) / "bin" / "java"
        command = [str(java), "-XX:+UseSerialGC", "-Xmx256m", "-jar"]
        command += [str(self._built(self.tools())), subcommand, "--url", database.jdbc_url, "--user", database.user]
        environment = java_environment(BROKERAGE_DB_PASSWORD=database.password)
        try:
            reads = [java.parent.parent, self.tools(), *(Path(word) for word in arguments if word.startswith("/"))]
            done = here.alone([*command, *arguments], reads, timeout=timeout, env=environment)
        except TimeoutError:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, f"brokerage-tools {subcommand} did not end within {timeout:g} s"
            ) from None
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as out:
            out.write(f"brokerage-tools {subcommand} {' '.join(arguments)}\n{done.stdout}{done.stderr}")
            out.write(f"exit code {done.returncode}\n")
        return done


def _source_files(workloads: Path) -> list[Path]:
    """What the build reads; the folders too, so that a deleted file counts as a change."""
    found = [workloads / "pom.xml"]
    for module in _MODULES:
        found.append(workloads / module / "pom.xml")
        found.extend((workloads / module / "src" / "main").rglob("*"))
    return found


def _scale(load_units: int, seed: int) -> list[str]:
    return ["--units", str(load_units), "--seed", str(seed)]


def _last_line(done: Completed) -> str:
    lines = done.stderr.strip().splitlines()
    return lines[-1].strip() if lines else f"exit code {done.returncode} without a word"


def _evidence(done: Completed) -> str:
    return "\n".join((done.stdout + done.stderr).strip().splitlines()[-_EVIDENCE_LINES:])
