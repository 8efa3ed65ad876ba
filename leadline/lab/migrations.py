"""The version of a lab's tables: a lab of an earlier leadline is brought up to date when it is opened.

Migrations are numbered from 1 and never change once released. Each may be run again after a crash in its middle:
SQLite commits every change of a table by itself, PostgreSQL all of them together. New tables need no entry, they are
made where they are missing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from sqlalchemy import Column, Connection, func, insert, inspect, select
from sqlalchemy.schema import CreateColumn

from leadline.lab import schema as t
from leadline.model.errors import LeadlineError

Migration = Callable[[Connection], None]


def _add(connection: Connection, column: Column[object]) -> None:
    """A column of the schema that an older table does not have."""
    table = column.table
    if column.name not in {one["name"] for one in inspect(connection).get_columns(table.name)}:
        told = CreateColumn(column).compile(dialect=connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {told}")


def _blocks(connection: Connection) -> None:
    """Each attempt belongs to a run of its block."""
    _add(connection, t.attempts.c.token)


def _contents(connection: Connection) -> None:
    """The lab has a name of its own, and what is asked for often an index."""
    for index in (*t.artefacts.indexes, t.running_trials):
        index.create(connection, checkfirst=True)
    if connection.execute(select(t.identity)).first() is None:
        connection.execute(insert(t.identity).values(lab=uuid.uuid4().hex))


def _bounds(connection: Connection) -> None:
    """Of a response is known whether it is only a lower bound."""
    _add(connection, t.responses.c.at_least)
    _add(connection, t.slot_responses.c.at_least)


MIGRATIONS: Sequence[Migration] = (_blocks, _contents, _bounds)


def bring_up_to_date(connection: Connection, now: Callable[[], float]) -> None:
    """Make the tables, or what they lack. One process at a time. Raises LeadlineError for tables of a later version."""
    number = _version(connection)
    if number > len(MIGRATIONS):
        raise LeadlineError(
            f"its tables have version {number}, this leadline knows versions up to {len(MIGRATIONS)};"
            " open it with the leadline that wrote it last"
        )
    if number == len(MIGRATIONS):
        return
    t.metadata.create_all(connection, checkfirst=bool(inspect(connection).get_table_names()))
    for following, migrate in enumerate(MIGRATIONS[number:], number + 1):
        migrate(connection)
        connection.execute(insert(t.migrations).values(number=following, applied=now()))


def _version(connection: Connection) -> int:
    """0 for no tables, and for those of before migrations were numbered."""
    if not inspect(connection).has_table(t.migrations.name):
        return 0
    return int(connection.execute(select(func.coalesce(func.max(t.migrations.c.number), 0))).scalar_one())
