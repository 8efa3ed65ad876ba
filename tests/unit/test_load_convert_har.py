"""What a HAR file holds reaches the scenario, or a comment says that it does not."""

from __future__ import annotations

from typing import Any

import pytest
from test_load_convert import FORM, SHOP, entry, har, read

from leadline.load.convert.har import from_har
from leadline.model.errors import UsageError

TOKEN = "a+b/c=="
PAGE = f'<form><input type="hidden" name="_csrf" value="{TOKEN}"></form>'
JSON = "application/json"


def converted(*entries: dict[str, Any]) -> tuple[dict[str, Any], str]:
    draft = from_har(har(*entries), "x")
    return read(draft)["transactions"], " ".join(draft.notes)


def posted(**post: Any) -> tuple[dict[str, Any], str]:
    """The one request of a recording of one POST to /a."""
    found, notes = converted(entry("POST", f"{SHOP}/a", 0, None, post=post))
    return found["a"][0], notes


def test_a_form_is_read_from_its_text() -> None:
    encoded = [{"name": "user%5B%5D", "value": "user%40x.org"}]  # as Chrome writes them
    request, _ = posted(mimeType=FORM, params=encoded, text="user%5B%5D=user%40x.org&b=&c=d+e")
    assert request == {"post": "/a", "form": {"user[]": "user@x.org", "b": "", "c": "d e"}}
    request, _ = posted(mimeType=FORM, params=[{"name": "a", "value": "b c&%40"}, {"name": "d"}])
    assert request == {"post": "/a", "form": {"a": "b c&%40", "d": ""}}


def test_an_encoded_token_is_extracted() -> None:
    params = [{"name": "_csrf", "value": "a%2Bb%2Fc%3D%3D"}, {"name": "ids", "value": "1"}]
    post = {"mimeType": FORM, "params": params, "text": "_csrf=a%2Bb%2Fc%3D%3D&ids=1"}
    found, _ = converted(entry("GET", f"{SHOP}/f", 0, None, text=PAGE), entry("POST", f"{SHOP}/a", 1, None, post=post))
    assert found["f"][0]["extract"] == {"_csrf": {"css": 'input[name="_csrf"]', "attribute": "value"}}
    assert found["a"][0]["form"] == {"_csrf": "${_csrf}", "ids": "1"}


def test_a_repeated_field_is_kept_in_a_text() -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    request, _ = posted(mimeType=FORM, text="ids=1&ids=2&a=%24")
    assert request == {"post": "/a", "text": "ids=1&ids=2&a=%24", "headers": kind}
    request, _ = posted(mimeType=FORM, params=[{"name": "i d", "value": "1"}, {"name": "i d", "value": "ä&"}])
    assert request == {"post": "/a", "text": "i+d=1&i+d=%C3%A4%26", "headers": kind}
    post = {"mimeType": FORM, "text": "_csrf=a%2Bb%2Fc%3D%3D&ids=1&ids=$2"}
    found, _ = converted(entry("GET", f"{SHOP}/f", 0, None, text=PAGE), entry("POST", f"{SHOP}/a", 1, None, post=post))
    assert "_csrf" in found["f"][0]["extract"]
    assert found["a"][0]["text"] == "_csrf=${url:${_csrf}}&ids=1&ids=$$2"


def test_a_form_in_another_encoding_is_kept_as_it_was() -> None:
    request, _ = posted(mimeType="application/x-www-form-urlencoded", text="name=M%FCller")
    assert request["text"] == "name=M%FCller"


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"postData": "a=1"}, "entry 1: `postData` is no mapping"),
        ({"postData": {"mimeType": FORM, "params": [{"value": "1"}]}}, "entry 1: `params` is no list of names"),
        ({"postData": {"mimeType": FORM, "params": 5}}, "entry 1: `params` is no list of names"),
        ({"postData": {"mimeType": JSON, "text": {"a": 1}}}, "entry 1: the `text` of `postData` is no text"),
        ({"content": "<html>"}, "entry 1: `content` is no mapping"),
        ({"content": {"text": 5}}, "entry 1: the `text` of `content` is no text"),
        ({"status": 1e999}, "entry 1: "),
    ],
)
def test_odd_parts_are_refused_with_their_entry(part: dict[str, Any], message: str) -> None:
    recorded = entry("POST", f"{SHOP}/a", 0, None)
    for key, value in part.items():
        recorded["request" if key == "postData" else "response"][key] = value
    with pytest.raises(UsageError, match=message):
        from_har(har(recorded), "x")
