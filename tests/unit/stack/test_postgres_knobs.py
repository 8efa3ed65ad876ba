"""PostgreSQL's knobs: what is written and what is read back are the same level."""

from __future__ import annotations

import pytest

from leadline import catalogue
from leadline.model.knob import Kind, Knob, Level
from leadline.stack.postgres_knobs import parse, render

MB = 1024**2
KNOBS = list(catalogue.load("postgres").values())


def levels(knob: Knob) -> list[Level]:
    if knob.kind is Kind.SIZE:
        return [int(knob.minimum or 0), 64 * MB, 2048 * MB]
    if knob.kind is Kind.BOOLEAN:
        return [True, False]
    if knob.kind is Kind.CHOICE:
        return list(knob.choices)
    if knob.kind is Kind.DURATION:
        return [float(knob.minimum or 0), 7.0]
    if knob.kind is Kind.NUMBER:
        return [1.1, 4.0]
    return [int(knob.minimum or 0), 200]


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.name)
def test_a_level_survives_writing_and_reading(knob: Knob) -> None:
    for level in levels(knob):
        own, _, value = render(knob.name, level).partition(" = ")
        assert own == knob.names["postgres"]
        text = value.strip("'")
        unit = None
        if knob.kind is Kind.SIZE:
            text, unit = text.removesuffix("B"), "B"
        elif knob.kind is Kind.DURATION:
            unit = "ms" if text.endswith("ms") else "s"
            text = text.removesuffix(unit)
        assert parse(knob.name, text, unit) == level


def test_units_of_pg_settings() -> None:
    assert parse("database.shared_buffers", "16384", "8kB") == 128 * MB
    assert parse("database.max_wal_size", "1024", "MB") == 1024 * MB
    assert parse("database.work_mem", "4096", "kB") == 4 * MB
    assert parse("database.checkpoint_timeout", "300", "s") == 300.0
    assert parse("database.bgwriter_delay", "1001", "ms") == 1.001
    assert parse("database.autovacuum", "off", None) is False


def test_a_level_postgresql_would_round_is_refused_with_the_nearest() -> None:
    knobs = catalogue.load("postgres")
    with pytest.raises(ValueError, match=r"200000 would be rounded, .* steps of 8k; the nearest are 192k and 200k"):
        knobs["database.shared_buffers"].parse(200_000)
    with pytest.raises(ValueError, match=r"30\.5s would be rounded, .* steps of 1s; the nearest are 30s and 31s"):
        knobs["database.checkpoint_timeout"].parse(30.5)
    with pytest.raises(ValueError, match=r"0\.0105s would be rounded, .* steps of 1ms; the nearest are 10ms and 11ms"):
        knobs["database.bgwriter_delay"].parse(0.0105)
    assert knobs["database.bgwriter_delay"].parse("11ms") == 0.011


def test_a_knob_of_another_layer_is_unknown() -> None:
    with pytest.raises(LookupError, match=r"no knob server\.threads\.max"):
        render("server.threads.max", 10)


def test_every_knob_is_documented_and_legal() -> None:
    catalogue = KNOBS
    for knob in catalogue:
        assert knob.name.startswith("database.")
        assert knob.summary
        assert knob.source
        if knob.default is not None:
            assert knob.parse(knob.default) == knob.default
