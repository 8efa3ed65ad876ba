"""Scenarios as scripts of other generators: what is written, and what is refused by line."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from leadline.load.export.hyperfoil import to_hyperfoil
from leadline.load.export.k6 import to_k6
from leadline.load.export.source import Call, Name, Source, Template, Text, json_template
from leadline.load.scenario import built_in_scenarios
from leadline.model.errors import UsageError

UNEXPORTED = ("pages", "pages-embedded")  # files are drawn by Zipf's law, together

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


def written(tmp_path: Path, body: str) -> Template:
    """The template of a JSON body."""
    found = source(tmp_path, f"      json: {body}\n")
    return json_template(found.tree["transactions"]["a"][0]["json"], found)


def test_templates_are_read_as_the_driver_reads_them(tmp_path: Path) -> None:
    found = source(tmp_path)
    assert found.parameters == {"n": "3", "double": "6"}
    assert found.template("$$a ${n}${zpad:4:${double}}$x") == (Text("$a 30006$x"),)
    assert found.template("u-${user}:${zpad:5:${random:1:${n}}}") == (
        Text("u-"),
        Name("user", builtin=True),
        Text(":"),
        Call("zpad", ((Text("5"),), (Call("random", ((Text("1"),), (Text("3"),))),))),
    )
    body = written(tmp_path, """{ a: 'x"${user}', b: ["${number:${n}}", 1.5, true, null], c: "1" }""")
    assert body[0] == Text('{"a":"x\\"')
    assert body[1] == Call("json", ((Name("user", builtin=True),),))
    assert body[-1] == Text(',1.5,true,null],"c":"1"}')
    with pytest.raises(UsageError, match=r"shop\.yaml:3: '\$\{user\}' has no fixed value"):
        found.fixed("${user}", ("mix",))


SCALARS = """\
scenario: 1.10
parameters: { v: 1.10, d: 2024-01-01T10:00:00Z }
variables: { none: ~, no: 0000-00-00 }
mix: { 1: 010 }
transactions:
  1:
    - post: /a
      form: { zip: 01234, price: 10.50, yes: True, none: ~, at: "${d}", v: "${v}" }
"""


def test_a_scalar_is_its_text(tmp_path: Path) -> None:
    script = to_k6(source(tmp_path, text=SCALARS))
    fields = '["zip", "01234"], ["price", "10.50"], ["yes", "True"], ["none", "~"]'
    assert f'form([{fields}, ["at", "2024-01-01T10:00:00Z"], ["v", "1.10"]])' in script
    assert '  v["no"] = "0000-00-00";' in script
    assert 'const MIX = [["1", 10.0]];' in script
    assert script.startswith("// 1.10: made by leadline")
    ways, _ = sequences(to_hyperfoil(source(tmp_path, text=SCALARS)))
    (order,) = named(ways["do-1"], "httpRequest")
    assert order["body"]["pattern"] == "zip=01234&price=10.50&yes=True&none=%7E&at=2024-01-01T10%3A00%3A00Z&v=1.10"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("007", '"007"'), ("0", "0"), ("-1.50e+3", "-1.50e+3"), ("1e999", '"1e999"'), (".5", '".5"'), ("1_0", '"1_0"'),
        ("", '""'), ("~", '"~"'), ("Null", '"Null"'), ("null", "null"), ("True", '"True"'), ("'true'", '"true"'),
        ("0x10", '"0x10"'), ("2024-01-01", '"2024-01-01"'), ("\"1\"", '"1"'), ("|-\n          1", '"1"'),
    ],
)  # fmt: skip
def test_what_stands_bare_in_a_json_body(tmp_path: Path, value: str, text: str) -> None:
    assert written(tmp_path, f"\n        k: {value}") == (Text('{"k":' + text + "}"),)


def test_switches_that_are_off(tmp_path: Path) -> None:
    text = CERTAIN + "      embedded: false\n      extract: { x: { json: /a } }\ncompression: false\n"
    text = text.replace("  a:\n", "  a:\n    ends_session: false\n    requests:\n")
    assert "Accept-Encoding" not in to_k6(source(tmp_path, text=text)) + to_hyperfoil(source(tmp_path, text=text))
    assert "const LEAVING = [];" in to_k6(source(tmp_path, text=text))


def test_variables_hide_the_built_in_names(tmp_path: Path) -> None:
    text = BASE.replace("mix:", 'variables: { user: "u${user}", both: "${user}${seq}" }\nmix:')
    text += (
        "    - get: /b?${user}-${seed}-${session}-${seq}\n      extract: { session: '\"s=(.)\"', seq: { json: /a } }\n"
    )
    script = to_k6(source(tmp_path, text=text))
    assert '  v["user"] = "u" + identity;' in script
    assert '  v["both"] = \'\' + value("user") + (++seq);' in script
    assert '"/b?" + value("user") + "-" + SEED + "-" + value("session") + "-" + value("seq")' in script
    text = text.replace("'\"s=(.)\"'", "{ json: /s }")
    ways, _ = sequences(to_hyperfoil(source(tmp_path, text=text)))
    assert [one["pattern"] for one in named(ways["log-in"], "template")] == [
        "u${leadline.user}",
        "${user}${leadline.r1}",
    ]
    assert "/b?${user}-${leadline.seed}-${session}-${seq}" in to_hyperfoil(source(tmp_path, text=text))


@pytest.mark.parametrize(
    ("mean", "seconds"), [(".5s", 0.5), ("1.5", 1.5), ("250ms", 0.25), ("2 m", 120), ("5.us", 5e-6)]
)
def test_durations_are_those_of_the_driver(tmp_path: Path, mean: str, seconds: float) -> None:
    found = source(tmp_path, f"pause: {{ shape: fixed, mean: {mean} }}\n")
    assert found.seconds(found.tree["pause"]["mean"], ("pause", "mean")) == pytest.approx(seconds, rel=1e-12)


def test_built_in_scenarios_can_be_exported(tmp_path: Path) -> None:
    for name, path in built_in_scenarios().items():
        if name in UNEXPORTED:
            with pytest.raises(UsageError, match="has no form in k6"):
                to_k6(Source(path))
            continue
        script = to_k6(Source(path))
        if name in ("brokerage-classic", "brokerage-json"):
            assert 'const LOGIN = "login";' in script
            assert 'whenMissing = {"sell": "skip"}' in script
        assert "${" not in script.split("const transactions")[1]
        benchmark = to_hyperfoil(Source(path))
        ways, notes = sequences(benchmark)
        starts = re.findall(r"newSequence: (\S+)", benchmark)
        assert set(starts) <= set(ways), name
        assert set(ways) == {*starts, "begin"}, name
        assert all(re.match("left out|differs", note) for note in notes)


def sequences(benchmark: str) -> tuple[dict[str, Any], list[str]]:
    """The steps of each sequence, and the comments on top."""
    tree = YAML(typ="rt").load(benchmark)
    phase = tree["phases"][0]["main"]["constantRate"]["scenario"]
    found = {name: steps for key in phase for one in phase[key] for name, steps in one.items()}
    return found, [line[2:] for line in benchmark.splitlines() if line.startswith("# ")]


def named(steps: Sequence[Any], kind: str) -> list[Any]:
    return [step[kind] for step in steps if isinstance(step, dict) and kind in step]


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
        (CERTAIN + "feeds: { ids: { sequence: { from: 1 } } }\n", "shop.yaml:6: `feeds` has no form in Hyperfoil"),
        (CERTAIN + "      extract: { x: '(.)' }\n", "shop.yaml:6: this extraction of `x` has no form in Hyperfoil"),
        (CERTAIN + "      extract: { x: { regex: 'data-x=\"(\\d+)\"' } }\n", "shop.yaml:6: this extraction of `x`"),
        (CERTAIN + "      extract: { x: { json: /a, pick: random } }\n", "shop.yaml:6: this extraction of `x`"),
        (CERTAIN + "      extract: { x: { json: /a/*, pick: last } }\n", "shop.yaml:6: this extraction of `x`"),
        (CERTAIN + "      extract: { x: { css: 'p > a', attribute: b } }\n", "shop.yaml:6: this extraction of `x`"),
        (CERTAIN + "      extract: { x: { header: a } }\n", "shop.yaml:6: this extraction of `x`"),
        (
            CERTAIN + "      extract: { x: { json: /a } }\ncompression: true\n",
            "shop.yaml:6: the extraction of `x` with",
        ),
        (CERTAIN + "      text: '${mul:2:${user}}'\n", "shop.yaml:6: the expression `mul` has no form in Hyperfoil"),
        (CERTAIN + "      text: '${random:1:3000000000}'\n", "shop.yaml:6: the expression `random` has no form"),
        (CERTAIN + "      text: '$$${user}'\n", "shop.yaml:6: a `$` before an expression has no form in Hyperfoil"),
        (CERTAIN + "      embedded: true\n", "shop.yaml:6: `embedded` has no form in Hyperfoil"),
        (
            CERTAIN + "      check: { status: [200, 302] }\n",
            "shop.yaml:6: a redirect among the wanted statuses has no form",
        ),
        (CERTAIN + "    - get: '${user}'\n", "shop.yaml:6: a link that begins with this expression has no form"),
        (CERTAIN + "    - get: '${choice:/a:b}'\n", "shop.yaml:6: a link that begins with this expression has no form"),
        (CERTAIN + "    - { repeat: 101, requests: [{ get: /b }] }\n", "shop.yaml:6: this loop has no form"),
        (CERTAIN + "pause: { kind: cycle, mean: 1s }\nlogin: a\n", "shop.yaml:6: a cycle time has no form"),
        (
            BASE + "identities: 5\narrivals: { unit: transaction }\n",
            "shop.yaml:7: `identities` with arrivals of single",
        ),
        (
            BASE + "      text: '${session}'\narrivals: { unit: transaction }\n",
            "shop.yaml:7: `${session}` with arrivals",
        ),
    ],
)
def test_what_hyperfoil_cannot_do_is_named_by_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        to_hyperfoil(source(tmp_path, text=text))
    assert message in str(raised.value)


MIXED = """\
scenario: shop
identities: 7
variables: { account: "u${zpad:3:${user}}" }
pause: { shape: fixed, mean: 1s }
login: enter
logout: leave
mix: { a: 3, gone: 1, leave: 0.5, never: 0 }
transactions:
  enter:
    - post: /enter
      form: { "a~b": "${account}", c: "${choice:x y:z}" }
      check: { skip_status: 403 }
  leave: [{ post: /leave }]
  a:
    when_missing: skip
    requests:
      - get: /a
        check: { skip_status: [204, 409] }
        extract:
          one: { css: "tr[data-id]", attribute: data-id, pick: random }
          two: { json: /b/0/c }
          three: { json: /b/*/c }
      - post: /b
        json: { n: "${number:${one}}", t: "${two}", r: "${hex:9}", s: "${seq}-${session}-${seed}" }
  gone: { ends_session: true, requests: [{ get: /gone }] }
  never: [{ get: /never }]
"""


def test_a_session_of_a_mix_draws_until_it_is_long_enough(tmp_path: Path) -> None:
    ways, notes = sequences(to_hyperfoil(source(tmp_path, text=MIXED)))
    assert set(ways) == {
        "begin", "log-in", "onward", "do-a", "do-gone", "do-leave", "after", "after-leaving", "log-out",
    }  # fmt: skip
    draw = {"list": {"a": 3.0, "gone": 1.0, "leave": 0.5}, "toVar": "leadline.next"}
    assert named(ways["begin"], "randomItem") == [draw]
    assert named(ways["begin"], "setInt")[0] == "leadline.left <- 10"  # what leadline-load takes by default
    assert named(ways["after"], "randomItem") == named(ways["after-leaving"], "randomItem") == [draw]
    over = {"intCondition": {"fromVar": "leadline.left", "equalTo": 0}}
    assert named(ways["after"], "breakSequence") == [{**over, "onBreak": [{"newSequence": "log-out"}]}]
    assert named(ways["after-leaving"], "breakSequence") == [over]
    ends = {name: [step["newSequence"] for step in steps if "newSequence" in step] for name, steps in ways.items()}
    assert ends == {
        "begin": ["log-in"], "log-in": ["onward"], "onward": [], "do-a": ["after"], "do-gone": ["after-leaving"],
        "do-leave": ["after-leaving"], "after": ["onward"], "after-leaving": ["log-in"], "log-out": [],
    }  # fmt: skip
    pauses = {name: len(named(steps, "thinkTime")) for name, steps in ways.items() if named(steps, "thinkTime")}
    assert pauses == {"log-in": 1, "after": 1, "after-leaving": 1, "log-out": 1}
    assert "differs: a session that logs in again sends the cookies it has" in notes


def test_requests_of_a_session_of_hyperfoil(tmp_path: Path) -> None:
    ways, notes = sequences(to_hyperfoil(source(tmp_path, text=MIXED)))
    assert named(ways["log-in"], "template") == [{"pattern": "u${%03d:leadline.user}", "toVar": "account"}]
    (login,) = named(ways["log-in"], "httpRequest")
    assert login["body"]["pattern"] == "a%7Eb=${urlencode:account}&c=${leadline.r1}"
    assert named(ways["log-in"], "randomItem") == [{"list": ["x+y", "z"], "toVar": "leadline.r1"}]
    assert "onBreak" not in named(ways["log-in"], "breakSequence")[0]  # the session ends
    page, order = named(ways["do-a"], "httpRequest")
    fine, skip = [{"setInt": "leadline.skipped <- 0"}], [{"setInt": "leadline.skipped <- 1"}]
    codes = {"200-203": fine, "205-299": fine, "204": skip, "409": skip, "other": ["markRequestInvalid"]}
    assert page["handler"]["status"]["action"] == codes
    (row,), (json,) = named(page["handler"]["body"], "parseHtml"), named(page["handler"]["body"], "json")[1:]
    assert (row["onTagAttribute"]["tag"], row["onTagAttribute"]["attribute"]) == ("tr", "data-id")
    assert json["query"] == ".b[].c"
    assert named(page["handler"]["body"], "json")[0] == {"query": ".b[0].c", "toVar": "two"}
    assert named(ways["do-a"], "randomItem") == ["one <- leadline.found-one", "three <- leadline.found-three"]
    leaves = named(ways["do-a"], "breakSequence")
    assert [one["onBreak"] for one in leaves] == [[{"newSequence": "after"}]] * 4
    assert order["body"]["pattern"] == (
        '{"n":${one},"t":"${two}","r":"${%07x:leadline.r2}${%02x:leadline.r3}",'
        '"s":"${leadline.r4}-${leadline.session}-${leadline.seed}"}'
    )
    assert "left out: escaping of `two` in the JSON body of line 24" in notes


def test_paths_begin_below_the_application_and_links_do_not(tmp_path: Path) -> None:
    text = CERTAIN.replace(
        "- get: /a", "- { get: '/a?b=${user}', extract: { link: { json: /l } } }\n    - get: '${link}'"
    )
    script = to_hyperfoil(source(tmp_path, text=text))
    assert re.findall(r"GET:\n +pattern: (.*)", script) == [
        """!concat [!param BASE "", '/a?b=${leadline.user}']""",
        "${link}",
    ]
    line = "differs: the link of line 6 is asked for as it stands: right for `/a` and `http://host/a`, broken for `a`"
    assert script.splitlines()[0] == f"# {line}"
    script = to_hyperfoil(source(tmp_path, text=text.replace("'${link}'", "'${choice:/b:/c}/d'")))
    assert not script.startswith("#")


def test_hyperfoil_follows_no_wanted_redirect(tmp_path: Path) -> None:
    more = ["{ get: /b }", "{ get: /c, check: { status: 302 } }", "{ get: /d, check: { status: [301, 302] } }"]
    more += ["{ get: /e, check: { status: 201 } }", "{ get: /f, check: { status: [200, 302] }, follow: 0 }"]
    ways, _ = sequences(to_hyperfoil(source(tmp_path, "".join(f"    - {one}\n" for one in more), CERTAIN)))
    handlers = [one["handler"] for one in named(ways["do-a"], "httpRequest")]
    assert ["followRedirect" in one for one in handlers] == [True, True, False, False, True, False]
    assert handlers[2]["status"] == {"range": "302"}


def test_k6_expects_the_redirects_it_follows(tmp_path: Path) -> None:
    script = to_k6(
        source(tmp_path, "      check: { skip_status: 409 }\n    - { get: /b, follow: 0, check: { status: 302 } }\n")
    )
    assert re.findall(r"expectedStatuses\((.*?)\)", script) == [
        "{ min: 200, max: 299 }, 409, 301, 302, 303, 307, 308",
        "302",
    ]
    # the runtime follows them, but for a wanted one
    assert re.findall(r"\}, (\[[0-9, ]*\], \d)\);", script) == ["[], 5", "[302], 0"]


def test_k6_begins_links_at_the_page_and_other_paths_below_the_application(tmp_path: Path) -> None:
    text = BASE.replace("- get: /a", "- { get: '/${n}', extract: { link: { json: /l } } }\n    - head: '${link}'")
    script = to_k6(source(tmp_path, "    - get: '${choice:/b:c}'\n    - get: '/x${link}'\n", text))
    assert re.findall(r'a = request\("([A-Z]+)", (\w+), (.*?), \(\) => Object', script) == [
        ("GET", "false", '"/3"'),
        ("HEAD", "true", 'value("link")'),
        ("GET", "true", 'pick([() => "/b", () => "c"], \'random\')()'),
        ("GET", "false", '"/x" + value("link")'),
    ]


def test_a_header_of_a_request_replaces_that_of_the_scenario(tmp_path: Path) -> None:
    text = BASE.replace("mix:", 'headers: { x-label: "${seq}", X-All: all }\nmix:')
    found = source(tmp_path, "      headers: { X-Label: own }\n", text)
    # The one that is replaced is not evaluated either: it would count.
    assert '() => ({ "X-All": "all", "X-Label": "own" })' in to_k6(found)
    step = to_hyperfoil(source(tmp_path, "      headers: { X-Label: own }\n", text.replace("${seq}", "general")))
    assert "x-label" not in step
    assert "X-Label" in step


def test_k6_sends_the_headers_of_the_scenario_with_every_request(tmp_path: Path) -> None:
    text = BASE.replace("mix:", 'compression: true\nheaders: { X-All: "${seq}" }\nmix:')
    script = to_k6(source(tmp_path, "      headers: { X-One: b }\n      text: c\n", text))
    assert """  return { "X-All": (++seq), 'Accept-Encoding': 'gzip, deflate' };""" in script
    assert """{ "X-One": "b", 'Content-Type': 'text/plain; charset=utf-8' }""" in script


def test_checks_of_k6_look_at_all_values_and_skip_nothing(tmp_path: Path) -> None:
    check = "{ json: { '/l/*/n': '1' }, header: { x-a: '^b' }, contains: c, lacks: d, matches: e }"
    script = to_k6(source(tmp_path, f"      check: {check}\n      extract: {{ x: {{ json: /l, pick: last }} }}\n"))
    assert 'must(() => holds(a, "/l/*/n", "1"));' in script
    assert 'must(() => new RegExp("^b").test(header(a, "x-a")));' in script
    assert len(re.findall(r"\bmust\(\(\) => ", script)) == 5
    assert 'take("x", () => member(a, "/l", "last"));' in script


@pytest.mark.parametrize(
    "pattern",
    [
        r"[]a]", r"[^]]*", r"\p{L}", r"\PN", r"\x{41}", r"\u{41}", r"\b{start}a", r"\<a", r"a\>", r"a\z", r"(?is)a",
        r"(?s-u:.)",
        r"[[:alpha:]]", r"[a-z&&[^b]]", r"[\]a[b]]", r"[\w--a]", r"a{,3}", r"\\\A",
    ],
)  # fmt: skip
def test_regular_expressions_that_only_rust_has(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"shop.yaml:7: the regular expression {pattern!r} has no form")):
        to_k6(source(tmp_path, f"      check: {{ matches: '{pattern}' }}\n"))


@pytest.mark.parametrize(
    "pattern",
    [
        r"\\A",
        r'"([^"]*)"',
        r"\[a[b]",
        r"\x41",
        r"\u0041\b",
        "(?<n>a)",
        "(?:a)",
        r"[\w-]{2,3}",
        r'\{"id": \[(\d+)',
        "a--[b]",
    ],
)
def test_regular_expressions_that_javascript_has_too(tmp_path: Path, pattern: str) -> None:
    assert f"new RegExp({json.dumps(pattern)})" in to_k6(source(tmp_path, f"      check: {{ matches: '{pattern}' }}\n"))


def test_a_walk_through_a_graph_ends_where_its_row_says(tmp_path: Path) -> None:
    text = MIXED.replace(
        "mix: { a: 3, gone: 1, leave: 0.5, never: 0 }",
        "graph: { start: { a: 1 }, a: { a: 0.5, gone: 0.3, end: 0.2 }, gone: { a: 0.9, end: 0.1 } }",
    )
    ways, _ = sequences(to_hyperfoil(source(tmp_path, text=text)))
    over = {"stringCondition": {"fromVar": "leadline.next", "equalTo": "end"}}
    assert named(ways["after-a"], "breakSequence") == [{**over, "onBreak": [{"newSequence": "log-out"}]}]
    assert named(ways["after-gone"], "breakSequence") == [over]
    assert [one["list"] for one in named(ways["after-gone"], "randomItem")] == [{"a": 0.9, "end": 0.1}, {"a": 1.0}]
    assert not any("leadline.left" in str(steps) for steps in ways.values())
    ways, _ = sequences(to_hyperfoil(source(tmp_path, "arrivals: { session_length: 4 }\n", text)))
    assert named(ways["begin"], "setInt")[0] == "leadline.left <- 4"
    assert [len(named(ways[name], "breakSequence")) for name in ("after-a", "after-gone")] == [2, 2]


def test_hyperfoil_asks_for_every_page_again(tmp_path: Path) -> None:
    script = to_hyperfoil(
        source(tmp_path, text=CERTAIN + "    - get: /a\n    - { repeat: 2, requests: [{ get: /b }] }\n")
    )
    assert (script.count("GET:"), script.count("- clearHttpCache")) == (4, 4)


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
        ("      extract: { x: { header: a, pick: last } }\n", "shop.yaml:7: `pick` of a header has no form in k6"),
        ("      extract:\n        x: '(?P<y>.)'\n", "shop.yaml:8: the regular expression '(?P<y>.)' has no form"),
    ],
)
def test_what_k6_cannot_do_is_named_by_line(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        to_k6(source(tmp_path, more))
    assert message in str(raised.value)


def test_k6_takes_the_length_of_a_session_as_the_driver_does(tmp_path: Path) -> None:
    assert "const LENGTH = 10;" in to_k6(source(tmp_path))
    assert "const LENGTH = Infinity;" in to_k6(source(tmp_path, text=CERTAIN))
    assert "const LENGTH = 4;" in to_k6(source(tmp_path, "arrivals: { session_length: 4 }\n", CERTAIN))
