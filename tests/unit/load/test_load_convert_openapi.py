"""What OpenAPI describes becomes a valid request, or a comment says what is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from recordings import asked, read

from leadline.load.convert.openapi import from_openapi
from leadline.model.errors import UsageError

JSON = "application/json"


def converted(document: dict[str, Any] | str) -> tuple[dict[str, Any], str]:
    draft = from_openapi(document if isinstance(document, str) else json.dumps(document), "x")
    return read(draft)["transactions"], " ".join(draft.notes)


def posted(schema: Any, kind: str = JSON, /, **more: Any) -> Any:
    """The request of a POST of one body."""
    operation = {"requestBody": {"content": {kind: {"schema": schema}}}}
    return converted({"openapi": "3.0.0", "paths": {"/a": {"post": operation}}, **more})[0]["post-a"][0]


def formed(*fields: dict[str, Any], **more: Any) -> tuple[Any, str]:
    parameters = [{"in": "formData", **field} for field in fields]
    operation = {"post": {"parameters": parameters, **more}}
    found, notes = converted({"swagger": "2.0", "paths": {"/a": operation}})
    return found["post-a"][0], notes


@pytest.mark.parametrize(
    "name", ["Cookie", "HOST", "Connection", "Content-Length", "Transfer-Encoding", "X.Y", "x" * 65]
)
def test_headers_that_the_driver_refuses_are_left_out(name: str) -> None:
    found, notes = converted(asked("header", "{ type: string }", name))
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
    assert posted(schema, base=BASE)["json"] == body


def test_references_may_be_encoded() -> None:
    found, _ = converted(
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
    found, notes = converted(
        {
            "swagger": "2.0",
            "consumes": ["multipart/form-data"],
            "paths": {"/a": {"post": {"parameters": [{"in": "formData", **text}]}}},
        }
    )
    assert found["post-a"] == [{"post": "/a"}]
    assert left in notes


def test_other_media_types_of_json_are_kept() -> None:
    for kind in ("application/vnd.api+json", "application/merge-patch+json"):
        assert posted(TEXT, kind) == {"post": "/a", "json": "t", "headers": {"Content-Type": kind}}
    for kind in (JSON, f"{JSON}; charset=utf-8", "application/*+json", "*/*"):
        assert posted(TEXT, kind) == {"post": "/a", "json": "t"}
    operation: dict[str, Any] = {"parameters": [{"in": "body", "name": "b", "schema": TEXT}]}
    document = {"swagger": "2.0", "consumes": ["application/vnd.api+json"], "paths": {"/a": {"post": operation}}}
    headers = {"Content-Type": "application/vnd.api+json"}
    assert converted(document)[0]["post-a"] == [{"post": "/a", "json": "t", "headers": headers}]
    operation["consumes"] = ["application/vnd.api+json", JSON]
    assert converted(document)[0]["post-a"] == [{"post": "/a", "json": "t"}]


def test_dates_stay_as_they_are_written() -> None:
    examples = {"a": "2017-07-21T17:32:28Z", "b": "2017-07-21", "c": "0000-00-00"}
    listed = ", ".join(f"{name}: {{ example: {example} }}" for name, example in examples.items())
    schema = f"{{ properties: {{ {listed} }} }}"
    body = f"{{ content: {{ application/json: {{ schema: {schema} }} }} }}"
    found, _ = converted(f"openapi: 3.0.0\npaths: {{ /a: {{ post: {{ requestBody: {body} }} }} }}")
    assert found["post-a"][0]["json"] == examples


def test_schemas_that_refer_to_themselves_are_bounded() -> None:
    loops = {f"p{number}": {"$ref": "#/node"} for number in range(50)}
    many = {"$ref": "#/node"}
    node = {"properties": {"id": TEXT, **loops, "list": {"type": "array", "items": many}, "all": {"allOf": [many]}}}
    assert posted(many, node=node)["json"] == {"id": "t", "list": []}
    assert posted(many, node={**node, "required": ["id", "p1"]})["json"] == {"id": "t", "p1": None}
    wide: dict[str, Any] = {
        f"n{number}": {"properties": {f"p{other}": {"$ref": f"#/n{other}"} for other in range(60)} | {"id": TEXT}}
        for number in range(60)
    }
    body = posted({"$ref": "#/n0"}, **wide)["json"]
    assert body["id"] == "t"
    assert len(str(body)) < 100_000


def test_characters_beyond_the_first_plane_are_kept() -> None:
    assert posted({"example": "\U0001f680"})["json"] == "\U0001f680"
    draft = from_openapi('{openapi: 3.0.0, paths: {/a: {get: {summary: "\\ud83d", operationId: "a\\ud83d"}}}}', "x")
    draft.text().encode()
    yaml = asked("query", '{ example: "\\ud83d\\ude80" }')
    assert converted(yaml)[0]["get-a"] == [{"get": "/a?x=%F0%9F%9A%80"}]


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
