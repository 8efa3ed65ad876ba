"""OpenAPI descriptions (2.0, 3.0, 3.1) as a first scenario.

Texts that must match a regular expression become templates that draw digits anew each time.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import groupby, islice, product
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from leadline.host.textfile import read_text
from leadline.load.convert import write
from leadline.load.convert.write import literal
from leadline.model.errors import UsageError, quoted, shortened
from leadline.model.received import from_json
from leadline.model.yamltext import LARGE, load_yaml

_LONGEST_PATTERN = 2_000  # characters of a pattern
_LONGEST_TEXT = 10_000  # characters of a text
_MOST_STEPS = 100_000
_EXTRA = (*range(65), 128, 256, 512, 1024, 2048, 4096)  # rounds beyond the least of each repetition
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ORDER = _LETTERS + _LETTERS.upper() + "0123456789 -_.,:;/@#%&+*=!?()[]{}<>|~^$'\"`\\\t"
_CATEGORIES = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}


class _UnknownError(ValueError):
    """What is not followed: what stands around (``(?=``), references to groups, more than is made."""


def matching(pattern: str, low: int, high: int) -> str | None:
    """A template of a text of ``low`` to ``high`` characters that matches; None where none is found. Nothing is matched
    against the pattern, which may take for ever.
    """
    if len(pattern) > _LONGEST_PATTERN:
        return None
    try:
        tree = import_module("re._parser").parse(re.sub(r"\(\?<(?![=!])", "(?P<", pattern), re.ASCII)
        steps = iter(range(_MOST_STEPS))
        for least, extra in product((max(low, min(8, high)), max(low, 1)), _EXTRA):
            pieces = list(islice(_pieces(tree, extra, steps), min(_LONGEST_TEXT, high) + 1))
            if least <= len(pieces) <= high:
                return _template(pieces)
    except (re.error, _UnknownError, RecursionError, OverflowError):
        pass
    return None


def _pieces(tree: Any, extra: int, steps: Iterator[int]) -> Iterator[str]:
    """Its characters in turn; ``digits`` and ``hex`` are drawn."""
    for operation, argument in tree:
        match str(operation):
            case "LITERAL":
                yield chr(argument)
            case "ANY":
                yield "a"
            case "NOT_LITERAL":
                yield _chosen([chr(argument)], negated=True)
            case "IN":
                yield _of_set(argument)
            case "BRANCH":
                yield from _pieces(argument[1][0], extra, steps)
            case "SUBPATTERN":
                yield from _pieces(argument[-1], extra, steps)
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, inner = argument
                for _ in range(min(int(most), int(least) + extra)):
                    if next(steps, None) is None:
                        raise _UnknownError
                    yield from _pieces(inner, extra, steps)
            case "AT" if str(argument) in ("AT_BEGINNING", "AT_BEGINNING_STRING", "AT_END", "AT_END_STRING"):
                pass
            case _:
                raise _UnknownError


def _of_set(items: Any) -> str:
    sets = []
    for operation, argument in items:
        match str(operation):
            case "LITERAL":
                sets.append(re.escape(chr(argument)))
            case "RANGE":
                sets.append(f"{re.escape(chr(argument[0]))}-{re.escape(chr(argument[1]))}")
            case "CATEGORY":
                name = str(argument).removeprefix("CATEGORY_")
                word = _CATEGORIES[name.removeprefix("NOT_")]
                sets.append(word.upper() if name.startswith("NOT_") else word)
    return _chosen(sets, negated=str(items[0][0]) == "NEGATE")


def _chosen(sets: list[str], negated: bool) -> str:
    members: list[str] = re.findall(f"[{'^' if negated else ''}{''.join(sets)}]", _ORDER, re.ASCII)
    if set("0123456789abcdef") <= set(members):
        return "hex"
    if members and set(members) <= set("0123456789"):
        return "digits" if len(members) == 10 else members[0]
    if members:
        return members[0]
    if negated or not (inside := re.match(r"\\?(.)", sets[0], re.DOTALL)):
        raise _UnknownError
    return str(inside[1])


def _template(pieces: list[str]) -> str:
    return "".join(
        f"${{{piece}:{len(run)}}}" if len(piece) > 1 else literal(piece) * len(run)
        for piece, run in ((piece, list(group)) for piece, group in groupby(pieces))
    )


# Values that schemas of OpenAPI take.


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
        self.unmatched = False  # a text does not match its pattern

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
                return write.literals(schema[key])
        for key in ("examples", "enum"):
            if isinstance(schema.get(key), list) and schema[key]:
                return write.literals(schema[key][0])
        mapping = _rule(schema.get("discriminator"))[1].values()
        if mapping and not {"oneOf", "anyOf", "allOf"} & schema.keys() and above.isdisjoint(mapping):
            return self._value(
                {"$ref": next(iter(mapping))}, depth, wanted, above - {reference}
            )  # one of those that extend it
        parts = [*(schema.get("allOf") or []), *(schema[key][0] for key in ("oneOf", "anyOf") if schema.get(key))]
        wanted = wanted.union(_required(schema) or [], *(_required(self._resolve(part)) or [] for part in parts))
        values = [self._value(part, depth, wanted, above) for part in parts]
        values += self._discriminated(schema, reference, parts)
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
            count = schema.get("minItems") if isinstance(schema.get("minItems"), int) else 1
            items = (self._value(schema.get("items"), depth - 1, frozenset(), above) for _ in range(max(count, 1)))
            return [] if depth < 0 else [item for item in items if item is not None]
        if kind in ("integer", "number"):
            low, high = _bounds(schema)
            return f"${{number:${{random:{low}:{high}}}}}"
        if kind == "boolean":
            return True
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and (text := matching(pattern, *_lengths(schema))) is not None:
            return text
        self.unmatched |= isinstance(pattern, str)
        forms = {"date": "2024-01-01", "date-time": "2024-01-01T00:00:00Z", "email": "user-${hex:6}@example.com"}
        forms["uuid"] = write.UUID
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

    def _discriminated(self, schema: Mapping[str, Any], reference: Any, parts: Sequence[Any]) -> list[dict[str, str]]:
        """The property that says which of several schemas this is: the first of its own choice (``oneOf``), or the one
        at ``reference`` that extends another (``allOf``).
        """
        references = [part.get("$ref") for part in parts if isinstance(part, Mapping)]
        rules = [(schema.get("discriminator"), target) for target in references[len(schema.get("allOf") or []) :]]
        rules += [(self._resolve(part).get("discriminator"), reference) for part in schema.get("allOf") or []]
        names = []
        for rule, target in rules:
            name, mapping = _rule(rule)
            if isinstance(name, str) and isinstance(target, str):
                short = target.rpartition("/")[2]
                key = next((key for key, value in mapping.items() if value in (target, short)), short)
                names.append({name: write.literal(str(key))})
        return names


def _rule(rule: Any) -> tuple[Any, Mapping[str, Any]]:
    """Property and mapping of a discriminator, which is the property in version 2."""
    if not isinstance(rule, Mapping):
        return rule, {}
    mapping = rule.get("mapping")
    return rule.get("propertyName"), mapping if isinstance(mapping, Mapping) else {}


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


def _lengths(schema: Mapping[str, Any]) -> tuple[int, int]:
    """Least and largest number of characters of a text."""
    low, high = (schema.get(key) for key in ("minLength", "maxLength"))
    low = max(0, min(low, _LONGEST)) if isinstance(low, int) else 0
    return low, max(0, min(high, _LONGEST)) if isinstance(high, int) else _LONGEST


def _length(schema: Mapping[str, Any]) -> int:
    """Characters of a text: 8, or as near to it as the schema allows."""
    low, high = _lengths(schema)
    return min(max(8, low), high)


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


_MOST_FILES = 1_000
_MULTIPART, _JSON = "multipart/form-data", "application/json"
_ANY = 2
_HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_PLAIN = re.compile(r"[\w-]{1,64}", re.ASCII)  # headers that a scenario can set, but for the driver's
_DRIVERS = ("host", "connection", "content-length", "transfer-encoding", "cookie")


def of_openapi(file: Path) -> write.Draft:
    """A scenario from an OpenAPI description, JSON or YAML. Raises UsageError."""
    return write.converted(file, lambda text, name: from_openapi(text, name, file.parent))


def from_openapi(text: str, name: str, folder: Path | None = None) -> write.Draft:
    """One transaction an operation, reads ten times as often as writes and deletions never until their weight is
    raised. Values come from examples, defaults and enumerations, else they are drawn by type. References lead to files
    in ``folder``. Raises UsageError for what is no OpenAPI description.
    """
    document = _document(text, "no JSON, as YAML")
    if not isinstance(document, Mapping) or not ("openapi" in document or "swagger" in document):
        raise UsageError("not an OpenAPI description: it has neither `openapi` nor `swagger` (the version)")
    version = str(document.get("openapi", document.get("swagger")))
    if not version.startswith(("2.", "3.")):
        raise UsageError(f"OpenAPI {shortened(str(version))}: only 2.0 and 3.x are read")
    return _Converter(document, folder).draft(name)


def _document(text: str, what: str) -> Any:
    """JSON is read as such: YAML has no pairs of surrogates."""
    try:
        return from_json(text)
    except ValueError:
        return load_yaml(text, what, LARGE)


def _moved(tree: Any, file: str) -> Any:
    """A tree of ``file`` whose references lead to the same places from the folder of the first file."""
    if isinstance(tree, list):
        return [_moved(item, file) for item in tree]
    if not isinstance(tree, Mapping):
        return tree
    moved = {key: _moved(item, file) for key, item in tree.items()}
    if isinstance(reference := moved.get("$ref"), str):
        moved["$ref"] = _reference(reference, file)
    if isinstance(mapping := moved.get("mapping"), dict):
        moved["mapping"] = {key: _reference(value, file) for key, value in mapping.items()}
    return moved


def _reference(reference: Any, file: str) -> Any:
    """A reference in ``file``, as it is written in the first file."""
    if not isinstance(reference, str) or "://" in reference or not re.search(r"[/#.]", reference):
        return reference
    path, mark, pointer = reference.partition("#")
    return (posixpath.normpath(posixpath.join(posixpath.dirname(file), path)) if path else file) + mark + pointer


class _Converter:
    def __init__(self, document: Mapping[str, Any], folder: Path | None) -> None:
        self._document = document
        self._folder = folder
        self._files: dict[str, Any] = {}  # by path below the folder
        self._characters = 0
        self._notes: list[str] = []  # what was left out
        self._examples = Examples(self._resolve)

    def _file(self, reference: str) -> Any:
        """The document that a reference names, read once. Raises UsageError."""
        file = posixpath.normpath(unquote(reference.partition("#")[0]))
        if file in self._files:
            return self._files[file]
        where = f"reference {quoted(reference)}"
        if self._folder is None or "://" in reference or file.startswith(("/", "..")):
            raise UsageError(f"{where}: only references to files in the folder of the first one are followed")
        if not (path := self._folder / file).resolve().is_relative_to(self._folder.resolve()):
            raise UsageError(f"{where}: it leads out of the folder of the first file")
        text = read_text(path, write.LARGEST_RECORDING)
        self._characters += len(text)
        if self._characters > LARGE.characters or len(self._files) == _MOST_FILES:
            raise UsageError(f"{where}: more than {_MOST_FILES:,} files or {LARGE.characters:,} characters in all")
        self._files[file] = _moved(_document(text, str(path)), file)
        return self._files[file]

    def draft(self, name: str) -> write.Draft:
        transactions: dict[str, list[dict[str, Any]]] = {}
        names = write.Names()
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
        if self._examples.unmatched:
            notes.append("Some texts do not match their `pattern`: give those an example.")
        notes += self._notes
        return write.Draft({"scenario": name, "mix": mix, "transactions": transactions}, notes)

    def _title(self) -> str:
        return re.sub(r"\s+", " ", str(self._get("info", "title") or "without a title"))

    def _base(self) -> str:
        """The first server, or host and path of version 2; on one line."""
        servers = self._document.get("servers")
        first = servers[0] if isinstance(servers, list) and servers else None
        url = first.get("url") if isinstance(first, Mapping) else None
        parts = (self._document.get("host"), self._document.get("basePath"))
        return " ".join(str(url or "".join(str(part) for part in parts if part)).split())

    def _get(self, *keys: str, root: Any = None) -> Any:
        value: Any = self._document if root is None else root
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
            for method in write.METHODS:
                operation = resolved.get(method)
                if isinstance(operation, Mapping):
                    yield f"/{str(path).lstrip('/')}", method, operation, shared

    def _resolve(self, value: Any) -> Mapping[str, Any]:
        """The value, references followed."""
        for _ in range(10):
            if not isinstance(value, Mapping):
                return {}
            reference = value.get("$ref")
            if not isinstance(reference, str):
                return value
            root = None if reference.startswith("#") else self._file(reference)
            tokens = unquote(reference.partition("#")[2]).split("/")[1:]
            value = self._get(*(token.replace("~1", "/").replace("~0", "~") for token in tokens), root=root)
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
        filled, query, headers = write.literal(path), [], {}
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
        if write.FORM in kinds:
            schema = self._media(kinds[write.FORM])
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
            request["headers"] = {**request.get("headers", {}), "Content-Type": write.literal(" ".join(kind.split()))}

    def _media(self, media: Any) -> Any:
        media = self._resolve(media)
        if "example" in media:
            return write.literals(media["example"])
        for example in (media.get("examples") or {}).values():
            resolved = self._resolve(example)
            if "value" in resolved:
                return write.literals(resolved["value"])
        return self._examples.of(media.get("schema"))

    def _parameter(self, parameter: Mapping[str, Any]) -> Any:
        if "example" in parameter:
            return write.literals(parameter["example"])
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
    return bool(fields) and write.FORM not in consumes and (bool(files) or _MULTIPART in consumes)


def _quoted(text: str) -> str:
    """Percent-encoded; expressions stay."""
    return "".join(
        part if part.startswith("$") else quote(part, safe="") for part in re.split(r"(\$\$|\$\{[^}]*\})", text)
    )
