"""A scenario as a Hyperfoil benchmark (0.25 and newer): sessions whose course is certain, or a mix of transactions."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any
from urllib.parse import quote_plus

from ruamel.yaml import YAML
from ruamel.yaml.comments import TaggedScalar

from leadline.load.export.source import (
    METHODS,
    Call,
    Name,
    Path_,
    Source,
    Template,
    Text,
    constant,
    items,
    json_template,
    plain_text,
    requests_of,
)
from leadline.model.errors import UsageError

_TOOL = "Hyperfoil"
_MOST_ROUNDS = 100  # of a loop that is written out
_BODY_CHECKS = ("contains", "lacks", "matches", "json", "header")
_NO_CACHE = "clearHttpCache"
_ONE_WAY = "a session goes one way; use a graph whose rows have one entry, or arrivals of single transactions"


def to_hyperfoil(source: Source) -> str:
    """The benchmark as YAML, with parameters URL, RATE, DURATION and MAX_SESSIONS. What is left out without changing
    a request stands in comments on top. Raises UsageError naming a construct that has no form, and its line.
    """
    return _Writer(source).text()


class _Writer:
    def __init__(self, source: Source) -> None:
        self._source, self._tree = source, source.tree
        self._numbers = count(1)
        self._notes: list[str] = []
        self._pages = 0  # of the session being written

    def text(self) -> str:
        tree = self._tree
        for key, why in (("feeds", "its sessions share no position in a list"), ("identities", "it counts no users")):
            if tree.get(key):
                raise self._refuse((key,), f"`{key}`", why)
        phase: dict[str, Any] = {
            "usersPerSec": _parameter("RATE 10"),
            "variance": False,
            "duration": _parameter("DURATION 10s"),
            "maxSessions": _parameter("MAX_SESSIONS 1000"),
            **self._course(),
        }
        document = {
            "name": str(tree["scenario"]),
            "http": {
                "host": _parameter("URL http://127.0.0.1:8080"),
                "sharedConnections": _parameter("CONNECTIONS 100"),
            },
            "ergonomics": {"autoRangeCheck": False, "stopOnInvalid": True},
            "phases": [{"main": {"constantRate": phase}}],
        }
        yaml = YAML()
        yaml.width = 10_000
        stream = io.StringIO()
        yaml.dump(document, stream)
        return "".join(f"# left out: {note}\n" for note in dict.fromkeys(self._notes)) + stream.getvalue()

    def _course(self) -> dict[str, Any]:
        tree = self._tree
        if "graph" in tree:
            return {"scenario": {"orderedSequences": self._sequences(self._walk())}}
        if (tree.get("arrivals") or {}).get("unit") != "transaction":
            raise self._refuse(("mix",), "a mix within a session", _ONE_WAY)
        for key in ("login", "logout"):
            if tree.get(key):
                raise self._refuse(
                    (key,), f"`{key}` before arrivals of single transactions", "its sessions are not kept"
                )
        forks = [
            {name: {"weight": weight, "scenario": {"orderedSequences": self._sequences([name])}}}
            for name, value in tree["mix"].items()
            if (weight := self._source.number(value, ("mix", name))) > 0
        ]
        return {"forks": forks} if len(forks) > 1 else {"scenario": next(iter(forks[0].values()))["scenario"]}

    def _walk(self) -> list[str]:
        tree, found, place = self._tree, [], "start"
        if tree.get("login"):
            found.append(str(tree["login"]))
        while place != "end":
            row = {
                str(name): share
                for name, value in tree["graph"][place].items()
                if (share := self._source.number(value, ("graph", place, name))) > 0
            }
            if len(row) > 1 or len(found) > 1000:
                raise self._refuse(("graph", place), f"row `{place}` of the graph", _ONE_WAY)
            place = next(iter(row))
            if place != "end":
                found.append(place)
        return [*found, str(tree["logout"])] if tree.get("logout") else found

    def _sequences(self, names: Sequence[str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        self._pages = 0
        start = [step for name, text in (self._tree.get("variables") or {}).items() for step in self._set(name, text)]
        for at, name in enumerate(names):
            transaction = self._tree["transactions"][name]
            where: Path_ = ("transactions", name)
            if isinstance(transaction, Mapping):
                if transaction.get("when_missing") == "skip":
                    why = "a value that is not found ends its session"
                    raise self._refuse((*where, "when_missing"), "`when_missing: skip`", why)
                where = (*where, "requests")
            steps = [*start, *(self._pause() if at else []), *self._requests(requests_of(transaction), where, name)]
            start = []
            for step in steps:
                found.append({f"{name}-{next(self._numbers)}": [step]})
        return found

    def _set(self, name: str, text: object) -> list[dict[str, Any]]:
        steps, pattern = self._pattern(self._source.template(text), ("variables", name))
        return [*steps, {"template": {"pattern": pattern, "toVar": str(name)}}]

    def _pause(self) -> list[dict[str, Any]]:
        pause = self._tree.get("pause") or {}
        mean = self._source.seconds(pause.get("mean", "0s"), ("pause", "mean"))
        if pause.get("kind") == "cycle":
            raise self._refuse(("pause", "kind"), "a cycle time", "its think times begin when an answer has come")
        if not mean or pause.get("shape", "none") == "none":
            return []
        length = f"{max(1, round(1000 * mean))}ms"
        if pause["shape"] == "fixed":
            return [{"thinkTime": length}]
        most = f"{max(1, round(5000 * mean))}ms"
        return [{"thinkTime": {"duration": length, "max": most, "random": "NEGATIVE_EXPONENTIAL"}}]

    def _requests(self, requests: Sequence[Mapping[str, Any]], where: Path_, name: str) -> list[Any]:
        steps: list[Any] = []
        for at, request in enumerate(requests):
            here = (*where, at)
            if "repeat" not in request:
                steps += self._request(request, here, name)
                continue
            try:
                rounds = int(self._source.fixed(request["repeat"], here))
            except UsageError:
                rounds = _MOST_ROUNDS + 1
            if rounds > _MOST_ROUNDS:
                why = f"loops are written out: a fixed number of rounds, at most {_MOST_ROUNDS}"
                raise self._refuse((*here, "repeat"), "this loop", why)
            for _ in range(rounds):
                steps += self._requests(request["requests"], (*here, "requests"), name)
        return steps

    def _request(self, request: Mapping[str, Any], where: Path_, name: str) -> list[Any]:
        if request.get("embedded"):
            raise self._refuse((*where, "embedded"), "`embedded`", "its pages are loaded by handlers of another kind")
        method = next(one for one in METHODS if one in request)
        steps, path = self._pattern(self._source.template(request[method]), (*where, method))
        step: dict[str, Any] = {method.upper(): {"pattern": path}, "metric": name}
        headers = {**(self._tree.get("headers") or {}), **(request.get("headers") or {})}
        body = self._body(request, where)
        if body is not None:
            more, pattern, kind = body
            steps += more
            step["body"] = {"pattern": pattern}
            if not any(str(key).lower() == "content-type" for key in headers):
                headers["Content-Type"] = kind
        lines = []
        for key, text in headers.items():
            more, pattern = self._pattern(self._source.template(text), (*where, "headers", key))
            steps += more
            lines.append({str(key): {"pattern": pattern}})
        if lines:
            step["headers"] = lines
        step["handler"] = self._handler(request, where)
        if self._source.number(request.get("follow", self._tree.get("follow", 5)), (*where, "follow")) > 0:
            step["handler"]["followRedirect"] = "LOCATION_ONLY"
        if method in ("get", "head"):
            self._pages += 1
            if self._pages > 1:  # its sessions have a browser's cache, and would not ask for a page again
                return [*steps, _NO_CACHE, {"httpRequest": step}]
        return [*steps, {"httpRequest": step}]

    def _handler(self, request: Mapping[str, Any], where: Path_) -> dict[str, Any]:
        check = request.get("check") or {}
        for key in _BODY_CHECKS:
            if key in check:
                place = self._source.line((*where, "check", key))
                self._notes.append(f"the check `{key}` of line {place}")
        codes = [int(plain_text(code)) for code in items(check.get("status"))]
        if len(codes) > 1 or "skip_status" in check:
            key = "skip_status" if "skip_status" in check else "status"
            raise self._refuse((*where, "check", key), f"`{key}`", "an answer has one good range and is never skipped")
        handler: dict[str, Any] = {"status": {"range": str(codes[0]) if codes else "2xx"}}
        queries = []
        for variable, how in (request.get("extract") or {}).items():
            here = (*where, "extract", variable)
            pointer = how.get("json") if isinstance(how, Mapping) else None
            if pointer is None or how.get("pick", "first") != "first" or "*" in pointer.split("/"):
                why = "it stores what a JSON pointer without `*` leads to; use `{ json: /a/b }`"
                raise self._refuse(here, f"this extraction of `{variable}`", why)
            words = [f"[{word}]" if word.isdecimal() else f".{word}" for word in pointer.split("/")[1:]]
            query = "".join(words)
            queries.append({"json": {"query": query if query.startswith(".") else f".{query}", "toVar": str(variable)}})
        if queries:
            handler["body"] = queries
        return handler

    def _body(self, request: Mapping[str, Any], where: Path_) -> tuple[list[dict[str, Any]], str, str] | None:
        if "form" in request:
            steps: list[dict[str, Any]] = []
            fields = []
            for key, text in request["form"].items():
                more, pattern = self._pattern(self._source.template(text), (*where, "form", key), form=True)
                steps += more
                fields.append(f"{quote_plus(str(key))}={pattern}")
            return steps, "&".join(fields), "application/x-www-form-urlencoded"
        if "json" in request:
            template = json_template(request["json"], self._source)
            return *self._pattern(template, (*where, "json"), json=True), "application/json"
        if "text" in request:
            return *self._pattern(self._source.template(request["text"]), (*where, "text")), "text/plain; charset=utf-8"
        return None

    def _pattern(
        self, template: Template, where: Path_, form: bool = False, json: bool = False
    ) -> tuple[list[dict[str, Any]], str]:
        """Steps that draw values, and Hyperfoil's pattern."""
        steps: list[dict[str, Any]] = []
        words = []
        for part in template:
            if isinstance(part, Text):
                words.append(quote_plus(part.text) if form else part.text.replace("${", "$${"))
            elif isinstance(part, Name):
                words.append("${" + ("urlencode:" if form else "") + self._name(part, where) + "}")
            else:
                more, word = self._drawn(part, where, json)
                steps += more
                words.append(word)
        return steps, "".join(words)

    def _name(self, name: Name, where: Path_) -> str:
        if name.name in ("user", "session", "seq", "seed"):
            raise self._refuse(where, f"`${{{name.name}}}`", "it counts no users, sessions or draws")
        return name.name

    def _drawn(self, call: Call, where: Path_, json: bool) -> tuple[list[dict[str, Any]], str]:
        width = ""
        arguments = call.arguments
        if call.function in ("number", "json") and json and len(arguments[0]) == 1:
            inner = arguments[0][0]
            if isinstance(inner, Name):
                if call.function == "json":
                    self._notes.append(
                        f"escaping of `{inner.name}` in the JSON body of line {self._source.line(where)}"
                    )
                return [], "${" + self._name(inner, where) + "}"
            if isinstance(inner, Call):
                call = inner
                arguments = call.arguments
        if call.function == "zpad" and len(arguments[1]) == 1 and isinstance(inner := arguments[1][0], Call):
            width, call = f"%0{_fixed(arguments[0])}d:", inner
        bounds = [_fixed(argument) for argument in call.arguments]
        if call.function != "random" or None in bounds:
            why = "its patterns hold variables and random whole numbers, padded or not"
            raise self._refuse(where, f"the expression `{call.function}`", why)
        name = f"r{next(self._numbers)}"
        return [{"randomInt": f"{name} <- {bounds[0]} .. {bounds[1]}"}], "${" + width + name + "}"

    def _refuse(self, where: Path_, construct: str, why: str) -> UsageError:
        return self._source.refuse(where, construct, _TOOL, why)


def _fixed(template: Template) -> str | None:
    values = [constant(part) for part in template]
    return None if None in values else "".join(value or "" for value in values)


def _parameter(text: str) -> TaggedScalar:
    found = TaggedScalar(value=text)
    found.yaml_set_ctag(_tag("!param"))
    return found


def _tag(text: str) -> Any:
    from ruamel.yaml.tag import Tag

    return Tag(suffix=text)
