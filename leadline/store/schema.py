"""The lab's tables. One schema for SQLite (WAL) and, for teams, PostgreSQL."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from leadline.host.textfile import redacted
from leadline.model.errors import FailureClass
from leadline.model.record import TrialState

metadata = sa.MetaData()
PARTS = ("driver", "raw", "series", "logs")  # of an attempt's directory
NAME = sa.VARCHAR().with_variant(sa.VARCHAR(collation="C"), "postgresql")  # sorted alike in every database


def without_nul(value: Any) -> Any:
    """PostgreSQL keeps no NUL characters, which a log may hold."""
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value


class TEXT(sa.TypeDecorator[str]):
    """What programs and people said, without the secrets that are known."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> Any:  # noqa: ARG002
        return redacted(without_nul(value)) if isinstance(value, str) else value


studies = sa.Table(
    "studies",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", NAME, nullable=False),
    sa.Column("key", NAME, nullable=False),  # hash of the effective study: what makes a run resumable
    sa.Column("study", TEXT, nullable=False),  # the effective study, JSON
    sa.Column("document", TEXT, nullable=False),  # the file as the user wrote it
    sa.Column("plan", TEXT, nullable=False),
    sa.Column("environment", TEXT, nullable=False),
    sa.Column("skipped", TEXT, nullable=False),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("version", NAME, nullable=False),
)

trials = sa.Table(
    "trials",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("study_id", sa.ForeignKey("studies.id"), nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("state", NAME, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("started", sa.Float),
    sa.Column("ended", sa.Float),
    sa.Column("failure", NAME),
    sa.Column("failure_message", TEXT, nullable=False, default=""),
    sa.Column("evidence", TEXT, nullable=False, default=""),
    sa.Column("steady", TEXT),
    sa.Column("phases", TEXT),
    sa.Column("directory", TEXT),  # relative to the lab
    sa.UniqueConstraint("study_id", "position"),
)
# Claims ask for them whenever a block is taken.
RUNNING = trials.c.state == sa.literal_column(f"'{TrialState.RUNNING.value}'")
running_trials = sa.Index("running_trials", trials.c.study_id, sqlite_where=RUNNING, postgresql_where=RUNNING)

# As ``TrialRecord.is_left`` has it.
RUNS_AGAIN = trials.c.failure.in_((FailureClass.INTERRUPTED.value, FailureClass.DISTURBED.value))
LEFT = trials.c.state.in_((TrialState.PLANNED, TrialState.RUNNING)) | RUNS_AGAIN

# A row for every time that a block was given to somebody; its token is the right to write (``leadline.store.claims``).
blocks = sa.Table(
    "blocks",
    metadata,
    sa.Column("token", NAME, primary_key=True),
    sa.Column("study_id", sa.ForeignKey("studies.id"), nullable=False),
    sa.Column("block", sa.Integer, nullable=False),
    sa.Column("run", sa.Integer, nullable=False),  # from 1
    sa.Column("owner", NAME, nullable=False),  # who was given it
    sa.Column("host", NAME, nullable=False, default=""),  # where it ran
    sa.Column("job", NAME, nullable=False, default=""),  # what ran it there
    sa.Column("state", NAME, nullable=False),
    sa.Column("begun", sa.Float, nullable=False),
    sa.Column("leased_until", sa.Float, nullable=False),
    sa.Column("ended", sa.Float),
    sa.UniqueConstraint("study_id", "block", "run"),
)

# Everything below belongs to one attempt of a trial; earlier attempts are kept.
attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("trial_id", sa.ForeignKey("trials.id"), primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("started", sa.Float, nullable=False),
    sa.Column("ended", sa.Float),
    sa.Column("failure", NAME),
    sa.Column("failure_message", TEXT, nullable=False, default=""),
    sa.Column("evidence", TEXT, nullable=False, default=""),
    sa.Column("token", NAME),  # of the run of its block; absent in labs of before
)

steps = sa.Table(
    "steps",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.ForeignKey("trials.id"), nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("name", NAME, nullable=False),
    sa.Column("started", sa.Float, nullable=False),
    sa.Column("ended", sa.Float),
    sa.Column("detail", TEXT, nullable=False, default=""),
    sa.Index("steps_by_trial", "trial_id", "attempt"),
)

readings = sa.Table(
    "readings",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.ForeignKey("trials.id"), nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("knob", NAME, nullable=False),
    sa.Column("phase", NAME, nullable=False),
    sa.Column("wanted", TEXT),
    sa.Column("found", TEXT, nullable=False),
    sa.Column("matches", sa.Boolean, nullable=False),
    sa.Index("readings_by_trial", "trial_id", "attempt"),
)

responses = sa.Table(
    "responses",
    metadata,
    sa.Column("trial_id", sa.ForeignKey("trials.id"), primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("name", NAME, primary_key=True),
    sa.Column("value", sa.Float, nullable=False),
    sa.Column("at_least", sa.Boolean),  # whether the value is only a lower bound; absent in labs of before
)

# Slots of a switchback trial: a row from just before its levels are set. Times: unix ns by the clock of the load.
slots = sa.Table(
    "slots",
    metadata,
    sa.Column("trial_id", sa.ForeignKey("trials.id"), primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("slot", sa.Integer, primary_key=True),
    sa.Column("due_ns", sa.BigInteger, nullable=False),
    sa.Column("wanted", TEXT, nullable=False),  # levels of the live factors, JSON
    sa.Column("set_from_ns", sa.BigInteger),  # before the first level was set
    sa.Column("set_at_ns", sa.BigInteger),  # after the last level was read back
    sa.Column("found", TEXT),  # levels read, JSON
    sa.Column("matches", sa.Boolean),
    sa.Column("failure", NAME),
    sa.Column("failure_message", TEXT, nullable=False, default=""),
    sa.Column("measured_from_ns", sa.BigInteger),
    sa.Column("measured_until_ns", sa.BigInteger),
    sa.Column("left_out", TEXT, nullable=False, default=""),
)

slot_responses = sa.Table(
    "slot_responses",
    metadata,
    sa.Column("trial_id", sa.ForeignKey("trials.id"), primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("slot", sa.Integer, primary_key=True),
    sa.Column("name", NAME, primary_key=True),
    sa.Column("value", sa.Float, nullable=False),
    sa.Column("at_least", sa.Boolean),  # whether the value is only a lower bound; absent in labs of before
)

# What else the machine did, of a trial (slot -1) and its slots. Names as in ``model.result``; "program NAME".
machine_use = sa.Table(
    "machine_use",
    metadata,
    sa.Column("trial_id", sa.ForeignKey("trials.id"), primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("slot", sa.Integer, primary_key=True),
    sa.Column("name", NAME, primary_key=True),
    sa.Column("value", sa.Float, nullable=False),
)

audits = sa.Table(
    "audits",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.ForeignKey("trials.id"), nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("name", NAME, nullable=False),
    sa.Column("passed", sa.Boolean, nullable=False),
    sa.Column("detail", TEXT, nullable=False),
    sa.Index("audits_by_trial", "trial_id", "attempt"),
)

artefacts = sa.Table(
    "artefacts",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.ForeignKey("trials.id"), nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("path", TEXT, nullable=False),  # relative to the trial's directory
    sa.Column("sha256", NAME, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Index("artefacts_by_trial", "trial_id", "attempt"),
    sa.Index("artefacts_by_content", "sha256"),
)

# One row: what the place of the lab's files knows it by (``leadline.store.artefacts``).
identity = sa.Table("identity", metadata, sa.Column("lab", NAME, primary_key=True))

# A tuning is a sequence of studies; each of its comparisons ("parts") is one of the studies above.
tunings = sa.Table(
    "tunings",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", NAME, nullable=False),
    sa.Column("key", NAME, nullable=False),  # hash of the effective tuning without its budget
    sa.Column("tuning", TEXT, nullable=False),  # the effective tuning, JSON
    sa.Column("document", TEXT, nullable=False),  # the file as the user wrote it
    sa.Column("left_out", TEXT, nullable=False),  # steps that cannot be tried here, with reasons, JSON
    sa.Column("passed_over", TEXT, nullable=False),  # steps passed over for want of time, JSON
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("finished", sa.Float),
    sa.Column("version", NAME, nullable=False),
)

tuning_parts = sa.Table(
    "tuning_parts",
    metadata,
    sa.Column("tuning_id", sa.ForeignKey("tunings.id"), primary_key=True),
    sa.Column("part", NAME, primary_key=True),  # its key
    sa.Column("study_id", sa.ForeignKey("studies.id"), nullable=False),
)

migrations = sa.Table(
    "migrations",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("applied", sa.Float, nullable=False),
)
