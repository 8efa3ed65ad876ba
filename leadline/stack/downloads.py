"""What a stack has to download before it can start, and how far a download is."""

from __future__ import annotations

from contextlib import suppress

from leadline.model.errors import UsageError
from leadline.model.study import StackChoice
from leadline.stack.private import PrivateDatabase
from leadline.stack.provision import Artefact, is_here
from leadline.stack.registry import database_of, server_of

BYTES_PER_SECOND = 10e6  # assumed: no download has been timed on this machine


def downloads(choice: StackChoice) -> list[Artefact]:
    """Distributions of its server, database and JDBC driver that are not in the cache. Raises UsageError."""
    distribution = getattr(server_of(choice), "distribution", None)  # none of an application that is its own server
    wanted: list[Artefact] = [distribution] if distribution is not None else []
    database = database_of(choice)
    if isinstance(database, PrivateDatabase):
        with suppress(UsageError):  # none for this CPU, which the run tells
            wanted.append(database.artefact())
        wanted.append(database.jdbc_driver.artefact)
    return [artefact for artefact in wanted if not is_here(artefact)]


def download_seconds(found: list[Artefact]) -> float:
    return sum(artefact.size for artefact in found) / BYTES_PER_SECOND
