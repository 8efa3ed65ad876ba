"""HAR files and OpenAPI descriptions as scenarios."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ruamel.yaml import YAML

from leadline.load.convert.har import from_har
from leadline.load.convert.openapi import from_openapi
from leadline.load.convert.write import Draft
from leadline.model.errors import UsageError


def read(draft: Draft) -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(draft.text())
    return found


def entry(method: str, url: str, at: float, page: str | None = "p1", **more: Any) -> dict[str, Any]:
    request = {"method": method, "url": url, "headers": more.pop("headers", [])}
    if "post" in more:
        request["postData"] = more.pop("post")
    response = {"status": more.pop("status", 200), "redirectURL": more.pop("to", ""), "content": {}}
    response["content"] = {"text": more.pop("text", "")}
    moment = f"2024-05-01T10:00:{at:06.3f}Z"
    return {"startedDateTime": moment, "time": 100, "pageref": page, "request": request, "response": response}


def har(*entries: dict[str, Any]) -> str:
    return json.dumps({"log": {"version": "1.2", "entries": list(entries)}})


SHOP = "http://shop.example:8080"
FORM = "application/x-www-form-urlencoded; charset=UTF-8"


def tour() -> str:
    """A recording with a hidden field, a redirect, other servers, JSON and text bodies, an error."""
    login = '<form><input type=hidden name="_csrf" value="tok-12345678"></form>'
    fields = [{"name": "_csrf", "value": "tok-12345678"}, {"name": "user", "value": "ann$"}]
    return har(
        entry("GET", f"{SHOP}/", 0, "p1", text=login, headers=[{"name": "Accept", "value": "text/html"}]),
        entry("GET", f"{SHOP}/logo.png", 0.1, "p1"),
        entry("GET", "http://ads.example/x", 0.2, "p1"),
        entry("POST", f"{SHOP}/login", 2, "p2", post={"mimeType": FORM, "params": fields}, status=302, to="/home?x=1"),
        entry("GET", f"{SHOP}/home?x=1", 2.2, "p2"),
        entry("POST", f"{SHOP}/api", 4.4, "p3", post={"mimeType": "application/json", "text": '{"n": 1, "s": "$x"}'}),
        entry("PUT", f"{SHOP}/raw", 4.5, "p3", post={"mimeType": "text/csv", "text": "a,b"}, status=404),
    )


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


API = """
openapi: 3.0.3
info: { title: Orders, version: "1" }
security: [{ key: [] }]
paths:
  /orders/{id}:
    parameters:
      - { name: id, in: path, required: true, schema: { type: integer, minimum: 5, maximum: 9 } }
    get:
      operationId: getOrder
      parameters:
        - { name: view, in: query, required: true, schema: { enum: [full & free, short] } }
        - { name: page, in: query, schema: { type: integer } }
      responses: { "200": { description: fine }, "404": { description: none } }
    delete: { responses: { "204": { description: gone } } }
  /orders:
    post:
      requestBody:
        content:
          application/json:
            schema: { $ref: "#/components/schemas/Order" }
      responses: { "201": { description: made }, "202": { description: soon } }
components:
  schemas:
    Order:
      type: object
      required: [item, count, lines, parent]
      properties:
        item: { type: string, example: "a $ coin" }
        count: { type: integer }
        lines: { type: array, items: { type: object, properties: { at: { type: string, format: date } } } }
        parent: { $ref: "#/components/schemas/Order" }
        note: { type: string }
"""


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


PETS = json.dumps(
    {
        "swagger": "2.0",
        "paths": {
            "/pets": {
                "post": {
                    "parameters": [
                        {"in": "body", "name": "pet", "schema": {"properties": {"name": {"type": "string"}}}}
                    ],
                    "responses": {"default": {}},
                }
            },
            "/form": {"post": {"parameters": [{"in": "formData", "name": "a", "type": "boolean", "required": True}]}},
        },
    }
)


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


def asked(place: str, schema: str, name: str = "x") -> str:
    parameter = f"{{ name: {name}, in: {place}, required: true, schema: {schema} }}"
    return f"openapi: 3.0.0\npaths: {{ a: {{ get: {{ parameters: [{parameter}] }} }} }}"


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
