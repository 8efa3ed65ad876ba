"""Requests that people wrote down or copied: curl commands, Postman collections (2.x), ``.http`` files."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

from leadline.load.convert.har import of_entries
from leadline.load.convert.write import FORM, UUID, Draft
from leadline.model.errors import UsageError, nearest, quoted
from leadline.model.received import from_json

_BOUNDARY = "leadline-boundary"
_MOST = 10_000  # requests
_LONGEST_LINE = 20_000  # characters of a method and URL
_METHOD = "GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE"
_DRAWN = {"guid": UUID, "uuid": UUID, "randomuuid": UUID, "random.uuid": UUID, "randomint": "${random:0:1000}"}
_DRAWN |= {"random.integer": "${random:0:1000}", "timestamp": "${digits:10}", "isotimestamp": "2024-01-01T00:00:00Z"}
_SET = re.compile(
    r"(?:pm\.\w+|client\.global|postman)\.set(?:\w*Variable)?\(\s*[\"']([\w.-]+)[\"']\s*,\s*"
    r"(?:pm\.response\.json\(\)|response\.body|\w+)((?:\.\w+|\[\d+\]|\[[\"'][\w-]+[\"']\])+)\s*\)"
)


@dataclass
class _Requests:
    """Requests as entries of an HTTP archive without responses; what was left out."""

    values: dict[str, str] = field(default_factory=dict)  # of variables
    entries: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    named: dict[str, dict[str, Any]] = field(default_factory=dict)  # entries that later ones refer to
    extracted: set[str] = field(default_factory=set)
    marks: dict[str, str] = field(default_factory=dict)  # templates by the marks that stand for them
    open: dict[str, None] = field(default_factory=dict)  # variables without a value

    def add(self, method: str, url: str, headers: Sequence[tuple[str, str]], body: str, where: str) -> dict[str, Any]:
        """One request. Raises UsageError with ``where``."""
        if len(self.entries) == _MOST:
            raise UsageError(f"{where}: more than {_MOST:,} requests")
        url, body = self.filled(url.strip()), self.filled(body)
        if url.startswith("\ue000"):  # a variable without a value is the server
            url = "http://localhost" + url.partition("\ue001")[2]
        elif not re.match(r"https?://", url, re.IGNORECASE):
            url = ("http://localhost" if url.startswith("/") else "http://") + url
        pairs = [{"name": name.strip(), "value": self.filled(value.strip())} for name, value in headers]
        kind = next((pair["value"] for pair in pairs if pair["name"].lower() == "content-type"), "")
        url = re.sub(r"[^\x21-\x7e\ue000\ue001]+", lambda match: quote(match[0]), url)
        try:
            urlsplit(url)
        except ValueError as error:
            raise UsageError(f"{where}: {quoted(url, 80)} is no URL: {error}") from None
        request: dict[str, Any] = {"method": method.upper(), "url": url, "headers": pairs}
        if body:
            request["postData"] = {"mimeType": kind, "text": body}
        entry: dict[str, Any] = {"request": request, "response": {"status": 0}, "extract": {}}
        self.entries.append(entry)
        return entry

    def filled(self, text: str) -> str:
        """A text with the values of its ``{{variables}}``, or marks that stand for what the driver fills in."""
        for _ in range(10):
            text, count = re.subn(r"\{\{([^{}]{1,200})\}\}", lambda match: self._value(match[1].strip()), text)
            if not count or len(text) > 1 << 20:
                break
        return text

    def _value(self, name: str) -> str:
        if reference := re.fullmatch(r"(\w+)\.response\.(body|headers)\.(.+)", name):
            entry, place = self.named.get(reference[1]), reference[3].removeprefix("$.")
            variable = re.sub(r"\W+", "_", f"{reference[1]}_{place}")
            if entry is not None:
                rule = {"json": _pointer("." + place)} if reference[2] == "body" else {"header": place}
                entry["extract"][variable] = rule
                return self._mark(f"${{{variable}}}")
        if name.startswith("$"):
            word = name[1:].partition(" ")[0].lower()
            self.notes += [] if word in _DRAWN else [f"{{{{{name}}}}} is not known here: 8 digits are drawn."]
            return self._mark(_DRAWN.get(word, "${digits:8}"))
        if name not in self.extracted and self.values.get(name):
            return self.values[name]
        variable = re.sub(r"\W+", "_", name)
        if name not in self.extracted:
            self.open[variable] = None
        return self._mark(f"${{{variable}}}")

    def _mark(self, template: str) -> str:
        mark = f"\ue000{len(self.marks)}\ue001"
        self.marks[mark] = template
        return mark

    def scripts(self, entry: dict[str, Any], text: str) -> None:
        """Variables that a script sets from a response."""
        for name, path in _SET.findall(text):
            entry["extract"][re.sub(r"\W+", "_", name)] = {"json": _pointer(path)}
            self.extracted.add(name)

    def draft(self, name: str, resources: bool) -> Draft:
        """The scenario. Raises UsageError without a request."""
        if not self.entries:
            raise UsageError("there is no request in it")
        draft = of_entries(self.entries, name, resources)
        tree = dict(self._unmarked(draft.scenario))
        notes = [*(self._unmarked(list(draft.notes))), *self.notes]
        if used := [variable for variable in self.open if f"${{{variable}}}" in str(tree)]:
            tree = {"scenario": tree.pop("scenario"), "parameters": dict.fromkeys(used, ""), **tree}
            notes.append(f"Variables without a value: give them by --var NAME=VALUE: {', '.join(used)}.")
        return replace(draft, scenario=tree, notes=notes)

    def _unmarked(self, value: Any) -> Any:
        if isinstance(value, str):
            return re.sub("\ue000\\d+\ue001", lambda match: self.marks.get(match[0], ""), value)
        if isinstance(value, Mapping):
            return {self._unmarked(key): self._unmarked(item) for key, item in value.items()}
        return [self._unmarked(item) for item in value] if isinstance(value, list | tuple) else value


def _pointer(path: str) -> str:
    """The JSON pointer of ``.data[0].id``."""
    return "".join(f"/{part}" for part in re.findall(r"[\w-]+", path))


def _basic(pair: str) -> tuple[str, str]:
    return "Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}"


def _multipart(fields: Sequence[tuple[str, str]]) -> str:
    parts = (f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n' for n, v in fields)
    return "".join(parts) + f"--{_BOUNDARY}--\r\n"


# curl commands -----------------------------------------------------------------------------------------------------

# Options that change nothing of the request: alone, and with a value.
_FLAGS = (
    "-s -S -k -L -i -v -f -g -N -O -# --compressed --silent --show-error --insecure --location --include --verbose "
    "--fail --globoff --no-buffer --http1.1 --http2 --remote-name --path-as-is --location-trusted --ssl-no-revoke "
    "--progress-bar --no-keepalive"
)
_VALUED = (
    "-o -m -x -w -c -E --output --max-time --connect-timeout --proxy --write-out --cookie-jar --retry --cacert --cert "
    "--key --resolve --max-redirs --limit-rate --ciphers"
)
_SILENT = dict.fromkeys(_FLAGS.split(), 0) | dict.fromkeys(_VALUED.split(), 1)
_SHORT = {"-X": "--request", "-H": "--header", "-d": "--data", "-F": "--form", "-b": "--cookie", "-u": "--user"}
_SHORT |= {"-A": "--user-agent", "-e": "--referer", "-G": "--get", "-I": "--head"}
_TAKE = {"--request", "--header", "--data", "--data-raw", "--data-binary", "--data-ascii", "--data-urlencode", "--json"}
_TAKE |= {"--form", "--form-string", "--cookie", "--user", "--user-agent", "--referer", "--url"}
_VARIABLE = r"\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\}"
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "0": "\0"}


def from_curl(text: str, name: str, resources: bool = False) -> Draft:
    """Commands as browsers copy them (for bash), one transaction each. Raises UsageError with the line."""
    requests = _Requests()
    for line, words in _commands(text):
        if words[0] != "curl":
            raise UsageError(f"line {line}: {quoted(words[0])} is no curl command")
        _curl(requests, words[1:], f"line {line}")
    return requests.draft(name, resources)


def _curl(requests: _Requests, words: Sequence[str], where: str) -> None:
    words_left, options = list(reversed(words)), []
    while words_left:
        word = words_left.pop()
        option, mark, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if not word.startswith("-") or word == "-":
            options.append(("--url", word))
            continue
        if not word.startswith("--") and len(word) > 2 and word not in _SILENT:
            if word[:2] in _SILENT and not _SILENT[word[:2]]:  # -sS
                words_left.append(f"-{word[2:]}")
                continue
            option, mark, value = word[:2], "=", word[2:]
        option = _SHORT.get(option, option)
        if option in _TAKE or _SILENT.get(option):
            value = value if mark else words_left.pop() if words_left else ""
        elif option not in _SILENT and option not in ("--get", "--head"):
            near = nearest(option, [*_TAKE, *_SILENT])
            raise UsageError(f"{where}: {quoted(option)} is not read here{f'; did you mean {near}?' if near else ''}")
        options.append((option, value))
    _request(requests, options, where)


def _request(requests: _Requests, options: Sequence[tuple[str, str]], where: str) -> None:
    headers, data, fields, kind, method, url = [], [], [], "", "", ""
    for option, value in options:
        name, mark, rest = value.partition("=")
        if option == "--url":
            if url:
                raise UsageError(
                    f"{where}: two URLs, {quoted(url, 80)} and {quoted(value, 80)}: write a command for each"
                )
            url = value
        elif option == "--request":
            method = value
        elif option == "--head":
            method = method or "HEAD"
        elif option == "--header":
            headers.append((value.partition(":")[0], value.partition(":")[2]))
        elif option == "--cookie":
            headers.append(("Cookie", value))
        elif option == "--user":
            headers.append(_basic(value))
        elif option in ("--form", "--form-string"):
            if option == "--form" and rest[:1] in ("@", "<"):
                requests.notes.append(f"{where}: the file of the field {name} is left out.")
            else:
                fields.append((name, rest.partition(";type=")[0] if option == "--form" else rest))
        elif option == "--data-urlencode":
            data.append(f"{name}={quote_plus(rest)}" if mark and name else quote_plus(rest if mark else value))
        elif option in ("--data", "--data-binary", "--data-ascii", "--json") and value.startswith("@"):
            requests.notes.append(f"{where}: the body in the file {value[1:]} is left out.")
        elif option.startswith("--data") or option == "--json":
            data.append(value)
            kind = kind or ("application/json" if option == "--json" else FORM)
    if not url:
        raise UsageError(f"{where}: the command has no URL")
    separator = "" if kind == "application/json" else "&"
    body, get = separator.join(data), ("--get", "") in options
    if get and body:
        url, body = f"{url}{'&' if '?' in url else '?'}{body}", ""
    if fields:
        body, kind = _multipart(fields), f"multipart/form-data; boundary={_BOUNDARY}"
    if (body or kind) and not any(name.strip().lower() == "content-type" for name, _ in headers) and not get:
        headers.append(("Content-Type", kind or FORM))
    requests.add(method or ("POST" if body or (data and not get) else "GET"), url, headers, body, where)


def _commands(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line and words of each command, as bash splits them, without where its output goes. Raises UsageError for what
    is not closed.
    """
    words: list[str] = []
    word: list[str] | None = None
    line, first, piped = 1, 1, False
    pieces = re.compile(
        r"\\\r?\n|\\(?P<one>.)|\$'(?P<ansi>(?:[^'\\]|\\.)*)'|'(?P<plain>[^']*)'|\"(?P<double>(?:[^\"\\]|\\.)*)\""
        r"|(?P<aside>\d?>{1,2}\s*&?[^\s;|]+|(?<!\S)#[^\n]*)|(?P<pipe>\|[|&]?\s*)|(?P<end>[\n;&]+)|(?P<space>\s+)"
        rf"|(?P<variable>{_VARIABLE})|(?P<text>[^\s'\"\\;&|$>]+|\$)|(?P<open>.)",
        re.DOTALL,
    )
    for piece in pieces.finditer(text):
        kind, value = piece.lastgroup, piece[0]
        if kind == "open":
            raise UsageError(f"line {line}: the quotation mark {value} is not closed")
        if kind in ("end", "pipe", "space"):
            words += [] if word is None else ["".join(word)]
            word = None
            if kind != "space":
                if words and not piped:
                    yield first, words
                words, piped = [], kind == "pipe"
        elif kind not in (None, "aside"):  # where the output goes, a comment
            first = first if words or word is not None else line
            word = word or []
            content = piece[kind]
            if kind == "ansi":
                content = re.sub(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{1,2}|.)", _ansi, content, flags=re.DOTALL)
            elif kind == "double":
                content = re.sub(rf'\\\n|\\(["\\$`])|({_VARIABLE})', _double, content)
            elif kind == "variable":
                content = _named(content)
            word.append(content)
        line += value.count("\n")
    words += [] if word is None else ["".join(word)]
    if words and not piped:
        yield first, words


def _double(match: re.Match[str]) -> str:
    return _named(match[2]) if match[2] else match[1] or ""


def _named(variable: str) -> str:
    """A variable of the shell as a parameter of the scenario."""
    return f"{{{{{variable.strip('${}')}}}}}"


def _ansi(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)


# Postman collections -----------------------------------------------------------------------------------------------


def from_postman(text: str, name: str, resources: bool = False) -> Draft:
    """A collection 2.0 or 2.1, one transaction a request. Raises UsageError."""
    try:
        collection = from_json(text)
        requests = _Requests(_pairs(collection.get("variable")))
        _items(requests, collection["item"], collection.get("auth"), "")
        return requests.draft(name, resources)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"not a Postman collection: {error}") from None


def _pairs(listed: Any) -> dict[str, str]:
    """Names and values of a list that Postman writes, without those that are switched off."""
    rows = listed if isinstance(listed, list) else []
    return {str(row.get("key", row.get("id"))): str(row.get("value") or "") for row in rows if not row.get("disabled")}


def _items(requests: _Requests, items: Any, auth: Any, above: str) -> None:
    for item in items:
        where = f"{above}{item.get('name') or 'request'}"
        own_auth = item.get("auth", auth)
        if "item" in item:
            _items(requests, item["item"], own_auth, f"{where} / ")
            continue
        request = item["request"]
        request = {"url": request} if isinstance(request, str) else request
        url = request["url"] if isinstance(request["url"], str) else str(request["url"].get("raw", ""))
        for variable, value in _pairs(
            request["url"].get("variable") if isinstance(request["url"], dict) else []
        ).items():
            url = url.replace(f"/:{variable}", f"/{value or '{{' + variable + '}}'}")
        headers = list(_pairs(request.get("header")).items())
        headers += _authorization(request.get("auth", own_auth), where, requests)
        body, kind = _body(requests, request.get("body") or {}, where)
        if kind and "content-type" not in {name.lower() for name, _ in headers}:
            headers.append(("Content-Type", kind))
        entry = requests.add(str(request.get("method") or "GET"), url, headers, body, where)
        for event in item.get("event") or []:
            lines = event.get("script", {}).get("exec") or []
            requests.scripts(entry, "\n".join(lines) if isinstance(lines, list) else str(lines))


def _authorization(auth: Any, where: str, requests: _Requests) -> list[tuple[str, str]]:
    kind = auth.get("type") if isinstance(auth, Mapping) else None
    if kind in (None, "noauth"):
        return []
    listed = auth.get(kind)
    values = _pairs(listed) if isinstance(listed, list) else {k: str(v) for k, v in (listed or {}).items()}
    if kind == "bearer":
        return [("Authorization", f"Bearer {values.get('token', '')}")]
    if kind == "basic":
        return [_basic(requests.filled(f"{values.get('username', '')}:{values.get('password', '')}"))]
    if kind == "apikey" and values.get("in", "header") == "header":
        return [(values.get("key", ""), values.get("value", ""))]
    requests.notes.append(f"{where}: the authorization {kind} is left out.")
    return []


def _body(requests: _Requests, body: Mapping[str, Any], where: str) -> tuple[str, str]:
    """Text and media type of a body."""
    mode = body.get("mode")
    if mode == "raw":
        language = body.get("options", {}).get("raw", {}).get("language", "")
        return str(body.get("raw") or ""), {"json": "application/json", "xml": "application/xml"}.get(language, "")
    if mode == "urlencoded":
        pairs = _pairs(body.get(mode)).items()
        return "&".join(f"{quote_plus(n, safe='{}$')}={quote_plus(v, safe='{}$')}" for n, v in pairs), FORM
    if mode == "graphql":
        graphql = body[mode]
        variables = str(graphql.get("variables") or "{}")
        return f'{{"query": {json.dumps(graphql.get("query", ""))}, "variables": {variables}}}', "application/json"
    if mode == "formdata":
        rows = [row for row in body.get(mode) or [] if row.get("type") != "file"]
        if len(rows) < len(body.get(mode) or []):
            requests.notes.append(f"{where}: the files of the body are left out.")
        return _multipart(list(_pairs(rows).items())), f"multipart/form-data; boundary={_BOUNDARY}"
    if mode is not None:
        requests.notes.append(f"{where}: the body ({mode}) is left out.")
    return "", ""


# .http files -------------------------------------------------------------------------------------------------------


def from_http(text: str, name: str, resources: bool = False) -> Draft:
    """Requests as JetBrains' and VS Code's clients have them, one transaction each. Raises UsageError with the line."""
    requests = _Requests({n: v.strip() for n, v in re.findall(r"^@([\w.-]+)[ \t]*=(.*)$", text, re.MULTILINE)})
    lines: list[str] = []
    first = 1
    for number, line in enumerate([*text.splitlines(), "###"], 1):
        if line.startswith("###"):
            _block(requests, lines, first)
            first, lines = number, []
        lines.append(line)
    return requests.draft(name, resources)


def _block(requests: _Requests, lines: list[str], first: int) -> None:
    title, rest, at = "", list(enumerate(lines, first)), 0
    comment = re.compile(r"\s*(#|//)|@[\w.-]+\s*=|\s*$")
    while at < len(rest) and comment.match(rest[at][1]):
        if match := re.match(r"\s*(?:#|//)\s*@name[ =]\s*(\w+)", rest[at][1]):
            title = match[1]
        at += 1
    if at < len(rest) and re.match(r"\s*<\s", rest[at][1]):
        raise UsageError(f"line {rest[at][0]}: scripts before a request are not read; write it without")
    if at == len(rest):
        return
    number, line = rest[at]
    if len(line) > _LONGEST_LINE:
        raise UsageError(f"line {number}: a request of {len(line):,} characters; at most {_LONGEST_LINE:,} are read")
    match = re.fullmatch(rf"\s*(?:({_METHOD})\s+)?(\S.*?)(?:\s+HTTP/[\d.]+)?\s*", line)
    if match is None or not (match[1] or re.match(r"https?://|\{\{|/", match[2])):
        raise UsageError(f"line {number}: {quoted(line, 80)} is no request: METHOD URL")
    url, headers, at = match[2], [], at + 1
    while at < len(rest) and re.match(r"\s+[?&/]", rest[at][1]):
        url, at = url + rest[at][1].strip(), at + 1
    while at < len(rest) and rest[at][1].strip():
        name, mark, value = rest[at][1].partition(":")
        if not comment.match(rest[at][1]):
            if not mark or not re.fullmatch(r"[\w-]+", name.strip()):
                raise UsageError(f"line {rest[at][0]}: {quoted(rest[at][1], 80)} is no header: NAME: VALUE")
            headers.append((name, value))
        at += 1
    body, _, script = "\n".join(line for _, line in rest[at + 1 :]).partition("\n> ")
    body, script = ("", body) if body.startswith("> ") else (body.strip(), script)
    if re.match(r"<@?\s", body):
        requests.notes.append(f"line {number}: the body in the file {body.partition(' ')[2].strip()} is left out.")
        body = ""
    entry = requests.add(match[1] or "GET", url, headers, body, f"line {number}")
    requests.scripts(entry, script)
    if title:
        requests.named[title] = entry
