"""PostgreSQL's knobs: how a level is written to its configuration and how ``pg_settings`` is read back."""

from __future__ import annotations

from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost, Kind, Knob, Level, Risk

_KB, _MB, _GB = 1024, 1024**2, 1024**3
_BLOCK = 8 * _KB
_MANUAL = "PostgreSQL 18 manual, "


def _knob(parameter: str, kind: Kind, cost: ApplyCost, summary: str, chapter: str, **rest: object) -> Knob:
    return Knob(
        f"database.{parameter}",
        kind,
        cost,
        summary,
        names={"postgres": parameter},
        source=f"{_MANUAL}{chapter} {parameter}",
        **rest,  # type: ignore[arg-type]
    )


KNOBS: tuple[Knob, ...] = (
    _knob(
        "shared_buffers",
        Kind.SIZE,
        ApplyCost.RESTART,
        "the database's own page cache, in steps of 8k",
        "19.4 Memory",
        default=128 * _MB,
        minimum=16 * _BLOCK,
        maximum=1073741823 * _BLOCK,
        risk=Risk.CAUTION,
    ),
    _knob(
        "max_connections",
        Kind.INTEGER,
        ApplyCost.RESTART,
        "sessions at one time, each a process",
        "19.3 Connections",
        default=100,
        minimum=4,  # three are reserved for superusers
        maximum=262143,
        unit="connections",
    ),
    _knob(
        "synchronous_commit",
        Kind.CHOICE,
        ApplyCost.LIVE,
        "what a commit waits for; off may lose the last commits in a crash",
        "19.5 Write Ahead Log",
        default="on",
        choices=("on", "off", "local", "remote_write", "remote_apply"),
        risk=Risk.CAUTION,
    ),
    _knob(
        "commit_delay",
        Kind.INTEGER,
        ApplyCost.LIVE,
        "wait before the log is flushed, so that commits share the flush; a large one stands in for a slow disk",
        "19.5 Write Ahead Log",
        default=0,
        minimum=0,
        maximum=100000,
        unit="us",
        risk=Risk.CAUTION,
    ),
    _knob(
        "commit_siblings",
        Kind.INTEGER,
        ApplyCost.LIVE,
        "other transactions that must be open for commit_delay to apply",
        "19.5 Write Ahead Log",
        default=5,
        minimum=0,
        maximum=1000,
        unit="transactions",
    ),
    _knob(
        "wal_buffers",
        Kind.SIZE,
        ApplyCost.RESTART,
        "log not yet written, in steps of 8k; 1/32 of shared_buffers, at most 16m, if not set",
        "19.5 Write Ahead Log",
        minimum=4 * _BLOCK,
        maximum=262143 * _BLOCK,
    ),
    _knob(
        "checkpoint_timeout",
        Kind.DURATION,
        ApplyCost.LIVE,
        "longest time between two checkpoints, whole seconds",
        "19.5 Write Ahead Log",
        default=300.0,
        minimum=30,
        maximum=86400,
    ),
    _knob(
        "max_wal_size",
        Kind.SIZE,
        ApplyCost.LIVE,
        "log written until a checkpoint starts, in steps of 1m",
        "19.5 Write Ahead Log",
        default=_GB,
        minimum=32 * _MB,  # twice the size of a segment
        maximum=2147483647 * _MB,
    ),
    _knob(
        "work_mem",
        Kind.SIZE,
        ApplyCost.LIVE,
        "memory of one sort or hash before it spills to disk",
        "19.4 Memory",
        default=4 * _MB,
        minimum=64 * _KB,
        maximum=2147483647 * _KB,
        risk=Risk.CAUTION,
    ),
    _knob(
        "effective_cache_size",
        Kind.SIZE,
        ApplyCost.LIVE,
        "cache the planner assumes; nothing is allocated; in steps of 8k",
        "19.7 Query Planning",
        default=4 * _GB,
        minimum=_BLOCK,
        maximum=2147483647 * _BLOCK,
    ),
    _knob(
        "random_page_cost",
        Kind.NUMBER,
        ApplyCost.LIVE,
        "the planner's cost of a page out of order, a sequential one being 1",
        "19.7 Query Planning",
        default=4.0,
        minimum=0,
    ),
    _knob(
        "wal_compression",
        Kind.CHOICE,
        ApplyCost.LIVE,
        "compression of full page images in the log; on means pglz",
        "19.5 Write Ahead Log",
        default="off",
        choices=("off", "pglz", "on"),  # lz4 and zstd are not compiled into the binaries that are pinned
    ),
    _knob(
        "full_page_writes",
        Kind.BOOLEAN,
        ApplyCost.LIVE,
        "whole pages in the log at their first change after a checkpoint; off risks torn pages in a crash",
        "19.5 Write Ahead Log",
        default=True,
        risk=Risk.CAUTION,
    ),
    _knob(
        "autovacuum",
        Kind.BOOLEAN,
        ApplyCost.LIVE,
        "vacuum and analyse tables in the background",
        "19.10 Vacuuming",
        default=True,
    ),
    _knob(
        "huge_pages",
        Kind.CHOICE,
        ApplyCost.RESTART,
        "reserved huge pages for the shared memory; on refuses to start without them",
        "19.4 Memory",
        default="try",
        choices=("off", "on", "try"),
    ),
)

_BY_NAME = {knob.name: knob for knob in KNOBS}
_STEPS = {"shared_buffers": _BLOCK, "wal_buffers": _BLOCK, "effective_cache_size": _BLOCK, "max_wal_size": _MB}
_UNITS = {"B": 1, "kB": _KB, "8kB": _BLOCK, "MB": _MB, "ms": 0.001, "s": 1, "min": 60}


def parameter(name: str) -> str:
    """PostgreSQL's own name of a knob. Raises LookupError for a knob it does not have."""
    if name not in _BY_NAME:
        raise LookupError(f"PostgreSQL has no knob {name}")
    return _BY_NAME[name].names["postgres"]


def render(name: str, level: Level) -> str:
    """``shared_buffers = '134217728B'`` for a level in the knob's unit.

    Raises LookupError for an unknown knob and UsageError for a level PostgreSQL would round.
    """
    own = parameter(name)
    knob = _BY_NAME[name]
    if isinstance(level, bool):
        return f"{own} = {'on' if level else 'off'}"
    if knob.kind is Kind.SIZE:
        size, step = int(level), _STEPS.get(own, _KB)
        if size % step:
            below, above = size // step * step, -(-size // step) * step
            raise UsageError(
                f"{name}: PostgreSQL keeps it in steps of {knob.format(step)} and would round {size};"
                f" the nearest are {below} and {above} bytes"
            )
        return f"{own} = '{size}B'"
    if knob.kind is Kind.DURATION:
        seconds = float(level)
        if seconds != int(seconds):
            raise UsageError(f"{name}: PostgreSQL keeps whole seconds and would round {level}")
        return f"{own} = '{int(seconds)}s'"
    if knob.kind is Kind.CHOICE:
        return f"{own} = '{level}'"
    return f"{own} = {level}"


def parse(name: str, setting: str, unit: str | None) -> Level:
    """The level for ``setting`` and ``unit`` as ``pg_settings`` gives them. Raises LookupError, ValueError."""
    parameter(name)
    kind = _BY_NAME[name].kind
    if kind is Kind.SIZE:
        return round(int(setting) * _UNITS[unit or "B"])
    if kind is Kind.DURATION:
        return float(int(setting) * _UNITS[unit or "s"])
    if kind is Kind.INTEGER:
        return int(setting)
    if kind is Kind.NUMBER:
        return float(setting)
    if kind is Kind.BOOLEAN:
        return setting == "on"
    return setting
