"""OpenAPI descriptions (2.0, 3.0, 3.1) as a first scenario."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from leadline.load.convert.write import Draft, literal, literals, name_of
from leadline.model.errors import UsageError

_METHODS = ("get", "head", "post", "put", "patch", "delete")
_DEEPEST = 6
_LARGEST = 10**15  # a whole number that JSON and every server's doubles hold exactly
_LONGEST = 4096  # characters that ${hex:N} makes
_HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)


def from_openapi(text: str, name: str) -> Draft:
    """One transaction an operation, reads ten times as often as writes and deletions never until their weight is
    raised. Values come from examples, defaults and enumerations, else they are drawn by type. Raises UsageError for
    what is no OpenAPI description.
    """
    try:
        document = YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise UsageError(f"neither JSON nor YAML: {line}{str(error.problem).splitlines()[0]}") from None
    except YAMLError as error:
        raise UsageError(f"neither JSON nor YAML: {error}") from None
    if not isinstance(document, Mapping) or not ("openapi" in document or "swagger" in document):
        raise UsageError("not an OpenAPI description: it has neither `openapi` nor `swagger` (the version)")
    version = str(document.get("openapi", document.get("swagger")))
    if not version.startswith(("2.", "3.")):
        raise UsageError(f"OpenAPI {version}: only 2.0 and 3.x are read")
    return _Converter(document).draft(name)


class _Converter:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._notes: list[str] = []  # what was left out

    def draft(self, name: str) -> Draft:
        transactions: dict[str, list[dict[str, Any]]] = {}
        mix: dict[str, int] = {}
        for path, method, operation, shared in self._operations():
            title = str(operation.get("operationId") or f"{method}-{path}")
            key = name_of(title, list(transactions), f"operation-{len(transactions) + 1}")
            try:
                transactions[key] = [self._request(path, method, operation, shared)]
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise UsageError(f"{method} {path}: not as OpenAPI has it: {error}") from None
            mix[key] = {"get": 10, "head": 10, "delete": 0}.get(method, 1)
        if not transactions:
            raise UsageError("the OpenAPI description has no operation that a scenario can hold")
        if not any(mix.values()):
            mix = dict.fromkeys(mix, 1)
        notes = [
            f"Made from the OpenAPI description {self._title()}: --url is the address below which its paths stand."
        ]
        base = self._base()
        if base:
            notes.append(f"It names {base} as the address.")
        notes += ["Weights are a guess: reads 10, writes 1, deletions 0. Values were drawn where no example stood."]
        if (
            self._document.get("security")
            or self._get("components", "securitySchemes")
            or self._get("securityDefinitions")
        ):
            notes.append("The interface asks for credentials: add a login or a header.")
        notes += self._notes
        return Draft({"scenario": name, "mix": mix, "transactions": transactions}, notes)

    def _title(self) -> str:
        return re.sub(r"\s+", " ", str(self._get("info", "title") or "without a title"))

    def _base(self) -> str:
        """The first server, or host and path of version 2; on one line."""
        servers = self._document.get("servers")
        first = servers[0] if isinstance(servers, list) and servers else None
        found = first.get("url") if isinstance(first, Mapping) else None
        parts = (self._document.get("host"), self._document.get("basePath"))
        return " ".join(str(found or "".join(str(part) for part in parts if part)).split())

    def _get(self, *keys: str) -> Any:
        value: Any = self._document
        for key in keys:
            if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
                value = value[int(key)]
            else:
                value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def _operations(self) -> Iterator[tuple[str, str, Mapping[str, Any], list[Any]]]:
        paths = self._document.get("paths")
        for path, item in paths.items() if isinstance(paths, Mapping) else ():
            resolved = self._resolve(item)
            for method in _METHODS:
                operation = resolved.get(method)
                if isinstance(operation, Mapping):
                    yield f"/{str(path).lstrip('/')}", method, operation, list(resolved.get("parameters") or [])

    def _resolve(self, value: Any) -> Mapping[str, Any]:
        """The value, local references followed."""
        for _ in range(10):
            if not isinstance(value, Mapping):
                return {}
            reference = value.get("$ref")
            if not isinstance(reference, str):
                return value
            if not reference.startswith("#/"):
                raise UsageError(f"reference {reference}: only references within the file are followed")
            keys = [token.replace("~1", "/").replace("~0", "~") for token in reference[2:].split("/")]
            value = self._get(*keys)
            if value is None:
                raise UsageError(f"reference {reference} leads nowhere")
        return {}

    def _request(self, path: str, method: str, operation: Mapping[str, Any], shared: list[Any]) -> dict[str, Any]:
        parameters: dict[tuple[str, str], Mapping[str, Any]] = {}
        own = operation.get("parameters") or []
        if not isinstance(own, list):
            raise TypeError("`parameters` is not a list")
        for parameter in [*shared, *own]:
            found = self._resolve(parameter)
            parameters[str(found.get("in")), str(found.get("name"))] = found
        filled, query, headers, form = literal(path), [], {}, {}
        body: Any = None
        for (place, name), parameter in parameters.items():
            needed = bool(parameter.get("required"))
            value = "" if place == "body" else _text(self._parameter(parameter))
            if place == "path":
                filled = filled.replace(f"{{{name}}}", value if value.startswith("${") else _quoted(value))
            elif place == "query" and needed:
                query.append(f"{_quoted(name)}={value if value.startswith('${') else _quoted(value)}")
            elif place == "header" and needed and name.lower() not in ("content-type", "accept", "authorization"):
                if not _HEADER.fullmatch(name):
                    raise ValueError(f"{name!r} is no name of a header")
                headers[name] = " ".join(value.split())
            elif place == "formData" and needed:
                form[name] = value
            elif place == "cookie" and needed:
                self._notes.append(f"{method} {path}: the cookie {' '.join(name.split())} is left out.")
            elif place == "body":
                body = self._example(parameter.get("schema"), 0)
        for missing in re.findall(r"\{(\w+)\}", path):
            if ("path", missing) not in parameters:
                self._notes.append(f"{method} {path}: {missing} is not described; a value was drawn.")
                filled = filled.replace(f"{{{missing}}}", "${hex:8}")
        request: dict[str, Any] = {method: filled + ("?" + "&".join(query) if query else "")}
        if headers:
            request["headers"] = headers
        kinds = self._resolve(operation.get("requestBody")).get("content") or {}
        if "application/x-www-form-urlencoded" in kinds:
            schema = self._media(kinds["application/x-www-form-urlencoded"])
            form |= {str(key): _text(value) for key, value in schema.items()} if isinstance(schema, Mapping) else {}
        else:
            body = next((self._media(media) for kind, media in kinds.items() if "json" in str(kind)), body)
        if form:
            request["form"] = form
        elif body is not None and method not in ("get", "head"):
            request["json"] = body
        elif kinds and method not in ("get", "head"):
            self._other_body(request, kinds, f"{method} {path}")
        statuses = [int(str(code)) for code in operation.get("responses") or {} if re.fullmatch(r"2\d\d", str(code))]
        if statuses:
            request["check"] = {"status": statuses[0] if len(statuses) == 1 else statuses}
        return request

    def _other_body(self, request: dict[str, Any], kinds: Mapping[str, Any], where: str) -> None:
        """A body that is neither form nor JSON: its text where there is one."""
        kind, media = next(iter(kinds.items()))
        value = self._media(media)
        if isinstance(value, str) and not str(kind).startswith("multipart/"):
            request["text"] = value
            request["headers"] = {**request.get("headers", {}), "Content-Type": str(kind)}
        else:
            self._notes.append(f"{where}: the body ({' '.join(str(kind).split())}) is left out.")

    def _media(self, media: Any) -> Any:
        media = self._resolve(media)
        if "example" in media:
            return literals(media["example"])
        for example in (media.get("examples") or {}).values():
            found = self._resolve(example)
            if "value" in found:
                return literals(found["value"])
        return self._example(media.get("schema"), 0)

    def _parameter(self, parameter: Mapping[str, Any]) -> Any:
        if "example" in parameter:
            return literals(parameter["example"])
        return self._example(parameter.get("schema") or parameter, 0)

    def _example(self, schema: Any, depth: int) -> Any:
        """A value the schema takes; numbers and texts without an example are templates that draw one."""
        schema = self._resolve(schema)
        for key in ("example", "default", "const"):
            if key in schema:
                return literals(schema[key])
        for key in ("examples", "enum"):
            if isinstance(schema.get(key), list) and schema[key]:
                return literals(schema[key][0])
        if depth > _DEEPEST:
            return None
        for key in ("oneOf", "anyOf"):
            if schema.get(key):
                return self._example(schema[key][0], depth + 1)
        if schema.get("allOf"):
            parts = [self._example(part, depth + 1) for part in schema["allOf"]]
            merged: dict[str, Any] = {}
            for part in parts:
                merged |= part if isinstance(part, Mapping) else {}
            return merged or parts[0]
        kind = schema.get("type")
        kind = next((k for k in kind if k != "null"), None) if isinstance(kind, list) else kind
        if kind == "object" or "properties" in schema:
            required = schema.get("required")
            properties = schema.get("properties") or {}
            names = [n for n in properties if n in required] if isinstance(required, list) else list(properties)
            return {str(n): self._example(properties[n], depth + 1) for n in names}
        if kind == "array":
            item = self._example(schema.get("items"), depth + 1)
            return [] if item is None else [item]
        if kind in ("integer", "number"):
            low, high = _bounds(schema)
            return f"${{number:${{random:{low}:{high}}}}}"
        if kind == "boolean":
            return True
        forms = {"date": "2024-01-01", "date-time": "2024-01-01T00:00:00Z", "email": "user-${hex:6}@example.com"}
        forms["uuid"] = "${hex:8}-${hex:4}-4${hex:3}-8${hex:3}-${hex:12}"
        return forms.get(str(schema.get("format")), f"${{hex:{_length(schema)}}}")


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
    found = [_whole(value, inwards, exclusive is True), _whole(exclusive, inwards, True)]
    known = [bound for bound in found if bound is not None]
    return (max(known) if inwards > 0 else min(known)) if known else None


def _whole(value: Any, inwards: int, beyond: bool) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return None
    bounded = max(-_LARGEST, min(_LARGEST, value))
    nearest = math.ceil(bounded) if inwards > 0 else math.floor(bounded)
    return nearest + inwards if beyond and nearest == bounded else nearest


def _text(value: Any) -> str:
    """A value as it stands in a path, a query or a form; the first of a list."""
    if isinstance(value, list):
        value = value[0] if value else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = "" if value is None or isinstance(value, Mapping) else str(value)
    bare = re.fullmatch(r"\$\{number:(\$\{random:[^}]*\})\}", text)
    return bare[1] if bare else text


def _quoted(text: str) -> str:
    """Percent-encoded; expressions stay."""
    from urllib.parse import quote

    return "".join(
        part if part.startswith("$") else quote(part, safe="") for part in re.split(r"(\$\$|\$\{[^}]*\})", text)
    )
