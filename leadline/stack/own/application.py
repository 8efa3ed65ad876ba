"""An application of one's own as the lab sees it: its data and its audits (``leadline.stack.base.Application``)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pymysql.constants import CLIENT

from leadline.host import here
from leadline.host.base import Process
from leadline.host.paths import Scratch
from leadline.host.textfile import read_text
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, did_you_mean, nearest, quoted
from leadline.model.knob import AtStart, Knob, Level
from leadline.model.ownparts import Audit, terms
from leadline.model.ownstack import OwnFile
from leadline.model.received import from_json
from leadline.stack import mariadb, postgres, started
from leadline.stack.base import (
    AskedFor,
    AuditResult,
    Counts,
    DataSource,
    Deployment,
    Endpoint,
    Opaque,
    Progress,
    Ready,
    ServiceContext,
    Settings,
)
from leadline.stack.own.words import artifact, beside, client_of, full
from leadline.stack.probe import PROMPT


class OwnDatabase(AtStart):
    """Implements ``leadline.stack.base.Database`` where there is nothing to start (``runs`` is false); ``restore``
    runs the reset command of the stack file, where there is one.
    """

    runs = False
    stop_signal = 0

    def __init__(self, own: OwnFile) -> None:
        self._own = own
        self._context: ServiceContext | None = None

    @property
    def name(self) -> str:
        return "database"

    @property
    def version(self) -> str:
        """How its data are put back."""
        stack = self._own.content.database
        ways = {"none": "none", "keep": "the application's own, never put back"}
        return ways.get(stack.kind, f"the application's own, put back by {' '.join(stack.reset or [])}")

    def knobs(self) -> Sequence[Knob]:
        return ()

    def read_back(self, name: str) -> Level:
        raise LookupError(f"leadline does not know the application's own database: no {name}")

    def provision(self, progress: Progress) -> None:
        del progress

    def configure(self, context: ServiceContext, settings: Settings) -> None:
        del settings
        self._context = context

    def start(self) -> Process:
        raise LeadlineError("the application's own database is not started by leadline")

    def wait_ready(self, timeout: float) -> float:
        del timeout
        return 0.0

    def stop(self) -> bool:
        return True

    def words(self) -> str:
        """Nothing that leadline hears."""
        return ""

    def log_tail(self, lines: int = 40) -> str:
        del lines
        return ""

    def artefacts(self) -> Sequence[Path]:
        return ()

    def endpoint(self) -> Endpoint:
        """Without a subprotocol: nothing that leadline could ask."""
        return Endpoint("", 0, "", "", "", subprotocol="")

    def settle(self) -> None:
        """Nothing is loaded."""

    def stats(self) -> Mapping[str, float]:
        raise LookupError("leadline does not know the application's own database")

    def track(self, on: bool) -> None:
        del on

    def statements(self) -> Mapping[str, float]:
        return {}

    def gauges(self) -> Sequence[str]:
        return ()

    def snapshot(self, name: str) -> None:
        del name

    def has_snapshot(self, name: str) -> bool:
        del name
        return True

    def restore(self, name: str) -> None:
        """Raises TrialFailure(infrastructure) when the reset command fails, with its last words."""
        del name
        database = self._own.content.database
        if database.reset is None:
            return
        words = full(self._own, database.reset)
        try:
            done = here.run(words, timeout=database.within, env=dict(os.environ), cwd=Path(self._own.file).parent)
        except OSError as error:  # also: it took too long
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"the reset command {words[0]}: {error}") from error
        output = f"{done.stdout}{done.stderr}".strip()
        if self._context is not None:
            self._context.artefacts.mkdir(parents=True, exist_ok=True)
            (self._context.artefacts / "reset.log").write_text(f"{output}\n")
        if done.returncode:
            last = output.splitlines()[-1] if output else "without a word"
            problem = f"the reset command {words[0]} ended with exit code {done.returncode}: {last}"
            raise TrialFailure(FailureClass.INFRASTRUCTURE, problem, output)


# SQL files and single questions for leadline's own databases.


def run_file(endpoint: Endpoint, path: Path, timeout: float) -> None:
    """All statements of a file in order. Raises TrialFailure(infrastructure) with the database's words."""
    try:
        run(endpoint, read_text(path), timeout)
    except started.QueryError as error:
        raise TrialFailure(FailureClass.INFRASTRUCTURE, f"{path} was refused by the database: {error}") from error


def run(endpoint: Endpoint, text: str, timeout: float) -> None:
    """Statements with semicolons between them. Raises QueryError."""
    if endpoint.subprotocol == "postgresql":
        with postgres.connect(endpoint, timeout) as connection:
            connection.run(text)
        return
    with (
        mariadb.connect(endpoint, timeout, CLIENT.MULTI_STATEMENTS) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(text)
        while cursor.nextset():
            pass


def one(endpoint: Endpoint, statement: str, timeout: float) -> float:
    """The number in the first column of the first row. Raises QueryError, LookupError."""
    rows: Any
    if endpoint.subprotocol == "postgresql":
        with postgres.connect(endpoint, timeout) as connection:
            rows = connection.run(statement)
    else:
        with mariadb.connect(endpoint, timeout) as connection:
            rows = mariadb.query(connection, statement)
    try:
        return float(rows[0][0])
    except (IndexError, TypeError, ValueError):
        raise LookupError(f"it gives no number: {str(rows)[:80]}") from None


_SHOWN = 12  # digits of an artifact's hash


class OwnApplication(Opaque):
    """Its knobs are those of the command that runs it."""

    def __init__(self, own: OwnFile, pool: str = "") -> None:
        super().__init__()
        self._own = own
        self._pool = pool  # of the server that runs it

    @property
    def name(self) -> str:
        return self._own.content.stack

    @property
    def version(self) -> str:
        """Name and hash of what is measured, and of the stack file."""
        file = artifact(self._own)
        digest = hashlib.sha256(self._own.content.model_dump_json().encode()).hexdigest()[:_SHOWN]
        return f"{file.name} {_digest(file)[:_SHOWN]}, stack file {digest}"

    def scenarios(self) -> Sequence[str]:
        scenario = self._own.content.scenario
        return (str(beside(self._own, scenario)),) if scenario else ()

    def deployment(self, mode: str, settings: Settings) -> Deployment:
        del mode, settings
        stack = self._own.content
        return Deployment(
            name=self.name,
            archive=artifact(self._own),
            context_root=stack.root,
            data_source=DataSource(self._pool or f"jdbc/{self.name}"),
            profile="" if stack.war is None else "full" if stack.war.lower().endswith(".ear") else "web",
            ready=Ready(stack.ready.path, stack.ready.status, stack.ready.says),
            first_start=stack.database.first_start,
        )

    def build(self, progress: Progress) -> None:
        """It is built already."""
        del progress

    # the data ------------------------------------------------------------------------------------------------

    def data_key(self, load_units: int, seed: int) -> str:
        """Name and hash of the SQL files, and of the artifact where its first start makes the data."""
        del load_units, seed
        database, digest = self._own.content.database, hashlib.sha256()
        for name in database.sql:
            digest.update(beside(self._own, name).read_bytes() + b"\0")
        if database.first_start:
            digest.update(_digest(artifact(self._own)).encode())
            digest.update(json.dumps([self._own.content.words, dict(self._own.content.environment)]).encode())
        return f"{self.name}-{digest.hexdigest()[:_SHOWN]}"

    def load_data(self, database: Endpoint, load_units: int, seed: int, log: Path) -> None:
        """Raises TrialFailure(infrastructure)."""
        del load_units, seed, log
        for name in self._own.content.database.sql:
            run_file(database, beside(self._own, name), self._own.content.database.within)

    # the audits ----------------------------------------------------------------------------------------------

    def audit(
        self, database: Endpoint, load_units: int, seed: int, counts: Counts, log: Path, load: AskedFor = None
    ) -> Sequence[AuditResult]:
        """All audits, also those that did not pass."""
        del load_units, seed, load
        return [self._checked(audit, database, counts, log) for audit in self._own.content.audits]

    def _checked(self, audit: Audit, database: Endpoint, counts: Counts, log: Path) -> AuditResult:
        try:
            passed, detail = self._check(audit, database, counts, log)
        except (LookupError, OSError, ValueError, started.QueryError) as error:
            passed, detail = False, str(error)
        return AuditResult(audit.name, passed, detail, audit.counted)

    def _check(self, audit: Audit, database: Endpoint, counts: Counts, log: Path) -> tuple[bool, str]:
        if command := audit.command:
            return self._run(command, audit.within, counts, log)
        if audit.http is not None and audit.equals is None:
            status, _ = fetched(self._url, audit.http, audit.within, self._own)
            return status == 200, f"{audit.http}: HTTP {status}"
        if audit.sql is not None:
            value = one(database, audit.sql, audit.within)
        else:
            status, body = fetched(self._url, audit.http or "/", audit.within, self._own)
            if status != 200:
                return False, f"{audit.http}: HTTP {status}"
            value = float(picked(body, audit.key or ""))
        wanted = sum(
            factor * (_count(counts, transaction, outcome) if transaction else 1)
            for factor, transaction, outcome in terms(audit.equals or "")
        )
        return abs(value - wanted) < 1e-9 * max(1.0, abs(wanted)), f"{value:.15g} found, {wanted:.15g} wanted"

    def _run(self, command: Sequence[str], within: float, counts: Counts, log: Path) -> tuple[bool, str]:
        with Scratch() as scratch:
            file = scratch / "counts.json"
            file.write_text(json.dumps({name: dict(counts_of) for name, counts_of in counts.items()}))
            environment = {**os.environ, "LEADLINE_COUNTS": str(file)}
            words = full(self._own, command)
            folder = Path(self._own.file).parent
            done = here.run(words, timeout=within, env=environment, cwd=folder)
        output = f"{done.stdout}{done.stderr}".strip()
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as out:
            out.write(f"{' '.join(words)}\n{output}\nexit code {done.returncode}\n")
        last = f": {output.splitlines()[-1][:200]}" if output else ""
        return done.returncode == 0, f"exit code {done.returncode}{last}"


def fetched(url: str, path: str, within: float = PROMPT, own: OwnFile | None = None) -> tuple[int, str]:
    """Status and text of a path below the address of a running application. Raises OSError, ValueError."""
    at = urlsplit(url)
    status, _, body = client_of(own, at.port or 80, within).get(f"{at.path}{path}")
    return status, body.decode(errors="replace")


def picked(text: str, key: str) -> str:
    """``pool.size`` of a JSON text; the whole text where ``key`` is empty. Raises LookupError, ValueError."""
    if not key:
        return text
    value: Any = from_json(text)
    for part in key.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            there = list(value) if isinstance(value, Mapping) else []
            near = nearest(part, [str(key) for key in there])
            hint = f"; did you mean {near}?" if near else f"; there is {', '.join(map(str, there[:10]))}" * bool(there)
            raise LookupError(f"the response has no {quoted(key)}: no {quoted(part)}{hint}")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _count(counts: Counts, transaction: str, outcome: str) -> int:
    if transaction not in counts:
        hint = did_you_mean(transaction, list(counts)) or f"it counted {', '.join(counts) or 'none'}"
        raise LookupError(f"the driver counted no transaction {quoted(transaction)}; {hint}")
    return int(counts[transaction][outcome])


def _digest(file: Path) -> str:
    try:
        status = file.stat()
        return _hashed(file, status.st_mtime_ns, status.st_size)
    except OSError:
        return "absent"


@lru_cache(maxsize=16)
def _hashed(file: Path, changed: int, size: int) -> str:  # noqa: ARG001 - a new file is read again
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
