"""The proxy that records what a browser does, in front of a small server."""

import http.client
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.load.record import of_recording, recorder
from leadline.load.scenario import read_scenario
from leadline.model.errors import UsageError

TOKEN = "f00dfeed-0815"
PAGE = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate"}


class Shop(BaseHTTPRequestHandler):
    """A form with a token, a redirect after it, an answer in JSON, a picture; cookies for its own name only."""

    server: Any
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        origin = f"http://127.0.0.1:{self.server.server_port}"
        form = f'<a href="{origin}/shop/list">all</a><input name="token" value="{TOKEN}">'
        pages = {
            "/shop/": ("text/html", form),
            "/shop/list": ("text/html", "<p>items</p>"),
            "/other": ("text/html", "x"),
        }
        kind, text = pages.get(self.path, ("application/json", json.dumps(dict(self.headers))))
        self.answer(200, kind, text, {"Set-Cookie": "id=1; Domain=example.com; Secure; SameSite=None; Path=/"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        good = parse_qs(body).get("token") == [TOKEN]
        target = f"http://127.0.0.1:{self.server.server_port}/shop/list"
        self.answer(303 if good else 400, "text/plain", "", {"Location": target})

    def answer(self, status: int, kind: str, text: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(text)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *told: object) -> None:
        pass


def serve(server: ThreadingHTTPServer) -> Iterator[ThreadingHTTPServer]:
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def shop() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    server.daemon_threads = True
    yield from serve(server)


@pytest.fixture
def proxy(shop: ThreadingHTTPServer) -> Iterator[Any]:
    yield from serve(recorder(f"http://127.0.0.1:{shop.server_port}/shop"))


def ask(proxy: Any, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.server_port, timeout=10)
    try:
        connection.request(method, path, body, {**PAGE, **{n.replace("_", "-"): v for n, v in headers.items()}})
        found = connection.getresponse()
        return found.status, dict(found.getheaders()), found.read().decode()
    finally:
        connection.close()


def visit(proxy: Any) -> None:
    """As a browser does: the form, what its script asks, what it posts, where that leads; something beside the shop."""
    ask(proxy, "GET", "/shop/")
    ask(proxy, "GET", "/shop/api?a=1", Sec_Fetch_Mode="cors", Accept="application/json")
    ask(proxy, "GET", "/shop/logo.png", Sec_Fetch_Mode="no-cors", Accept="image/*")
    form = {"Content_Type": "application/x-www-form-urlencoded", "Origin": proxy.address}
    ask(proxy, "POST", "/shop/buy", f"token={TOKEN}&quantity=2", **form)
    ask(proxy, "GET", "/shop/list")
    ask(proxy, "GET", "/other")


def test_a_visit_becomes_a_scenario_below_the_application_s_root(
    proxy: Any, shop: ThreadingHTTPServer, tmp_path: Path
) -> None:
    visit(proxy)
    text = of_recording(proxy, "Visit 1").text()
    found = YAML(typ="safe").load(text)
    assert found["scenario"] == "visit-1"
    first, second = found["transactions"].values()
    assert first[0]["get"] == "/"
    assert first[0]["extract"] == {"token": {"css": 'input[name="token"]', "attribute": "value"}}
    assert first[1]["get"] == "/api?a=1"
    assert len(first) == 2, "the picture is left out"
    assert second == [
        {"post": "/buy", "form": {"token": "${token}", "quantity": "2"}, "headers": {"Accept": "text/html"}}
    ]
    assert f"http://127.0.0.1:{shop.server_port}/shop: give that server" in text
    assert "# Requests left out, beside /shop: 1." in text
    path = tmp_path / "visit.scenario.yaml"
    path.write_text(text)
    assert read_scenario(path)["scenario"] == "visit-1"


def test_the_browser_stays_at_the_proxy(proxy: Any, shop: ThreadingHTTPServer) -> None:
    _, headers, page = ask(proxy, "GET", "/shop/")
    assert f'href="{proxy.address}/shop/list"' in page
    assert headers["Set-Cookie"] == "id=1;SameSite=Lax; Path=/"
    status, headers, _ = ask(
        proxy, "POST", "/shop/buy", f"token={TOKEN}", Content_Type="application/x-www-form-urlencoded"
    )
    assert (status, headers["Location"]) == (303, f"{proxy.address}/shop/list")
    given = {"Referer": f"{proxy.address}/shop/", "If_None_Match": "x", "Accept_Encoding": "gzip", "Cookie": "id=1"}
    seen = json.loads(ask(proxy, "GET", "/shop/echo", **given)[2])
    own = f"127.0.0.1:{shop.server_port}"
    assert (seen["Host"], seen["Referer"], seen["Cookie"]) == (own, f"http://{own}/shop/", "id=1")
    assert "If-None-Match" not in seen
    assert seen["Accept-Encoding"] == "identity"


def test_a_foreign_name_that_leads_here_is_refused_and_not_recorded(proxy: Any) -> None:
    assert ask(proxy, "GET", "/shop/", Host="evil.example")[0] == 403
    assert ask(proxy, "GET", "/shop/", Upgrade="websocket")[0] == 501
    assert proxy.requests == 0


def test_a_server_that_is_down_is_told_of(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Shop) as gone:
        port = gone.server_port
    server = recorder(f"http://127.0.0.1:{port}")
    for proxy in serve(server):
        status, _, said = ask(proxy, "GET", "/")
        assert (status, f"http://127.0.0.1:{port} did not answer" in said) == (502, True)
        with pytest.raises(UsageError, match="holds no request over HTTP"):
            of_recording(proxy, "nothing")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("ftp://127.0.0.1", "is no server's address"),
        ("127.0.0.1:80", "is no server's address"),
        ("http://127.0.0.1:80/a?b=1", "only the server and where the application begins"),
        ("http://192.0.2.1:80/", "192.0.2.1 is not on the loopback: write --mine"),
        ("http://127.0.0.1:x/", "--url http://127.0.0.1:x/"),
    ],
)
def test_an_address_that_cannot_be_recorded_is_refused(url: str, told: str) -> None:
    done = CliRunner().invoke(app, ["record", url])
    assert isinstance(done.exception, UsageError)
    assert told in str(done.exception)


def test_a_port_in_use_and_a_wrong_time_are_refused(shop: ThreadingHTTPServer) -> None:
    url = f"http://127.0.0.1:{shop.server_port}"
    done = CliRunner().invoke(app, ["record", url, "--port", str(shop.server_port)])
    assert "leave --port out to take a free one" in str(done.exception)
    done = CliRunner().invoke(app, ["record", url, "--for", "long"])
    assert "--for long: " in str(done.exception)
