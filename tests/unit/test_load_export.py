"""Scenarios as scripts of other generators: what is written, and what is refused by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.load.export.hyperfoil import to_hyperfoil
from leadline.load.export.k6 import to_k6
from leadline.load.export.source import Call, Name, Source, Text, json_template
from leadline.load.scenario import built_in_scenarios
from leadline.model.errors import UsageError

BASE = """\
scenario: shop
parameters: { n: 3, double: "${mul:2:${n}}" }
mix: { a: 1 }
transactions:
  a:
    - get: /a
"""


def source(tmp_path: Path, more: str = "", text: str = BASE) -> Source:
    path = tmp_path / "shop.yaml"
    path.write_text(text + more)
    return Source(path)


def test_templates_are_read_as_the_driver_reads_them(tmp_path: Path) -> None:
    found = source(tmp_path)
    assert found.parameters == {"n": "3", "double": "6"}
    assert found.template("$$a ${n}${zpad:4:${double}}$x") == (Text("$a 30006$x"),)
    assert found.template("u-${user}:${zpad:5:${random:1:${n}}}") == (
        Text("u-"),
        Name("user"),
        Text(":"),
        Call("zpad", ((Text("5"),), (Call("random", ((Text("1"),), (Text("3"),))),))),
    )
    body = json_template({"a": 'x"${user}', "b": ["${number:${n}}", 1.5, True, None], "c": "1"}, found)
    assert body[0] == Text('{"a":"x\\"')
    assert body[1] == Call("json", ((Name("user"),),))
    assert body[-1] == Text(',1.5,true,null],"c":"1"}')
    with pytest.raises(UsageError, match=r"shop\.yaml:3: '\$\{user\}' has no fixed value"):
        found.fixed("${user}", ("mix",))


def test_built_in_scenarios_can_be_exported(tmp_path: Path) -> None:
    for name, path in built_in_scenarios().items():
        script = to_k6(Source(path))
        if name in ("brokerage-classic", "brokerage-json"):
            assert 'const LOGIN = "login";' in script
            assert 'whenMissing = {"sell": "skip"}' in script
        assert "${" not in script.split("const transactions")[1]


CERTAIN = """\
scenario: shop
graph: { start: { a: 1 }, a: { end: 1 } }
transactions:
  a:
    - get: /a
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BASE, "shop.yaml:3: a mix within a session has no form in Hyperfoil"),
        (CERTAIN + "identities: 5\n", "shop.yaml:6: `identities` has no form in Hyperfoil"),
        (CERTAIN + "      extract: { x: '(.)' }\n", "shop.yaml:6: this extraction of `x` has no form in Hyperfoil"),
        (CERTAIN + "      check: { skip_status: 409 }\n", "shop.yaml:6: `skip_status` has no form in Hyperfoil"),
        (CERTAIN + "      text: '${user}'\n", "shop.yaml:6: `${user}` has no form in Hyperfoil"),
        (CERTAIN + "      text: '${digits:3}'\n", "shop.yaml:6: the expression `digits` has no form in Hyperfoil"),
        (CERTAIN + "    - { repeat: 101, requests: [{ get: /b }] }\n", "shop.yaml:6: this loop has no form"),
        (CERTAIN.replace("{ end: 1 }", "{ a: 0.5, end: 0.5 }"), "shop.yaml:2: row `a` of the graph has no form"),
        (CERTAIN + "pause: { kind: cycle, mean: 1s }\nlogin: a\n", "shop.yaml:6: a cycle time has no form"),
    ],
)
def test_what_hyperfoil_cannot_do_is_named_by_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        to_hyperfoil(source(tmp_path, text=text))
    assert message in str(raised.value)


def test_hyperfoil_asks_for_every_page_again(tmp_path: Path) -> None:
    script = to_hyperfoil(
        source(tmp_path, text=CERTAIN + "    - get: /a\n    - { repeat: 2, requests: [{ get: /b }] }\n")
    )
    assert (script.count("GET:"), script.count("- clearHttpCache")) == (4, 3)


def test_a_mix_of_single_transactions_is_forks_by_weight(tmp_path: Path) -> None:
    text = BASE.replace("mix: { a: 1 }", "mix: { a: 3, b: 1 }\narrivals: { unit: transaction }")
    script = to_hyperfoil(source(tmp_path, "      check: { lacks: x }\n  b: [{ get: /b }]\n", text))
    assert script.startswith("# left out: the check `lacks` of line 8\n")
    assert script.count("weight:") == 2
    assert "weight: 3.0" in script


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("feeds: { ids: { sequence: { from: 1 } } }\n", "shop.yaml:7: feed `ids` has no form in k6"),
        ("arrivals: { unit: transaction }\n", "shop.yaml:7: arrivals of transactions has no form in k6"),
        ("      embedded: true\n", "shop.yaml:7: `embedded` has no form in k6"),
        ("      check: { matches: '(?i)x' }\n", "shop.yaml:7: the regular expression '(?i)x' has no form in k6"),
        ("      extract:\n        x: '(?P<y>.)'\n", "shop.yaml:8: the regular expression '(?P<y>.)' has no form"),
    ],
)
def test_what_k6_cannot_do_is_named_by_line(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        to_k6(source(tmp_path, more))
    assert message in str(raised.value)
