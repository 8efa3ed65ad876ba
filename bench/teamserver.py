"""A private PostgreSQL server for labs: what benches and tests share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from leadline.host.base import Process
from leadline.host.local import LocalHost
from leadline.stack import postgres as client
from leadline.stack.base import ServiceContext
from leadline.stack.postgres import Postgres
from leadline.store.lab import init_lab


@dataclass
class TeamServer:
    """``process``: of the running server."""

    database: Postgres
    process: Process

    @property
    def url(self) -> str:
        """With the password."""
        where = self.database.endpoint()
        return f"postgresql://{where.user}:{where.password}@{where.host}:{where.port}/{where.database}"

    def run(self, *statements: str) -> None:
        with client.connect(self.database.endpoint(), timeout=60) as connection:
            for statement in statements:
                connection.run(statement)

    def start(self) -> None:
        self.process = self.database.start()
        self.database.wait_ready(60)


STORES = ("sqlite", "postgresql")


@contextmanager
def labs(home: Path, stores: Collection[str]) -> Iterator[Callable[[str, str], Path]]:
    """Makes a lab on a store, by a name of its own; a server is started in ``home`` where one is needed."""
    with ExitStack() as held:
        server = held.enter_context(team_server(home / "postgresql")) if "postgresql" in stores else None

        def new_lab(store: str, name: str) -> Path:
            url = f"{server.url}?schema={name}" if server and store == "postgresql" else None
            return init_lab(home / f"{store}_{name}", url).directory

        yield new_lab


@contextmanager
def team_server(home: Path, safe: bool = True) -> Iterator[TeamServer]:
    """Started in ``home``, which keeps its data; stopped at the end. Unless it is ``safe`` it waits for no disk, as a
    test of no power failure can.
    """
    database = Postgres()
    database.provision(lambda _: None)
    host = LocalHost(state=home / "state")
    context = ServiceContext(host=host, directory=home / "server", artefacts=home / "logs")
    database.configure(context, {"database.max_connections": 200, "database.fsync": safe})
    server = TeamServer(database, database.start())
    try:
        database.wait_ready(60)
        yield server
    finally:
        database.stop()
