"""The catalogue as data: every entry is complete, and no extreme level of any knob passes without a word."""

import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from known_knobs import service_catalogue

from leadline import catalogue
from leadline.host.local import LocalHost
from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost, Kind, Knob, Level, Limit, Machine, Risk, Share
from leadline.places import knobs as everywhere
from leadline.stack import registry
from tools.knob_pages import FOLDER, pages

MACHINE = Machine(memory=1 << 30, cpus=2)
FILES = (*catalogue.families(), *catalogue.programs())
NUMERIC = (Kind.INTEGER, Kind.NUMBER, Kind.SIZE, Kind.DURATION, Kind.VECTOR)
VECTOR_FILES = {
    "proc/sys/vm/lowmem_reserve_ratio": "256\t256\t32\t0\t0",
    "proc/sys/net/ipv4/ip_local_port_range": "32768\t60999",
}


def host(folder: Path) -> LocalHost:
    """A host of 1 GiB with the kernel's usual vectors."""
    files = {"proc/meminfo": "MemTotal: 1048576 kB\nHugepagesize: 2048 kB", **VECTOR_FILES}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return LocalHost(state=folder / "state", root=folder)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> LocalHost:
    return host(tmp_path_factory.mktemp("root"))


def every_knob(of: LocalHost) -> dict[str, Knob]:
    """All knobs as a study on this host has them, by ``owner:name``."""
    found = {f"host:{knob.name}": knob for knob in of.knobs()}
    for server in registry.SERVERS:
        for database in registry.DATABASES:
            for knob in service_catalogue(server, database):
                owner = ",".join(knob.names) or "leadline"
                found[f"{owner}:{knob.name}"] = knob.on(of.machine())
    for app in registry.APPLICATIONS:
        found |= {f"{app}:{knob.name}": knob.on(of.machine()) for knob in registry.application(app).knobs()}
    return found


def entries(file: str) -> dict[str, dict[str, Any]]:
    """The tables of a file, completed as the loader completes them."""
    folder = Path(catalogue.__file__).parent
    path = next(path for path in (folder / f"{file}.toml", folder / "host" / f"{file}.toml") if path.exists())
    rows = tomllib.loads(path.read_text())
    defaults = rows.pop("defaults")
    if "definitions" not in defaults:
        return {name: {**defaults, **row} for name, row in rows.items()}
    shared = entries(defaults["definitions"])
    return {name: {**shared.get(name, {}), **defaults, **row} for name, row in rows.items()}


@pytest.mark.parametrize("file", FILES)
def test_every_entry_is_complete(file: str) -> None:
    knobs = catalogue.load(file)
    assert knobs
    for name, row in entries(file).items():
        knob = knobs[name]
        assert knob.summary, name
        assert knob.risk in (Risk.SAFE, Risk.CAUTION), name
        if file in ("server", "extra-costs"):  # definitions; each program's file adds what is its own
            continue
        assert knob.source, name
        assert "default" in row or row.get("default_note"), name
        assert knob.apply_cost is ApplyCost.LIVE or file not in catalogue.families(), name
        if knob.kind in NUMERIC:
            assert row.get("unit"), name
            assert "minimum" in row, name
            assert "maximum" in row, name  # inf where the program has no limit
        if knob.kind is Kind.CHOICE:
            assert len(knob.choices) > 1, name
        for limit in (knob.dangerous_below, knob.dangerous_above):
            assert limit is None or limit.why, name
        assert all(why for field, (_, why) in knob.relative.items() if field != "maximum"), name


def test_defaults_are_legal_and_safe(here: LocalHost) -> None:
    unwritable = {"host:vm.dirty_bytes", "host:vm.dirty_background_bytes", "host:vm.overcommit_kbytes"}
    for label, knob in every_knob(here).items():
        if knob.default is not None and label not in unwritable:
            assert knob.accept(knob.default, disposable=False) == knob.default, label


def extremes(knob: Knob) -> list[object]:
    """What somebody might try with this knob."""
    tried: list[object] = [0, -1, 1, 2**31, 2**32, 2**63, 2**64, -(2**63), 10**400, 10**5000, "9" * 5000, 1e308, 0.5]
    tried += [math.nan, math.inf, -math.inf, "nan", "inf", "1e400", "", " ", "abc", "0x10", "1;2", "٣", True, None]
    tried += [[], {}, [1], "0 0", "0 0 0 0 0", "60999 32768", "40000 40001", "1024 65536", "-1 -1", "1,2,3", "9" * 80]
    tried += ["1 2 3 4 5 6", "0 65535", "1 1 1 0 0", "2147483647 256 32 0 0", "256 256 32 0 -1"]
    for bound in (knob.minimum, knob.maximum):
        if bound is not None:
            tried += [bound, bound - 1, bound + 1]
    for limit in (knob.dangerous_below, knob.dangerous_above):
        if limit is not None:
            tried += [limit.level, limit.level - 1, limit.level + 1]
    return tried


def inside(knob: Knob, level: Level) -> bool:
    """Whether a level's numbers lie in the legal range, by its text alone."""
    if knob.kind is Kind.VECTOR:
        numbers = [int(word) for word in str(level).split()]
    elif knob.kind in NUMERIC and isinstance(level, (int, float)):
        numbers = [level]  # type: ignore[list-item]
    else:
        return not knob.choices or level in knob.choices
    low, high = knob.minimum, knob.maximum
    fits = [(low is None or low <= n) and (high is None or n <= high) and math.isfinite(n) for n in numbers]
    return all(one or n in knob.special for one, n in zip(fits, numbers, strict=True))


def outcome(knob: Knob, raw: object, disposable: bool) -> tuple[Level, str]:
    """The level, and why it is refused."""
    try:
        return knob.accept(raw, disposable), ""
    except ValueError as error:
        return "", str(error)


def test_every_extreme_is_refused_with_a_reason_or_harmless(here: LocalHost) -> None:
    accepted = refused = dangerous = 0
    for label, knob in every_knob(here).items():
        for raw in extremes(knob):
            level, told = outcome(knob, raw, disposable=False)
            if not told:
                accepted += 1
                assert inside(knob, level), (label, level)
                assert knob.danger(level) is None, (label, level)
                continue
            refused += 1
            assert "\n" not in told, label
            assert 10 < len(told) < 600, (label, told)
            level, illegal = outcome(knob, raw, disposable=True)
            if illegal:
                continue
            dangerous += 1
            danger = knob.danger(level)
            assert danger is not None, label
            assert knob.accept(danger.safe, disposable=False) == danger.safe, (label, danger)
            assert knob.risk_of(level) is Risk.DANGEROUS
    assert min(accepted, refused, dangerous) > 50


@pytest.mark.parametrize(
    ("name", "level", "why", "safe"),
    [
        ("net.ipv4.ip_local_port_range", "40000 40001", "outgoing connections", "40000 44096"),
        ("net.ipv4.ip_local_port_range", "65534 65535", "outgoing connections", "61439 65535"),
        ("vm.lowmem_reserve_ratio", "0 0 0 0 0", "without protection", "8 8 8 0 0"),
        ("vm.lowmem_reserve_ratio", "1 256 32 0 0", "without protection", "8 256 32 0 0"),
        ("vm.lowmem_reserve_ratio", "256 256 99999 0 0", "no memory in it", "256 256 4096 0 0"),
        ("vm.overcommit_ratio", 0, "every allocation fails", 50),
        ("vm.overcommit_kbytes", 1, "every allocation fails", 524288),
        ("vm.overcommit_memory", 2, "allocations fail", 1),
        ("vm.watermark_boost_factor", 2**31 - 1, "page cache of the whole host", 100_000),
        ("vm.vfs_cache_pressure", 0, "never reclaimed", 1),
        ("vm.vfs_cache_pressure", 2**31 - 1, "under the locks", 10_000),
        ("vm.min_free_kbytes", 524288, "a tenth of memory", 104857),
        ("vm.dirty_bytes", 1 << 30, "can take all memory", 1 << 29),
        ("vm.dirtytime_expire_seconds", 2**31 - 1, "without a pause", 4_000_000),
        ("net.ipv4.tcp_notsent_lowat", 0, "stands still", 4096),
        ("net.core.netdev_max_backlog", 1, "packets are dropped", 100),
        ("net.core.somaxconn", 1, "refuse connections", 16),
    ],
)
def test_a_dangerous_level_is_refused_with_the_nearest_safe_one(
    here: LocalHost, name: str, level: Level, why: str, safe: Level
) -> None:
    with pytest.raises(UsageError) as refused:
        here.check_level(name, level)
    told = str(refused.value)
    assert told.startswith(f"{name}: {level} can hang, starve or lock out a host: ")
    assert why in told
    assert f"the nearest safe level is {safe}, this one needs" in told
    assert here.check_level(name, safe) == safe


@pytest.mark.parametrize(
    ("name", "level", "words"),
    [
        ("net.ipv4.ip_local_port_range", "60999 32768", "its numbers go upwards: 32768 60999"),
        ("net.ipv4.ip_local_port_range", "80 60999", "80 is below the smallest legal value 1024"),
        ("net.ipv4.ip_local_port_range", "32768", "has 1 number; it takes 2 numbers here, such as '32768 60999'"),
        ("vm.lowmem_reserve_ratio", "256 256 32 0 -1", "-1 is below the smallest legal value 0"),
        ("vm.lowmem_reserve_ratio", "256 256 32 0 2147483648", "above the largest legal value 2147483647"),
        ("vm.watermark_boost_factor", 2**31, "above the largest legal value 2147483647"),
        ("vm.percpu_pagelist_high_fraction", 7, r"below the smallest legal value 8 \(or 0\)"),
        ("vm.swappiness", math.nan, "nan is not an integer"),
        ("vm.swappiness", 2**53 + 1, "9007199254740993 is above"),
    ],
)
def test_an_illegal_level_is_refused_with_the_nearest(here: LocalHost, name: str, level: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        here.check_level(name, level)


def test_an_endless_number_is_refused_without_writing_it_out(here: LocalHost) -> None:
    with pytest.raises(UsageError, match="a number of more than 40 digits is above the largest legal value 200"):
        here.check_level("vm.swappiness", 10**5000)


def test_limits_follow_the_machine() -> None:
    heap = catalogue.load("jvm")["jvm.heap"]
    assert heap.maximum is None, "not known before the machine is"
    small, large = heap.on(MACHINE), heap.on(Machine(memory=64 << 30))
    assert (small.maximum, large.maximum) == (1 << 30, 64 << 30)
    with pytest.raises(ValueError, match="a heap that fills"):
        small.accept("1000m", disposable=False)
    assert large.accept("1000m", disposable=False) == 1000 << 20
    assert Share(0.1, each=2048, per_cpu=True).on(MACHINE) == 26214
    assert Share(0.5, each=0).on(MACHINE) == 256
    unbounded = Knob("a.b", Kind.INTEGER, heap.apply_cost, "x", dangerous_above=Limit(5, "w"))
    assert unbounded.on(MACHINE).dangerous_above == Limit(5, "w")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('["a.b"]\nkind = "integer"\nsumary = "x"\n', "wrong.toml: a.b: no such key: sumary"),
        ('["a.b"]\nkind = "whole"\nsummary = "x"\n', "wrong.toml: a.b: 'whole' is not a valid Kind"),
        ('["a.b"]\nsummary = "x"\n', "wrong.toml: a.b: 'kind'"),
        ('["a.b"]\nkind = "integer"\nsummary = "x"\ndangerous_below = { level = 1 }\n', "wrong.toml: a.b: 'why'"),
        ('manual = "x"\n', r"wrong.toml: \[defaults\] has no manual"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str) -> None:
    (tmp_path / "wrong.toml").write_text(f'[defaults]\nowner = "host"\napply_cost = "live"\n{text}')
    monkeypatch.setattr(catalogue, "_FOLDER", tmp_path)
    catalogue._read.cache_clear()
    try:
        with pytest.raises(catalogue.CatalogueError, match=words):
            catalogue.load("wrong")
    finally:
        catalogue._read.cache_clear()


def test_the_reference_pages_are_those_of_the_catalogue() -> None:
    made = pages()
    assert {path.name for path in FOLDER.glob("knobs*.md")} == set(made)
    for name, content in made.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == content, "run python tools/knob_pages.py"
    named = "".join(made.values())
    for file in FILES:
        if file != "server":
            assert all(f"| `{name}` |" in named for name in catalogue.load(file)), file


@pytest.mark.parametrize(
    ("native", "name"),
    [
        ("maxThreads", "server.threads.max"),
        ("task-max-threads", "server.threads.max"),
        ("Xmx", "jvm.heap"),
        ("-Xmx", "jvm.heap"),
        ("MaxHeapSize", "jvm.heap"),
        ("-XX:+UseZGC", "jvm.collector"),
        ("innodb_buffer_pool", "database.innodb_buffer_pool_size"),
        ("maxPoolSize", "server.datasource.max_connections"),
        ("cpu.max", "placement.server_cpu_quota"),
        ("memory.high", "placement.server_memory_high"),
    ],
)
def test_the_name_that_a_program_has_for_it_leads_to_the_knob(native: str, name: str) -> None:
    knobs = everywhere.every_knob()
    assert knobs.matching(native)[0].name == name
    with pytest.raises(UsageError, match=re.escape(f"did you mean {name}?")):
        knobs.get(native)


def test_a_name_that_no_program_has_leads_nowhere() -> None:
    assert [knob for name in ("...", "xq", "nosuchname") for knob in everywhere.every_knob().matching(name)] == []
