"""A scenario as a k6 script: the transactions as functions over a small runtime that goes with them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

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
    only_rust,
    requests_of,
    said,
    session_length,
    walk_rows,
)

_TOOL = "k6"
_COMPRESSED = "'Accept-Encoding': 'gzip, deflate'"
_BUILTINS = {"user": "identity", "session": "(number + 1)", "seq": "(++seq)", "seed": "SEED"}
_CALLS = {
    "random": "random({0}, {1})",
    "zpad": "String({1}).padStart(whole({0}), '0')",
    "digits": "draws({0}, '0123456789')",
    "hex": "draws({0}, '0123456789abcdef')",
    "url": "urlText({0})",
    "json": "jsonText({0})",
    "number": "plainNumber({0})",
    "mod": "(((whole({0}) % whole({1})) + Math.abs(whole({1}))) % Math.abs(whole({1})) || 0)",
    "mul": "(whole({0}) * whole({1}))",
    "max": "Math.max(whole({0}), whole({1}))",
    "min": "Math.min(whole({0}), whole({1}))",
}


def to_k6(source: Source) -> str:
    """The script. Raises UsageError naming the construct and its line where k6 cannot do the same."""
    tree = source.tree
    if tree.get("feeds"):
        name = next(iter(tree["feeds"]))
        why = "its virtual users share no position in a list of values; write the values into the scenario"
        raise source.refuse(("feeds", name), f"feed `{name}`", _TOOL, why)
    if (tree.get("arrivals") or {}).get("unit") == "transaction":
        why = "its arrivals begin an iteration of any idle user, not of a session at rest; use unit: session"
        raise source.refuse(("arrivals", "unit"), "arrivals of transactions", _TOOL, why)
    lines = ["// The headers of every request.", "function common() {"]
    pairs = _pairs(source, tree.get("headers") or {})
    if said(tree.get("compression")):
        pairs.append(_COMPRESSED)
    lines += [f"  return {{ {', '.join(pairs)} }};", "}", "", "function assign() {"]
    for name, template in source.assignments():
        lines.append(f"  v[{json.dumps(name)}] = {_expression(template)};")
    lines += ["}", "", "const transactions = {"]
    for name, transaction in tree["transactions"].items():
        where: Path_ = ("transactions", name)
        if not isinstance(transaction, list):
            where = (*where, "requests")
        lines.append(f"  {json.dumps(str(name))}() {{")
        lines.append("    let a;")
        lines += _requests(source, requests_of(transaction), where, str(name), 4)
        lines.append("  },")
    lines += ["};", ""]
    runtime = (resources.files(__package__) / "k6_runtime.js").read_text(encoding="utf-8")
    title = (
        f"// {tree['scenario']}: made by leadline. Settings: LEADLINE_URL, USERS (closed) or RATE (sessions a second),"
    )
    return f"{title}\n// DURATION, MAX_USERS, SEED.\n{_constants(source)}\n\n{runtime}\n" + "\n".join(lines)


def _constants(source: Source) -> str:
    tree = source.tree
    pause = tree.get("pause") or {}
    mean = source.seconds(pause.get("mean", "0s"), ("pause", "mean"))
    shape = pause.get("shape", "none") if mean else "none"
    identities = tree.get("identities")
    count = int(source.number(identities, ("identities",))) if identities is not None else None
    length = session_length(source)
    transactions = tree["transactions"]

    def flagged(key: str, value: str) -> list[str]:
        return [str(n) for n, t in transactions.items() if isinstance(t, Mapping) and t.get(key) == value]

    rows = {place: list(row.items()) for place, row in walk_rows(source).items()}
    values = {
        "IDENTITIES": max(1, count) if count is not None else "Infinity",
        "PAUSE": {"shape": shape, "mean": mean, "kind": pause.get("kind", "think")},
        "LENGTH": length if length is not None else "Infinity",
        "LOGIN": tree.get("login"),
        "LOGOUT": tree.get("logout"),
        "LEAVING": [*flagged("ends_session", "true"), *([str(tree["logout"])] if tree.get("logout") else [])],
        "whenMissing": dict.fromkeys(flagged("when_missing", "skip"), "skip"),
        "MIX": rows["start"],
        "GRAPH": rows if tree.get("graph") else None,
    }
    return "\n".join(
        f"const {name} = {value if value == 'Infinity' else json.dumps(value)};" for name, value in values.items()
    )


def _requests(source: Source, requests: Sequence[Mapping[str, Any]], where: Path_, name: str, indent: int) -> list[str]:
    space, lines = " " * indent, []
    for at, request in enumerate(requests):
        here = (*where, at)
        if "repeat" in request:
            counter = f"i{indent}"
            times = _expression(source.template(request["repeat"]))
            lines.append(f"{space}for (let {counter} = whole({times}); {counter} > 0; {counter} -= 1) {{")
            lines += _requests(source, request["requests"], (*here, "requests"), name, indent + 2)
            lines.append(f"{space}}}")
        else:
            lines += [space + line for line in _request(source, request, here, name)]
    return lines


def _request(source: Source, request: Mapping[str, Any], where: Path_, name: str) -> list[str]:
    if said(request.get("embedded")):
        why = "it loads no resources of a page; leave `embedded` out or keep to leadline-load"
        raise source.refuse((*where, "embedded"), "`embedded`", _TOOL, why)
    method = next(method for method in METHODS if method in request)
    check = request.get("check") or {}
    good = [int(code) for code in items(check.get("status"))]
    skip = [int(code) for code in items(check.get("skip_status"))]
    follow = request.get("follow", source.tree.get("follow", 5))
    body, kind = _body(source, request)
    general, request_headers = source.tree.get("headers") or {}, request.get("headers") or {}
    headers = headers_of(general, request)
    whole = len(headers) < len(general) + len(
        request_headers
    )  # one of its own replaces one, which is not to be evaluated
    pairs = _pairs(source, headers if whole else request_headers)
    if kind and not any(str(key).lower() == "content-type" for key in headers):
        pairs.append(f"'Content-Type': '{kind}'")
    if whole and said(source.tree.get("compression")):
        pairs.append(_COMPRESSED)
    most = int(source.number(follow, (*where, "follow")))
    followed = REDIRECTS if most > 0 else ()
    expected = ", ".join(
        [*(map(str, good) if good else ["{ min: 200, max: 299 }"]), *(str(code) for code in (*skip, *followed))]
    )
    params = f"{{ tags: {{ name: {json.dumps(name)} }}, responseCallback: http.expectedStatuses({expected}) }}"
    path = source.template(request[method])
    link = json.dumps(is_link(path))
    all_headers = f"({{ {', '.join(pairs)} }})" if whole else f"Object.assign(common(), {{ {', '.join(pairs)} }})"
    texts = [f"() => {all_headers}", f"() => {body}"]
    arguments = [json.dumps(method.upper()), link, _expression(path), *texts, params]
    lines = [f"a = request({', '.join(arguments)}, {good}, {most});", f"status(a, {good}, {skip});"]
    lines += _checks(source, check, (*where, "check"))
    for variable, how in (request.get("extract") or {}).items():
        lines.append(f"take({json.dumps(variable)}, () => {_extract(source, how, (*where, 'extract', variable))});")
    return lines


def _pairs(source: Source, headers: Mapping[str, Any]) -> list[str]:
    return [f"{json.dumps(str(key))}: {_expression(source.template(text))}" for key, text in headers.items()]


def _body(source: Source, request: Mapping[str, Any]) -> tuple[str, str]:
    if "form" in request:
        fields = [f"[{json.dumps(str(k))}, {_expression(source.template(v))}]" for k, v in request["form"].items()]
        return f"form([{', '.join(fields)}])", "application/x-www-form-urlencoded"
    if "json" in request:
        return f"String({_expression(json_template(request['json'], source))})", "application/json"
    if "text" in request:
        return f"String({_expression(source.template(request['text']))})", "text/plain; charset=utf-8"
    return "null", ""


def _checks(source: Source, check: Mapping[str, Any], where: Path_) -> list[str]:
    lines = []
    for text in items(check.get("contains")):
        lines.append(f"must(() => String(a.body).includes({_expression(source.template(text))}));")
    for text in items(check.get("lacks")):
        lines.append(f"must(() => !String(a.body).includes({_expression(source.template(text))}));")
    for pattern in items(check.get("matches")):
        lines.append(f"must(() => new RegExp({_pattern(source, pattern, (*where, 'matches'))}).test(a.body));")
    for name, pattern in (check.get("header") or {}).items():
        regex = _pattern(source, pattern, (*where, "header", name))
        lines.append(f"must(() => new RegExp({regex}).test(header(a, {json.dumps(str(name))})));")
    for pointer, text in (check.get("json") or {}).items():
        right = _expression(source.template(text))
        lines.append(f"must(() => holds(a, {json.dumps(str(pointer))}, {right}));")
    return lines


def _extract(source: Source, how: Any, where: Path_) -> str:
    rule = how if isinstance(how, Mapping) else {"regex": how}
    pick = json.dumps(rule.get("pick", "first"))
    if "regex" in rule:
        return f"matches(a.body, {_pattern(source, rule['regex'], (*where, 'regex'))}, {pick})"
    if "json" in rule:
        return f"member(a, {json.dumps(rule['json'])}, {pick})"
    if "css" in rule:
        attribute = str(rule["attribute"]).lower() if "attribute" in rule else None
        return f"selected(a, {json.dumps(rule['css'])}, {json.dumps(attribute)}, {pick})"
    if rule.get("pick", "first") != "first":
        why = "it joins the values of headers of one name, which may hold commas themselves"
        raise source.refuse(where, "`pick` of a header", _TOOL, why)
    return f"header(a, {json.dumps(rule['header'])})"


def _pattern(source: Source, pattern: object, where: Path_) -> str:
    if only_rust(str(pattern)):
        why = "JavaScript has no flags, groups, anchors, characters or classes of this form; write it without them"
        raise source.refuse(where, f"the regular expression {str(pattern)!r}", _TOOL, why)
    return json.dumps(str(pattern))


def _expression(template: Template) -> str:
    """JavaScript that gives the text (or, for one expression alone, its value)."""
    parts = [_part(part) for part in template] or ["''"]
    if len(parts) == 1:
        return parts[0]
    return " + ".join(["''", *parts] if not isinstance(template[0], Text) else parts)


def _part(part: Text | Name | Call) -> str:
    if isinstance(part, Text):
        return json.dumps(part.text)
    if isinstance(part, Name):
        return _BUILTINS[part.name] if part.builtin else f"value({json.dumps(part.name)})"
    arguments = [_expression(argument) for argument in part.arguments]
    if part.function == "choice":
        return f"pick([{', '.join(f'() => {argument}' for argument in arguments)}], 'random')()"
    return _CALLS[part.function].format(*arguments)
