"""MariaDB's knobs: what is written and what is read back are the same level."""

from __future__ import annotations

import pytest

from leadline import catalogue
from leadline.model.knob import Kind, Knob, Level
from leadline.stack.mariadb_knobs import parse, render

MB = 1024**2
KNOBS = list(catalogue.load("mariadb").values())


def levels(knob: Knob) -> list[Level]:
    if knob.kind is Kind.SIZE:
        return [int(knob.minimum or 0), 64 * MB]
    if knob.kind is Kind.BOOLEAN:
        return [True, False]
    if knob.kind is Kind.CHOICE:
        return list(knob.choices)
    if knob.kind is Kind.DURATION:
        return [0.0, 30.0]
    if knob.kind is Kind.NUMBER:
        return [1.5, 90.0]
    return [int(knob.minimum or 0), int(knob.maximum or 0)]


def told(name: str, line: str) -> str:
    """What the server would say of a variable after it read this line of its option file."""
    if name == "database.log_bin":
        return "OFF" if line == "skip_log_bin" else "ON"
    value = line.partition(" = ")[2]
    return value.upper() if value in ("on", "off", "demand") else value


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.name)
def test_a_level_survives_writing_and_reading(knob: Knob) -> None:
    for level in levels(knob):
        line = render(knob.name, level)
        assert knob.names["mariadb"] in line
        assert parse(knob.name, told(knob.name, line)) == level


def test_a_level_mariadb_would_round_is_refused_with_the_nearest() -> None:
    knobs = catalogue.load("mariadb")
    with pytest.raises(ValueError, match=r"10000000 would be rounded, .* steps of 1m; the nearest are 9m and 10m"):
        knobs["database.innodb_buffer_pool_size"].parse(10_000_000)
    with pytest.raises(ValueError, match=r"1\.5s would be rounded, .* steps of 1s; the nearest are 1s and 2s"):
        knobs["database.innodb_lock_wait_timeout"].parse(1.5)


def test_a_knob_of_the_other_database_is_unknown() -> None:
    with pytest.raises(LookupError, match=r"mariadb has no knob database\.shared_buffers"):
        render("database.shared_buffers", 10)


def test_every_knob_is_documented_and_legal() -> None:
    for knob in KNOBS:
        assert knob.name == f"database.{knob.names['mariadb']}"
        assert knob.summary
        assert knob.source.startswith("MariaDB Server 11.4 documentation, ")
        if knob.default is not None:
            assert knob.parse(knob.default) == knob.default
