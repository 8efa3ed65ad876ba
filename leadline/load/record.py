"""A recording of what a browser does: a proxy on the loopback in front of one server, whose exchanges are kept as
entries of an HTTP archive (HAR 1.2).

A converted scenario is tried at once against a server, as what its requests send is partly guessed.
"""

from __future__ import annotations

import base64
import http.client
import ipaddress
import json
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from threading import Lock
from typing import Any
from urllib.parse import SplitResult

from leadline.host import here
from leadline.host.paths import Scratch
from leadline.load.convert.correlate import SECRETS
from leadline.load.convert.har import from_har
from leadline.load.convert.write import METHODS, Draft, Names
from leadline.load.driver import as_own_user, find_binary
from leadline.load.generators.base import split_url
from leadline.load.result import read_document
from leadline.model.errors import LeadlineError, UsageError, quoted, shortened

LOOPBACK = "127.0.0.1"
_TIMEOUT = 120.0  # seconds for a response
_LONGEST_BODY = 64 << 20  # bytes of one request or response
_LONGEST_KEPT = 2 << 20  # bytes of a response that are kept: what a page hands out stands in its text
_LARGEST = 192 << 20  # bytes of all that is kept
_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
# A browser's cache would leave answers out of the recording, and a compressed one could not be read.
_UNSENT = _HOP | {"host", "content-length", "accept-encoding", "if-none-match", "if-modified-since", "expect"}
_OWN = _HOP | {"content-length", "content-security-policy", "strict-transport-security", "date", "server"}
_TEXT = ("text/", "application/json", "application/xhtml", "application/xml")
_LINKED = ("text/html", "application/xhtml")


class Recorder(ThreadingHTTPServer):
    """Passes on to ``target`` (scheme and server; its path is where the application begins) what is asked of it, and
    keeps both sides. Pages begin where a browser says that it navigates. Raises OSError where the port is taken.
    """

    daemon_threads = True

    def __init__(self, target: SplitResult, port: int = 0) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.target = target
        self.origin = f"{target.scheme}://{target.netloc}"
        self.root = target.path.rstrip("/")
        self.names = tuple(f"{name}:{self.server_address[1]}" for name in (LOOPBACK, "localhost"))
        self.outside = self.unkept = 0  # requests beside ``root``, and those beyond the room for a recording
        self._entries: list[dict[str, Any]] = []
        self._pages = self._bytes = 0
        self._lock = Lock()

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.server_address[1]}"

    @property
    def requests(self) -> int:
        with self._lock:
            return len(self._entries)

    def archive(self) -> dict[str, Any]:
        """The HTTP archive of what was recorded until now."""
        with self._lock:
            creator = {"name": "leadline record", "version": "1"}
            return {"log": {"version": "1.2", "creator": creator, "entries": list(self._entries)}}

    def keep(self, entry: dict[str, Any], navigates: bool, size: int) -> None:
        """Add an exchange to the page of now, or to a new one."""
        path = str(entry["request"]["url"]).removeprefix(self.origin)
        with self._lock:
            if not self._below(path):
                self.outside += 1
            elif self._bytes + size > _LARGEST:
                self.unkept += 1
            else:
                self._pages += navigates or not self._pages
                self._bytes += size
                entry["request"]["url"] = self.origin + (path.removeprefix(self.root) or "/")
                target = str(entry["response"].get("redirectURL", ""))
                if self._below(target):
                    entry["response"]["redirectURL"] = target.removeprefix(self.root) or "/"
                self._entries.append({**entry, "pageref": f"page-{self._pages}"})

    def _below(self, path: str) -> bool:
        return path.startswith("/") and (path == self.root or path.startswith((f"{self.root}/", f"{self.root}?")))

    def connect(self) -> http.client.HTTPConnection:
        """To the server; its certificate is not checked, as it is of a server under test."""
        host, port = self.target.hostname or "", self.target.port
        if self.target.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=context)


class _Handler(BaseHTTPRequestHandler):
    server: Recorder
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "leadline", ""
    timeout = _TIMEOUT

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError):  # the browser left
            self.close_connection = True

    def _pass_on(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if self.headers.get("Host") not in self.server.names:  # a foreign name that leads here (DNS rebinding)
            self._refuse(HTTPStatus.FORBIDDEN, f"only {self.server.address} is recorded")
        elif "Upgrade" in self.headers:
            self._refuse(HTTPStatus.NOT_IMPLEMENTED, "no WebSocket is recorded")
        elif "Transfer-Encoding" in self.headers or not length.isdecimal():
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "a request says the length of its body")
        elif int(length) > _LONGEST_BODY:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too long to be recorded")
        else:
            self._exchange(self.rfile.read(int(length)))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _pass_on  # noqa: N815

    def _exchange(self, body: bytes) -> None:
        begun, clock = datetime.now(UTC), time.monotonic()
        sent = {name: value for name, value in self.headers.items() if name.lower() not in _UNSENT}
        for name in ("Origin", "Referer"):
            if name in sent:
                sent[name] = sent[name].replace(self.server.address, self.server.origin, 1)
        connection = self.server.connect()
        try:
            head = {**sent, "Accept-Encoding": "identity", **({"Content-Length": str(len(body))} if body else {})}
            connection.request(self.command, self.path, body or None, head)
            answer = connection.getresponse()
            content = answer.read(_LONGEST_BODY + 1)
        except (OSError, http.client.HTTPException) as error:
            self._refuse(HTTPStatus.BAD_GATEWAY, f"{self.server.origin} did not answer: {error}")
            return
        finally:
            connection.close()
        if len(content) > _LONGEST_BODY:
            self._refuse(HTTPStatus.BAD_GATEWAY, f"{self.path} is too long to be recorded")
            return
        seconds = time.monotonic() - clock
        kind = answer.getheader("Content-Type", "")
        entry = {
            "startedDateTime": begun.isoformat(),
            "time": 1000 * seconds,
            "request": self._request(sent, body),
            "response": {
                "status": answer.status,
                "headers": [{"name": name, "value": value} for name, value in answer.getheaders()],
                "redirectURL": (answer.getheader("Location") or "").replace(self.server.origin, "", 1),
                "content": _content(content, kind),
            },
        }
        self.server.keep(entry, self._navigates(), len(body) + min(len(content), _LONGEST_KEPT))
        self._answer(answer, content, kind)

    def _request(self, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        request: dict[str, Any] = {
            "method": self.command,
            "url": self.server.origin + self.path,
            "headers": [{"name": name, "value": value} for name, value in headers.items()],
        }
        if body:
            request["postData"] = {"mimeType": self.headers.get("Content-Type", ""), **_text(body)}
        return request

    def _navigates(self) -> bool:
        """By what browsers say of each request; others ask for a page where they want HTML."""
        mode = self.headers.get("Sec-Fetch-Mode")
        return mode == "navigate" if mode is not None else "text/html" in self.headers.get("Accept", "")

    def _answer(self, answer: http.client.HTTPResponse, content: bytes, kind: str) -> None:
        """The response as the browser gets it: links, redirects and cookies lead back here."""
        if kind.startswith(_LINKED):
            content = content.replace(self.server.origin.encode(), self.server.address.encode())
        self.send_response(answer.status, answer.reason)
        for name, value in answer.getheaders():
            lower = name.lower()
            if lower == "location":
                self.send_header(name, value.replace(self.server.origin, self.server.address, 1))
            elif lower == "set-cookie":
                self.send_header(name, _cookie(value))
            elif lower not in _OWN:
                self.send_header(name, value)
        if answer.status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        body = f"{why}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what is asked stands in the recording."""


def _content(content: bytes, kind: str) -> dict[str, Any]:
    if not kind.startswith(_TEXT) or len(content) > _LONGEST_KEPT:
        return {"mimeType": kind, "size": len(content)}
    return {"mimeType": kind, "size": len(content), **_text(content)}


def _text(body: bytes) -> dict[str, str]:
    try:
        return {"text": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"text": base64.b64encode(body).decode(), "encoding": "base64"}


def _cookie(value: str) -> str:
    """Without what binds it to the server's name or to TLS, which the browser does not see here."""
    bare = [part for part in value.split(";") if part.strip().split("=")[0].lower() not in ("domain", "secure")]
    return ";".join("SameSite=Lax" if part.strip().lower() == "samesite=none" else part for part in bare)


def recorder(url: str, port: int = 0, *, mine: bool = False) -> Recorder:
    """A proxy on the loopback that records what is asked of the server at ``url``. Raises UsageError for a server that
    is not on the loopback unless it is said to be the user's (``mine``), and for a port that is taken.
    """
    target = split_url(url)
    if target.scheme not in ("http", "https") or not target.hostname:
        raise UsageError(f"{quoted(url, 200)} is no server's address: write http://127.0.0.1:8080 or http://HOST/shop")
    if target.query or target.fragment or target.username:
        raise UsageError(
            f"{quoted(url, 200)}: write only the server and where the application begins: http://HOST/shop"
        )
    if not (mine or _is_loopback(target.hostname)):
        problem = "is not on the loopback: write --mine to say that the server is yours to ask"
        raise UsageError(f"{target.hostname} {problem}")
    try:
        return Recorder(target, port)
    except OSError as error:
        raise UsageError(f"--port {port}: {error.strerror}; leave --port out to take a free one") from None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def of_recording(recorded: Recorder, name: str, resources: bool = False) -> Draft:
    """A scenario from what was recorded until now. Raises UsageError where that is nothing."""
    draft = from_har(json.dumps(recorded.archive()), Names().make(name, "scenario"), resources)
    notes = list(draft.notes)
    if recorded.root:
        notes[0] = notes[0].replace(recorded.origin, recorded.origin + recorded.root, 1)
    if recorded.outside:
        notes.append(f"Requests left out, beside {recorded.root}: {recorded.outside}.")
    if recorded.unkept:
        notes.append(f"Requests left out, as the recording was full: {recorded.unkept}. Record less at once.")
    return Draft(draft.scenario, notes)


SESSIONS = 2  # beside each other: what only one user can do at a time fails here
_MOST_FAILURES = 10  # of operations that do not need each other
_LONGEST = 600.0  # seconds of one replay
_CAUSES = {
    "status 401": "the log-in is not among the requests, or a credential stands as recorded",
    "status 403": "a token (CSRF) stands as recorded, or the user may not do this",
    "status 404": "an id in the path stands as recorded, and is not there (any more)",
    "status 409": "what is sent exists already: a name or version stands as recorded",
    "status 4": "a value that is sent stands as recorded, and is not valid (any more)",
    "status 5": "the server failed: its log tells",
    "no JSON value": "an earlier failure, or the response is not as recorded",
    "no element": "an earlier failure, or the page is not as recorded",
    "nothing matches": "an earlier failure, or the page is not as recorded",
    "no header": "an earlier failure, or the response is not as recorded",
}


@dataclass(frozen=True)
class Replayed:
    """Requests of the scenario, and a line for each that failed in one of ``SESSIONS`` sessions."""

    requests: int
    failures: Sequence[str]

    def noted(self, draft: Draft) -> Draft:
        """The draft with what failed in its comment."""
        return replace(draft, notes=[*draft.notes, *(f"Failed when replayed: {line}." for line in self.failures)])


def replay(draft: Draft, url: str, sessions: int = SESSIONS) -> Replayed:
    """Every request once in each session, without pauses. A walk ends at its first failure, since later requests need
    earlier ones. Raises UsageError for a scenario or URL that the driver does not take, LeadlineError without results.
    """
    scenario = draft.scenario
    requests = list(chain.from_iterable(scenario["transactions"].values()))
    rest, failures = list(requests), []
    while rest:
        problem = _run({**scenario, "transactions": {"replay": rest}}, url, sessions)
        if not problem:
            break
        place = next((at for at, request in enumerate(rest) if _is_of(request, problem)), None)
        failures.append(_explained(problem, None if place is None else rest[place]))
        if "mix" not in scenario or place is None or len(failures) == _MOST_FAILURES:
            break
        del rest[place]
    return Replayed(len(requests), failures)


def _run(scenario: Mapping[str, Any], url: str, sessions: int) -> str:
    """What failed first, as the driver says it; empty where nothing did."""
    tree = {key: value for key, value in scenario.items() if key in ("scenario", "parameters", "headers")}
    tree |= {"mix": {"replay": 1}, "transactions": scenario["transactions"], "arrivals": {"unit": "transaction"}}
    with Scratch(shared=True) as scratch:
        path, times, out = scratch / "replay.yaml", scratch / "times", scratch / "out"
        path.write_text(Draft(tree, ()).text(), encoding="utf-8")
        times.write_text("0\n" * sessions)
        words = [str(find_binary()), "run", str(path), "--url", url, "--out", str(out), "--steady", "50ms"]
        argv = [*words, "--arrivals", "replay", "--replay", str(times), "--progress", "none"]
        argv += ["--insecure"] if url.startswith("https:") else []
        for file in (path, times):
            file.chmod(0o644)
        with as_own_user(argv, out, path) as command:
            done = here.run(command, timeout=_LONGEST)
        if done.returncode == 2:
            raise UsageError(shortened(done.stderr.strip().removeprefix("leadline-load: "), 500))
        try:
            samples = read_document(out)["error_samples"]
        except (OSError, KeyError):
            raise LeadlineError(f"the replay has no results: {shortened(done.stderr.strip(), 300)}") from None
    first = next((texts[0] for texts in samples.values() if texts), "")
    return str(first).removeprefix("replay: ")


def _is_of(request: Mapping[str, Any], problem: str) -> bool:
    """Whether the driver's words are of this request: ``GET /a/7: status 404``."""
    method = next(method for method in METHODS if method in request)
    pieces = re.split(r"\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", str(request[method]))
    pattern = ".*".join(re.escape(piece.replace("$$", "$")) for piece in pieces)
    return re.match(f"{method.upper()} {pattern}: ", problem) is not None


def _explained(problem: str, request: Mapping[str, Any] | None) -> str:
    cause = next((text for words, text in _CAUSES.items() if f": {words}" in problem), "")
    fields = {**(request or {}).get("headers", {}), **(request or {}).get("form", {})}
    recorded = [n for n, v in fields.items() if "${" not in str(v) and (SECRETS.search(n) or n == "Authorization")]
    if recorded and re.search(r": status 40[0-3]", problem):
        cause = f"{', '.join(recorded)} stands as recorded, and was not found in an earlier response"
    return f"{shortened(problem, 300)}{f' (likely: {cause})' if cause else ''}"
