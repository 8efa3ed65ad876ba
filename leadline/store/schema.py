"""The lab's tables. One schema for SQLite (WAL) and, for teams, PostgreSQL."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    VARCHAR,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    literal_column,
)

from leadline.host.private import redacted
from leadline.model.errors import FailureClass
from leadline.model.record import TrialState

metadata = MetaData()
PARTS = ("driver", "raw", "series", "logs")  # of an attempt's directory
NAME = VARCHAR().with_variant(VARCHAR(collation="C"), "postgresql")  # sorted alike in every database


def without_nul(value: Any) -> Any:
    """PostgreSQL keeps no NUL characters, which a log may hold."""
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value


class TEXT(TypeDecorator[str]):
    """What programs and people said, without the secrets that are known."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        return redacted(without_nul(value)) if isinstance(value, str) else value


studies = Table(
    "studies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", NAME, nullable=False),
    Column("key", NAME, nullable=False),  # hash of the effective study: what makes a run resumable
    Column("study", TEXT, nullable=False),  # the effective study, JSON
    Column("document", TEXT, nullable=False),  # the file as the user wrote it
    Column("plan", TEXT, nullable=False),
    Column("environment", TEXT, nullable=False),
    Column("skipped", TEXT, nullable=False),
    Column("created", Float, nullable=False),
    Column("version", NAME, nullable=False),
)

trials = Table(
    "trials",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("study_id", ForeignKey("studies.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("state", NAME, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("started", Float),
    Column("ended", Float),
    Column("failure", NAME),
    Column("failure_message", TEXT, nullable=False, default=""),
    Column("evidence", TEXT, nullable=False, default=""),
    Column("steady", TEXT),
    Column("phases", TEXT),
    Column("directory", TEXT),  # relative to the lab
    UniqueConstraint("study_id", "position"),
)
# Claims ask for them whenever a block is taken.
RUNNING = trials.c.state == literal_column(f"'{TrialState.RUNNING.value}'")
running_trials = Index("running_trials", trials.c.study_id, sqlite_where=RUNNING, postgresql_where=RUNNING)

# As ``TrialRecord.is_left`` has it.
RUNS_AGAIN = trials.c.failure.in_((FailureClass.INTERRUPTED.value, FailureClass.DISTURBED.value))
LEFT = trials.c.state.in_((TrialState.PLANNED, TrialState.RUNNING)) | RUNS_AGAIN

# A row for every time that a block was given to somebody; its token is the right to write (``leadline.store.claims``).
blocks = Table(
    "blocks",
    metadata,
    Column("token", NAME, primary_key=True),
    Column("study_id", ForeignKey("studies.id"), nullable=False),
    Column("block", Integer, nullable=False),
    Column("run", Integer, nullable=False),  # from 1
    Column("owner", NAME, nullable=False),  # who was given it
    Column("host", NAME, nullable=False, default=""),  # where it ran
    Column("job", NAME, nullable=False, default=""),  # what ran it there
    Column("state", NAME, nullable=False),
    Column("begun", Float, nullable=False),
    Column("leased_until", Float, nullable=False),
    Column("ended", Float),
    UniqueConstraint("study_id", "block", "run"),
)

# Everything below belongs to one attempt of a trial; earlier attempts are kept.
attempts = Table(
    "attempts",
    metadata,
    Column("trial_id", ForeignKey("trials.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("started", Float, nullable=False),
    Column("ended", Float),
    Column("failure", NAME),
    Column("failure_message", TEXT, nullable=False, default=""),
    Column("evidence", TEXT, nullable=False, default=""),
    Column("token", NAME),  # of the run of its block; absent in labs of before
)

steps = Table(
    "steps",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("trial_id", ForeignKey("trials.id"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("name", NAME, nullable=False),
    Column("started", Float, nullable=False),
    Column("ended", Float),
    Column("detail", TEXT, nullable=False, default=""),
    Index("steps_by_trial", "trial_id", "attempt"),
)

readings = Table(
    "readings",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("trial_id", ForeignKey("trials.id"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("knob", NAME, nullable=False),
    Column("phase", NAME, nullable=False),
    Column("wanted", TEXT),
    Column("found", TEXT, nullable=False),
    Column("matches", Boolean, nullable=False),
    Index("readings_by_trial", "trial_id", "attempt"),
)

responses = Table(
    "responses",
    metadata,
    Column("trial_id", ForeignKey("trials.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("name", NAME, primary_key=True),
    Column("value", Float, nullable=False),
    Column("at_least", Boolean),  # whether the value is only a lower bound; absent in labs of before
)

# Slots of a switchback trial: a row from just before its levels are set. Times: unix ns by the clock of the load.
slots = Table(
    "slots",
    metadata,
    Column("trial_id", ForeignKey("trials.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("slot", Integer, primary_key=True),
    Column("due_ns", BigInteger, nullable=False),
    Column("wanted", TEXT, nullable=False),  # levels of the live factors, JSON
    Column("set_from_ns", BigInteger),  # before the first level was set
    Column("set_at_ns", BigInteger),  # after the last level was read back
    Column("found", TEXT),  # levels read, JSON
    Column("matches", Boolean),
    Column("failure", NAME),
    Column("failure_message", TEXT, nullable=False, default=""),
    Column("measured_from_ns", BigInteger),
    Column("measured_until_ns", BigInteger),
    Column("left_out", TEXT, nullable=False, default=""),
)

slot_responses = Table(
    "slot_responses",
    metadata,
    Column("trial_id", ForeignKey("trials.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("slot", Integer, primary_key=True),
    Column("name", NAME, primary_key=True),
    Column("value", Float, nullable=False),
    Column("at_least", Boolean),  # whether the value is only a lower bound; absent in labs of before
)

# What else the machine did, of a trial (slot -1) and its slots. Names as in ``model.disturbance``; "program NAME".
machine_use = Table(
    "machine_use",
    metadata,
    Column("trial_id", ForeignKey("trials.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("slot", Integer, primary_key=True),
    Column("name", NAME, primary_key=True),
    Column("value", Float, nullable=False),
)

audits = Table(
    "audits",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("trial_id", ForeignKey("trials.id"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("name", NAME, nullable=False),
    Column("passed", Boolean, nullable=False),
    Column("detail", TEXT, nullable=False),
    Index("audits_by_trial", "trial_id", "attempt"),
)

artefacts = Table(
    "artefacts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("trial_id", ForeignKey("trials.id"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("path", TEXT, nullable=False),  # relative to the trial's directory
    Column("sha256", NAME, nullable=False),
    Column("size", BigInteger, nullable=False),
    Index("artefacts_by_trial", "trial_id", "attempt"),
    Index("artefacts_by_content", "sha256"),
)

# One row: what the place of the lab's files knows it by (``leadline.store.artefacts``).
identity = Table("identity", metadata, Column("lab", NAME, primary_key=True))

# A tuning is a sequence of studies; each of its comparisons ("parts") is one of the studies above.
tunings = Table(
    "tunings",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", NAME, nullable=False),
    Column("key", NAME, nullable=False),  # hash of the effective tuning without its budget
    Column("tuning", TEXT, nullable=False),  # the effective tuning, JSON
    Column("document", TEXT, nullable=False),  # the file as the user wrote it
    Column("left_out", TEXT, nullable=False),  # steps that cannot be tried here, with reasons, JSON
    Column("passed_over", TEXT, nullable=False),  # steps passed over for want of time, JSON
    Column("created", Float, nullable=False),
    Column("finished", Float),
    Column("version", NAME, nullable=False),
)

tuning_parts = Table(
    "tuning_parts",
    metadata,
    Column("tuning_id", ForeignKey("tunings.id"), primary_key=True),
    Column("part", NAME, primary_key=True),  # its key
    Column("study_id", ForeignKey("studies.id"), nullable=False),
)

migrations = Table(
    "migrations",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("applied", Float, nullable=False),
)
