"""HAR files and OpenAPI descriptions as scenarios."""

import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from recordings import API, FORM, PETS, SHOP, asked, entry, har, read, tour

from leadline.load.convert import har as har_module
from leadline.load.convert.har import from_har
from leadline.load.convert.openapi import from_openapi
from leadline.model.errors import UsageError


def test_a_recording_becomes_pages_in_order() -> None:
    text = tour()
    draft = from_har(text, "shop")
    found = read(draft)
    assert found["graph"] == {"start": {"home": 1}, "home": {"login": 1}, "login": {"api": 1}, "api": {"end": 1}}
    home, login_page, api = (found["transactions"][name] for name in ("home", "login", "api"))
    assert home == [
        {
            "get": "/",
            "headers": {"Accept": "text/html"},
            "extract": {"_csrf": {"css": 'input[name="_csrf"]', "attribute": "value"}},
        }
    ]
    assert login_page == [{"post": "/login", "form": {"_csrf": "${_csrf}", "user": "ann$$"}}]
    assert api[0] == {"post": "/api", "json": {"n": 1, "s": "$$x"}}
    assert api[1] == {"put": "/raw", "text": "a,b", "headers": {"Content-Type": "text/csv"}, "check": {"status": 404}}
    assert found["pause"] == {"kind": "think", "shape": "exponential", "mean": "2100ms"}  # (2 - 0.1 + 4.4 - 2.1) / 2
    assert any("Requests left out, to other servers: 1" in note for note in draft.notes)
    assert any("Requests left out, for images, styles and scripts: 1" in note for note in draft.notes)
    assert "/logo.png" in str(read(from_har(text, "shop", resources=True)))


def test_without_pages_each_request_is_one() -> None:
    found = read(from_har(har(entry("GET", f"{SHOP}/a", 0, None), entry("GET", f"{SHOP}/a", 1, None)), "x"))
    assert list(found["transactions"]) == ["a", "a-2"]


def test_a_multipart_body_keeps_its_boundary() -> None:
    recorded = entry("POST", f"{SHOP}/a", 0, None)
    recorded["request"]["headers"] = None
    recorded["request"]["postData"] = {"mimeType": "multipart/form-data; boundary=X", "text": "--X"}
    (request,) = read(from_har(har(recorded), "x"))["transactions"]["a"]
    assert request["headers"] == {"Content-Type": "multipart/form-data; boundary=X"}
    assert request["text"] == "--X"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"log": {"entries": [5]}}', "entry 1: "),
        ('{"log": {"entries": [{"request": {"url": "http://s/"}}]}}', "entry 1 lacks 'method'"),
        ("{", "not a HAR file"),
        ("{}", "it lacks 'log'"),
        (har(), "no request over HTTP"),
        ("[]", "not a HAR file"),
    ],
)
def test_what_is_no_har_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_har(text, "x")


def test_operations_become_transactions() -> None:
    draft = from_openapi(API, "orders")
    found = read(draft)
    assert found["mix"] == {"getorder": 10, "delete-orders-id": 0, "post-orders": 1}
    (get,) = found["transactions"]["getorder"]
    assert get == {"get": "/orders/${random:5:9}?view=full%20%26%20free", "check": {"status": 200}}
    (post,) = found["transactions"]["post-orders"]
    assert post["check"] == {"status": [201, 202]}
    body = post["json"]
    assert body["item"] == "a $$ coin"
    assert body["count"] == "${number:${random:1:1000}}"
    assert body["lines"] == [{"at": "2024-01-01"}]
    assert "note" not in body
    assert any("credentials" in note for note in draft.notes)


def test_the_older_form_is_read_too() -> None:
    found = read(from_openapi(PETS, "pets"))
    assert found["transactions"]["post-pets"] == [{"post": "/pets", "json": {"name": "${hex:8}"}}]
    assert found["transactions"]["post-form"] == [{"post": "/form", "form": {"a": "true"}}]


ODD = """
openapi: 3.1.0
servers: [{ url: /api/v1 }]
shared: [{ name: q, in: query, required: true, example: 1 }]
paths:
  /u/{id}/{of}:
    get:
      parameters: [{ $ref: "#/shared/0" }, { name: sid, in: cookie, required: true }]
  /text: { post: { requestBody: { content: { text/csv: { example: "a,b$" } } } } }
  /file: { put: { requestBody: { content: { multipart/form-data: { schema: { type: object } } } } } }
"""


def test_what_a_scenario_cannot_hold_is_noted() -> None:
    draft = from_openapi(ODD, "x")
    found = read(draft)["transactions"]
    assert found["get-u-id-of"] == [{"get": "/u/${hex:8}/${hex:8}?q=1"}]
    assert found["post-text"] == [{"post": "/text", "text": "a,b$$", "headers": {"Content-Type": "text/csv"}}]
    assert found["put-file"] == [{"put": "/file"}]
    notes = " ".join(draft.notes)
    for part in ("names /api/v1", "cookie sid is left out", "id is not described", "(multipart/form-data) is left out"):
        assert part in notes


@pytest.mark.parametrize(
    ("schema", "drawn"),
    [
        ("{ type: integer }", "${random:1:1000}"),
        ("{ type: integer, minimum: 5000 }", "${random:5000:5000}"),
        ("{ type: integer, maximum: -5 }", "${random:-5:-5}"),
        ("{ type: integer, minimum: 10, maximum: 5 }", "${random:10:10}"),
        ("{ type: integer, minimum: -1e300, maximum: .inf }", f"${{random:-{10**15}:{10**15}}}"),
        ("{ type: number, minimum: .nan, maximum: 0.5 }", "${random:0:0}"),
        ("{ type: number, minimum: 1.5, maximum: 7.5 }", "${random:2:7}"),
        ("{ type: integer, exclusiveMinimum: 3, maximum: 9, exclusiveMaximum: true }", "${random:4:8}"),
        ("{ type: string, maxLength: 3 }", "${hex:3}"),
        ("{ type: string, minLength: 20 }", "${hex:20}"),
    ],
)
def test_numbers_are_drawn_between_the_bounds(schema: str, drawn: str) -> None:
    (transaction,) = read(from_openapi(asked("query", schema), "x"))["transactions"].values()
    assert transaction == [{"get": f"/a?x={drawn}"}]  # the path got its slash


def test_a_header_is_one_line() -> None:
    draft = from_openapi(asked("header", '{ example: "a\\nb" }'), "x")
    assert read(draft)["transactions"]["get-a"] == [{"get": "/a", "headers": {"x": "a b"}}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "no JSON, as YAML:2: "),
        ("openapi: 4.0.0\npaths: { /a: { get: {} } }", "only 2.0 and 3.x"),
        ("a: 1", "not an OpenAPI description"),
        ("openapi: 3.0.0\npaths: {}", "no operation"),
        ("openapi: 3.0.0\npaths: { /a: { $ref: '#/none' } }", "leads nowhere"),
        ("openapi: 3.0.0\npaths: { /a: { $ref: 'x.yaml#/a' } }", "only references to files in"),
        ("openapi: 3.0.0\npaths: { /a: { get: { parameters: 5 } } }", "get /a: not as OpenAPI has it"),
        ("openapi: 3.0.0\npaths: { /a: { get: { parameters: hello } } }", "get /a: not as OpenAPI has it"),
        (asked("header", "{ type: string }", "n a"), "get /a: .* 'n a' is no name of a header"),
    ],
)
def test_what_is_no_openapi_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_openapi(text, "x")


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


@pytest.mark.parametrize("token", ["abc/DEF+gh=", "secret", "RXXhyQckrCVodmvG+/="])
def test_a_short_token_without_a_digit_is_extracted_by_its_name(token: str) -> None:
    answer = json.dumps({"csrfToken": token, "page": 1})
    sent = [{"name": "X-CSRF-Token", "value": token}]
    found, _ = converted(
        entry("GET", f"{SHOP}/f", 0, None, text=answer), entry("DELETE", f"{SHOP}/a", 1, None, headers=sent)
    )
    assert found["f"][0]["extract"] == {"csrfToken": {"json": "/csrfToken"}}
    assert found["a"][0]["headers"] == {"X-Csrf-Token": "${csrfToken}"}


def test_a_value_behind_a_long_number_is_found_by_the_words_between() -> None:
    page = "7" * 40_000 + " order=ab12cd34ef"
    found, _ = converted(entry("GET", f"{SHOP}/f", 0, None, text=page), entry("GET", f"{SHOP}/a/ab12cd34ef", 1, None))
    assert found["f"][0]["extract"] == {"order": {"regex": r" order=([\w.~+%-]+=*)"}}


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
        ({"status": 1e999}, "not a HAR file: Infinity is no finite number"),
        ({"headers": 5}, "entry 1: "),
    ],
)
def test_odd_parts_are_refused_with_their_entry(part: dict[str, Any], message: str) -> None:
    recorded = entry("POST", f"{SHOP}/a", 0, None)
    for key, value in part.items():
        recorded["request" if key in ("postData", "headers") else "response"][key] = value
    with pytest.raises(UsageError, match=message):
        from_har(har(recorded), "x")


def test_what_a_redirect_led_to_is_the_answer_of_the_redirected() -> None:
    post = {"mimeType": FORM, "text": "_csrf=a%2Bb%2Fc%3D%3D"}
    found, _ = converted(
        entry("POST", f"{SHOP}/login", 0, None, status=302, to="home/?x=1#top"),
        entry("GET", f"{SHOP}/poll", 0.1, None),
        entry("GET", f"{SHOP}/home/?x=1", 0.2, None, status=302, to="//SHOP.example:8080/form"),
        entry("GET", f"{SHOP}/form", 0.3, None, text=PAGE),
        entry("POST", f"{SHOP}/a", 1, None, post=post),
        entry("GET", f"{SHOP}/old", 2, None, status=301, to="/gone"),
        entry("GET", f"{SHOP}/gone", 2.1, None, status=404),
        entry("GET", f"{SHOP}/form", 3, None),
    )
    assert found == {
        "login": [{"post": "/login", "extract": {"_csrf": {"css": 'input[name="_csrf"]', "attribute": "value"}}}],
        "poll": [{"get": "/poll"}],
        "a": [{"post": "/a", "form": {"_csrf": "${_csrf}"}}],
        "old": [{"get": "/old", "check": {"status": 404}}],
        "form": [{"get": "/form"}],
    }


def test_a_later_visit_is_not_what_a_redirect_led_to() -> None:
    found, _ = converted(
        entry("POST", f"{SHOP}/login", 0, None, status=302, to="/home"),  # whose target the recording lost
        entry("GET", f"{SHOP}/other", 1, None),
        entry("GET", f"{SHOP}/home", 2.2, None),
    )
    assert list(found) == ["login", "other", "home"]


def test_without_moments_the_order_tells_what_a_redirect_led_to() -> None:
    post, home = entry("POST", f"{SHOP}/login", 0, None, status=302, to="/home"), entry("GET", f"{SHOP}/home", 9, None)
    del home["startedDateTime"]
    assert list(converted(post, home)[0]) == ["login"]


@pytest.mark.parametrize(("status", "method"), [(307, "POST"), (308, "PUT"), (303, "GET"), (302, "HEAD")])
def test_a_redirect_keeps_the_method_as_the_driver_does(status: int, method: str) -> None:
    first = "POST" if method == "GET" else method
    found, _ = converted(
        entry(first, f"{SHOP}/a", 0, None, status=status, to="/b"),
        entry(method, f"{SHOP}/b", 0.1, None),
        entry("POST", f"{SHOP}/c", 1, None, status=status, to="http://["),
    )
    assert found == {"a": [{first.lower(): "/a"}], "c": [{"post": "/c"}]}


def test_other_media_types_of_json_are_kept() -> None:
    request, _ = posted(mimeType="application/merge-patch+json; charset=utf-8", text='{"a": 1}')
    kind = {"Content-Type": "application/merge-patch+json"}
    assert request == {"post": "/a", "json": {"a": 1}, "headers": kind}
    request, _ = posted(mimeType=f"{JSON}; charset=utf-8", text='{"a": 1}')
    assert request == {"post": "/a", "json": {"a": 1}}


def test_null_is_written_as_the_driver_reads_it() -> None:
    text = from_har(
        har(entry("POST", f"{SHOP}/a", 0, None, post={"mimeType": JSON, "text": '{"a": [null]}'})), "x"
    ).text()
    assert "a:\n          - null\n" in text


def test_what_a_recording_loses_is_noted() -> None:
    kind, params = "multipart/form-data; boundary=X", [{"name": "file", "fileName": "a.png"}]
    request, notes = posted(mimeType=kind, params=params)
    assert request == {"post": "/a"}
    assert "The body of post /a (multipart/form-data; boundary=X) was left out" in notes
    encoded = base64.b64encode(b'{"a": 1}').decode()
    request, notes = posted(mimeType=JSON, text=encoded, encoding="base64")
    assert request == {"post": "/a", "json": {"a": 1}}
    assert "body" not in notes
    for kind, text in (("image/png", "/w=="), ("image/png", "%"), (FORM, "/w==")):
        request, notes = posted(mimeType=kind, text=text, encoding="base64")
        assert request == {"post": "/a"}
        assert f"The body of post /a ({kind}) was left out" in notes
    unsaid = entry("PUT", f"{SHOP}/b", 0, None)
    unsaid["request"]["bodySize"] = 7
    found, notes = converted(unsaid, entry("OPTIONS", f"{SHOP}/b", 1, None))
    assert found == {"b": [{"put": "/b"}]}
    assert "The body of put /b was left out" in notes
    assert "Requests left out, by OPTIONS: 1." in notes


def test_headers_that_are_not_sent_are_named() -> None:
    names = [":authority", "accept", "authorization", "Host", "Content-Length", "Cookie", "X-CSRF-Token", "Origin"]
    sent = [{"name": name, "value": "v"} for name in names]
    found, notes = converted(entry("GET", f"{SHOP}/a", 0, None), entry("GET", f"{SHOP}/b", 1, None, headers=sent))
    assert found["b"] == [{"get": "/b", "headers": {"Accept": "v", "Authorization": "v", "X-Csrf-Token": "v"}}]
    assert "Headers of the recording that were left out: Origin." in notes
    _, notes = converted(entry("GET", f"{SHOP}/b", 1, None, headers=[*sent, {"name": "a\nb", "value": ""}]))
    assert "cookies" in notes
    assert "left out" not in converted(entry("GET", f"{SHOP}/a", 0, None))[1]


def test_requests_are_ordered_by_their_moments() -> None:
    moments = ["10:00:00.5Z", "10:00:00Z", "12:00:01+02:00", "10:00:00.2500000Z"]
    entries = [entry("GET", f"{SHOP}/{number}", 0, None) for number in range(4)]
    for recorded, moment in zip(entries, moments, strict=True):
        recorded["startedDateTime"] = f"2024-05-01T{moment}"
    assert list(converted(*entries)[0]) == ["1", "3", "0", "2"]
    entries[1]["startedDateTime"] = "yesterday"  # then as they stand in the file
    assert list(converted(*entries)[0]) == ["0", "1", "2", "3"]


def test_a_status_that_cannot_be_checked_is_noted() -> None:
    found, notes = converted(entry("GET", f"{SHOP}/a", 0, None, status=999), entry("GET", f"{SHOP}/b", 1, status=599))
    assert found["a"] == [{"get": "/a"}]
    assert "Status 999 of get /a" in notes
    assert found["b"] == [{"get": "/b", "check": {"status": 599}}]


def test_half_a_character_is_replaced() -> None:
    text = har(entry("GET", f"{SHOP}/a", 0, None, post={"mimeType": JSON, "text": '"\\ud83d\\ude80 \\ud83d"'}))
    found = from_har(text, "x").text()
    assert "\U0001f680 \ufffd" in found or "\\U0001F680 \\uFFFD" in found
    assert read(from_har(text, "x"))["transactions"]["a"][0]["json"] == "\U0001f680 \ufffd"
    found.encode()


def test_a_body_too_deep_to_be_read_stays_a_text() -> None:
    deep = "[" * 100_000
    assert posted(mimeType=JSON, text=deep)[0]["text"] == deep


def pages_and_forms(count: int) -> list[dict[str, Any]]:
    """Each page hands out a ticket of its own, which the next form sends back."""
    entries = []
    for number in range(count):
        page = f'<input name="t{number % 9}" value="secret{number}">'
        entries.append(entry("GET", f"{SHOP}/a?n={number}", number / 1000, None, text=page))
        sent = {"mimeType": FORM, "text": f"t{number % 9}=secret{number}&x=other{number}"}
        entries.append(entry("POST", f"{SHOP}/a", number / 1000, None, post=sent))
    return entries


def redirects(count: int) -> list[dict[str, Any]]:
    """All requests are redirected to one place, which is asked for later as often."""
    entries = [entry("GET", f"{SHOP}/r{n}", 0, None, status=302, to="/home") for n in range(count)]
    return entries + [entry("GET", f"{SHOP}/home", 1, None) for _ in range(count)]


def one_page(count: int) -> list[dict[str, Any]]:
    """One page of so many inputs, and one form of so many fields."""
    text = "".join(f'<input name="f{n}" value="secret{n}">' for n in range(count))
    form = "&".join(f"f{n}=secret{n}" for n in range(count))
    sent = entry("POST", f"{SHOP}/b", 1, "p1", post={"mimeType": FORM, "text": form})
    return [entry("GET", f"{SHOP}/a", 0, "p1", text=text), sent]


def repeated_fields(count: int) -> list[dict[str, Any]]:
    """A form that is kept as a text, since its fields are repeated."""
    return [entry("POST", f"{SHOP}/a", 0, None, post={"mimeType": FORM, "text": "&".join(["a=1"] * count)})]


def json_body(count: int) -> list[dict[str, Any]]:
    body = json.dumps([[{"name": f"n{n}", "values": [n, [n]]}] for n in range(count)])
    return [entry("POST", f"{SHOP}/a", 0, None, post={"mimeType": JSON, "text": body})]


def lines_run(recording: str) -> int:
    """Lines of the converter that a conversion runs: its work, on any machine."""
    lines = 0
    own = str(Path(har_module.__file__).parent)  # the standard library's caches would blur it

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace if frame.f_code.co_filename.startswith(own) else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        from_har(recording, "x").text()
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("shape", [pages_and_forms, redirects, one_page, repeated_fields, json_body])
def test_work_grows_with_the_recording_not_with_its_square(
    shape: Callable[[int], list[dict[str, Any]]],
) -> None:
    small, large = (lines_run(har(*shape(count))) for count in (50, 400))
    assert small > 100
    assert large < 1.1 * 8 * small  # a square would be 64 times as much


def test_a_long_recording_is_converted_whole() -> None:
    draft = from_har(har(*pages_and_forms(5000)), "x")
    text = draft.text()
    assert text.count("${t") == 5000
    assert len(draft.scenario["transactions"]) == 10_000
    assert "\n  a-10000:\n" in text


def test_tags_without_an_end_are_not_searched_again_and_again() -> None:
    page = entry("GET", f"{SHOP}/a", 0, None)
    page["response"]["content"] = {"text": "<input name=" * 300_000}
    assert list(from_har(har(page), "x").scenario["transactions"]) == ["a"]


def test_texts_come_back_from_the_file_as_they_were() -> None:
    for text in (
        "yes",
        "null",
        "- a",
        "a: b",
        "a #b",
        " x ",
        "\ufeff\u2028\x7f",
        "1e3",
        "~",
        '"q"',
        "\t",
        "C:\\x",
        "\U0001f680",
    ):
        request, _ = posted(mimeType="text/plain; charset=utf-8", text=text)
        assert request["text"] == text


def converted_openapi(document: dict[str, Any] | str) -> tuple[dict[str, Any], str]:
    draft = from_openapi(document if isinstance(document, str) else json.dumps(document), "x")
    return read(draft)["transactions"], " ".join(draft.notes)


def posted_openapi(schema: Any, kind: str = JSON, /, **more: Any) -> Any:
    """The request of a POST of one body."""
    operation = {"requestBody": {"content": {kind: {"schema": schema}}}}
    return converted_openapi({"openapi": "3.0.0", "paths": {"/a": {"post": operation}}, **more})[0]["post-a"][0]


def formed(*fields: dict[str, Any], **more: Any) -> tuple[Any, str]:
    parameters = [{"in": "formData", **field} for field in fields]
    operation = {"post": {"parameters": parameters, **more}}
    found, notes = converted_openapi({"swagger": "2.0", "paths": {"/a": operation}})
    return found["post-a"][0], notes


@pytest.mark.parametrize(
    "name", ["Cookie", "HOST", "Connection", "Content-Length", "Transfer-Encoding", "X.Y", "x" * 65]
)
def test_headers_that_the_driver_refuses_are_left_out(name: str) -> None:
    found, notes = converted_openapi(asked("header", "{ type: string }", name))
    assert found["get-a"] == [{"get": "/a"}]
    assert f"get /a: the header {name} is left out" in notes


TEXT = {"type": "string", "example": "t"}
BASE = {"type": "object", "required": ["id"], "properties": {"id": TEXT, "name": TEXT, "more": TEXT}}


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        ({"allOf": [BASE], "properties": {"own": TEXT}}, {"id": "t", "own": "t"}),
        ({"allOf": [BASE], "required": ["name"]}, {"id": "t", "name": "t"}),
        ({"allOf": [{"$ref": "#/base"}, {"required": ["name"]}]}, {"id": "t", "name": "t"}),
        ({**BASE, "anyOf": [{"required": ["name"]}, {"required": ["more"]}]}, {"id": "t", "name": "t"}),
        ({**BASE, "oneOf": [{"properties": {"kind": TEXT}}, {"type": "string"}]}, {"id": "t", "kind": "t"}),
        ({"allOf": [BASE], "oneOf": [{"properties": {"kind": TEXT}}]}, {"id": "t", "kind": "t"}),
        ({"oneOf": [BASE, {"type": "string"}]}, {"id": "t"}),
        ({"anyOf": [TEXT, BASE]}, "t"),
        ({"allOf": [TEXT, {"maxLength": 3}]}, "t"),
    ],
)
def test_parts_of_a_schema_are_put_together(schema: dict[str, Any], body: Any) -> None:
    assert posted_openapi(schema, base=BASE)["json"] == body


def test_references_may_be_encoded() -> None:
    found, _ = converted_openapi(
        """
openapi: 3.0.0
paths:
  /a/{id}:
    get: { responses: { 200: { content: { application/json: { schema: { type: string, example: t } } } } } }
  /b~%c:
    post:
      requestBody:
        content:
          application/json:
            schema: { $ref: '#/paths/~1a~1%7Bid%7D/get/responses/200/content/application~1json/schema' }
  /c: { $ref: '#/paths/~1b~0%25c' }
"""
    )
    assert found["post-c"] == [{"post": "/c", "json": "t"}]


def test_a_form_with_a_file_is_left_out() -> None:
    text, file = {"name": "a", "type": "boolean", "required": True}, {"name": "f", "type": "file"}
    left = "post /a: the body (multipart/form-data) is left out"
    for fields, kinds in (
        ([text, {**file, "required": True}], None),
        ([text, file], None),
        ([text], ["multipart/form-data"]),
    ):
        request, notes = formed(*fields, **({"consumes": kinds} if kinds else {}))
        assert request == {"post": "/a"}
        assert left in notes
    both = ["multipart/form-data", "application/x-www-form-urlencoded"]
    for kinds in (None, both):
        request, notes = formed(text, **({"consumes": kinds} if kinds else {}))
        assert request == {"post": "/a", "form": {"a": "true"}}
        assert left not in notes
    found, notes = converted_openapi(
        {
            "swagger": "2.0",
            "consumes": ["multipart/form-data"],
            "paths": {"/a": {"post": {"parameters": [{"in": "formData", **text}]}}},
        }
    )
    assert found["post-a"] == [{"post": "/a"}]
    assert left in notes


def test_other_media_types_of_json_are_kept_openapi() -> None:
    for kind in ("application/vnd.api+json", "application/merge-patch+json"):
        assert posted_openapi(TEXT, kind) == {"post": "/a", "json": "t", "headers": {"Content-Type": kind}}
    for kind in (JSON, f"{JSON}; charset=utf-8", "application/*+json", "*/*"):
        assert posted_openapi(TEXT, kind) == {"post": "/a", "json": "t"}
    operation: dict[str, Any] = {"parameters": [{"in": "body", "name": "b", "schema": TEXT}]}
    document = {"swagger": "2.0", "consumes": ["application/vnd.api+json"], "paths": {"/a": {"post": operation}}}
    headers = {"Content-Type": "application/vnd.api+json"}
    assert converted_openapi(document)[0]["post-a"] == [{"post": "/a", "json": "t", "headers": headers}]
    operation["consumes"] = ["application/vnd.api+json", JSON]
    assert converted_openapi(document)[0]["post-a"] == [{"post": "/a", "json": "t"}]


def test_dates_stay_as_they_are_written() -> None:
    examples = {"a": "2017-07-21T17:32:28Z", "b": "2017-07-21", "c": "0000-00-00"}
    listed = ", ".join(f"{name}: {{ example: {example} }}" for name, example in examples.items())
    schema = f"{{ properties: {{ {listed} }} }}"
    body = f"{{ content: {{ application/json: {{ schema: {schema} }} }} }}"
    found, _ = converted_openapi(f"openapi: 3.0.0\npaths: {{ /a: {{ post: {{ requestBody: {body} }} }} }}")
    assert found["post-a"][0]["json"] == examples


def test_schemas_that_refer_to_themselves_are_bounded() -> None:
    loops = {f"p{number}": {"$ref": "#/node"} for number in range(50)}
    many = {"$ref": "#/node"}
    node = {"properties": {"id": TEXT, **loops, "list": {"type": "array", "items": many}, "all": {"allOf": [many]}}}
    assert posted_openapi(many, node=node)["json"] == {"id": "t", "list": []}
    assert posted_openapi(many, node={**node, "required": ["id", "p1"]})["json"] == {"id": "t", "p1": None}
    wide: dict[str, Any] = {
        f"n{number}": {"properties": {f"p{other}": {"$ref": f"#/n{other}"} for other in range(60)} | {"id": TEXT}}
        for number in range(60)
    }
    body = posted_openapi({"$ref": "#/n0"}, **wide)["json"]
    assert body["id"] == "t"
    assert len(str(body)) < 100_000


def test_characters_beyond_the_first_plane_are_kept() -> None:
    assert posted_openapi({"example": "\U0001f680"})["json"] == "\U0001f680"
    draft = from_openapi('{openapi: 3.0.0, paths: {/a: {get: {summary: "\\ud83d", operationId: "a\\ud83d"}}}}', "x")
    draft.text().encode()
    yaml = asked("query", '{ example: "\\ud83d\\ude80" }')
    assert converted_openapi(yaml)[0]["get-a"] == [{"get": "/a?x=%F0%9F%9A%80"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("openapi: 3.0.0\npaths: { /a: { parameters: 5, get: {} } }", "/a: `parameters` is not a list"),
        (
            "swagger: '2.0'\nconsumes: x\npaths: { /a: { post: { parameters: [{ in: body }] } } }",
            "`consumes` is not a list",
        ),
        ("openapi: !!int x", "no JSON, as YAML: "),
    ],
)
def test_what_is_no_openapi_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_openapi(text, "x")


def login_recording(path: str, later: str = "", **post: Any) -> list[dict[str, Any]]:
    page = '<form><input type="hidden" name="_csrf" value="tok-12345678"><input type=password name=password></form>'
    return [
        entry("GET", f"{SHOP}/", 0, "p1"),
        entry("GET", f"{SHOP}/account/login", 1, "p2", text=page),
        entry("POST", f"{SHOP}{path}", 2, "p3", post=post, status=302 if "params" in post else 200, to="/orders"),
        entry("GET", f"{SHOP}/api/me", 8, "p3"),
        entry("GET", f"{SHOP}/list", 9, "p4", status=302 if later else 200, to=later),
    ]


def test_a_recording_that_logs_in_says_how_users_are_seen_to_be_logged_out() -> None:
    values = {"_csrf": "tok-12345678", "user": "ann", "password": "secret"}
    form = {"mimeType": FORM, "params": [{"name": name, "value": value} for name, value in values.items()]}
    draft = from_har(har(*login_recording("/account/check", **form)), "shop")
    scenario = read(draft)
    assert scenario["login"] == "account-check"
    assert scenario["logged_out"] == {"status": 401, "redirect": "/account/login"}
    assert [next(iter(request.values())) for request in scenario["transactions"]["account-check"]] == [
        "/",
        "/account/login",
        "/account/check",
    ]
    assert scenario["graph"] == {"start": {"api-me": 1}, "api-me": {"list": 1}, "list": {"end": 1}}
    note = "Users log in by account-check, and again when they are logged out: status 401 or redirect /account/login."
    assert note in draft.notes
    passed_on = read(from_har(har(*login_recording("/account/check", "/account/login?next=1", **form)), "shop"))
    assert passed_on["logged_out"] == {"status": 401}


def test_a_log_in_by_json_is_seen_by_its_status() -> None:
    body = {"mimeType": "application/json", "text": '{"user": "ann", "passWord": "secret"}'}
    assert read(from_har(har(*login_recording("/api/login", **body)), "shop"))["logged_out"] == {"status": 401}


@pytest.mark.parametrize("text", ['{"password": "a", "password2": "a"}', '{"user": "ann"}', "[1]", "7", "{"])
def test_what_is_no_log_in_is_a_page_as_others(text: str) -> None:
    body = {"mimeType": "application/json", "text": text}
    assert "login" not in read(from_har(har(*login_recording("/api/login", **body)), "shop"))
