"""Recordings and descriptions that several tests convert into scenarios."""

import json
from typing import Any

from ruamel.yaml import YAML

from leadline.load.convert.write import Draft


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


def asked(place: str, schema: str, name: str = "x") -> str:
    parameter = f"{{ name: {name}, in: {place}, required: true, schema: {schema} }}"
    return f"openapi: 3.0.0\npaths: {{ a: {{ get: {{ parameters: [{parameter}] }} }} }}"
