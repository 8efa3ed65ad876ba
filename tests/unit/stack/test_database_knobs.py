"""Knobs of databases: a level survives writing and reading; each knob has a witness of its effect or says why not."""

from types import ModuleType

import mariadb_effects
import postgres_effects
import pytest

from leadline import catalogue
from leadline.model.knob import Kind, Knob, Level
from leadline.stack import mariadb, postgres

MB = 1024**2
MARIADB, POSTGRES = catalogue.load("mariadb"), catalogue.load("postgres")
EFFECTS: dict[str, ModuleType] = {"PostgreSQL": postgres_effects, "MariaDB": mariadb_effects}
CATALOGUES = {"PostgreSQL": POSTGRES, "MariaDB": MARIADB}


def levels(knob: Knob) -> list[Level]:
    least = knob.minimum or 0
    return {
        Kind.SIZE: [int(least), 64 * MB, *([2048 * MB] if knob.name in POSTGRES else [])],
        Kind.BOOLEAN: [True, False],
        Kind.CHOICE: list(knob.choices),
        Kind.DURATION: [float(least), 7.0],
        Kind.NUMBER: [1.5, 4.0],
        Kind.INTEGER: [int(least), 200],
    }[knob.kind]


def read_by_mariadb(name: str, line: str) -> str:
    """What the server would say of a variable after it read this line of its option file."""
    if name == "database.log_bin":
        return "OFF" if line == "skip_log_bin" else "ON"
    value = line.partition(" = ")[2]
    return value.upper() if value in ("on", "off", "demand") else value


@pytest.mark.parametrize("knob", MARIADB.values(), ids=lambda knob: knob.name)
def test_a_level_of_mariadb_survives_writing_and_reading(knob: Knob) -> None:
    for level in levels(knob):
        line = mariadb.render(knob.name, level)
        assert knob.names["mariadb"] in line
        assert mariadb.parse(knob.name, read_by_mariadb(knob.name, line)) == level


@pytest.mark.parametrize("knob", POSTGRES.values(), ids=lambda knob: knob.name)
def test_a_level_of_postgres_survives_writing_and_reading(knob: Knob) -> None:
    for level in levels(knob):
        own, _, value = postgres.render(knob.name, level).partition(" = ")
        assert own == knob.names["postgres"]
        text = value.strip("'")
        unit = None
        if knob.kind is Kind.SIZE:
            text, unit = text.removesuffix("B"), "B"
        elif knob.kind is Kind.DURATION:
            unit = "ms" if text.endswith("ms") else "s"
            text = text.removesuffix(unit)
        assert postgres.parse(knob.name, text, unit) == level


def test_units_of_pg_settings() -> None:
    parse = postgres.parse
    assert parse("database.shared_buffers", "16384", "8kB") == 128 * MB
    assert parse("database.max_wal_size", "1024", "MB") == 1024 * MB
    assert parse("database.work_mem", "4096", "kB") == 4 * MB
    assert parse("database.checkpoint_timeout", "300", "s") == 300.0
    assert parse("database.bgwriter_delay", "1001", "ms") == 1.001
    assert parse("database.autovacuum", "off", None) is False


@pytest.mark.parametrize(
    ("knob", "level", "words"),
    [
        (
            MARIADB["database.innodb_buffer_pool_size"],
            10_000_000,
            r"10000000 .* steps of 1m; the nearest are 9m and 10m",
        ),
        (MARIADB["database.innodb_lock_wait_timeout"], 1.5, r"1\.5s .* steps of 1s; the nearest are 1s and 2s"),
        (POSTGRES["database.shared_buffers"], 200_000, r"200000 .* steps of 8k; the nearest are 192k and 200k"),
        (POSTGRES["database.checkpoint_timeout"], 30.5, r"30\.5s .* steps of 1s; the nearest are 30s and 31s"),
        (POSTGRES["database.bgwriter_delay"], 0.0105, r"0\.0105s .* steps of 1ms; the nearest are 10ms and 11ms"),
    ],
)
def test_a_level_that_would_be_rounded_is_refused_with_the_nearest(knob: Knob, level: Level, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace(" .* ", " would be rounded, .* ")):
        knob.parse(level)


def test_knobs_of_others_are_unknown() -> None:
    assert POSTGRES["database.bgwriter_delay"].parse("11ms") == 0.011
    with pytest.raises(LookupError, match=r"mariadb has no knob database\.shared_buffers"):
        mariadb.render("database.shared_buffers", 10)
    with pytest.raises(LookupError, match=r"no knob server\.threads\.max"):
        postgres.render("server.threads.max", 10)


@pytest.mark.parametrize("knob", [*MARIADB.values(), *POSTGRES.values()], ids=lambda knob: knob.name)
def test_every_knob_is_documented_and_legal(knob: Knob) -> None:
    assert knob.name.startswith("database.")
    assert knob.summary
    assert knob.source
    if "mariadb" in knob.names:
        assert knob.name == f"database.{knob.names['mariadb']}"
        assert knob.source.startswith("MariaDB Server 11.4 documentation, ")
    if knob.default is not None:
        assert knob.parse(knob.default) == knob.default


@pytest.mark.parametrize("title", CATALOGUES)
def test_every_knob_has_a_witness_or_a_reason(title: str) -> None:
    module = EFFECTS[title]
    live = module.RELOADED if title == "PostgreSQL" else module.LIVE
    assert sorted([*live, *module.RESTARTED, *module.WITHOUT]) == sorted(CATALOGUES[title])
    assert all(module.WITHOUT.values()), "read back only: why"


@pytest.mark.parametrize("title", CATALOGUES)
def test_levels_of_witnesses_are_legal(title: str) -> None:
    module = EFFECTS[title]
    knobs = CATALOGUES[title]
    live = module.RELOADED if title == "PostgreSQL" else module.LIVE
    for name, witness in {**live, **module.RESTARTED}.items():
        assert witness.levels[0] != witness.levels[1]
        for level in witness.levels:
            assert knobs[name].parse(level) == level
        for other, level in witness.under.items():
            assert knobs[other].parse(level) == level
