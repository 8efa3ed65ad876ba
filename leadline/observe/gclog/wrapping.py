"""What is around the JVM's lines: colours, JSON, a prefix on each line. Learnt from some of them, taken off all.

Layers lie inside one another (a collector's JSON around a container's prefix), so they are learnt one after the other,
each on what the one before leaves.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

_LAYERS = 5
_SHAPES = 8  # of a prefix
_JOINED = 1 << 16  # characters of a line in parts
_CRI = re.compile(r"\d{4}-\d\d-\d\dT\S{8,30} std(?:out|err) (?P<tag>[PF])(?::\S*)? ")
_DEEPEST = 6
_COLOUR = re.compile(r"(?:\x1b|#033|\^\[)\[[0-9;:?]{0,40}[A-Za-z]")
_STAMP = r"(?:\d{4}-\d\d-\d\dT[\d:.,]{8,20}[+-]\d{4}: )?(?:\d{1,12}[.,]\d{1,9}: )?(?:#\d{1,9}: )?"
# Of the unified log's messages, JDK 8's records, OpenJ9's elements, JRockit's lines.
MARK = re.compile(
    r"GC\(\d+\) |\[(?:Full )?GC\b|<verbosegc|<exclusive-|Using (?:The )?[A-Z]|"
    r"\[(?:YC|OC)#\d|\[memory *\]|CMS-concurrent"
)
_RECORD = re.compile(_STAMP + r"\[(?:(?:Full )?GC\b(?! Worker)|CMS-concurrent)")
_WORD = re.compile(r"[A-Za-z0-9]+")
_BEHIND = re.compile(r"(?:(?:GC\(\d+\) |\[GC).*(?:\d[.,]\d{1,9}ms|secs\])|<[a-z].*>)(?P<rest>.*)$")
_FIELDS = ("log", "message", "msg", "MESSAGE", "@message", "textPayload", "line", "body", "event", "content")
_DECODER = json.JSONDecoder()

Layer = Callable[[str], str]


def sample(lines: Iterator[str], enough: int = 400, most: int = 20_000, characters: int = 1 << 23) -> list[str]:
    """The first lines, until ``enough`` of them are a collector's; a program's own output may stand before."""
    sampled: list[str] = []
    marked = size = 0
    for text in lines:
        sampled.append(text)
        marked += MARK.search(text) is not None
        size += len(text)
        if marked >= enough or len(sampled) >= most or size >= characters:
            break
    return sampled


def learn(lines: Sequence[str]) -> list[Layer]:
    """The layers around these lines, the outermost first."""
    layers: list[Layer] = []
    names: list[str] = []
    current = list(lines)
    while len(layers) < _LAYERS:
        for name, find in _FINDERS:
            layer = find(current) if name == "json" or name not in names else None
            if layer is not None:
                layers.append(layer)
                names.append(name)
                current = list(unwrapped(current, [layer]))
                break
        else:
            break
    return layers


def unwrapped(lines: Iterable[str], layers: Sequence[Layer]) -> Iterator[str]:
    """``lines`` without the layers, each with the line end that it had; parts of a line that a container's log has cut
    are joined.
    """
    begun = ""
    for text in lines:
        ended = text.endswith("\n")
        for layer in layers:
            text = layer(text)
        if ended and not text.endswith("\n") and len(begun) < _JOINED:
            begun += text
            continue
        yield begun + text
        begun = ""
    if begun:
        yield begun


def _colours(lines: Sequence[str]) -> Layer | None:
    if not any("[" in text and _COLOUR.search(text) for text in lines):
        return None
    return lambda text: _COLOUR.sub("", text) if "\x1b" in text or "#033" in text or "^[" in text else text


def _cri(lines: Sequence[str]) -> Layer | None:
    """Of Kubernetes' nodes: time, stream, and whether the line goes on (P) or ends here (F)."""
    if 2 * sum(_CRI.match(text) is not None for text in lines) < len(lines) or not lines:
        return None

    def inside(text: str) -> str:
        match = _CRI.match(text)
        if match is None:
            return text
        return text[match.end() :].rstrip("\r\n") if match["tag"] == "P" else text[match.end() :]

    return inside


def _entities(lines: Sequence[str]) -> Layer | None:
    """Of a page or a ticket: -&gt; for the arrow between the sizes of the heap."""
    if not any("-&gt;" in text for text in lines):
        return None
    return lambda text: html.unescape(text) if "&" in text else text


def _json(lines: Sequence[str]) -> Layer | None:
    """The text in one JSON document a line, by the name under which most of it is."""
    objects = written = 0
    names: Counter[tuple[str, ...]] = Counter()
    for text in lines[:2000]:
        if not text.strip():
            continue
        written += 1
        document = _document(text)
        if document is not None:
            objects += 1
            for path, value in _texts(document):
                names[path] += 100 * bool(MARK.search(value)) + (path[-1] in _FIELDS)
    if not names or 2 * objects < written:
        return None
    path, votes = names.most_common(1)[0]
    if not votes:
        return None
    values = [
        value for text in lines[:2000] if (document := _document(text)) for at, value in _texts(document) if at == path
    ]
    cut = path[-1] == "log" and any(value.endswith("\n") for value in values)  # of Docker: the end of a line is in it

    def inside(text: str) -> str:
        document: Any = _document(text)
        for name in path:
            document = document.get(name) if isinstance(document, dict) else None
        value = _text(document)
        if value is None:
            return text
        goes_on = cut and not value.endswith("\n")
        return value.rstrip("\r\n") + ("\n" if text.endswith("\n") and not goes_on else "")

    return inside


def _document(text: str) -> dict[str, Any] | None:
    begin = text.find("{", 0, 400)
    if begin < 0:
        return None
    try:
        document, _ = _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and document else None


def _text(value: Any) -> str | None:
    """A string, or one that the journal wrote as numbers of its bytes."""
    if isinstance(value, list) and value and all(isinstance(code, int) and 0 <= code < 256 for code in value):
        return bytes(value).decode(errors="replace")
    return value if isinstance(value, str) else None


def _texts(found: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, value in found.items():
        path = (*above, name)
        if isinstance(value, dict) and len(path) < _DEEPEST:
            yield from _texts(value, path)
        elif (text := _text(value)) is not None:
            yield path, text


def _prefix(lines: Sequence[str]) -> Layer | None:
    """What stands before most of JDK 8's records: their other lines have it too, and are told by it alone.

    The unified log needs none: the words of its messages say where its fields end.
    """
    shapes: Counter[str] = Counter()
    bare = 0
    for text in lines:
        match = _RECORD.search(text, 0, 1000)
        if match is None or "GC(" in text[: match.start()]:
            continue
        before = text[: match.start()]
        if not before.strip() or _RECORD.match(text.lstrip()):
            bare += 1
        elif len(before) < 300:
            shapes[_shape(before)] += 1
    if sum(shapes.values()) <= bare:
        return None
    common = [shape for shape, _ in shapes.most_common(_SHAPES)]
    form = re.compile("|".join(f"(?:{shape})" for shape in sorted(common, key=len, reverse=True)))

    def behind(text: str) -> str:
        match = form.match(text)
        return text[match.end() :] if match else text

    return behind


def _shape(prefix: str) -> str:
    """A pattern of prefixes like this one: each word stands for any word."""
    parts, place = [], 0
    for word in _WORD.finditer(prefix):
        parts.append(_gap(prefix[place : word.start()]))
        parts.append("[A-Za-z0-9]+")
        place = word.end()
    return "".join([*parts, _gap(prefix[place:], last=True)])


def _gap(text: str, last: bool = False) -> str:
    """Marks as they are; blanks between words are any number of them, those at the end are counted."""
    if last:
        return re.escape(text)
    return " +".join(re.escape(part) for part in re.split(" +", text))


def _suffix(lines: Sequence[str]) -> Layer | None:
    """What stands behind most of the lines that tell of a pause, as the quote of ``msg="..."``."""
    ends: Counter[str] = Counter()
    for text in lines:
        match = _BEHIND.search(text.rstrip("\r\n")[:2000]) if "ms" in text or "secs]" in text or "<" in text else None
        if match:
            ends[match["rest"].strip()] += 1
    if not ends:
        return None
    end, count = ends.most_common(1)[0]
    if not end or "[Times" in end or 2 * count <= sum(ends.values()):
        return None

    def before(text: str) -> str:
        stripped = text.rstrip()
        if not stripped.endswith(end):
            return text
        inner = stripped.removesuffix(end)
        if end.startswith('"'):
            inner = inner.replace('\\"', '"')
        return inner + ("\n" if text.endswith("\n") else "")

    return before


_FINDERS = (
    ("colours", _colours), ("json", _json), ("cri", _cri), ("entities", _entities), ("prefix", _prefix),
    ("suffix", _suffix),
)  # fmt: skip
