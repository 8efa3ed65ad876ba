"""OpenAPI: patterns, discriminators, several files, descriptions of thousands of paths."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from recordings import read
from test_load_convert import posted_openapi

from leadline.load.convert.formats import of_file
from leadline.load.convert.openapi import from_openapi, matching
from leadline.load.scenario import read_scenario
from leadline.model.errors import UsageError
from leadline.model.yamltext import LARGE, load_yaml

DRAWN = {"digits": "0123456789", "hex": "0123456789abcdef"}


def drawn(template: str) -> str:
    """A text that the driver may draw."""
    return re.sub(r"\$\{(digits|hex):(\d+)\}", lambda m: (DRAWN[m[1]] * 9)[: int(m[2])], template).replace("$$", "$")


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[A-Z]{2}\d{2}[A-Z0-9]{4}$",
        r"^\d{3}-\d{2}-\d{4}$",
        r"^[a-z0-9-]+$",
        r"^#[0-9a-fA-F]{6}$",
        r"(foo|bar)+",
        r"^\S+@\S+\.\S+$",
        r"^[^@/]*$",
        r"^\+?[1-9]\d{1,14}$",
        r"^v\d+(\.\d+)*?$",
        r"^[äöü]{2}\$$",
        r"^(?<year>\d{4})-(?:0[1-9]|1[0-2])$",
        r"[^a]b.\w\W\D\s",
    ],
)
def test_a_text_matches_its_pattern(pattern: str) -> None:
    text = matching(pattern, 0, 100)
    assert text is not None
    assert re.search(pattern.replace("(?<", "(?P<"), drawn(text)), text


def test_a_text_that_matches_has_its_length_and_digits_are_drawn() -> None:
    assert matching(r"^\d+$", 12, 20) == "${digits:12}"
    assert matching(r"^[a-c]{2,}x$", 0, 4) == "aaax"
    request = posted_openapi({"type": "string", "pattern": "^INV-[0-9]{6}$"})
    assert request["json"] == "INV-${digits:6}"


@pytest.mark.parametrize("pattern", ["(?=.*[0-9]).{8}", r"(a)\1", "[", "^$", "(a?){65535}", "((a{65535}){65535}){9}"])
def test_what_is_not_matched_is_noted_and_takes_no_time(pattern: str) -> None:
    assert matching(pattern, 0, 100) is None
    schema = {"type": "string", "pattern": pattern}
    operation = {"post": {"requestBody": {"content": {"application/json": {"schema": schema}}}}}
    draft = from_openapi(json.dumps({"openapi": "3.0.0", "paths": {"/a": operation}}), "x")
    assert "Some texts do not match their `pattern`: give those an example." in draft.notes


def test_as_many_items_as_are_wanted() -> None:
    assert posted_openapi({"type": "array", "minItems": 3, "items": {"type": "boolean"}})["json"] == [True] * 3
    many = {"type": "array", "minItems": 10**9, "items": {"type": "boolean"}}
    assert posted_openapi(many, x=1) == {"post": "/a"}, "more than a body should hold"


CAT = {
    "type": "object",
    "required": ["kind", "name"],
    "properties": {"kind": {"type": "string"}, "name": {"enum": ["Tom"]}},
}


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ({"propertyName": "kind"}, "Cat"),
        ({"propertyName": "kind", "mapping": {"dog": "#/Dog", "cat": "#/Cat"}}, "cat"),
        ({"propertyName": "kind", "mapping": {"puss": "Cat"}}, "puss"),
    ],
)
def test_the_discriminator_names_the_schema_that_is_sent(rule: Any, kind: str) -> None:
    choice = {"oneOf": [{"$ref": "#/Cat"}, {"$ref": "#/Dog"}], "discriminator": rule}
    assert posted_openapi(choice, Cat=CAT, Dog=CAT)["json"] == {"kind": kind, "name": "Tom"}


def test_the_discriminator_of_a_schema_that_others_extend() -> None:
    base = {**CAT, "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/Cat"}}}
    cat = {"allOf": [{"$ref": "#/Pet"}, {"properties": {"lives": {"enum": [9]}}}]}
    expected = {"kind": "cat", "name": "Tom", "lives": 9}
    assert posted_openapi({"$ref": "#/Cat"}, Cat=cat, Pet=base)["json"] == expected
    assert posted_openapi({"$ref": "#/Pet"}, Cat=cat, Pet=base)["json"] == expected
    assert posted_openapi({"$ref": "#/Dog"}, Dog=cat, Pet={**CAT, "discriminator": "kind"})["json"]["kind"] == "Dog"


SEVERAL = {
    "api.yaml": "openapi: 3.0.0\npaths:\n  /orders: { $ref: paths/orders.yaml }\n",
    "paths/orders.yaml": "post:\n  requestBody: { $ref: '../bodies.json#/order' }\n",
    "bodies.json": json.dumps(
        {"order": {"content": {"application/json": {"schema": {"$ref": "#/schemas/Order"}}}},
         "schemas": {"Order": {"properties": {"line": {"$ref": "./schemas/line.yaml#/Line"}}}}}
    ),
    "schemas/line.yaml": "Line: { properties: { next: { $ref: '#/Line' }, item: { example: nut } } }\n",
}  # fmt: skip


def test_references_lead_to_files_beside_the_first(tmp_path: Path) -> None:
    for name, text in SEVERAL.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert read(of_file(tmp_path / "api.yaml"))["transactions"] == {
        "post-orders": [{"post": "/orders", "json": {"line": {"item": "nut"}}}]
    }


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("../secret.yaml#/a", "only references to files in the folder of the first one are followed"),
        ("/etc/passwd", "only references to files in the folder of the first one are followed"),
        ("https://example.com/a.yaml#/a", "only references to files in the folder of the first one are followed"),
        ("out/a.yaml", "it leads out of the folder of the first file"),
        ("none.yaml#/a", "none.yaml"),
        ("api.yaml#/nowhere", "leads nowhere"),
    ],
)
def test_references_that_are_not_followed(reference: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/out").symlink_to(tmp_path)
    (tmp_path / "a.yaml").write_text("get: {}")
    (tmp_path / "in/api.yaml").write_text(f"openapi: 3.0.0\npaths: {{ /a: {{ $ref: '{reference}' }} }}\n")
    with pytest.raises(UsageError, match=message):
        of_file(tmp_path / "in/api.yaml")


PATH = """
  /group{n}/items/{{id}}:
    parameters: [{{ name: id, in: path, required: true, schema: {{ type: string, format: uuid }} }}]
    get:
      operationId: get{n}
      responses: {{ '200': {{ content: {{ text/json: {{ schema: {{ $ref: '#/components/schemas/R{n}' }} }} }} }} }}
    put:
      operationId: put{n}
      requestBody: {{ content: {{ application/json: {{ schema: {{ $ref: '#/components/schemas/R{n}' }} }} }} }}
      responses: {{ '200': {{ description: fine }} }}"""
SCHEMA = """
    R{n}:
      required: [name, count]
      properties: {{ name: {{ type: string }}, count: {{ type: integer, minimum: 1, maximum: 10 }} }}"""


def test_three_thousand_paths_are_read_and_the_scenario_too(tmp_path: Path) -> None:
    numbers = range(3000)
    paths, schemas = ("".join(part.format(n=n) for n in numbers) for part in (PATH, SCHEMA))
    (tmp_path / "big.yaml").write_text(f"openapi: 3.0.3\npaths:{paths}\ncomponents:\n  schemas:{schemas}\n")
    draft = of_file(tmp_path / "big.yaml")
    (tmp_path / "big.scenario.yaml").write_text(draft.text())
    transactions = read_scenario(tmp_path / "big.scenario.yaml")["transactions"]
    assert len(transactions) == 6000
    assert transactions["put2999"][0]["json"] == {"name": "${hex:8}", "count": "${number:${random:1:10}}"}


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a: 2017-07-21", {"a": "2017-07-21"}),
        ("[yes, no, on, True, ~, null, '']", ["yes", "no", "on", True, None, None, ""]),
        ("[0x1F, 0o17, 012, +1, 1_0, '1']", [31, 15, 12, 1, "1_0", "1"]),
        ("[1.5e3, -.5, .inf, 1., !!str 1, !!int '7', !mine x]", [1500.0, -0.5, float("inf"), 1.0, "1", 7, "x"]),
        ("a: &x { b: 1, c: 2 }\nd: { <<: *x, c: 3 }", {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}),
        ("", None),
    ],
)
def test_what_programs_write_is_read_as_yaml_1_2_has_it(text: str, tree: Any) -> None:
    assert load_yaml(text, "a", LARGE) == tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {b: 1, b: 2}", "a:1: found duplicate key 'b'"),
        ("a: 1\n---\nb: 2", "a:2: a second document; one is read"),
        ("? [a]\n: 1", "a:1: a key that is no text"),
        ("a: 1\nb: *q", "a:2: the alias"),
        ("a: 1\nb: \x01", "a:2: control characters are not allowed"),
        ("a: !!int x", "a: not YAML that can be read: "),
        ("[" * 101, "a:1: more than 100 lists and mappings in each other"),
        ("a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
            f"{n}: &{n} [{','.join([f'*{p}'] * 10)}]\n" for p, n in zip("abcdef", "bcdefg", strict=True)
        ), "a:[67]: more than 2,000,000 values"),
    ],
)  # fmt: skip
def test_what_programs_write_has_bounds(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_yaml(text, "a", LARGE)
