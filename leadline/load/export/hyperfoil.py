"""A scenario as a Hyperfoil benchmark (0.25 and newer): the course of its sessions as sequences."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml import YAML

from leadline.load.export.hyperfoil_values import INNER, Step, Values, below, form_text, parameter
from leadline.load.export.source import (
    METHODS,
    REDIRECTS,
    Call,
    Name,
    Path_,
    Source,
    Template,
    Text,
    headers_of,
    is_link,
    items,
    json_template,
    requests_of,
    said,
    session_length,
    walk_rows,
)
from leadline.model.errors import UsageError

# Transactions of a scenario as steps of a Hyperfoil sequence: requests, bodies, checks, extractions, pauses.


_MOST_ROUNDS = 100  # of a loop that is written out
_MOST_FOUND = 100  # values of which one is picked at random
_BODY_CHECKS = ("contains", "lacks", "matches", "json", "header")
_NO_CACHE = "clearHttpCache"
_SKIPPED = f"{INNER}skipped"
_ATTRIBUTE = re.compile(r'([a-z][a-z0-9-]*)="\((?:\\d|\[\^"\])[+*]\)"')  # a regular expression for an attribute
_SELECTOR = re.compile(r"([a-z][a-z0-9]*)(?:\[([a-z][a-z0-9-]*)\])?")
_ELEMENTS = ("tr", "td", "li", "div", "span", "a", "form", "input", "option", "button")


class Steps:
    """Makes steps. ``onward``: the actions of a transaction that ends early; none end the session."""

    def __init__(self, source: Source, kept: bool) -> None:
        self._source, self._tree = source, source.tree
        self.values = Values(source, kept)

    def transaction(self, name: str, onward: Sequence[Step]) -> list[Step]:
        transaction = self._tree["transactions"][name]
        where: Path_ = ("transactions", name)
        skips = False
        if isinstance(transaction, Mapping):
            skips = transaction.get("when_missing") == "skip"
            where = (*where, "requests")
        return self._requests(requests_of(transaction), where, _Context(name, onward, skips))

    def assign(self) -> list[Step]:
        """The variables of the scenario."""
        steps_: list[Step] = []
        for name, template in self._source.assignments():
            steps, pattern = self.values.pattern(template, ("variables", name))
            steps_ += [*steps, {"template": {"pattern": pattern, "toVar": name}}]
        return steps_

    def pause(self) -> list[Step]:
        pause = self._tree.get("pause") or {}
        mean = self._source.seconds(pause.get("mean", "0s"), ("pause", "mean"))
        if pause.get("kind") == "cycle":
            why = "its think times begin when a response has come"
            raise self.values.refuse(("pause", "kind"), "a cycle time", why)
        if not mean or pause.get("shape", "none") == "none":
            return []
        length = f"{max(1, round(1000 * mean))}ms"
        if pause["shape"] == "fixed":
            return [{"thinkTime": length}]
        most = f"{max(1, round(5000 * mean))}ms"
        return [{"thinkTime": {"duration": length, "max": most, "random": "NEGATIVE_EXPONENTIAL"}}]

    def _requests(self, requests: Sequence[Mapping[str, Any]], where: Path_, context: _Context) -> list[Step]:
        steps: list[Step] = []
        for at, request in enumerate(requests):
            here = (*where, at)
            if "repeat" not in request:
                steps += self._request(request, here, context)
                continue
            try:
                rounds = int(self._source.fixed(request["repeat"], here))
            except UsageError:
                rounds = _MOST_ROUNDS + 1
            if rounds > _MOST_ROUNDS:
                why = f"loops are written out: a fixed number of rounds, at most {_MOST_ROUNDS}"
                raise self.values.refuse((*here, "repeat"), "this loop", why)
            for _ in range(rounds):
                steps += self._requests(request["requests"], (*here, "requests"), context)
        return steps

    def _request(self, request: Mapping[str, Any], where: Path_, context: _Context) -> list[Step]:
        if said(request.get("embedded")):
            why = "its pages are loaded by handlers of another kind"
            raise self.values.refuse((*where, "embedded"), "`embedded`", why)
        method = next(method for method in METHODS if method in request)
        template = self._source.template(request[method])
        if is_link(template):
            self._link(template, (*where, method))
        steps, path = self.values.pattern(template, (*where, method))
        step: dict[str, Any] = {method.upper(): {"pattern": below(path)}, "metric": context.name}
        headers = headers_of(self._tree.get("headers"), request)
        if said(self._tree.get("compression")):
            headers["Accept-Encoding"] = "gzip, deflate"
        body = self._body(request, where)
        if body is not None:
            more, pattern, kind = body
            steps += more
            step["body"] = {"pattern": pattern}
            if not any(str(key).lower() == "content-type" for key in headers):
                headers["Content-Type"] = kind
        lines = []
        for key, text in headers.items():
            more, pattern = self.values.pattern(self._source.template(text), (*where, "headers", key))
            steps += more
            lines.append({str(key): {"pattern": pattern}})
        if lines:
            step["headers"] = lines
        step["handler"], after = self._handler(request, where, context)
        if self._follows(request, where):
            step["handler"]["followRedirect"] = "LOCATION_ONLY"
        if method in ("get", "head"):  # its sessions have a browser's cache, and would not ask for a page again
            steps.append(_NO_CACHE)
        return [*steps, {"httpRequest": step}, *after]

    def _link(self, path: Template, where: Path_) -> None:
        """Notes or refuses a link that may not begin with ``/``: Hyperfoil resolves none."""
        first = path[0]
        if isinstance(first, Name) and not first.builtin:
            self.values.notes.append(
                f"differs: the link of line {self._source.line(where)} is asked for as it stands: right for `/a` and "
                "`http://host/a`, broken for `a`"
            )
        elif not (
            isinstance(first, Call)
            and first.function == "choice"
            and all(
                argument and isinstance(argument[0], Text) and argument[0].text.startswith("/")
                for argument in first.arguments
            )
        ):
            why = "it asks for a link as it stands, and this one begins with no `/`"
            raise self.values.refuse(where, "a link that begins with this expression", why)

    def _follows(self, request: Mapping[str, Any], where: Path_) -> bool:
        """Whether redirects are followed; a wanted one is not."""
        follow = request.get("follow", self._tree.get("follow", 5))
        if self._source.number(follow, (*where, "follow")) == 0:
            return False
        wanted = {int(code) for code in items((request.get("check") or {}).get("status"))}
        if wanted & {*REDIRECTS} and not wanted <= {*REDIRECTS}:
            why = "it follows all of them or none; leave the others out, or write `follow: 0`"
            raise self.values.refuse((*where, "check", "status"), "a redirect among the wanted statuses", why)
        return not wanted & {*REDIRECTS}

    def _handler(
        self, request: Mapping[str, Any], where: Path_, context: _Context
    ) -> tuple[dict[str, Any], list[Step]]:
        """How an answer is looked at, and the steps after it."""
        check = request.get("check") or {}
        for key in _BODY_CHECKS:
            if key in check:
                self.values.notes.append(
                    f"left out: the check `{key}` of line {self._source.line((*where, 'check', key))}"
                )
        status, after = _status(check, context)
        handler: dict[str, Any] = {"status": status}
        bodies: list[Step] = []
        for variable, how in (request.get("extract") or {}).items():
            here = (*where, "extract", variable)
            if said(self._tree.get("compression")):
                why = "it reads no compressed response"
                raise self.values.refuse(here, f"the extraction of `{variable}` with `compression`", why)
            rule = how if isinstance(how, Mapping) else {"regex": how}
            handlers, more = self._extract(str(variable), rule, here, context)
            bodies += handlers
            after += more
        if bodies:
            handler["body"] = bodies
        return handler, after

    def _extract(
        self, variable: str, rule: Mapping[str, Any], where: Path_, context: _Context
    ) -> tuple[list[Step], list[Step]]:
        """Handlers of the body, and steps after the answer."""
        missing = context.onward if context.skips else []
        pick = rule.get("pick", "first")
        pointer = [str(word) for word in str(rule.get("json", "")).split("/")[1:]]
        sources: list[tuple[str, dict[str, Any]]] = []
        if pointer and pick != "last" and not any(set(word) & set(".[]~") for word in pointer):
            query = "".join(
                "[]" if word == "*" else f"[{word}]" if word.isdecimal() else f".{word}" for word in pointer
            )
            query = query if query.startswith(".") else f".{query}"
            if pick == "first" and "*" not in pointer:
                unset = {"stringCondition": {"fromVar": variable, "isSet": False}}
                return [{"json": {"query": query, "toVar": variable}}], [leave(unset, missing)]
            if pick == "first" or "*" in pointer:
                sources = [("json", {"query": query})]
        elif pick == "random" and (attribute := _ATTRIBUTE.fullmatch(str(rule.get("regex", "")))):
            line = self._source.line(where)
            note = f"left out: values of `{attribute[1]}` (line {line}) on elements other than {', '.join(_ELEMENTS)}"
            self.values.notes.append(note)
            sources = [("tag", {"tag": element, "attribute": attribute[1]}) for element in _ELEMENTS]
        elif pick != "last" and (selector := _SELECTOR.fullmatch(str(rule.get("css", "")))):
            named = rule.get("attribute")
            sources = (
                [("tag", {"tag": selector[1], "attribute": named})] if named and selector[2] in (None, named) else []
            )
        if not sources:
            why = (
                "it finds what a JSON pointer leads to, the first (`/a/0/b`) or one at random of a list (`/a/*/b`), an "
                'attribute of an element (`css: "tr[data-id]", attribute: data-id`), and one at random of those '
                'that `name="(\\d+)"` finds'
            )
            raise self.values.refuse(where, f"this extraction of `{variable}`", why)
        match_name, size = f"{INNER}found-{variable}", f"{INNER}size-{variable}"
        most = 1
        if pick == "random":
            most = _MOST_FOUND
            line = self._source.line(where)
            self.values.notes.append(
                f"left out: values of `{variable}` (line {line}) after the first {most} of a response"
            )
        gather = {"processor": [{"array": {"toVar": match_name, "maxSize": most, "silent": True}}]}
        handlers: list[Step] = [
            {"json": {**options, **gather}}
            if kind == "json"
            else {"parseHtml": {"onTagAttribute": {**options, **gather}}}
            for kind, options in sources
        ]
        none = {"intCondition": {"fromVar": size, "equalTo": 0}}
        counted = {"getSize": {"fromVar": match_name, "toVar": size, "undefinedValue": 0}}
        return handlers, [counted, leave(none, missing), {"randomItem": f"{variable} <- {match_name}"}]

    def _body(self, request: Mapping[str, Any], where: Path_) -> tuple[list[Step], str, str] | None:
        """Steps, pattern and content type."""
        if "form" in request:
            steps: list[Step] = []
            fields = []
            for key, text in request["form"].items():
                more, pattern = self.values.pattern(self._source.template(text), (*where, "form", key), form=True)
                steps += more
                fields.append(f"{form_text(str(key))}={pattern}")
            return steps, "&".join(fields), "application/x-www-form-urlencoded"
        if "json" in request:
            template = json_template(request["json"], self._source)
            return *self.values.pattern(template, (*where, "json"), in_json=True), "application/json"
        if "text" in request:
            template = self._source.template(request["text"])
            return *self.values.pattern(template, (*where, "text")), "text/plain; charset=utf-8"
        return None


class _Context:
    """The transaction that a request belongs to. ``skips``: a value that is not found skips the rest of it."""

    def __init__(self, name: str, onward: Sequence[Step], skips: bool) -> None:
        self.name, self.onward, self.skips = name, onward, skips


def leave(condition: Mapping[str, Any], onward: Sequence[Step]) -> Step:
    return {"breakSequence": {**condition, **({"onBreak": list(onward)} if onward else {})}}


def _status(check: Mapping[str, Any], context: _Context) -> tuple[dict[str, Any], list[Step]]:
    good = [int(code) for code in items(check.get("status"))]
    skip = [code for code in (int(code) for code in items(check.get("skip_status"))) if code not in good]
    if not skip and len(good) < 2:
        return {"range": str(good[0]) if good else "2xx"}, []
    fine = [str(code) for code in dict.fromkeys(good)] or _successes(skip)
    actions: dict[str, Any] = {codes: [{"setInt": f"{_SKIPPED} <- 0"}] for codes in fine}
    actions |= {str(code): [{"setInt": f"{_SKIPPED} <- 1"}] for code in skip}
    status = {"action": {**actions, "other": ["markRequestInvalid"]}}
    skipped = {"intCondition": {"fromVar": _SKIPPED, "equalTo": 1}}
    return status, [leave(skipped, context.onward)] if skip else []


def _successes(skip: Sequence[int]) -> list[str]:
    """2xx without some of them, as ranges."""
    ranges, start = [], 200
    for code in sorted({code for code in skip if 200 <= code < 300}):
        if start < code:
            ranges.append(f"{start}-{code - 1}")
        start = code + 1
    return ["2xx"] if start == 200 else [*ranges, *([f"{start}-299"] if start < 300 else [])]


_START, _END = "start", "end"
_LEFT, _NEXT = f"{INNER}left", f"{INNER}next"


def to_hyperfoil(source: Source) -> str:
    """The benchmark as YAML, with parameters URL, BASE (the application's path), RATE, DURATION, MAX_SESSIONS,
    CONNECTIONS and, where it is used, SEED. Comments on top say what is left out of the checks and what differs.
    Raises UsageError naming a construct that has no form, and its line.
    """
    tree = source.tree
    walks = (tree.get("arrivals") or {}).get("unit") != "transaction"
    steps = Steps(source, walks)
    if tree.get("feeds"):
        raise steps.values.refuse(("feeds",), "`feeds`", "its sessions share no position in a list")
    phase: dict[str, Any] = {
        "usersPerSec": parameter("RATE 10"),
        "variance": False,
        "duration": parameter("DURATION 10s"),
        "maxSessions": parameter("MAX_SESSIONS 1000"),
        **({"scenario": _sessions(source, steps)} if walks else _transactions(source, steps)),
    }
    document = {
        "name": str(tree["scenario"]),
        "http": {
            "host": parameter("URL http://127.0.0.1:8080"),
            "sharedConnections": parameter("CONNECTIONS 100"),
        },
        "ergonomics": {"autoRangeCheck": False, "stopOnInvalid": True},
        "phases": [{"main": {"constantRate": phase}}],
    }
    yaml = YAML()
    yaml.width = 10_000
    yaml.representer.ignore_aliases = lambda _: True
    stream = io.StringIO()
    yaml.dump(document, stream)
    return "".join(f"# {note}\n" for note in dict.fromkeys(steps.values.notes)) + stream.getvalue()


def _transactions(source: Source, steps: Steps) -> dict[str, Any]:
    """A fork for each transaction of the mix, by weight."""
    for key in ("login", "logout", "identities"):
        if source.tree.get(key):
            why = "its sessions are not kept"
            raise steps.values.refuse((key,), f"`{key}` with arrivals of single transactions", why)
    forks = []
    for name, weight in walk_rows(source)[_START].items():
        course = [*steps.assign(), *steps.transaction(name, [])]
        scenario = {"initialSequences": [{name: [*_numbers(source, steps), *course]}]}
        forks.append({name: {"weight": weight, "scenario": scenario}})
    return {"forks": forks} if len(forks) > 1 else {"scenario": next(iter(forks[0].values()))["scenario"]}


def _sessions(source: Source, steps: Steps) -> dict[str, Any]:
    """Logs in, then draws a transaction, does it, and draws the next from its row (of a mix: the mix), until the row
    says so or the session is long enough, and logs out. Who has left logs in again and starts over.
    """
    tree, rows, length = source.tree, walk_rows(source), session_length(source)
    login, logout = (str(tree[key]) if tree.get(key) else None for key in ("login", "logout"))
    leaving = {
        str(n)
        for n, name in tree["transactions"].items()
        if isinstance(name, Mapping) and said(name.get("ends_session"))
    }
    leaving |= {logout} if logout else set()
    places = [name for name in dict.fromkeys(name for row in rows.values() for name in row) if name != _END]
    after: dict[str, list[Step]] = {}
    course: dict[str, list[Step]] = {
        "log-in": [*steps.assign(), *(_login(steps, login) if login else []), _go("onward")],
        "onward": [_when(name, f"do-{name}") for name in places],
    }
    for place in places:
        kind = "login" if place == login else "leaving" if place in leaving else ""
        following = f"after-{place}" if "graph" in tree else "-".join(["after", kind]).rstrip("-")
        # a login that is skipped ends its session
        course[f"do-{place}"] = [*steps.transaction(place, [] if kind == "login" else [_go(following)]), _go(following)]
        end = [_go("log-out")] if logout and kind != "leaving" else []
        steps_: list[Step] = []
        if length is not None and kind != "login":
            is_last = {"intCondition": {"fromVar": _LEFT, "equalTo": 0}}
            steps_ += [{"addToInt": f"{_LEFT}--"}, leave(is_last, end)]
        steps_.append(_draw(rows[place]))
        if _END in rows[place]:
            steps_.append(leave({"stringCondition": {"fromVar": _NEXT, "equalTo": _END}}, end))
        if "graph" in tree and kind == "leaving":
            steps_.append(_draw(rows[_START]))
        after[following] = [*steps_, *steps.pause(), _go("log-in" if kind == "leaving" else "onward")]
    if logout:
        after["log-out"] = [*steps.pause(), *steps.transaction(logout, [])]
    if login and leaving & set(places):
        steps.values.notes.append("differs: a session that logs in again sends the cookies it has")
    begin: list[Step] = [{"setInt": f"{_LEFT} <- {length}"}] if length is not None else []
    begin += [*_numbers(source, steps), _draw(rows[_START]), _go("log-in")]
    return {
        "initialSequences": [{"begin": begin}],
        "sequences": [{name: steps} for name, steps in {**course, **after}.items()],
    }


def _login(steps: Steps, login: str) -> list[Step]:
    return [*steps.transaction(login, []), *steps.pause()]


def _numbers(source: Source, steps: Steps) -> list[Step]:
    """Sets what is used of ``user`` and ``session``, which count on from session to session, and ``seed``.

    Threads of Hyperfoil have counters of their own: each counts in steps of the number of threads from its own number
    on, and round in its own identities. With fewer identities than threads the others take the first one.
    """
    most = source.tree.get("identities")
    limits = {"user": None if most is None else int(source.number(most, ("identities",))), "session": None}
    numbers: list[Step] = []
    for name, limit in limits.items():
        if name not in steps.values.used:
            continue
        key, before = INNER + name, f"{INNER}{name}-before"
        again: list[Step] = [
            {"setSharedCounter": {"key": key, "fromVar": "hyperfoil.global.thread.id"}},
            {"addToSharedCounter": f"{key}++"},
            {"getSharedCounter": key},
        ]
        numbers += [
            {"getSharedCounter": {"key": key, "toVar": before}},
            {"addToSharedCounter": {"key": key, "fromVar": "hyperfoil.global.threads"}},
            {"getSharedCounter": key},
            _if({"intCondition": {"fromVar": before, "equalTo": 0}}, again),
        ]
        if limit is not None:
            beyond = {"intCondition": {"fromVar": key, "greaterThan": max(1, limit)}}
            numbers += [_if(beyond, again), _if(beyond, [{"setInt": f"{key} <- 1"}])]
    if "seed" in steps.values.used:
        numbers.append({"setInt": {"var": f"{INNER}seed", "value": parameter("SEED 1")}})
    return numbers


def _draw(row: Mapping[str, float]) -> Step:
    return {"randomItem": {"list": dict(row), "toVar": _NEXT}}


def _go(sequence: str) -> Step:
    return {"newSequence": sequence}


def _when(item: str, sequence: str) -> Step:
    return _if({"stringCondition": {"fromVar": _NEXT, "equalTo": item}}, [_go(sequence)])


def _if(condition: Mapping[str, Any], actions: Sequence[Step]) -> Step:
    return {"conditional": {**condition, "actions": list(actions)}}
