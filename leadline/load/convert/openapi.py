"""OpenAPI descriptions (2.0, 3.0, 3.1) as a first scenario."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from leadline.load.convert.examples import Examples
from leadline.load.convert.write import Draft, Names, literal, literals
from leadline.model.errors import UsageError, quoted, shortened
from leadline.model.received import from_json
from leadline.model.yamltext import LARGE, load_yaml

_METHODS = ("get", "head", "post", "put", "patch", "delete")
_FORM, _MULTIPART, _JSON = "application/x-www-form-urlencoded", "multipart/form-data", "application/json"
_ANY = 2
_HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_PLAIN = re.compile(r"[\w-]{1,64}", re.ASCII)  # headers that a scenario can set, but for the driver's
_DRIVERS = ("host", "connection", "content-length", "transfer-encoding", "cookie")


def from_openapi(text: str, name: str) -> Draft:
    """One transaction an operation, reads ten times as often as writes and deletions never until their weight is
    raised. Values come from examples, defaults and enumerations, else they are drawn by type. Raises UsageError for
    what is no OpenAPI description.
    """
    document = _document(text)
    if not isinstance(document, Mapping) or not ("openapi" in document or "swagger" in document):
        raise UsageError("not an OpenAPI description: it has neither `openapi` nor `swagger` (the version)")
    version = str(document.get("openapi", document.get("swagger")))
    if not version.startswith(("2.", "3.")):
        raise UsageError(f"OpenAPI {shortened(str(version))}: only 2.0 and 3.x are read")
    return _Converter(document).draft(name)


def _document(text: str) -> Any:
    """JSON is read as such: YAML has no pairs of surrogates."""
    try:
        return from_json(text)
    except ValueError:
        return load_yaml(text, "no JSON, as YAML", LARGE, "safe")


class _Converter:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._notes: list[str] = []  # what was left out
        self._examples = Examples(self._resolve)

    def draft(self, name: str) -> Draft:
        transactions: dict[str, list[dict[str, Any]]] = {}
        names = Names()
        mix: dict[str, int] = {}
        for path, method, operation, shared in self._operations():
            title = str(operation.get("operationId") or f"{method}-{path}")
            key = names.make(title, f"operation-{len(transactions) + 1}")
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
        url = first.get("url") if isinstance(first, Mapping) else None
        parts = (self._document.get("host"), self._document.get("basePath"))
        return " ".join(str(url or "".join(str(part) for part in parts if part)).split())

    def _get(self, *keys: str) -> Any:
        value: Any = self._document
        for key in keys:
            if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
                value = value[int(key)]
            elif isinstance(value, Mapping):
                value = value[key] if key in value else value.get(int(key)) if key.isdecimal() else None  # YAML's 200:
            else:
                value = None
        return value

    def _operations(self) -> Iterator[tuple[str, str, Mapping[str, Any], list[Any]]]:
        paths = self._document.get("paths")
        for path, item in paths.items() if isinstance(paths, Mapping) else ():
            resolved = self._resolve(item)
            shared = resolved.get("parameters") or []
            if not isinstance(shared, list):
                raise UsageError(f"{path}: `parameters` is not a list")
            for method in _METHODS:
                operation = resolved.get(method)
                if isinstance(operation, Mapping):
                    yield f"/{str(path).lstrip('/')}", method, operation, shared

    def _resolve(self, value: Any) -> Mapping[str, Any]:
        """The value, local references followed."""
        for _ in range(10):
            if not isinstance(value, Mapping):
                return {}
            reference = value.get("$ref")
            if not isinstance(reference, str):
                return value
            if not reference.startswith("#/"):
                raise UsageError(f"reference {quoted(reference)}: only references within the file are followed")
            keys = [token.replace("~1", "/").replace("~0", "~") for token in unquote(reference[2:]).split("/")]
            value = self._get(*keys)
            if value is None:
                raise UsageError(f"reference {quoted(reference)} leads nowhere")
        return {}

    def _request(self, path: str, method: str, operation: Mapping[str, Any], shared: list[Any]) -> dict[str, Any]:
        parameters: dict[tuple[str, str], Mapping[str, Any]] = {}
        operation_parameters = operation.get("parameters") or []
        if not isinstance(operation_parameters, list):
            raise TypeError("`parameters` is not a list")
        for parameter in [*shared, *operation_parameters]:
            resolved = self._resolve(parameter)
            parameters[str(resolved.get("in")), str(resolved.get("name"))] = resolved
        filled, query, headers = literal(path), [], {}
        form: dict[str, str] = {}
        fields: list[Mapping[str, Any]] = []
        kinds = self._resolve(operation.get("requestBody")).get("content") or {}
        consumes = operation.get("consumes") or self._document.get("consumes") or []
        if not isinstance(consumes, list):
            raise TypeError("`consumes` is not a list")
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
                if not _PLAIN.fullmatch(name) or name.lower() in _DRIVERS:
                    self._notes.append(f"{method} {path}: the header {name} is left out, no scenario can set it.")
                    continue
                headers[name] = " ".join(value.split())
            elif place == "formData":
                fields.append(parameter)
                form |= {name: value} if needed else {}
            elif place == "cookie" and needed:
                self._notes.append(f"{method} {path}: the cookie {' '.join(name.split())} is left out.")
            elif place == "body":
                kinds = {kind: {"schema": parameter.get("schema")} for kind in consumes or [_JSON]}
        for missing in re.findall(r"\{(\w+)\}", path):
            if ("path", missing) not in parameters:
                self._notes.append(f"{method} {path}: {missing} is not described; a value was drawn.")
                filled = filled.replace(f"{{{missing}}}", "${hex:8}")
        request: dict[str, Any] = {method: filled + ("?" + "&".join(query) if query else "")}
        if headers:
            request["headers"] = headers
        if _is_multipart(fields, consumes):
            form, kinds = {}, {_MULTIPART: {}}
        if _FORM in kinds:
            schema = self._media(kinds[_FORM])
            form |= {str(key): _text(value) for key, value in schema.items()} if isinstance(schema, Mapping) else {}
        if form:
            request["form"] = form
        elif kinds and method not in ("get", "head"):
            self._body(request, kinds, f"{method} {path}")
        statuses = [int(str(code)) for code in operation.get("responses") or {} if re.fullmatch(r"2\d\d", str(code))]
        if statuses:
            request["check"] = {"status": statuses[0] if len(statuses) == 1 else statuses}
        return request

    def _body(self, request: dict[str, Any], kinds: Mapping[str, Any], where: str) -> None:
        """JSON where that is taken, else the text of an example where there is one."""
        kind = min(map(str, kinds), key=_likeness)
        as_json = _likeness(kind) <= _ANY
        value = self._media(kinds[kind])
        if value is None or not (as_json or (isinstance(value, str) and not kind.startswith("multipart/"))):
            self._notes.append(f"{where}: the body ({' '.join(kind.split())}) is left out.")
            return
        request["json" if as_json else "text"] = value
        if _plain(kind) != _JSON and "*" not in kind:
            request["headers"] = {**request.get("headers", {}), "Content-Type": literal(" ".join(kind.split()))}

    def _media(self, media: Any) -> Any:
        media = self._resolve(media)
        if "example" in media:
            return literals(media["example"])
        for example in (media.get("examples") or {}).values():
            resolved = self._resolve(example)
            if "value" in resolved:
                return literals(resolved["value"])
        return self._examples.of(media.get("schema"))

    def _parameter(self, parameter: Mapping[str, Any]) -> Any:
        if "example" in parameter:
            return literals(parameter["example"])
        return self._examples.of(parameter.get("schema") or parameter)


def _text(value: Any) -> str:
    """A value as it stands in a path, a query or a form; the first of a list."""
    if isinstance(value, list):
        value = value[0] if value else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = "" if value is None or isinstance(value, Mapping) else str(value)
    bare = re.fullmatch(r"\$\{number:(\$\{random:[^}]*\})\}", text)
    return bare[1] if bare else text


def _plain(kind: str) -> str:
    """A media type without its parameters."""
    return kind.split(";")[0].strip().lower()


def _likeness(kind: str) -> int:
    """How much a media type is JSON: 0 is JSON itself, ``_ANY`` one that may be anything."""
    plain = _plain(kind)
    if plain == _JSON:
        return 0
    return 1 if "json" in plain else _ANY if plain in ("*/*", "application/*") else _ANY + 1


def _is_multipart(fields: Sequence[Mapping[str, Any]], consumes: Sequence[Any]) -> bool:
    """Whether a form of version 2 cannot be sent as fields alone: files ask for parts."""
    files = [field for field in fields if field.get("type") == "file"]
    if any(file.get("required") for file in files):
        return True
    return bool(fields) and _FORM not in consumes and (bool(files) or _MULTIPART in consumes)


def _quoted(text: str) -> str:
    """Percent-encoded; expressions stay."""
    return "".join(
        part if part.startswith("$") else quote(part, safe="") for part in re.split(r"(\$\$|\$\{[^}]*\})", text)
    )
