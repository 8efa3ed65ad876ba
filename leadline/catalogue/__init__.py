"""Every knob as data: a TOML file for each family of the host, each server, each database and what else has knobs.

``[defaults]`` holds what the entries of a file share: ``owner``, ``source``, ``apply_cost``, ``program`` (whose own
name an entry gives as ``own``), ``definitions`` (a file whose entries of the same name are completed here) and, for the
host, ``directory`` below which a knob's file lies. Every other table is a knob, by its name; its keys are fields of
``leadline.model.knob.Knob``. Sizes may be written as ``128m``. A bound that depends on the machine is a table of
``leadline.model.knob.Share``. ``how`` is the server's own: a ``leadline.stack.servers.knobs.Way``. A file is read when
its knobs are first asked for.

``default_of``, ``range_of`` and the others put a knob in words, as ``leadline knobs`` and the reference pages have it.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from leadline.model.knob import ApplyCost, Elements, Kind, Knob, Level, Limit, Owner, Risk, Share
from leadline.model.units import format_size, parse_size

_FOLDER = Path(__file__).resolve().parent
_BOUNDS = ("minimum", "maximum", "step")
_LIMITS = ("dangerous_below", "dangerous_above")
_PLAIN = ("summary", "default", "default_note", "unit", "source")
_KEYS = {*_BOUNDS, *_LIMITS, *_PLAIN, "kind", "apply_cost", "risk", "choices", "special", "elements", "refused"}
_DEFAULTS = {"owner", "source", "apply_cost", "program", "definitions", "directory"}
NO_UNIT = "1"  # a number without a dimension says so


class CatalogueError(ValueError):
    """A data file of the catalogue is wrong; says which entry and why."""


def families() -> tuple[str, ...]:
    """Names of the files with parameters of the host: ``vm``, ``net``, ..."""
    return tuple(sorted(path.stem for path in (_FOLDER / "host").glob("*.toml")))


def programs(owner: Owner | None = None) -> tuple[str, ...]:
    """Names of the other files; those of the programs whose knobs one owner sets."""
    names = sorted(path.stem for path in _FOLDER.glob("*.toml"))
    return tuple(name for name in names if owner is None or _owner(name) == owner)


def _owner(name: str) -> str | None:
    """Of a program's file; None for one that only completes others."""
    owners = _read(name)["defaults"]
    shared = _read(owners["definitions"])["defaults"] if "definitions" in owners else {}
    return {**shared, **owners}["owner"] if "program" in owners else None


@cache
def load(name: str) -> Mapping[str, Knob]:
    """The knobs of one file by their names, in its order. Raises CatalogueError."""
    rows = dict(_read(name))
    defaults = rows.pop("defaults", {})
    if unknown := set(defaults) - _DEFAULTS:
        raise CatalogueError(f"{name}.toml: [defaults] has no {', '.join(sorted(unknown))}")
    shared = _read(defaults["definitions"]) if "definitions" in defaults else {}
    common = {**shared.get("defaults", {}), **defaults}
    return {knob: _knob(name, knob, {**shared.get(knob, {}), **row}, common) for knob, row in rows.items()}


def knob_of(name: str, knob: str) -> Knob:
    """A knob of the file ``name``. Raises LookupError for one that it does not have."""
    if knob not in load(name):
        raise LookupError(f"{name} has no knob {knob}")
    return load(name)[knob]


def ways(name: str) -> Mapping[str, Mapping[str, Any]]:
    """How the program of a file has its knobs, by their names: the fields of ``leadline.stack.servers.knobs.Way``."""
    return {knob: row["how"] for knob, row in _read(name).items() if "how" in row}


def directory(family: str) -> str:
    """Where the files of a family's knobs lie, below the root."""
    return str(_read(family)["defaults"]["directory"])


@cache
def _read(name: str) -> Mapping[str, Mapping[str, Any]]:
    for path in (_FOLDER / f"{name}.toml", _FOLDER / "host" / f"{name}.toml"):
        if path.exists():
            return tomllib.loads(path.read_text(encoding="utf-8"))
    raise CatalogueError(f"there is no catalogue {name}")


def _knob(file: str, name: str, row: Mapping[str, Any], defaults: Mapping[str, Any]) -> Knob:
    try:
        return _made(name, row, defaults)
    except (KeyError, TypeError, ValueError) as error:
        raise CatalogueError(f"{file}.toml: {name}: {error}") from None


def _made(name: str, row: Mapping[str, Any], defaults: Mapping[str, Any]) -> Knob:
    if unknown := set(row) - _KEYS - {"own", "names", "how"}:
        raise ValueError(f"no such key: {', '.join(sorted(unknown))}")
    kind = Kind(row["kind"])
    plain = {key: row[key] for key in _PLAIN if key in row}
    if "default" in row:
        plain["default"] = _default(kind, row["default"])
    plain["unit"] = "" if row.get("unit") == NO_UNIT else row.get("unit", "")
    plain.setdefault("source", defaults.get("source", ""))
    knob = Knob(
        name=name,
        kind=kind,
        apply_cost=ApplyCost(row.get("apply_cost", defaults["apply_cost"])),
        risk=Risk(row.get("risk", Risk.SAFE)),
        choices=tuple(row.get("choices", ())),
        special=tuple(row.get("special", ())),
        refused=row.get("refused", {}),
        elements=_elements(row["elements"]) if "elements" in row else None,
        owner=Owner(defaults["owner"]),
        names=row.get("names", _own_name(name, row, defaults)),
        **plain,
    )
    return _bounded(knob, row)


def _bounded(knob: Knob, row: Mapping[str, Any]) -> Knob:
    bounds: dict[str, Any] = {}
    relative: dict[str, tuple[Share, str]] = {}
    for key in _BOUNDS:
        if isinstance(row.get(key), dict):
            relative[key] = (Share(**row[key]), "")
        elif key in row:
            bounds[key] = _bound(row[key])
    for key in _LIMITS:
        if key not in row:
            continue
        where = dict(row[key])
        why = str(where.pop("why"))
        if "level" in where:
            bounds[key] = Limit(_number(where["level"]), why)
        else:
            relative[key] = (Share(**where), why)
    return replace(knob, relative=relative, **bounds)


def _default(kind: Kind, default: Any) -> Level:
    level: Level = _number(default) if kind is Kind.SIZE else default
    return level


def _number(value: Any) -> float:
    """A size as text, or the number itself."""
    return parse_size(value) if isinstance(value, str) else value


def _bound(value: Any) -> float | None:
    """None for a range that is open on this side, which is written as ``inf``."""
    number = _number(value)
    return None if math.isinf(number) else number


def _elements(row: Mapping[str, Any]) -> Elements:
    fields = dict(row)
    width = fields.pop("width", None)
    zeros = frozenset(fields.pop("zeros", ()))
    return Elements(zeros=zeros, width=Limit(**width) if width else None, **fields)


def _own_name(name: str, row: Mapping[str, Any], defaults: Mapping[str, Any]) -> Mapping[str, str]:
    """A program's own name; where an entry has none it is what follows the knob's first dot."""
    program = defaults.get("program")
    return {program: row.get("own", name.partition(".")[2])} if program else {}


_SILENT = ("mode", "bits", "switch")  # units that say what kind of number it is; none stands behind a level


def unit_behind(knob: Knob) -> str:
    """`` %``: what follows a level of the knob; empty where the level says it itself."""
    unit = knob.kind in (Kind.SIZE, Kind.DURATION) or knob.unit in _SILENT
    return "" if unit or not knob.unit else f" {knob.unit}"


def default_of(knob: Knob) -> str:
    """The default, or on what it depends."""
    if knob.default is None:
        return knob.default_note
    return f"{knob.format(knob.default)}{f' ({knob.default_note})' if knob.default_note else ''}"


def range_of(knob: Knob) -> str:
    """``0..100``, the choices, or empty for any level."""
    if knob.choices:
        if knob.values.keys() != set(knob.values.values()):
            return ", ".join(f"{name} ({value})" for name, value in knob.values.items())
        return ", ".join(choice for choice in knob.choices if choice not in knob.refused)
    if knob.kind is Kind.BOOLEAN:
        return "off, on"
    low, high = bound_of(knob, "minimum"), bound_of(knob, "maximum")
    also = "".join(f"{knob.format_bound(level)}, " for level in knob.special)
    return f"{also}{low}..{high}" if low or high else ""


def bound_of(knob: Knob, field: str) -> str:
    """``minimum``, ``maximum``, ``dangerous_below`` or ``dangerous_above`` as people write it; empty for none."""
    if field in knob.relative:
        return share_of(knob.relative[field][0])
    bound = getattr(knob, field)
    if bound is None:
        return ""
    return knob.format_bound(bound if isinstance(bound, (int, float)) else bound.level)


def share_of(share: Share) -> str:
    """``10 % of memory``."""
    text = "memory" if share.memory == 1 else f"{share.memory * 100:g} % of memory"
    if share.per_cpu:
        text += " by CPU"
    return text if share.each in (0, 1, 1024) else f"{text} in units of {format_size(share.each)}"


def dangers_of(knob: Knob) -> list[tuple[str, str]]:
    """Which levels need a disposable host, each with the reason: ``("below 1", "every write waits ...")``."""
    dangers = []
    for field, word in (("dangerous_below", "below"), ("dangerous_above", "above")):
        if text := bound_of(knob, field):
            limit = getattr(knob, field)
            dangers.append((f"{word} {text}", limit.why if limit else knob.relative[field][1]))
    if knob.elements is not None and knob.elements.width is not None:
        dangers.append((f"less than {knob.elements.width.level:g} wide", knob.elements.width.why))
    return dangers


def risk_of(knob: Knob) -> str:
    """``safe``, ``caution``, or ``safe; dangerous below 1 or above 90``."""
    dangers = " or ".join(where for where, _ in dangers_of(knob))
    return f"{knob.risk.value}; dangerous {dangers}" if dangers else knob.risk.value
