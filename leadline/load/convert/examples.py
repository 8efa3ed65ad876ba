"""Values that schemas of OpenAPI take."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from leadline.load.convert.write import literals

_DEEPEST = 6
_MOST = 1000  # values in one body
_LARGEST = 10**15  # a whole number that JSON and every server's doubles hold exactly
_LONGEST = 4096  # characters that ${hex:N} makes


class _TooMany(Exception):
    """More values than a body should hold."""


class Examples:
    """Values by schema; ``resolve`` follows references."""

    def __init__(self, resolve: Callable[[Any], Mapping[str, Any]]) -> None:
        self._resolve = resolve
        self._left = 0
        self._cut = False  # something lies deeper than was looked

    def of(self, schema: Any) -> Any:
        """A value the schema takes; numbers and texts without an example are templates that draw one. A schema within
        itself is left out (null where it is required), and so is what lies deep in a very large one.
        """
        value = None
        for deepest in range(_DEEPEST + 1):
            self._left, self._cut = _MOST, False
            try:
                value = self._value(schema, deepest, frozenset(), frozenset())
            except _TooMany:
                break
            if not self._cut:
                break
        return value

    def _value(self, schema: Any, depth: int, wanted: frozenset[str], above: frozenset[str]) -> Any:
        """``wanted``: properties required by the schema this one is a part of; ``above``: references on the way."""
        self._left -= 1
        if self._left < 0:
            raise _TooMany
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if isinstance(reference, str):
            if reference in above:
                return None
            above |= {reference}
        schema = self._resolve(schema)
        for key in ("example", "default", "const"):
            if key in schema:
                return literals(schema[key])
        for key in ("examples", "enum"):
            if isinstance(schema.get(key), list) and schema[key]:
                return literals(schema[key][0])
        parts = [*(schema.get("allOf") or []), *(schema[key][0] for key in ("oneOf", "anyOf") if schema.get(key))]
        wanted = wanted.union(_required(schema) or [], *(_required(self._resolve(part)) or [] for part in parts))
        values = [self._value(part, depth, wanted, above) for part in parts]
        kind = schema.get("type")
        kind = next((k for k in kind if k != "null"), None) if isinstance(kind, list) else kind
        objects = [value for value in values if isinstance(value, Mapping)]
        if kind == "object" or "properties" in schema or objects:
            properties = self._properties(schema, depth, wanted, above)
            return (
                properties
                if properties is None
                else {key: item for part in [*objects, properties] for key, item in part.items()}
            )
        if values:
            return values[0]
        if kind == "array":
            self._cut |= depth < 0
            item = None if depth < 0 else self._value(schema.get("items"), depth - 1, frozenset(), above)
            return [] if item is None else [item]
        if kind in ("integer", "number"):
            low, high = _bounds(schema)
            return f"${{number:${{random:{low}:{high}}}}}"
        if kind == "boolean":
            return True
        forms = {"date": "2024-01-01", "date-time": "2024-01-01T00:00:00Z", "email": "user-${hex:6}@example.com"}
        forms["uuid"] = "${hex:8}-${hex:4}-4${hex:3}-8${hex:3}-${hex:12}"
        return forms.get(str(schema.get("format")), f"${{hex:{_length(schema)}}}")

    def _properties(
        self, schema: Mapping[str, Any], depth: int, wanted: frozenset[str], above: frozenset[str]
    ) -> dict[str, Any] | None:
        """Those required, or all where none is named; None where it is too deep."""
        if depth < 0:
            self._cut = True
            return None
        property_values = {}
        required = _required(schema)
        for name, part in (schema.get("properties") or {}).items():
            if required is not None and name not in wanted:
                continue
            value = self._value(part, depth - 1, frozenset(), above)
            if value is not None or name in wanted:
                property_values[str(name)] = value
        return property_values


def _required(schema: Mapping[str, Any]) -> list[str] | None:
    names = schema.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else None


def _bounds(schema: Mapping[str, Any]) -> tuple[int, int]:
    """Least and largest whole number to draw; 1 to 1000 where the schema leaves that open."""
    low = _limit(schema.get("minimum"), schema.get("exclusiveMinimum"), 1)
    high = _limit(schema.get("maximum"), schema.get("exclusiveMaximum"), -1)
    if low is None:
        low = 1 if high is None else min(1, high)
    return low, max(low, 1000 if high is None else high)


def _length(schema: Mapping[str, Any]) -> int:
    """Characters of a text: 8, or as near to it as the schema allows."""
    low, high = (schema.get(key) for key in ("minLength", "maxLength"))
    length = max(8, low) if isinstance(low, int) else 8
    return min(_LONGEST, max(0, min(length, high) if isinstance(high, int) else length))


def _limit(value: Any, exclusive: Any, inwards: int) -> int | None:
    """The outermost whole number within a bound. ``exclusive`` is true in 2.0 and 3.0 when the bound itself is not
    allowed, and a bound of its own in 3.1.
    """
    bounds = [_whole(value, inwards, exclusive is True), _whole(exclusive, inwards, True)]
    whole_bounds = [bound for bound in bounds if bound is not None]
    return (max(whole_bounds) if inwards > 0 else min(whole_bounds)) if whole_bounds else None


def _whole(value: Any, inwards: int, beyond: bool) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return None
    bounded = max(-_LARGEST, min(_LARGEST, value))
    nearest = math.ceil(bounded) if inwards > 0 else math.floor(bounded)
    return nearest + inwards if beyond and nearest == bounded else nearest
