"""What requests send of earlier responses, on a real application: recorded, converted, replayed by the real driver."""

from __future__ import annotations

import copy
import json
import re
import secrets
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.cookiejar import CookieJar
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, unquote
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest
from recordings import FORM, SHOP, entry, har, read
from ticket_desk import Desk, Page, ticket_desk
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.load.convert.har import from_har
from leadline.load.convert.write import Draft
from leadline.load.driver import find_binary
from leadline.load.record import recorder, replay
from leadline.model.errors import LeadlineError


@pytest.fixture(scope="module")
def archive() -> str:
    """The HTTP archive of a visit to the desk, recorded by the proxy."""
    with ticket_desk() as desk, recorder(desk.url) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.05,))
        thread.start()
        try:
            Page(proxy.address).visit()
        finally:
            proxy.shutdown()
            thread.join()
        return json.dumps(proxy.archive())


@pytest.fixture
def desk() -> Iterator[Desk]:
    try:
        find_binary()
    except LeadlineError:
        pytest.skip("host: needs leadline-load")
    with ticket_desk() as server:
        yield server


def by_path(draft: Draft) -> dict[str, dict[str, Any]]:
    requests = [request for requests in draft.scenario["transactions"].values() for request in requests]
    return {" ".join(next(iter(request.items()))): request for request in requests}


def test_values_of_responses_are_extracted_where_they_come_from(archive: str) -> None:
    draft = from_har(archive, "desk")
    requests = by_path(draft)
    assert list(requests) == [
        "get /",
        "get /api/csrf",
        "post /api/login",
        "get /api/projects?page=1&owner=ann-2024",
        "post /api/tickets",
        "get /api/tickets/${ticket_id}",
        "post /api/tickets/${ticket_id}/comments",
        "put /api/tickets/${ticket_id}",
        "delete /api/tickets/${ticket_id}/comments/${commentId}",
        "get /settings",
        "post /settings",
    ]
    assert requests["get /api/csrf"]["extract"] == {"csrfToken": {"json": "/csrfToken"}}
    assert requests["post /api/login"]["extract"] == {"accessToken": {"json": "/accessToken"}}
    created = requests["post /api/tickets"]
    assert created["json"]["projectId"] == "${number:${project_id}}"
    assert created["headers"]["Authorization"] == "Bearer ${accessToken}"
    assert created["headers"]["X-Csrf-Token"] == "${csrfToken}"
    assert created["headers"]["X-Release"] == "${release}"
    changed = requests["put /api/tickets/${ticket_id}"]["json"]
    assert (changed["id"], changed["version"]) == ("${number:${ticket_id}}", "${number:${ticket_version}}")
    assert changed["title"] == "The printer is out"
    assert requests["post /settings"]["form"] == {"_form": "${_form}", "theme": "dark"}
    notes = "\n".join(draft.notes)
    assert "ticket_id is taken from JSON /id of post /api/tickets, used in get /api/tickets/" in notes
    assert "accessToken is taken from JSON /accessToken of post /api/login" in notes
    assert "left out: Sec-Fetch-Mode, Traceparent, User-Agent, X-B3-Traceid, X-Request-Id" in notes
    assert "ann-2024 is taken" not in notes, "what the user typed stays"


def test_the_recording_replays_in_many_sessions(archive: str, desk: Desk) -> None:
    assert replay(from_har(archive, "desk"), desk.url, sessions=12).failures == []
    assert len(desk.requests) == 12 * 11
    assert len(desk.tickets) == 12
    assert not desk.headers & {"traceparent", "x-request-id", "x-b3-traceid", "origin"}


def wrong(draft: Draft, path: str, change: Callable[[dict[str, Any]], None]) -> Draft:
    draft = copy.deepcopy(draft)
    change(by_path(draft)[path])
    return draft


@pytest.mark.parametrize(
    ("path", "change", "failure"),
    [
        (
            "get /api/csrf",
            lambda request: request["extract"].update(csrfToken={"json": "/items/0/id"}),
            "POST /api/login: status 403 (likely: a token (CSRF) stands as recorded, or the user may not do this)",
        ),
        (
            "post /api/login",
            lambda request: request["headers"].update({"X-Csrf-Token": "as-it-was"}),
            "POST /api/login: status 403 (likely: X-Csrf-Token stands as recorded, and was not found in an earlier "
            "response)",
        ),
        (
            "get /api/tickets/${ticket_id}",
            lambda request: request.update(get="/api/tickets/8"),
            "GET /api/tickets/8: status 404 (likely: an id in the path stands as recorded, and is not there",
        ),
        (
            "put /api/tickets/${ticket_id}",
            lambda request: request["json"].update(version=9),
            "status 409 (likely: what is sent exists already",
        ),
        (
            "post /api/login",
            lambda request: request["extract"].update(accessToken={"json": "/token"}),
            "no JSON value at `/token` (likely: an earlier failure, or the response is not as recorded)",
        ),
    ],
)
def test_a_wrong_extraction_fails_and_is_named(
    archive: str, desk: Desk, path: str, change: Callable[[dict[str, Any]], None], failure: str
) -> None:
    for _ in range(5):
        next(desk.ids)
    (problem,) = replay(wrong(from_har(archive, "desk"), path, change), desk.url).failures
    assert failure in problem


def test_the_command_writes_the_scenario_and_what_failed(archive: str, desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "visit.har").write_text(archive)
    words = ["scenario", "from", str(tmp_path / "visit.har"), "--out", str(tmp_path / "a.yaml"), "--replay", desk.url]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stderr) == (0, "replayed: 11 requests in 2 sessions, none failed\n")
    (tmp_path / "visit.har").write_text(archive.replace("secret", "secrer"))
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert done.stderr.startswith("failed: POST /api/login: status 401 (likely: the log-in is not among the requests")
    assert "# Failed when replayed: POST /api/login: status 401" in (tmp_path / "a.yaml").read_text()


def converted(*entries: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    draft = from_har(har(*entries), "x")
    transactions = read(draft)["transactions"].values()
    return [request for requests in transactions for request in requests], " ".join(draft.notes)


def answered(
    method: str, path: str, at: float, text: str = "", headers: dict[str, str] | None = None, **more: Any
) -> Any:
    recorded = entry(method, f"{SHOP}{path}", at, None, text=text, **more)
    recorded["response"]["headers"] = [{"name": n, "value": v} for n, v in (headers or {}).items()]
    return recorded


def test_a_location_a_meta_tag_and_a_link_are_sources() -> None:
    made = {"Location": "/orders/8841", "Set-Cookie": "XSRF-TOKEN=c00kie-5511; Path=/"}
    page = '<meta name="csrf-token" content="meta-112233"><a href="/basket/5?x=1">b</a>'
    sent = [{"name": "X-CSRF-Token", "value": "meta-112233"}, {"name": "X-XSRF-TOKEN", "value": "c00kie-5511"}]
    requests, notes = converted(
        answered("GET", "/", 0, page),
        answered("POST", "/orders", 1, "", made, status=201),
        answered("GET", "/orders/8841/lines", 2),
        entry("GET", f"{SHOP}/basket/5", 3, None, headers=sent),
    )
    first, order, lines, basket = requests
    assert first["extract"]["csrf_token"] == {"css": 'meta[name="csrf-token"]', "attribute": "content"}
    assert first["extract"]["basket"] == {"regex": r'<a href="/basket/([\w.~+%-]+=*)'}
    assert order["extract"] == {"location": {"header": "Location"}, "XSRF_TOKEN": {"cookie": "XSRF-TOKEN"}}
    assert lines["get"] == "${location}/lines"
    assert basket["get"] == "/basket/${basket}"
    assert basket["headers"] == {"X-Csrf-Token": "${csrf_token}", "X-Xsrf-Token": "${XSRF_TOKEN}"}
    assert "XSRF_TOKEN is taken from cookie XSRF-TOKEN of post /orders, used in get /basket/5 (x-xsrf-token)" in notes


def test_what_the_user_sent_first_and_short_numbers_of_other_things_stay() -> None:
    body = {"mimeType": "application/json", "text": '{"name": "ann-2024"}'}
    requests, notes = converted(
        answered("POST", "/users", 0, '{"name": "ann-2024", "id": 1, "stars": 5}', post=body),
        answered("GET", "/find?name=ann-2024&page=1&size=5", 1),
        answered("GET", "/users/1/orders/5", 2),
    )
    assert requests[1]["get"] == "/find?name=ann-2024&page=1&size=5"
    assert requests[2]["get"] == "/users/${user_id}/orders/5"
    assert "name is taken" not in notes


def test_the_first_source_of_an_id_and_the_latest_of_a_token_hold() -> None:
    token = {"mimeType": FORM, "text": "token=tok-551199&id=order-771"}
    requests, _ = converted(
        answered("GET", "/start", 0, '{"token": "tok-551199"}'),
        answered("POST", "/orders", 1, '{"order": {"id": "order-771"}}'),
        answered("GET", "/orders", 2, '{"token": "tok-551199", "items": [{"id": "x"}, {"id": "order-771"}]}'),
        answered("POST", "/pay", 3, post=token),
    )
    assert "extract" not in requests[0]
    assert requests[1]["extract"] == {"order_id": {"json": "/order/id"}}
    assert requests[2]["extract"] == {"token": {"json": "/token"}}
    assert requests[3]["form"] == {"token": "${token}", "id": "${order_id}"}


def test_an_idempotency_key_is_another_one_in_each_request() -> None:
    sent = [{"name": "Idempotency-Key", "value": "8e03978e-40d5-43dd-bc93-6894a57f9324"}]
    requests, notes = converted(entry("POST", f"{SHOP}/pay", 0, None, headers=sent))
    assert requests[0]["headers"] == {"Idempotency-Key": "${hex:8}-${hex:4}-4${hex:3}-8${hex:3}-${hex:12}"}
    assert "Idempotency-Key: each request sends a value of its own" in notes


WRITTEN = """\
@host = http://elsewhere.example

# @name start
GET {{host}}/
###
# @name csrf
GET {{host}}/api/csrf
###
POST {{host}}/settings
"""


def test_what_was_written_down_is_replayed_too(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "desk.http").write_text(WRITTEN)
    words = ["scenario", "from", str(tmp_path / "desk.http"), "--out", str(tmp_path / "a.yaml"), "--replay", desk.url]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert done.stderr.startswith("failed: POST /settings: status 400 (likely: a value that is sent stands as recorded")
    assert [path for _, path, _ in desk.requests].count("/api/csrf") == 2


def test_the_driver_takes_the_mix_of_a_log(desk: Desk, tmp_path: Path) -> None:
    rows = [f'h - - [10/Oct/2024:13:55:36 +0000] "GET /?a={n}%20b HTTP/1.1" 200 1' for n in range(5)]
    (tmp_path / "access.log").write_text("\n".join(rows))
    words = ["scenario", "from", str(tmp_path / "access.log"), "--out", str(tmp_path / "a.yaml"), "--replay", desk.url]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.exception) == (0, None)
    load = ["load", str(tmp_path / "a.yaml"), "--url", desk.url, "--arrivals", "replay", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*load, "--replay", str(tmp_path / "a.times"), "--speed", "10"])
    assert done.exit_code == 0
    assert len(desk.requests) == 2 + 5


class DoubleSubmit(BaseHTTPRequestHandler):
    """As Spring with Angular: what changes something needs its cookie's value in a header; a log-in makes another,
    which the page it leads to sets. Cookies are percent-encoded.
    """

    protocol_version = "HTTP/1.1"
    refused: ClassVar[list[str]] = []

    def _serve(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        cookie = re.search(r"XSRF-TOKEN=([^;]+)", self.headers.get("Cookie", ""))
        same = cookie and unquote(cookie[1]) == self.headers.get("X-XSRF-TOKEN")
        status = 200 if self.command == "GET" or same else 403
        self.refused += [f"{self.command} {self.path}"] if status == 403 else []
        self.send_response(302 if self.path == "/login" and status == 200 else status)
        if self.path == "/login":
            self.send_header("Location", "/home")
        if self.path in ("/", "/login") and status == 200:
            self.send_header("Set-Cookie", f"XSRF-TOKEN={quote(secrets.token_urlsafe(9) + '+/=', safe='')}; Path=/")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_GET = do_POST = _serve  # noqa: N815

    def log_message(self, *_words: object) -> None: ...


def browse(address: str) -> None:
    """As a page's script sends it: the cookie's value, decoded."""
    jar = CookieJar()
    client = build_opener(HTTPCookieProcessor(jar))
    client.open(f"{address}/").read()
    for path in ("/login", "/orders", "/orders"):
        token = unquote(next(cookie.value or "" for cookie in jar if cookie.name == "XSRF-TOKEN"))
        client.open(Request(f"{address}{path}", b"x=1", {"X-XSRF-TOKEN": token})).read()


def test_a_cookie_that_a_header_repeats_is_extracted_and_replays(desk: Desk) -> None:
    del desk  # where it is there is a driver
    with ThreadingHTTPServer(("127.0.0.1", 0), DoubleSubmit) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            with recorder(url) as proxy:
                thread = threading.Thread(target=proxy.serve_forever, args=(0.05,))
                thread.start()
                try:
                    browse(proxy.address)
                finally:
                    proxy.shutdown()
                    thread.join()
            draft = from_har(json.dumps(proxy.archive()), "spa")
            assert by_path(draft)["post /orders"]["headers"]["X-Xsrf-Token"].startswith("${XSRF_TOKEN")
            assert replay(draft, url, sessions=3).failures == []
        finally:
            server.shutdown()
    assert DoubleSubmit.refused == []


class Tokens(BaseHTTPRequestHandler):
    """A token (a JWT, say) ends after five uses."""

    protocol_version = "HTTP/1.1"
    uses: ClassVar[dict[str, int]] = {}
    lock: ClassVar[threading.Lock] = threading.Lock()

    def _serve(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        with self.lock:
            if self.path == "/token":
                token = secrets.token_hex(8)
                self.uses[token] = 0
            else:
                self.uses[token] = self.uses.get(token, 6) + 1
        text = json.dumps({"access": token}).encode()
        self.send_response(200 if self.uses[token] <= 5 else 401)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = _serve  # noqa: N815

    def log_message(self, *_words: object) -> None: ...


def test_a_token_that_expires_is_fetched_again(desk: Desk, tmp_path: Path) -> None:
    del desk  # where it is there is a driver
    (tmp_path / "api.yaml").write_text(
        "scenario: api\nlogin: login\nlogged_out: { status: 401 }\nmix: { look: 1 }\ntransactions:\n"
        "  login: [{ post: /token, extract: { token: { json: /access } } }]\n"
        "  look: [{ get: /look, headers: { Authorization: 'Bearer ${token}' } }]\n"
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), Tokens) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            out, url = tmp_path / "out", f"http://127.0.0.1:{server.server_port}"
            words = [str(find_binary()), "run", "api.yaml", "--url", url, "--users", "1", "--steady", "2s"]
            subprocess.run([*words, "--out", str(out)], cwd=tmp_path, check=True, capture_output=True)
        finally:
            server.shutdown()
    summary = json.loads((out / "summary.json").read_text())
    assert summary["errors"] == {}
    assert summary["requests"]["logins_again"] >= 1
