"""A scenario file as a tree that knows its lines, and its templates as values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from leadline.load.scenario import read_scenario
from leadline.model.errors import UsageError
from leadline.model.units import parse_duration

BUILTINS = ("user", "session", "seq", "seed")
REDIRECTS = (301, 302, 303, 307, 308)  # followed when they have a Location
METHODS = ("get", "head", "post", "put", "patch", "delete")
Path_ = tuple[str | int, ...]
_LENGTH = 10  # transactions of an open session of a mix that says nothing
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")  # RFC 8259, section 6


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Name:
    """A variable, or one of the ``BUILTINS`` that no variable hides."""

    name: str
    builtin: bool = False


@dataclass(frozen=True)
class Call:
    function: str
    arguments: tuple[Template, ...]


Template = tuple[Text | Name | Call, ...]


class Source:
    """A valid scenario (leadline-load has checked it). ``tree`` holds texts, lists and mappings; a text without
    quotes is a plain ``str``. ``given``: values of parameters in place of the scenario's own.
    """

    def __init__(self, path: Path, given: Mapping[str, object] | None = None) -> None:
        self.path = path
        self.tree: CommentedMap = read_scenario(path, "rt")
        self.variables: set[str] = set()
        self.parameters: dict[str, str] = {}
        for name, value in (self.tree.get("parameters") or {}).items():
            self.parameters[str(name)] = self.fixed((given or {}).get(str(name), value), ("parameters", name))
        self.variables = {str(name) for name in self.tree.get("variables") or {}}
        for transaction in self.tree["transactions"].values():
            self.variables |= set(_extracted(requests_of(transaction)))

    def refuse(self, where: Path_, construct: str, tool: str, why: str) -> UsageError:
        return UsageError(f"{self.path.name}:{self.line(where)}: {construct} has no form in {tool}: {why}")

    def line(self, where: Path_) -> int:
        line, node = 0, self.tree
        for key in where:
            if isinstance(node, CommentedMap) and key in node:
                line, node = node.lc.key(key)[0], node[key]
            elif isinstance(node, CommentedSeq) and isinstance(key, int) and key < len(node):
                line, node = node.lc.item(key)[0], node[key]
            else:
                break
        return int(line) + 1

    def template(self, text: object) -> Template:
        """With parameters put in."""
        return _merged(_parse(str(text), self.parameters, self.variables))

    def assignments(self) -> list[tuple[str, Template]]:
        """The variables of the scenario; each knows those above it only."""
        texts = {str(name): str(text) for name, text in (self.tree.get("variables") or {}).items()}
        above = [list(texts)[:at] for at in range(len(texts))]
        return [
            (name, _merged(_parse(text, self.parameters, assignment)))
            for (name, text), assignment in zip(texts.items(), above, strict=True)
        ]

    def fixed(self, text: object, where: Path_) -> str:
        """The one value of a template that has one. Raises UsageError."""
        template = self.template(text)
        values = [constant(part) for part in template]
        if any(value is None for value in values):
            raise UsageError(f"{self.path.name}:{self.line(where)}: {str(text)!r} has no fixed value")
        return "".join(value or "" for value in values)

    def number(self, value: object, where: Path_) -> float:
        return float(self.fixed(value, where))

    def seconds(self, value: object, where: Path_) -> float:
        return parse_duration(self.fixed(value, where))


def session_length(source: Source) -> int | None:
    """Transactions of an open session between login and logout; None: as many as its walk has."""
    arrivals = source.tree.get("arrivals") or {}
    if arrivals.get("session_length") is None:
        return None if source.tree.get("graph") else _LENGTH
    return int(source.number(arrivals["session_length"], ("arrivals", "session_length")))


def walk_rows(source: Source) -> dict[str, dict[str, float]]:
    """What follows ``start`` and each transaction, with its weight; of a mix the same row everywhere. ``end`` ends the
    session. Weights of zero are left out.
    """

    def row(where: Path_, weights: Mapping[str, Any]) -> dict[str, float]:
        row_ = {str(name): source.number(weight, (*where, name)) for name, weight in weights.items()}
        return {name: weight for name, weight in row_.items() if weight > 0}

    if graph := source.tree.get("graph"):
        return {str(place): row(("graph", place), cells) for place, cells in graph.items()}
    mix = row(("mix",), source.tree.get("mix") or {})
    return {"start": mix, **dict.fromkeys(mix, mix)}


def said(value: object) -> bool:
    """Whether a key is there and not ``false``."""
    return value not in (None, "false")


def is_link(path: Template) -> bool:
    """Whether a path begins with an expression: a link, found on the page before and resolved there."""
    return bool(path) and not isinstance(path[0], Text)


def items(value: Any) -> Sequence[Any]:
    """One or several."""
    return value if isinstance(value, list) else [] if value is None else [value]


def requests_of(transaction: Any) -> Sequence[Mapping[str, Any]]:
    requests: Sequence[Mapping[str, Any]] = transaction if isinstance(transaction, list) else transaction["requests"]
    return requests


def headers_of(general: Mapping[str, Any] | None, request: Mapping[str, Any]) -> dict[str, Any]:
    """The headers of a request: the scenario's but for those that it names itself, whatever the case; then its own."""
    request_headers = request.get("headers") or {}
    named = {str(name).lower() for name in request_headers}
    return {
        **{name: text for name, text in (general or {}).items() if str(name).lower() not in named},
        **request_headers,
    }


def _extracted(requests: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for request in requests:
        yield from _extracted(request.get("requests") or [])
        yield from map(str, request.get("extract") or {})


def constant(part: Text | Name | Call) -> str | None:
    """The value of a part that is the same every time."""
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Name):
        return None
    values = ["".join(constant(part) or "\0" for part in argument) for argument in part.arguments]
    if any("\0" in value for value in values) or part.function not in _FOLDED:
        return None
    return _FOLDED[part.function](values)


def _int(text: str) -> int:
    return int(text.strip())


_FOLDED: Mapping[str, Callable[[list[str]], str]] = {
    "mul": lambda v: str(_int(v[0]) * _int(v[1])),
    "max": lambda v: str(max(_int(v[0]), _int(v[1]))),
    "min": lambda v: str(min(_int(v[0]), _int(v[1]))),
    "mod": lambda v: str(_int(v[0]) % abs(_int(v[1])) if _int(v[1]) else 0),
    "zpad": lambda v: v[1].rjust(_int(v[0]), "0"),
}


def _parse(text: str, parameters: Mapping[str, str], variables: Collection[str]) -> list[Text | Name | Call]:
    parts: list[Text | Name | Call] = []
    at = 0
    while (dollar := text.find("$", at)) >= 0:
        parts.append(Text(text[at:dollar]))
        if text[dollar + 1 : dollar + 2] == "$":
            parts.append(Text("$"))
            at = dollar + 2
        elif text[dollar + 1 : dollar + 2] == "{":
            end = _closing(text, dollar + 2)
            parts.append(_expression(text[dollar + 2 : end], parameters, variables))
            at = end + 1
        else:
            parts.append(Text("$"))
            at = dollar + 1
    return [*parts, Text(text[at:])]


def _closing(text: str, start: int) -> int:
    depth = 0
    for at in range(start, len(text)):
        if text.startswith("${", at):
            depth += 1
        elif text[at] == "}":
            if depth == 0:
                return at
            depth -= 1
    return len(text)


def _expression(text: str, parameters: Mapping[str, str], variables: Collection[str]) -> Text | Name | Call:
    words = [""]
    depth = 0
    for at, letter in enumerate(text):
        depth += text.startswith("${", at)
        depth -= letter == "}"
        if letter == ":" and depth == 0:
            words.append("")
        else:
            words[-1] += letter
    name = words[0].strip()
    if len(words) > 1:
        return Call(name, tuple(_merged(_parse(word, parameters, variables)) for word in words[1:]))
    if name in parameters:
        return Text(parameters[name])
    return Name(name, builtin=name in BUILTINS and name not in variables)


def _merged(parts: Sequence[Text | Name | Call]) -> Template:
    parts_: list[Text | Name | Call] = []
    for part in parts:
        value = constant(part)
        if value is None:
            parts_.append(part)
        elif value and parts_ and isinstance(parts_[-1], Text):
            parts_[-1] = Text(parts_[-1].text + value)
        elif value:
            parts_.append(Text(value))
    return tuple(parts_)


def json_template(value: Any, source: Source) -> Template:
    """The text of a JSON body: texts quoted, what they hold escaped when it is filled in; numbers, booleans, null
    (without quotes in the file, and written as JSON has them) and ``${number:...}`` bare.
    """
    parts: list[Text | Name | Call] = []
    if isinstance(value, Mapping):
        for at, (key, item) in enumerate(value.items()):
            parts += [Text(("," if at else "") + json.dumps(str(key), ensure_ascii=False) + ":")]
            parts += json_template(item, source)
        return _merged([Text("{"), *parts, Text("}")])
    if isinstance(value, list):
        for at, item in enumerate(value):
            parts += [Text("," if at else ""), *json_template(item, source)]
        return _merged([Text("["), *parts, Text("]")])
    if _bare(value):
        return (Text(str(value)),)
    template = source.template(value)
    if len(template) == 1 and isinstance(template[0], Call) and template[0].function == "number":
        return template
    for part in template:
        escaped = Text(json.dumps(part.text, ensure_ascii=False)[1:-1]) if isinstance(part, Text) else None
        parts.append(escaped or Call("json", ((part,),)))
    return _merged([Text('"'), *parts, Text('"')])


def _bare(value: object) -> bool:
    if type(value) is not str:  # with quotes, or a block
        return False
    return value in ("true", "false", "null") or (_NUMBER.fullmatch(value) is not None and math.isfinite(float(value)))


def only_rust(pattern: str) -> bool:
    """Whether a regular expression has syntax that JavaScript lacks or reads in another way: flags, named groups of the
    form ``(?P<n>...)``, escapes such as those for anchors, code points and Unicode classes, repetitions without a lower
    bound, classes within classes.
    """
    escapes = re.findall(r"\\(.(?:(?<=[xub])\{)?)", pattern, re.DOTALL)
    bare = re.sub(r"\\.", "_", pattern, flags=re.DOTALL)
    return bool({*escapes} & {*"AzapPU<>", "x{", "u{", "b{"}) or any(
        re.search(one, bare) for one in (r"\(\?(P<|[imsRxUu-]+[:)])", r"\{,[0-9]", r"\[\^?\]", r"\[[^\]]*(\[|&&|--|~~)")
    )
