"""SQL files and single questions for leadline's own databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pymysql.constants import CLIENT

from leadline.host.textfile import read_text
from leadline.model.errors import FailureClass, TrialFailure
from leadline.stack import local, mariadb_client, postgres_client
from leadline.stack.base import Endpoint


def run_file(endpoint: Endpoint, path: Path, timeout: float) -> None:
    """All statements of a file in order. Raises TrialFailure(infrastructure) with the database's words."""
    try:
        run(endpoint, read_text(path), timeout)
    except local.QueryError as error:
        raise TrialFailure(FailureClass.INFRASTRUCTURE, f"{path} was refused by the database: {error}") from error


def run(endpoint: Endpoint, text: str, timeout: float) -> None:
    """Statements with semicolons between them. Raises QueryError."""
    if endpoint.subprotocol == "postgresql":
        with postgres_client.connect(endpoint, timeout) as connection:
            connection.run(text)
        return
    with (
        mariadb_client.connect(endpoint, timeout, CLIENT.MULTI_STATEMENTS) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(text)
        while cursor.nextset():
            pass


def one(endpoint: Endpoint, statement: str, timeout: float) -> float:
    """The number in the first column of the first row. Raises QueryError, LookupError."""
    rows: Any
    if endpoint.subprotocol == "postgresql":
        with postgres_client.connect(endpoint, timeout) as connection:
            rows = connection.run(statement)
    else:
        with mariadb_client.connect(endpoint, timeout) as connection:
            rows = mariadb_client.query(connection, statement)
    try:
        return float(rows[0][0])
    except (IndexError, TypeError, ValueError):
        raise LookupError(f"it gives no number: {str(rows)[:80]}") from None
