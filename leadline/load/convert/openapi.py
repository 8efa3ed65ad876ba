"""OpenAPI descriptions (2.0, 3.0, 3.1) as a first scenario."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from leadline.load.convert.write import Draft, literal, literals, name_of
from leadline.model.errors import UsageError

_METHODS = ("get", "head", "post", "put", "patch", "delete")
_DEEPEST = 6
_LARGEST = 10**15  # a whole number that JSON and every server's doubles hold exactly
_HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)


def from_openapi(text: str, name: str) -> Draft:
    """One transaction an operation, reads ten times as often as writes and deletions never until their weight is
    raised. Values come from examples, defaults and enumerations, else they are drawn by type. Raises UsageError for
    what is no OpenAPI description.
    """
    try:
        document = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise UsageError(f"neither JSON nor YAML: {error}") from None
    if not isinstance(document, Mapping) or not ("openapi" in document or "swagger" in document):
        raise UsageError("not an OpenAPI description: it has neither `openapi` nor `swagger` (the version)")
    return _Converter(document).draft(name)


class _Converter:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

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
        notes += ["Weights are a guess: reads 10, writes 1, deletions 0. Values were drawn where no example stood."]
        if (
            self._document.get("security")
            or self._get("components", "securitySchemes")
            or self._get("securityDefinitions")
        ):
            notes.append("The interface asks for credentials: add a login or a header.")
        return Draft({"scenario": name, "mix": mix, "transactions": transactions}, notes)

    def _title(self) -> str:
        return re.sub(r"\s+", " ", str(self._get("info", "title") or "without a title"))

    def _get(self, *keys: str) -> Any:
        value: Any = self._document
        for key in keys:
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
        for parameter in [*shared, *(operation.get("parameters") or [])]:
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
            elif place == "body":
                body = self._example(parameter.get("schema"), 0)
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
        statuses = [int(str(code)) for code in operation.get("responses") or {} if re.fullmatch(r"2\d\d", str(code))]
        if statuses:
            request["check"] = {"status": statuses[0] if len(statuses) == 1 else statuses}
        return request

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
        return forms.get(str(schema.get("format")), "${hex:8}")


def _bounds(schema: Mapping[str, Any]) -> tuple[int, int]:
    """Least and largest whole number to draw; 1 to 1000 where the schema leaves that open."""
    low, high = (_limit(schema.get(key)) for key in ("minimum", "maximum"))
    if low is None:
        low = 1 if high is None else min(1, high)
    return low, max(low, 1000 if high is None else high)


def _limit(value: Any) -> int | None:
    if not isinstance(value, (int, float)) or value != value:
        return None
    return int(max(-_LARGEST, min(_LARGEST, value)))


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
