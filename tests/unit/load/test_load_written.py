"""curl commands, Postman collections and .http files as scenarios."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from recordings import read

from leadline.load.convert.formats import of_file
from leadline.load.convert.write import Draft
from leadline.model.errors import UsageError

UUID = "${hex:8}-${hex:4}-4${hex:3}-8${hex:3}-${hex:12}"


def of(tmp_path: Path, text: str) -> tuple[list[dict[str, Any]], dict[str, Any], str]:
    """Requests, scenario and notes of a file."""
    (tmp_path / "file").write_text(text)
    draft: Draft = of_file(tmp_path / "file")
    scenario = read(draft)
    return [r for requests in scenario["transactions"].values() for r in requests], scenario, " ".join(draft.notes)


CURL = r"""# what the browser copied
curl 'http://shop.example/api/orders?a=1' \
  -H 'accept: application/json' -H 'authorization: Bearer abc' -b 'sid=1; x=2' \
  -H 'user-agent: Mozilla/5.0' --data-raw $'{"name":"O\'Neil \u00e4\\n","n":1}' -H 'content-type: application/json' \
  --compressed --insecure ;
curl -sS -XPUT http://shop.example/form -d a=1 --data "b=\"2\"" --data-urlencode 'c=x y'
curl -G http://shop.example/find --data-urlencode 'q=a&b' -u ann:secret
curl 'http://shop.example/up' -F 'name=nut' -F 'file=@/tmp/a.png;type=image/png'
curl --json '{"a":[1]}' shop.example/json
"""


def test_curl_commands(tmp_path: Path) -> None:
    requests, scenario, notes = of(tmp_path, CURL)
    order, form, find, upload, as_json = requests
    assert order["post"] == "/api/orders?a=1"
    assert order["json"] == {"name": "O'Neil ä\n", "n": 1}
    assert order["headers"] == {"Accept": "application/json", "Authorization": "Bearer abc"}
    assert form == {"put": "/form", "form": {"a": "1", "b": '"2"', "c": "x y"}}
    assert find == {"get": "/find?q=a%26b", "headers": {"Authorization": "Basic YW5uOnNlY3JldA=="}}
    assert 'form-data; name="name"\r\n\r\nnut\r\n' in upload["text"]
    assert as_json == {"post": "/json", "json": {"a": [1]}}
    assert list(scenario["transactions"]) == ["api-orders", "form", "find", "up", "json"]
    for part in ("the file of the field file is left out", "begins with cookies", "left out: User-Agent"):
        assert part in notes


@pytest.mark.parametrize(
    "text",
    [
        "curl http://a/b | jq '.c | .d'\ncurl http://a/e",
        "curl http://a/b 2>/dev/null > out && curl http://a/e>>out 2>&1 || exit 1",
        'curl $A/b; curl "${A}/e" |& tail -1 | wc',
    ],
)
def test_where_the_output_of_curl_goes_is_no_request(tmp_path: Path, text: str) -> None:
    assert of(tmp_path, text)[0] == [{"get": "/b"}, {"get": "/e"}]


def test_variables_of_the_shell_are_parameters(tmp_path: Path) -> None:
    text = r"""curl "http://a/$ID" -H "X: \$a ${TOKEN}" -H 'Y: $b' -d $DATA"""
    requests, scenario, _ = of(tmp_path, text)
    assert requests[0]["post"] == "/${ID}"
    assert requests[0]["headers"] == {"X": "$$a ${TOKEN}", "Y": "$$b"}
    assert scenario["parameters"] == {"ID": "", "TOKEN": "", "DATA": ""}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("curl http://a/b http://a/c", "line 1: two URLs, 'http://a/b' and 'http://a/c': write a command for each"),
        ("curl http://a/\ncurl http://a/ --proxy-ntlmm", "line 2: '--proxy-ntlmm' is not read here"),
        ("curl http://a/ --data-ra x", "'--data-ra' is not read here; did you mean --data-raw?"),
        ("curl http://a/\nwget http://a/", "line 2: 'wget' is no curl command"),
        ("curl 'http://[a]/b'", "line 1: 'http://[a]/b' is no URL: 'a' does not appear to be an IPv4 or IPv6 address"),
        ("GET http://[a/\n", "line 1: 'http://[a/' is no URL: Invalid IPv6 URL"),
        ("curl http://a/ \\\n  -H 'a: b", "line 2: the quotation mark ' is not closed"),
        ("curl -H 'a: b'", "line 1: the command has no URL"),
        ("GET http://a/\n### a\nGET\n", "line 3: 'GET' is no request: METHOD URL"),
        ("GET http://a/\nno header\n", "line 2: 'no header' is no header: NAME: VALUE"),
        ("GET http://a/\n###\n< {%\n%}\nGET http://a/\n", "line 3: scripts before a request are not read"),
        ('{"info": {}, "item": [{"request": {}}]}', "not a Postman collection: 'url'"),
        ('{"info": {}, "item": []}', "there is no request in it"),
        ("hello", "it is none of these: HAR, OpenAPI, Postman collection, curl commands"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        of(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'file'}: ")
    assert message in str(caught.value)


HTTP = """\
@host = http://shop.example
@user = ann

### log in
# @name login
POST {{host}}/api/login HTTP/1.1
Content-Type: application/json

{"user": "{{user}}", "password": "{{password}}"}

> {% client.global.set("token", response.body.access_token); %}

### with what it returned
GET {{host}}/api/orders
    ?page=1
    &size=20
Authorization: Bearer {{token}}
X-User: {{login.response.body.$.user.id}}

###
// a number without quotation marks
POST {{host}}/api/orders

{"id": {{$randomInt}}, "key": "{{$guid}}", "owner": {{login.response.body.user.id}}}

###
PUT http://shop.example/raw

< ./body.bin
"""


def test_http_files(tmp_path: Path) -> None:
    requests, scenario, notes = of(tmp_path, HTTP)
    login, orders, order, raw = requests
    assert login["json"] == {"user": "ann", "password": "${password}"}
    assert login["extract"] == {
        "token": {"json": "/access_token"},
        "login_user_id": {"json": "/user/id"},
    }
    assert orders["get"] == "/api/orders?page=1&size=20"
    assert orders["headers"] == {"Authorization": "Bearer ${token}", "X-User": "${login_user_id}"}
    assert order["text"] == f'{{"id": ${{random:0:1000}}, "key": "{UUID}", "owner": ${{login_user_id}}}}'
    assert raw == {"put": "/raw"}
    assert scenario["parameters"] == {"password": ""}
    assert scenario["login"] == "api-login"
    assert "give them by --var NAME=VALUE: password" in notes
    assert "the body in the file ./body.bin is left out" in notes


def postman() -> str:
    script = {"exec": ["const jsonData = pm.response.json();", 'pm.environment.set("token", jsonData.data[0].token);']}
    login = {
        "name": "Log in",
        "event": [{"listen": "test", "script": script}],
        "request": {
            "auth": {"type": "noauth"},
            "method": "POST",
            "header": [{"key": "X-Old", "value": "1", "disabled": True}],
            "body": {
                "mode": "raw",
                "raw": '{"user": "{{user}}"}',
                "options": {"raw": {"language": "json"}},
            },
            "url": {"raw": "{{baseUrl}}/login"},
        },
    }
    order: dict[str, Any] = {
        "name": "Order",
        "request": {
            "method": "GET",
            "url": {"raw": "{{baseUrl}}/orders/:id?a={{$guid}}", "variable": [{"key": "id", "value": "{{order}}"}]},
        },
    }
    form = {"mode": "urlencoded", "urlencoded": [{"key": "a b", "value": "ä"}, {"key": "c", "value": "{{token}}"}]}
    upload = {"mode": "formdata", "formdata": [{"key": "f", "type": "file", "src": "x"}, {"key": "t", "value": "1"}]}
    graph = {"mode": "graphql", "graphql": {"query": "{ me }", "variables": '{"a": 1}'}}
    rest = [
        {"name": name, "request": {"method": "POST", "url": f"{{{{baseUrl}}}}/{name}", "body": body}}
        for name, body in (("form", form), ("upload", upload), ("graph", graph), ("file", {"mode": "file"}))
    ]
    return json.dumps(
        {
            "info": {"schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"},
            "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "{{token}}"}]},
            "variable": [{"key": "user", "value": "ann"}, {"key": "order", "value": "7"}],
            "item": [login, {"name": "Orders", "item": [order]}, *rest],
        }
    )


def test_postman_collections(tmp_path: Path) -> None:
    requests, scenario, notes = of(tmp_path, postman())
    login, order, form, upload, graph, file = requests
    assert login == {"post": "/login", "json": {"user": "ann"}, "extract": {"token": {"json": "/data/0/token"}}}
    assert order == {"get": f"/orders/7?a={UUID}", "headers": {"Authorization": "Bearer ${token}"}}
    assert form["form"] == {"a b": "ä", "c": "${token}"}
    assert upload["headers"]["Content-Type"] == "multipart/form-data; boundary=leadline-boundary"
    assert graph["json"] == {"query": "{ me }", "variables": {"a": 1}}
    assert file["post"] == "/file"
    assert "parameters" not in scenario
    assert "upload: the files of the body are left out" in notes
    assert "file: the body (file) is left out" in notes


@pytest.mark.parametrize(
    "text",
    [
        "#\n" + " " * 200_000 + "x",
        "\n" * 200_000,
        "GET http://a/{{" + " " * 200_000,
        "GET http://a/\n" + "\nGET http://a/ " + " " * 200_000 + "x",
        "curl " + "'" * 200_001,
        "curl http://a/ " + "\\" * 200_000,
        '{"info": {}, "item": ' + '[{"item": ' * 5000,
    ],
)
def test_hostile_files_end_at_once(text: str, tmp_path: Path) -> None:
    with contextlib.suppress(UsageError):
        of(tmp_path, text)
