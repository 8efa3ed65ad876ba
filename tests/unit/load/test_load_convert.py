"""HAR files and OpenAPI descriptions as scenarios."""

from __future__ import annotations

import pytest
from recordings import API, PETS, SHOP, asked, entry, har, read, tour

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
    assert any("1 requests to other servers" in note for note in draft.notes)
    assert any("1 requests for images" in note for note in draft.notes)
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
        ('{"log": {"entries": [{"request": {"url": "http://s/", "method": "GET"}}]}}', "entry 1 lacks 'response'"),
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
        ("a: [", "no JSON, as YAML:1: "),
        ("openapi: 4.0.0\npaths: { /a: { get: {} } }", "only 2.0 and 3.x"),
        ("a: 1", "not an OpenAPI description"),
        ("openapi: 3.0.0\npaths: {}", "no operation"),
        ("openapi: 3.0.0\npaths: { /a: { $ref: '#/none' } }", "leads nowhere"),
        ("openapi: 3.0.0\npaths: { /a: { $ref: 'x.yaml#/a' } }", "within the file"),
        ("openapi: 3.0.0\npaths: { /a: { get: { parameters: 5 } } }", "get /a: not as OpenAPI has it"),
        ("openapi: 3.0.0\npaths: { /a: { get: { parameters: hello } } }", "get /a: not as OpenAPI has it"),
        (asked("header", "{ type: string }", "n a"), "get /a: .* 'n a' is no name of a header"),
    ],
)
def test_what_is_no_openapi_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_openapi(text, "x")
