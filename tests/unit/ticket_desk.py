"""A single-page application's real server: cookie session, CSRF token, JWT, created ids, versions, a form; everything
that a client sends back is checked. And the client: what its page does, through any address.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import itertools
import json
import re
import secrets
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

KEY = b"desk"
FORM = "application/x-www-form-urlencoded"


def signed(user: str) -> str:
    """A JWT that is another one each time."""
    parts = [{"alg": "HS256", "typ": "JWT"}, {"sub": user, "jti": secrets.token_hex(4)}]
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    mac = hmac.new(KEY, ".".join(texts).encode(), hashlib.sha256).digest()
    return ".".join([*texts, base64.urlsafe_b64encode(mac).decode().rstrip("=")])


class Desk(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lock = threading.Lock()
        self.ids = itertools.count(7)  # short, as those of a young database
        self.sessions: dict[str, dict[str, str]] = {}
        self.tokens: dict[str, int] = {}  # JWT: project
        self.tickets: dict[int, dict[str, Any]] = {}
        self.requests: list[tuple[str, str, int]] = []
        self.headers: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Desk
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        with self.server.lock:
            status, content, headers = self._answer(urlsplit(self.path).path, body)
            self.server.requests.append((self.command, self.path, status))
            self.server.headers |= {name.lower() for name in self.headers}
        data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        kind = "text/html; charset=utf-8" if isinstance(content, str) else "application/json"
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

    def _answer(self, path: str, body: str) -> tuple[int, Any, dict[str, str]]:
        cookie = re.search(r"sid=(\w+)", self.headers.get("Cookie", ""))
        session = self.server.sessions.get(cookie[1]) if cookie else None
        if path == "/":
            sid = secrets.token_hex(8)
            self.server.sessions[sid] = {"csrf": secrets.token_urlsafe(12) + "+/=", "build": "build-" + sid}
            page = f'<script>window.release = "{self.server.sessions[sid]["build"]}";</script><div id="app"></div>'
            return 200, page, {"Set-Cookie": f"sid={sid}; Path=/; HttpOnly"}
        if session is None:
            return 401, {"error": "no session"}, {}
        if path == "/api/csrf":
            return 200, {"csrfToken": session["csrf"], "page": 1, "items": [{"id": 1}]}, {}
        if self.headers.get("X-Release") != session["build"]:
            return 400, {"error": "another release"}, {}
        if path == "/settings":
            return self._settings(session, body)
        if self.command != "GET" and self.headers.get("X-CSRF-Token") != session["csrf"]:
            return 403, {"error": "CSRF"}, {}
        if path == "/api/login":
            fields = json.loads(body)
            if fields["password"] != "secret":
                return 401, {"error": "password"}, {}
            token, project = signed(fields["username"]), next(self.server.ids)
            self.server.tokens[token] = project
            return 200, {"accessToken": token, "user": {"name": fields["username"], "id": 3}}, {}
        project = self.server.tokens.get(self.headers.get("Authorization", "").removeprefix("Bearer "), 0)
        if not project:
            return 401, {"error": "token"}, {}
        return self._api(path, body, project)

    def _settings(self, session: dict[str, str], body: str) -> tuple[int, Any, dict[str, str]]:
        if self.command == "GET":
            session["form"] = secrets.token_hex(8)
            return 200, f'<form><input type="hidden" name="_form" value="{session["form"]}"></form>', {}
        good = parse_qs(body).get("_form") == [session.get("form")]
        return (200 if good else 403), "saved", {}

    def _api(self, path: str, body: str, project: int) -> tuple[int, Any, dict[str, str]]:
        if path == "/api/projects":
            return 200, [{"id": project, "title": "first"}], {}
        if path == "/api/tickets" and self.command == "POST":
            fields = json.loads(body)
            if fields["projectId"] != project:
                return 404, {"error": "no such project"}, {}
            number = next(self.server.ids)
            ticket = {"id": number, "version": next(self.server.ids), "title": fields["title"], "project": project}
            self.server.tickets[number] = {**ticket, "comments": {}}
            return 201, ticket, {"Location": f"/api/tickets/{number}", "ETag": f'"{secrets.token_hex(6)}"'}
        match = re.fullmatch(r"/api/tickets/(\d+)(/comments)?(?:/([\w-]+))?", path)
        ticket = self.server.tickets.get(int(match[1]), {}) if match else {}
        if ticket.get("project") != project or match is None:
            return 404, {"error": "no such ticket"}, {}
        if match[3]:
            return (204, "", {}) if ticket["comments"].pop(match[3], None) else (404, {"error": "no comment"}, {})
        if match[2]:
            name = str(uuid.uuid4())
            ticket["comments"][name] = body
            return 201, {"data": {"commentId": name}}, {}
        if self.command == "PUT":
            fields = json.loads(body)
            if (fields["id"], fields["version"]) != (ticket["id"], ticket["version"]):
                return 409, {"error": "version"}, {}
        return 200, {name: value for name, value in ticket.items() if name != "comments"}, {}

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def ticket_desk() -> Iterator[Desk]:
    with Desk() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class Page:
    """The application's page in a browser at ``url``."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        self._headers = {"User-Agent": "Mozilla/5.0", "Sec-Fetch-Mode": "cors", "Accept": "application/json"}

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        trace = {"traceparent": f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"}
        trace |= {"X-Request-Id": str(uuid.uuid4()), "X-B3-TraceId": secrets.token_hex(8)}
        sent = {**self._headers, **trace, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if body is not None and not isinstance(body, str):
            sent["Content-Type"], body = "application/json", json.dumps(body)
        self._connection.request(method, path, body, sent)
        response = self._connection.getresponse()
        text = response.read().decode()
        if cookie := response.getheader("Set-Cookie"):
            self._headers["Cookie"] = cookie.split(";")[0]
        assert response.status < 400, (method, path, response.status, text)
        return json.loads(text) if text.startswith(("{", "[")) else text

    def visit(self) -> None:
        """Log in, file a ticket, comment on it, change it, take the comment back, save a form."""
        page = self.ask("GET", "/", Accept="text/html", Sec_Fetch_Mode="navigate")
        self._headers["X-Release"] = re.search(r'release = "([^"]+)"', page)[1]  # type: ignore[index]
        self._headers["X-CSRF-Token"] = self.ask("GET", "/api/csrf")["csrfToken"]
        answer = self.ask("POST", "/api/login", {"username": "ann-2024", "password": "secret"})
        self._headers["Authorization"] = f"Bearer {answer['accessToken']}"
        (project,) = self.ask("GET", "/api/projects?page=1&owner=ann-2024")
        ticket = self.ask("POST", "/api/tickets", {"projectId": project["id"], "title": "The printer burns"})
        where = f"/api/tickets/{ticket['id']}"
        ticket = self.ask("GET", where)
        comment = self.ask("POST", f"{where}/comments", {"text": "It burns at 451 degrees"})["data"]["commentId"]
        self.ask("PUT", where, {**ticket, "title": "The printer is out"})
        self.ask("DELETE", f"{where}/comments/{comment}")
        form = re.search(r'value="(\w+)"', self.ask("GET", "/settings"))
        assert form is not None
        self.ask("POST", "/settings", f"_form={form[1]}&theme=dark", **{"Content-Type": FORM})
