"""The lab's tables. One schema for SQLite (WAL) and, for teams, PostgreSQL."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from leadline.model.errors import FailureClass
from leadline.model.record import TrialState

metadata = MetaData()

studies = Table(
    "studies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False),
    Column("key", String(64), nullable=False),  # hash of the effective study: what makes a run resumable
    Column("study", Text, nullable=False),  # the effective study, JSON
    Column("document", Text, nullable=False),  # the file as the user wrote it
    Column("plan", Text, nullable=False),
    Column("environment", Text, nullable=False),
    Column("skipped", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("version", String(40), nullable=False),
)

trials = Table(
    "trials",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("study_id", ForeignKey("studies.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("state", String(20), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("started", Float),
    Column("ended", Float),
    Column("failure", String(20)),
    Column("failure_message", Text, nullable=False, default=""),
    Column("evidence", Text, nullable=False, default=""),
    Column("steady", Text),
    Column("phases", Text),
    Column("directory", Text),  # relative to the lab
    UniqueConstraint("study_id", "position"),
)

# As ``TrialRecord.is_left`` has it.
RUNS_AGAIN = trials.c.failure.in_((FailureClass.INTERRUPTED.value, FailureClass.DISTURBED.value))
LEFT = trials.c.state.in_((TrialState.PLANNED, TrialState.RUNNING)) | RUNS_AGAIN

# A row for every time that a block was given to somebody; its token is the right to write (``leadline.lab.claims``).
blocks = Table(
    "blocks",
    metadata,
    Column("token", String(32), primary_key=True),
    Column("study_id", ForeignKey("studies.id"), nullable=False),
    Column("block", Integer, nullable=False),
    Column("run", Integer, nullable=False),  # from 1
    Column("owner", String(200), nullable=False),  # who was given it
    Column("host", String(200), nullable=False, default=""),  # where it ran
    Column("job", String(200), nullable=False, default=""),  # what ran it there
    Column("state", String(20), nullable=False),
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
    Column("failure", String(20)),
    Column("failure_message", Text, nullable=False, default=""),
    Column("evidence", Text, nullable=False, default=""),
    Column("token", String(32)),  # of the run of its block; absent in labs of before
)

steps = Table(
    "steps",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("trial_id", ForeignKey("trials.id"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("name", String(60), nullable=False),
    Column("started", Float, nullable=False),
    Column("ended", Float),
    Column("detail", Text, nullable=False, default=""),
    Index("steps_by_trial", "trial_id", "attempt"),
)

readings = Table(
    "readings",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("trial_id", ForeignKey("trials.id"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("knob", String(200), nullable=False),
    Column("phase", String(20), nullable=False),
    Column("wanted", Text),
    Column("found", Text, nullable=False),
    Column("matches", Boolean, nullable=False),
    Index("readings_by_trial", "trial_id", "attempt"),
)

responses = Table(
    "responses",
    metadata,
    Column("trial_id", ForeignKey("trials.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("name", String(100), primary_key=True),
    Column("value", Float, nullable=False),
)

# Slots of a switchback trial: a row from just before its levels are set. Times: unix ns by the clock of the load.
slots = Table(
    "slots",
    metadata,
    Column("trial_id", ForeignKey("trials.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("slot", Integer, primary_key=True),
    Column("due_ns", BigInteger, nullable=False),
    Column("wanted", Text, nullable=False),  # levels of the live factors, JSON
    Column("set_from_ns", BigInteger),  # before the first level was set
    Column("set_at_ns", BigInteger),  # after the last level was read back
    Column("found", Text),  # levels read, JSON
    Column("matches", Boolean),
    Column("failure", String(20)),
    Column("failure_message", Text, nullable=False, default=""),
    Column("measured_from_ns", BigInteger),
    Column("measured_until_ns", BigInteger),
    Column("left_out", Text, nullable=False, default=""),
)

slot_responses = Table(
    "slot_responses",
    metadata,
    Column("trial_id", ForeignKey("trials.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("slot", Integer, primary_key=True),
    Column("name", String(100), primary_key=True),
    Column("value", Float, nullable=False),
)

# What else the machine did, of a trial (slot -1) and its slots. Names as in ``model.disturbance``; "program NAME".
machine_use = Table(
    "machine_use",
    metadata,
    Column("trial_id", ForeignKey("trials.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("slot", Integer, primary_key=True),
    Column("name", String(200), primary_key=True),
    Column("value", Float, nullable=False),
)

audits = Table(
    "audits",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("trial_id", ForeignKey("trials.id"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("name", String(200), nullable=False),
    Column("passed", Boolean, nullable=False),
    Column("detail", Text, nullable=False),
    Index("audits_by_trial", "trial_id", "attempt"),
)

artefacts = Table(
    "artefacts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("trial_id", ForeignKey("trials.id"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("path", Text, nullable=False),  # relative to the trial's directory
    Column("sha256", String(64), nullable=False),
    Column("size", Integer, nullable=False),
)

# A tuning is a sequence of studies; each of its comparisons ("parts") is one of the studies above.
tunings = Table(
    "tunings",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False),
    Column("key", String(64), nullable=False),  # hash of the effective tuning without its budget
    Column("tuning", Text, nullable=False),  # the effective tuning, JSON
    Column("document", Text, nullable=False),  # the file as the user wrote it
    Column("left_out", Text, nullable=False),  # steps that cannot be tried here, with reasons, JSON
    Column("passed_over", Text, nullable=False),  # steps passed over for want of time, JSON
    Column("created", Float, nullable=False),
    Column("finished", Float),
    Column("version", String(40), nullable=False),
)

tuning_parts = Table(
    "tuning_parts",
    metadata,
    Column("tuning_id", ForeignKey("tunings.id"), primary_key=True),
    Column("part", String(200), primary_key=True),  # its key
    Column("study_id", ForeignKey("studies.id"), nullable=False),
)

migrations = Table(
    "migrations",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("applied", Float, nullable=False),
)
