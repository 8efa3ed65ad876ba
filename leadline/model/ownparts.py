"""Parts of a stack file: when an application is up, its data, its audits, what it attaches to, its containers."""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from leadline.model.bounds import HOUR, FilePath, Label, RawLevel, Strict, count, duration
from leadline.model.errors import KeyedError, quoted
from leadline.model.ownknob import HttpPath


def _words(command: object) -> object:
    """A list of words from one text, as a shell splits it."""
    return shlex.split(command) if isinstance(command, str) else command


def _text(raw: object) -> object:
    return str(raw) if isinstance(raw, (int, float)) and not isinstance(raw, bool) else raw


Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=100)]
Within = Annotated[float, duration(0.1, HOUR)]
Word = Annotated[str, Field(min_length=1, max_length=4_000)]
Command = Annotated[list[Word], BeforeValidator(_words), Field(min_length=1, max_length=1_000)]
Text = Annotated[str, BeforeValidator(_text)]


class Ready(Strict):
    """When it is up: a path below its address is answered by this status, and by a JSON object with these entries."""

    path: HttpPath = "/"
    status: Annotated[int, count(599, least=100)] = 200
    says: dict[Label, RawLevel] = Field(
        default_factory=dict, max_length=20, description="entries of the response's JSON: `{ status: UP }`"
    )
    within: Within | None = Field(default=None, description="from its start; the study's ready_timeout if absent")


class Stop(Strict):
    """How it ends: SIGTERM, and SIGKILL after this time."""

    within: Within | None = Field(default=None, description="30 s, or as long as its start took, if absent")


class OwnDatabase(Strict):
    """Where its data are, and how each trial gets the same ones."""

    kind: Literal["none", "postgres", "mariadb", "command", "keep"] = Field(
        default="none",
        description="none: it has no data beside its directory; postgres, mariadb: leadline's own, put back to a "
        "snapshot before each trial; command: its own, put back by `reset`; keep: its own, never put back",
    )
    sql: Annotated[list[FilePath], Field(max_length=100)] = Field(
        default_factory=list, description="files that are run on the empty database, in order"
    )
    first_start: bool = Field(
        default=False, description="the application is started once before the snapshot: migrations, own seed data"
    )
    reset: Command | None = Field(default=None, description="of the kind command: run before each trial, while stopped")
    within: Within = Field(default=60.0, description="the reset command, and each SQL file, ends")

    @property
    def private(self) -> bool:
        return self.kind in ("postgres", "mariadb")

    @model_validator(mode="after")
    def _of_its_kind(self) -> OwnDatabase:
        for name in ("sql", "first_start"):
            if getattr(self, name) and not self.private:
                raise KeyedError((name,), f"{name} is for leadline's own database: write `kind: postgres` or mariadb")
        if (self.reset is not None) != (self.kind == "command"):
            raise KeyedError(("reset",), "`kind: command` and its `reset` command come together")
        return self


class Audit(Strict):
    """A check of the work after a run. One of ``sql``, ``http``, ``command``."""

    name: Name
    sql: Annotated[str, Field(min_length=1, max_length=10_000)] | None = Field(
        default=None, description="one statement, whose first column of the first row is compared"
    )
    http: HttpPath | None = Field(default=None, description="path below the address; its JSON's `key` is compared")
    command: Command | None = Field(default=None, description="passes with exit code 0")
    key: Label | None = Field(default=None, description="of the response's JSON: `orders.count`")
    equals: Annotated[Text, Field(max_length=1_000)] | None = Field(
        default=None, description="a number, or a sum over the driver's counts: `100 + ${counts.order.ok}`"
    )
    within: Within = 60.0

    @property
    def counted(self) -> bool:
        """Whether it holds the data against what leadline's own driver counted."""
        words = [self.equals or "", *(self.command or ())]
        return any("${counts." in word for word in words)

    @model_validator(mode="after")
    def _one_way(self) -> Audit:
        ways = [way for way in ("sql", "http", "command") if getattr(self, way) is not None]
        if len(ways) != 1:
            raise KeyedError((), f"it says {' and '.join(ways) or 'nothing'}; write one of sql, http and command")
        if (self.equals is not None) != ("command" not in ways) and not (self.http and not self.key):
            raise KeyedError((ways[0],), f"{ways[0]} is compared with `equals`; a command tells by its exit code")
        if self.key is not None and self.http is None:
            raise KeyedError(("key",), "`key` belongs to `http`")
        if self.equals is not None:
            try:
                terms(self.equals)
            except ValueError as error:
                raise KeyedError(("equals",), str(error)) from None
        return self


_TERM = re.compile(r"\s*([+-]?)\s*(?:(\d+(?:\.\d+)?)|\$\{counts\.([^.}]+)\.(ok|failed)\})")


def terms(text: str) -> list[tuple[float, str, str]]:
    """A sum as factor, transaction and ``ok`` or ``failed`` of each term; both empty for a number.

    Raises ValueError.
    """
    terms: list[tuple[float, str, str]] = []
    at = 0
    while at < len(text.rstrip()):
        term = _TERM.match(text, at)
        if term is None or (terms and not term[1]):
            example = "`42`, `${counts.order.ok}` or `100 + ${counts.order.ok}`"
            raise ValueError(f"equals: {quoted(text)} is no sum of numbers and counts; write {example}")
        sign = -1.0 if term[1] == "-" else 1.0
        terms.append((sign * float(term[2]), "", "") if term[2] else (sign, term[3], term[4]))
        at = term.end()
    if not terms:
        raise ValueError("equals: it is empty")
    return terms


class Attach(Strict):
    """A process that runs already, by one of ``port``, ``pid``, ``pid_file``, ``unit``."""

    port: Annotated[int, count(65_535)] | None = Field(default=None, description="on which it listens")
    pid: Annotated[int, count(1 << 22)] | None = Field(default=None, description="its number; with `port` of the file")
    pid_file: FilePath | None = Field(default=None, description="that holds its number; with `port` of the file")
    unit: Label | None = Field(default=None, description="of systemd; with `port` of the file")

    @property
    def title(self) -> str:
        """How it is named: `port 8080`."""
        return next(f"{way.replace('_', ' ')} {named}" for way, named in self.model_dump().items() if named is not None)

    @model_validator(mode="after")
    def _one_way(self) -> Attach:
        ways = [way for way, named in self.model_dump().items() if named is not None]
        if len(ways) != 1:
            raise KeyedError(
                (), f"it says {' and '.join(ways) or 'nothing'}; write one of port, pid, pid_file and unit"
            )
        return self


class Compose(Strict):
    """A service of a compose file, which leadline starts with those that it depends on, as a project of its own."""

    file: FilePath = Field(default="compose.yaml", description="the compose file")
    service: Label = Field(description="of the compose file: the one that is varied and measured")
    command: Command = Field(
        default=["docker", "compose"], description="what reads compose files: `docker-compose`, `podman-compose`"
    )

    @property
    def engine(self) -> str:
        """The program that knows the containers themselves, `docker` of `docker-compose`."""
        return self.command[0].rpartition("/")[2].partition("-")[0]


class SettingsFile(Strict):
    """A file that the application reads at its start: made from a template, and put back at the end."""

    path: FilePath = Field(description="the file, such as `/etc/shop/shop.env`")
    template: FilePath = Field(description="its text with placeholders, beside the stack file")
