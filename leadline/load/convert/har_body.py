"""Bodies of the requests of an HTTP archive."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote_plus, unquote_plus, urlencode

from leadline.load.convert.write import literal, literals
from leadline.model.received import from_json

_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Body:
    """What was sent: ``kind`` is the media type as recorded, ``text`` empty where there was none or it is not known
    (``lost``).
    """

    kind: str = ""
    text: str = ""
    lost: bool = False

    @property
    def plain(self) -> str:
        """The media type without its parameters."""
        return self.kind.split(";")[0].strip().lower()

    def fields(self) -> list[tuple[str, str]]:
        """Names and values of a form, decoded; none for other bodies."""
        return parse_qsl(self.text, keep_blank_values=True) if self.plain == _FORM else []

    def write(self, extracted: Mapping[str, str]) -> dict[str, Any]:
        """The body and its headers in a request of a scenario; fields in ``extracted`` come from those variables."""
        fields = self.fields()
        names = [name for name, _ in fields]
        # Another encoding than UTF-8 is only right as it was.
        if fields and len(set(names)) == len(names) and not any("\ufffd" in value for pair in fields for value in pair):
            values = {name: f"${{{extracted[name]}}}" if name in extracted else literal(v) for name, v in fields}
            return {"form": values}
        if fields:
            return {"text": _form_text(self.text, extracted), "headers": {"Content-Type": _FORM}}
        if not self.text:
            return {}
        try:
            value = literals(from_json(self.text)) if "json" in self.plain else None
        except (ValueError, RecursionError):
            value = None
        if value is not None:
            return {"json": value, "headers": _typed(self.plain, "application/json")}
        # A boundary belongs to its body.
        return {
            "text": literal(self.text),
            "headers": _typed(self.kind if self.plain.startswith("multipart/") else self.plain, ""),
        }


def body_of(request: Mapping[str, Any]) -> Body:
    """The body of a recorded request. The text counts; what it was read as (``params``) is encoded in some browsers'
    files and decoded in others'. Raises TypeError for what no HAR holds.
    """
    posted = request.get("postData") or {}
    if not isinstance(posted, Mapping):
        raise TypeError("`postData` is no mapping")
    kind, params = " ".join(str(posted.get("mimeType") or "").split()), posted.get("params") or []
    if not isinstance(params, list) or not all(
        isinstance(p, Mapping) and isinstance(p.get("name"), str) for p in params
    ):
        raise TypeError("`params` is no list of names and values")
    text = text_of(posted, "postData")
    if not text and params and Body(kind).plain == _FORM:
        text = urlencode([(p["name"], str(p.get("value") or "")) for p in params])
    size = request.get("bodySize")
    return Body(kind, text or "", not text and (text is None or bool(params) or (isinstance(size, int) and size > 0)))


def text_of(found: Mapping[str, Any], what: str) -> str | None:
    """The text of a body or an answer, base64 undone; None where it is none. Raises TypeError for what no HAR holds."""
    text = found.get("text") or ""
    if not isinstance(text, str):
        raise TypeError(f"the `text` of `{what}` is no text")
    if str(found.get("encoding") or "").lower() != "base64":
        return text
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return None


def _typed(kind: str, own: str) -> dict[str, str]:
    """The header for a media type that the driver does not send by itself."""
    return {"Content-Type": literal(kind)} if kind and kind != own else {}


def _form_text(text: str, extracted: Mapping[str, str]) -> str:
    """A form as it was sent, but for the fields that are extracted."""
    pieces = []
    for piece in text.split("&"):
        name = unquote_plus(piece.partition("=")[0])
        name_ = extracted.get(name)
        pieces.append(f"{literal(quote_plus(name))}=${{url:${{{name_}}}}}" if name_ else literal(piece))
    return "&".join(pieces)
