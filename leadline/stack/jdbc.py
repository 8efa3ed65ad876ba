"""JDBC drivers: from here a server takes driver jar, class names and URL for its pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from leadline.model.errors import UsageError
from leadline.stack.base import Endpoint, Progress
from leadline.stack.provision import Artefact, fetch


@dataclass(frozen=True)
class JdbcDriver:
    """The driver of one database. The classes are those that JDBC 4.3 names, for a server to choose from.

    ``pool_parameters`` turn the driver's own statement cache off: it would hide the pool's, which is a factor. With
    each, a statement that the pool keeps is one that the database keeps prepared. ``cache_parameters`` turn it on for
    pools that have none, ``{}`` for the number of statements. ``persistence_properties`` are for providers that do not
    know the database by its name; a server gives them to every persistence unit.
    """

    subprotocol: str  # as in jdbc:<subprotocol>://
    artefact: Artefact
    driver: str  # java.sql.Driver
    data_source: str  # javax.sql.DataSource
    connection_pool_data_source: str  # javax.sql.ConnectionPoolDataSource
    xa_data_source: str  # javax.sql.XADataSource
    pool_parameters: Mapping[str, str]
    refusals: tuple[str, ...]  # what the database says, through the driver, when it has no connection left
    cache_parameters: Mapping[str, str] = field(default_factory=dict)
    persistence_properties: Mapping[str, str] = field(default_factory=dict)

    def jar(self, progress: Progress = lambda _: None) -> Path:
        """Fetched into the cache where it is missing. Raises LeadlineError."""
        return fetch(self.artefact, progress)

    def pool_url(self, endpoint: Endpoint, statements: int = 0) -> str:
        """The URL for a server's pool; user and password are given apart. ``statements``: how many the driver keeps for
        each connection, for pools that keep none.
        """
        cache = self.cache_parameters if statements else {}
        given = {**self.pool_parameters, **{name: value.format(statements) for name, value in cache.items()}}
        parameters = "&".join(f"{name}={value}" for name, value in given.items())
        return f"{endpoint.jdbc_url}?{parameters}"

    def statements(self, url: str) -> int:
        """How many statements the driver keeps for each connection of a pool with this URL."""
        parameters = dict(parse_qsl(urlsplit(url.removeprefix("jdbc:")).query))
        if all(parameters.get(name) == value for name, value in self.pool_parameters.items()):
            return 0
        return int(next(parameters[name] for name, value in self.cache_parameters.items() if value == "{}"))


DRIVERS: dict[str, JdbcDriver] = {}  # by subprotocol; a database's class adds its own


def driver_for(endpoint: Endpoint) -> JdbcDriver:
    """The driver that speaks to this database. Raises UsageError for one that leadline has no driver for."""
    try:
        return DRIVERS[endpoint.subprotocol]
    except KeyError:
        raise UsageError(
            f"there is no JDBC driver for {endpoint.subprotocol}; there is one for {', '.join(sorted(DRIVERS))}"
        ) from None
