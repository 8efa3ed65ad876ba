"""What the reference applications share: artefacts of Maven, data made by their tools, audits by the same."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode, urlsplit

import leadline
from leadline import catalogue
from leadline.host import here
from leadline.host.base import Completed
from leadline.host.java import find_java, java_environment
from leadline.host.paths import Scratch
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.knob import Kind, Knob, Level
from leadline.model.received import from_json
from leadline.stack.base import AskedFor, AuditResult, Companion, Counts, Endpoint, Feature, Progress, Ready, Settings
from leadline.stack.probe import connection_to
from leadline.stack.provision import build

_PACKAGE = Path(leadline.__file__).resolve().parent
LOAD_TIMEOUT = 900.0
READY = Ready("/health", json={"status": "up"})
_MODE, _EXTRA = "app.mode", "app.extra_"
_SHARED_CODE = ("leadline/common/Batch", "leadline/common/Dialect", "leadline/common/Passwords")
# Audits that hold the data against what leadline-load counted begin with these.
_COUNTED = (
    "rows-are-counts-",
    "mix-is-",
    "large-orders-are-",
    "dealer-transactions-have-",
    "planned-work-orders-have-",
)
AUDIT_TIMEOUT = 300.0
_EVIDENCE_LINES = 20
_FRAME = re.compile(r"\s+(at [\w.$/]+.*\(|\.\.\. \d+ )")  # a line of a stack trace below its message
_COUNTS = ("ok", "failed", "skipped")


class JavaApplication(ABC):
    """Found in the checkout (``workloads/*/target``) or in the installed package (``leadline/_java``).

    ``package`` is the folder of the Python package; the checkout is the folder around it when it holds the sources.
    ``code``: what decides the loaded data beside what both have, inside the tools' jar. ``mode_features``: what a
    server must be able to do in each mode; ``answers``: knob -> key of the application's health answer; ``queue``: the
    knob by which work goes through a queue.
    """

    name: ClassVar[str]
    code: ClassVar[tuple[str, ...]] = ()
    mode_features: ClassVar[Mapping[str, frozenset[Feature]]]
    answers: ClassVar[Mapping[str, str]]
    queue: ClassVar[Knob]

    def __init__(self, package: Path = _PACKAGE, java_home: Path | None = None) -> None:
        self._package = package
        self._java_home = java_home

    @abstractmethod
    def archives(self) -> Sequence[Path]:
        """Every archive that the build makes, the usual one first."""

    @property
    def version(self) -> str:
        """As the archive's manifest says. Raises LeadlineError when it is not built."""
        archive = self.archives()[0]
        with zipfile.ZipFile(self.built(archive)) as war:
            manifest = war.read("META-INF/MANIFEST.MF").decode()
        for line in manifest.splitlines():
            if line.startswith("Implementation-Version:"):
                return line.partition(":")[2].strip()
        raise LeadlineError(f"{archive} does not say its version; build it again")

    def modes(self) -> Sequence[str]:
        return tuple(self.mode_features)

    def knobs(self) -> Sequence[Knob]:
        return tuple(catalogue.load(self.name).values())

    def extra_costs(self) -> Sequence[Knob]:
        """Those of costs of known size, which every server has."""
        return tuple(knob for knob in self.knobs() if knob.name.startswith(_EXTRA))

    @property
    def health_keys(self) -> Mapping[str, str]:
        """Knob -> key of the application's health answer; an extra cost has its knob's name there."""
        return {**self.answers, **{knob.name: knob.name.removeprefix("app.") for knob in self.extra_costs()}}

    def mode_on(self, server: str, servers: Mapping[str, Set[Feature]]) -> Knob:
        """The knob of the mode with those refused that the server does not run. ``servers``: what each can do."""
        refused = {
            mode: f"{server} has no such mode, {able(needs, servers)} can run it"
            for mode, needs in self.mode_features.items()
            if not needs <= servers[server]
        }
        return replace(catalogue.knob_of(self.name, _MODE), refused=refused)

    def queued(self, settings: Settings) -> bool:
        """Whether work goes through a queue."""
        return settings.get(self.queue.name, self.queue.default) == "queue"

    def features(self, mode: str, settings: Settings) -> frozenset[Feature]:
        """What a server must be able to do at these levels."""
        features = self.mode_features[str(settings.get(_MODE, mode))]
        return features | {Feature.REMOTE} if settings.get("app.calls") == "remote" else features

    def properties(self, mode: str, settings: Settings) -> dict[str, str]:
        """System properties of the server for these levels; a knob without one keeps its default. Raises UsageError."""
        levels = {_MODE: mode, **settings}
        return {f"{self.name}.{key}": str(levels[name]) for name, key in self.health_keys.items() if name in levels}

    def level(self, name: str, health: Mapping[str, Any]) -> Level:
        """A knob's level from what the running application says of itself. Raises LookupError."""
        if name not in self.health_keys:
            raise LookupError(f"{self.name} has no knob {name}; it has {', '.join(catalogue.load(self.name))}")
        try:
            answer = health[self.health_keys[name]]
        except KeyError:
            raise LookupError(f"{self.name} does not tell the level of {name}") from None
        kind = catalogue.knob_of(self.name, name).kind
        return int(answer) if kind is Kind.INTEGER else float(answer) if kind is Kind.DURATION else str(answer)

    def read_back(self, url: str, knob: str) -> Level:
        return self.level(knob, ask(self.name, url, READY.path))

    def change(self, url: str, levels: Settings) -> None:
        """Set live levels in the running application. Raises LookupError."""
        costs = urlencode({self.health_keys[name]: level for name, level in levels.items()})
        ask(self.name, url, f"/extra-costs?{costs}", method="POST")

    def companions(self, settings: Settings) -> Sequence[Companion]:
        del settings
        return ()

    # the artefacts -------------------------------------------------------------------------------------------

    @property
    def modules(self) -> tuple[str, ...]:
        """Those of Maven, in the order they are built."""
        return ("common", f"{self.name}-core", f"{self.name}-war", f"{self.name}-tools")

    def tools(self) -> Path:
        """The jar that loads and audits (``java -jar ... --help``)."""
        return self.artefact(f"{self.name}-tools", f"{self.name}-tools.jar")

    def artefact(self, module: str, name: str) -> Path:
        workloads = self._sources()
        return workloads / module / "target" / name if workloads else self._package / "_java" / name

    def built(self, path: Path) -> Path:
        if path.is_file():
            return path
        remedy = "run `make install`" if self._sources() else "the installation is damaged, install leadline again"
        raise LeadlineError(f"{self.name} is not built: {path} does not exist; {remedy}")

    def build(self, progress: Progress) -> None:
        """Build what is missing or older than its sources; nothing to do in an installed package.

        Raises LeadlineError with Maven's own words.
        """
        workloads = self._sources()
        built = (*self.archives(), self.tools())
        if workloads is None:
            self.built(built[0])
            self.built(self.tools())
            return
        files = _source_files(workloads, self.modules)
        build(f"the application {self.name}", workloads, self.modules, files, built, progress)

    def _sources(self) -> Path | None:
        workloads = self._package.parent / "workloads"
        return workloads if (workloads / f"{self.name}-war" / "pom.xml").is_file() else None

    # the data ------------------------------------------------------------------------------------------------

    def data_key(self, load_units: int, seed: int) -> str:
        """``NAME-u<units>-s<seed>-<hash of schema and generator>``. Raises LeadlineError when it is not built."""
        digest = hashlib.sha256()
        folder = f"leadline/{self.name}"
        code = (f"{folder}/data/", f"{folder}/sql/schema.sql", f"{folder}/sql/indexes.sql", *self.code, *_SHARED_CODE)
        with zipfile.ZipFile(self.built(self.tools())) as jar:
            for name in sorted(jar.namelist()):
                if name.startswith(code) and not name.endswith("/"):
                    digest.update(name.encode() + b"\0" + hashlib.sha256(jar.read(name)).digest())
        return f"{self.name}-u{load_units}-s{seed}-{digest.hexdigest()[:12]}"

    def load_data(self, database: Endpoint, load_units: int, seed: int, log: Path) -> None:
        """Drop what is there, create the tables and fill them. Raises TrialFailure(infrastructure)."""
        done = self.run_tools("load", database, _scale(load_units, seed), log, LOAD_TIMEOUT)
        if done.returncode:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"the data of {self.name} could not be loaded: {last_line(done)}",
                evidence(done),
            )

    def audit_files(
        self,
        counts: Counts,
        load: AskedFor = None,  # noqa: ARG002
    ) -> Mapping[str, object]:
        """Options of the audits that name a file, and its content as JSON."""
        plain = {name: {key: int(count[key]) for key in _COUNTS if key in count} for name, count in counts.items()}
        return {"--counts": plain}

    def audit(
        self, database: Endpoint, load_units: int, seed: int, counts: Counts, log: Path, load: AskedFor = None
    ) -> Sequence[AuditResult]:
        """All audits, also those that did not pass. Raises TrialFailure(infrastructure) when they could not be run."""
        with Scratch(shared=True) as scratch:
            arguments = _scale(load_units, seed)
            for option, content in self.audit_files(counts, load).items():
                file = scratch / f"{option.strip('-')}.json"
                file.write_text(json.dumps(content), encoding="utf-8")
                file.chmod(0o644)  # read by another user
                arguments += [option, str(file)]
            done = self.run_tools("audit", database, arguments, log, AUDIT_TIMEOUT)
        try:
            audits = [
                AuditResult(
                    str(audit["name"]),
                    bool(audit["passed"]),
                    str(audit["detail"]),
                    str(audit["name"]).startswith(_COUNTED),
                )
                for audit in from_json(done.stdout)["audits"]
            ]
        except (ValueError, KeyError, TypeError):
            audits = []
        failed = any(not result.passed for result in audits)
        if not audits or done.returncode != (1 if failed else 0):
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"the audits of {self.name} could not be run: {last_line(done)}",
                evidence(done),
            )
        return audits

    def run_tools(
        self, subcommand: str, database: Endpoint, arguments: Sequence[str], log: Path, timeout: float
    ) -> Completed:
        """The password goes by the environment: a command line can be read by every user of the host."""
        java = (self._java_home or find_java()) / "bin" / "java"
        command = [str(java), "-XX:+UseSerialGC", "-Xmx256m", "-jar"]
        command += [str(self.built(self.tools())), subcommand, "--url", database.jdbc_url, "--user", database.user]
        environment = java_environment(**{f"{self.name.upper()}_DB_PASSWORD": database.password})
        try:
            reads = [java.parent.parent, self.tools(), *(Path(word) for word in arguments if word.startswith("/"))]
            done = here.alone([*command, *arguments], reads, timeout=timeout, env=environment)
        except TimeoutError:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, f"{self.name}-tools {subcommand} did not end within {timeout:g} s"
            ) from None
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as out:
            out.write(f"{self.name}-tools {subcommand} {' '.join(arguments)}\n{done.stdout}{done.stderr}")
            out.write(f"exit code {done.returncode}\n")
        return done


def able(needs: Set[Feature], servers: Mapping[str, Set[Feature]]) -> str:
    """The servers that can do it, for a message."""
    return " and ".join(name for name, can in servers.items() if needs <= can)


def _source_files(workloads: Path, modules: Sequence[str]) -> list[Path]:
    """What the build reads; the folders too, so that a deleted file counts as a change."""
    files = [workloads / "pom.xml"]
    for module in modules:
        files.append(workloads / module / "pom.xml")
        files.extend((workloads / module / "src" / "main").rglob("*"))
    return files


def _scale(load_units: int, seed: int) -> list[str]:
    return ["--units", str(load_units), "--seed", str(seed)]


def last_line(done: Completed) -> str:
    """Of stack traces the innermost cause of the last one."""
    lines = [line for line in done.stderr.splitlines() if line.strip() and not _FRAME.match(line)]
    return lines[-1].strip() if lines else f"exit code {done.returncode} without a word"


def evidence(done: Completed) -> str:
    lines = (done.stdout + done.stderr).strip().splitlines()
    if len(lines) > _EVIDENCE_LINES:
        lines = [line for line in lines if not _FRAME.match(line)]
    return "\n".join(lines[-_EVIDENCE_LINES:])


def ask(name: str, url: str, path: str, timeout: float = 10.0, method: str = "GET") -> dict[str, Any]:
    """The JSON object at ``url`` + ``path`` of the running application ``name``. Raises LookupError."""
    at = urlsplit(url + path)
    connection = connection_to(url, timeout)
    try:
        connection.request(method, f"{at.path}?{at.query}" if at.query else at.path, headers={"Connection": "close"})
        answer = from_json(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise LookupError(f"{name} does not answer at {url}{path}: {error}") from error
    finally:
        connection.close()
    if not isinstance(answer, dict):
        raise LookupError(f"{url}{path} is not an object")
    return answer
