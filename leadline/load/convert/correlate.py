"""Values of responses that later requests send back: tokens, ids of what was created."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, unquote_plus, urlsplit

from leadline.load.convert.write import literal, whole
from leadline.model.received import from_json

_SHORTEST = 6  # characters of a value that is recognised by itself; shorter ones recur by chance
_OPAQUE = 20  # characters of a text without a digit that no user types
_LONGEST = 16_384  # characters of a value
_MOST_SOURCES = 8  # of one value
_MOST_IN_TEXT = 50  # values of one response that are neither in JSON nor in an input
_CONTEXT = 40  # characters before a value by which it is found again
_MOST_USES = 3  # that a note names
_BUILT_IN = ("user", "session", "seq", "seed")  # names of the driver
_UNSTABLE = {"date", "server", "age", "expires", "connection", "keep-alive", "set-cookie", "content-length"}
_TAG = re.compile(r"<(?:input|meta)\b[^<>]*>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""(?<![\w-])(name|value|content)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_WORD = re.compile(r"""(?<=["'=/>:\s])[\w.~+%-]+=*""")
_TOKEN = re.compile(r"[\w.~+/-]{6,}=*")
_UNRESERVED = re.compile(r"[\w.~-]+", re.ASCII)
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_IDENTIFIERS = {"id", "ids", "uuid", "guid", "key", "no", "nr", "number", "ref", "version", "etag", "rev"}
SECRETS = re.compile("csrf|xsrf|token|nonce|verification|viewstate", re.IGNORECASE)
_CHANGING = re.compile(f"{SECRETS.pattern}|version|etag|rev$", re.IGNORECASE)


@dataclass
class _Source:
    """Where a value stands in a response: ``request`` (of the scenario) extracts it by ``rule``."""

    request: dict[str, Any]
    number: int
    rule: Mapping[str, Any]
    name: str
    where: str
    stems: frozenset[str]
    certain: bool  # not one of a list, nor found by what stands before it
    fresh: bool  # the latest holds, as of tokens; of ids the first
    variable: str = ""
    uses: dict[str, None] = field(default_factory=dict)


class Correlation:
    """Requests are written twice, in order: the first time (until ``begin``) only to learn what they send. A value that
    a request sends before a response has it is the user's, and stays.
    """

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._sources: dict[str, list[_Source]] = {}
        self._names: dict[str, list[tuple[str, int]]] = {}  # by name: variables and the last request that uses them
        self._used: dict[int, _Source] = {}
        self._learning = True
        self._number = 0
        self._where = ""

    def begin(self) -> None:
        """The second time begins."""
        self._learning, self._number = False, 0

    def next(self, where: str) -> None:
        """The next request, and its method and path."""
        self._number += 1
        self._where = where

    def text(self, value: str, word: str) -> str:
        """A template of a text: the whole or words of it from a response. ``word`` names it."""
        if name := self._variable(value, word):
            return f"${{{name}}}"
        parts, end = [], 0
        for token in _TOKEN.finditer(value):
            if token[0] != value and (name := self._variable(token[0], word)):
                parts += [literal(value[end : token.start()]), f"${{{name}}}"]
                end = token.end()
        return "".join([*parts, literal(value[end:])])

    def json(self, value: Any, word: str) -> Any:
        """A JSON value whose texts and numbers are templates."""
        if isinstance(value, Mapping):
            return {whole(str(key)): self.json(item, str(key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.json(item, word) for item in value]
        if isinstance(value, str):
            return self.text(value, word)
        if isinstance(value, int) and not isinstance(value, bool) and (name := self._variable(str(value), word)):
            return f"${{number:${{{name}}}}}"
        return value

    def path(self, path: str) -> str:
        """A template of a path with its query."""
        path, mark, query = path.partition("?")
        segments, word, written = path.split("/"), "", []
        for segment in segments:
            written.append(self.encoded(segment, word))
            word = segment or word
        for end in range(min(len(segments), 12), 2, -1) if written == [literal(part) for part in segments] else ():
            if name := self._variable("/".join(segments[:end]), "location"):
                written = [f"${{{name}}}", *written[end:]]
                break
        return "/".join(written) + (f"?{self.form(query)}" if mark else "")

    def form(self, text: str) -> str:
        """A template of fields in their encoding."""
        pieces = []
        for piece in text.split("&"):
            name, mark, value = piece.partition("=")
            pieces.append(literal(name + mark) + self.encoded(value, unquote_plus(name), plus=True))
        return "&".join(pieces)

    def encoded(self, raw: str, word: str, plus: bool = False) -> str:
        """A template of a percent-encoded value, which stays as it is encoded unless it is from a response."""
        value = unquote_plus(raw) if plus else unquote(raw)
        if not (name := self._variable(value, word)):
            return literal(raw)
        return f"${{{name}}}" if _UNRESERVED.fullmatch(value) else f"${{url:${{{name}}}}}"

    def _variable(self, value: str, word: str) -> str | None:
        if not value or len(value) > _LONGEST:
            return None
        if self._learning:
            self._first.setdefault(value, self._number)
            self._last[value] = self._number
            return None
        stems = _stems(word)
        sources = [
            source
            for source in self._sources.get(value, ())
            if _is_telling(value) or source.name == word or stems & source.stems
        ]
        if not sources:
            return None
        source = max(
            sources,
            key=lambda s: (bool(stems & s.stems), s.certain, s.number if s.fresh else -s.number),
        )
        if not source.variable:
            source.variable = self._named(source, self._last[value])
            source.request.setdefault("extract", {})[source.variable] = source.rule
        self._used[id(source)] = source
        source.uses[f"{self._where} ({word or 'path'})"] = None
        return source.variable

    def _named(self, source: _Source, until: int) -> str:
        """A variable that is free from the source's response on until the last request that uses the value."""
        base = re.sub(r"[^A-Za-z0-9_]+", "_", source.name)[:40].lstrip("0123456789") or "value"
        if base.lower() in _IDENTIFIERS and source.stems:
            base = f"{min(source.stems)}_{base}"
        if base in _BUILT_IN:
            base += "_value"
        names = self._names.setdefault(base, [])
        for at, (name, last) in enumerate(names):
            if last <= source.number:
                names[at] = (name, until)
                return name
        name = f"{base}_{len(names) + 1}" if names else base
        names.append((name, until))
        return name

    def response(
        self, request: dict[str, Any], headers: Mapping[str, str], text: str, cookies: Mapping[str, str]
    ) -> None:
        """What the response to the request of now holds; ``request`` as the scenario has it."""
        resource = next((s for s in reversed(urlsplit(self._where).path.split("/")) if re.search("[A-Za-z]{2}", s)), "")
        for name, value in headers.items():
            if name not in _UNSTABLE:
                name_stems = _stems(name)
                self._add(
                    request, value, {"header": name.title()}, name, f"header {name.title()}", name_stems, fresh=True
                )
        for name, value in cookies.items():
            self._add(request, unquote(value), {"cookie": name}, name, f"cookie {name}", _stems(name), fresh=True)
        document = None
        with suppress(ValueError):
            document = from_json(text) if text.lstrip()[:1] in ("{", "[", '"') else None
        if document is not None:
            for pointer, value in _leaves(document, ""):
                *above, key = [part for part in pointer.split("/")[1:] if not part.isdecimal()] or [""]
                stems = _stems(key) or _stems(above[-1] if above else "") | _stems(resource)
                last = {part.lower() for part in _PART.findall(key)[-1:]}
                if _is_telling(value) or SECRETS.search(key) or last & _IDENTIFIERS:
                    certain = not any(part.isdecimal() for part in pointer.split("/"))
                    fresh = _CHANGING.search(key) is not None
                    rule = {"json": pointer}
                    self._add(
                        request, value, rule, key, f"JSON {pointer or 'value'}", stems, fresh=fresh, certain=certain
                    )
        elif text:
            self._page(request, text)

    def _page(self, request: dict[str, Any], text: str) -> None:
        for tag in _TAG.findall(text):
            attributes = {name.lower(): html.unescape(a or b or c) for name, a, b, c in _ATTRIBUTE.findall(tag)}
            name, kind = attributes.get("name", ""), tag[1:5].lower() == "meta"
            attribute = "content" if kind else "value"
            value = attributes.get(attribute, "")
            if len(value) >= _SHORTEST and re.fullmatch(r"[\w.:-]+", name):
                css = f'{"meta" if kind else "input"}[name="{name}"]'
                rule = {"css": css, "attribute": attribute}
                self._add(request, value, rule, name, css, _stems(name), fresh=True)
        rest = _MOST_IN_TEXT
        for match in _WORD.finditer(text) if self._last else ():
            value = match[0]
            if self._last.get(value, 0) <= self._number or value in self._sources or not rest:
                continue
            before = re.search(r"[^<>\n]*<?[^<>\n]*$", text[max(0, match.start() - _CONTEXT) : match.start()])
            context = before[0].lstrip("0123456789") if before else ""  # a number of any length is quadratic
            near = re.search(r"([A-Za-z][\w-]*)[^\w]{1,4}$", context)
            if len(context) < 2 or not (_is_telling(value) or (value.isdecimal() and near)):
                continue
            rest -= 1
            regex = re.sub(r"\d+", r"\\d+", re.escape(context).replace("\\ ", " ")) + r"([\w.~+%-]+=*)"
            matches = re.findall(regex, text)
            if value not in (matches[:1] + matches[-1:]):
                continue
            rule = {"regex": regex} | ({"pick": "last"} if matches[0] != value else {})
            name = near[1] if near else "value"
            self._add(request, value, rule, name, f"text after {context!r}", _stems(name), certain=False)

    def _add(
        self,
        request: dict[str, Any],
        value: str,
        rule: Mapping[str, Any],
        name: str,
        what: str,
        stems: frozenset[str],
        *,
        fresh: bool = False,
        certain: bool = True,
    ) -> None:
        later = self._last.get(value, 0) > self._number
        if not later or (self._first[value] <= self._number and value not in self._sources):
            return
        source = _Source(request, self._number, rule, name, f"{what} of {self._where}", stems, certain, fresh)
        sources = self._sources.setdefault(value, [])
        sources[len(sources) if len(sources) < _MOST_SOURCES else -1 :] = [source]

    def notes(self) -> list[str]:
        """A line for every value: where from and where used."""
        notes = []
        for source in self._used.values():
            first = list(source.uses)[:_MOST_USES]
            more = f" and {len(source.uses) - len(first)} more" if len(source.uses) > len(first) else ""
            notes.append(f"{source.variable} is taken from {source.where}, used in {', '.join(first)}{more}.")
        return notes


def _is_telling(value: str) -> bool:
    """Whether it is the same value wherever it recurs."""
    if len(value) >= _SHORTEST and any(character.isdigit() for character in value):
        return True
    return len(value) >= _OPAQUE and not re.search(r"[\s/]", value)


def _stems(name: str) -> frozenset[str]:
    """The words of a name without what only says that it is an identifier: ``orderId`` and ``orders`` are ``order``."""
    stems = set()
    for part in _PART.findall(name):
        stem = part.lower()
        if stem in _IDENTIFIERS or len(stem) < 2 or stem.isdecimal():
            continue
        for end, singular in (("ies", "y"), ("ses", "s"), ("s", "")):
            if stem.endswith(end) and not stem.endswith("ss"):
                stem = stem.removesuffix(end) + singular
                break
        stems.add(stem)
    return frozenset(stems)


def _leaves(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Pointers and texts of a document's texts and whole numbers."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _leaves(item, f"{pointer}/{at}")
    elif isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        yield pointer, str(value)
