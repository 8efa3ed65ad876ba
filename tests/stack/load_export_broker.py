"""A server that looks into every request of the built-in brokerage scenarios, and what must be true of their sessions.

Each session has an identity of its own (there are more identities than sessions), so what a user asked for is the
course of one session.
"""

import json
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from scipy import stats

IDENTITIES, LENGTH, BASE = 200, 20, "/shop"
WEIGHTS = {"quote": 40, "home": 20, "portfolio": 16, "account": 10, "logout": 4, "buy": 4, "profile": 4, "register": 2}
SELL_OF_PORTFOLIO = 4 / 16  # a sale looks at the portfolio first
_RARE = 1e-5  # a right export fails a check of shares once in 100,000 runs
_CARD, _PASSWORD = r"\d{16}", r"pw-[0-9a-f]{12}"
_SYMBOL = r"S00(?!000)(?:[0-4]\d\d|500)"


class Wrong(Exception):
    """A request that the scenario does not make."""


def must(right: object, what: str) -> None:
    if not right:
        raise Wrong(what)


def alike(fields: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    must(set(fields) == set(wanted), f"other fields than {list(wanted)}")
    for name, pattern in wanted.items():
        must(re.fullmatch(pattern, fields[name]), f"{name} is not {pattern}")


class Book:
    """What was asked: by identity in order, and what was wrong."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.courses: dict[str, list[str]] = defaultdict(list)
        self.inside: dict[str, tuple[str, str]] = {}  # cookie: identity, the user it is logged in as
        self.registered: set[str] = set()
        self.sold: Counter[int] = Counter()
        self.buys = self.cookies = 0
        self.wrong: list[str] = []

    def answer(self, method: str, target: str, fields: Mapping[str, str], cookie: str) -> tuple[int, str, str | None]:
        """Status, page and the session's new cookie, if any."""
        url = urlsplit(target)
        must(url.path.startswith(BASE), "not below the application")
        path = url.path.removeprefix(BASE).removeprefix("/api")
        if (method, path) == ("POST", "/login"):
            user = fields.get("user", "")
            number = re.fullmatch(r"user-(\d{6})", user)
            must(number is not None and 1 <= int(number[1]) <= IDENTITIES, "no such user")
            must(fields == {"user": user, "password": user.replace("user-", "pw-")}, "a wrong password")
            self.courses[user].append("login")
            return 200, f"Welcome, {user}", self._enter(user, user)
        must(cookie in self.inside, "nobody is logged in")
        identity, user = self.inside[cookie]
        if path in ("/logout", "/register"):
            del self.inside[cookie]
        self.courses[identity].append("quote" if path == "/quotes" else path[1:])
        if (method, path) == ("POST", "/logout"):
            must(not fields, "a logout of something")
            return 200, '<a href="/login">Log in</a>', None
        must(user == identity, "a new user stays")
        if method == "GET":
            query = f"symbols={_SYMBOL},{_SYMBOL}" if path == "/quotes" else ""
            must(path in ("/home", "/portfolio", "/account", "/quotes"), "no such page")
            must(re.fullmatch(query, url.query), "not these symbols")
            return 200, page(identity, held(identity)), None
        return self._post(path, fields, identity)

    def _post(self, path: str, fields: Mapping[str, str], identity: str) -> tuple[int, str, str | None]:
        done = 'data-order=1 "order":1'
        if path == "/register":
            return 200, f"Welcome, {fields['user']}", self._register(identity, fields)
        if path == "/buy":
            wanted = {"symbol": _SYMBOL, "quantity": "[1-9]|1[0-9]|20"}
            self.buys += 1
            status = 409 if self.buys % 3 == 0 else 200
        elif path == "/sell":
            wanted = {"holding": "|".join(map(str, held(identity)))}
            status = 409 if int(fields["holding"]) % 2 else 200
            self.sold[int(fields["holding"]) % 10] += 1
        else:
            must(path == "/profile", "no such page")
            email, address = f"{identity}@example[.]com", r"\d{1,3} Exchange Street"
            wanted = {"full_name": r"Holder \d{1,5}", "address": address, "email": email, "card": _CARD}
            status, done = 200, 'Saved. "full_name":"Holder '
        alike(fields, wanted)
        return status, done, None

    def _register(self, identity: str, fields: Mapping[str, str]) -> str:
        user = fields["user"]
        session = re.fullmatch(r"new-1-(\d+)-\d+", user)
        must(session is not None and user not in self.registered, "not a new user")
        number = session[1] if session else ""
        wanted = {
            "user": user,
            "password": _PASSWORD,
            "full_name": f"Newcomer {number}",
            "address": r"\d{1,3} Market Square",
            "email": f"new-{number}@example[.]com",
            "card": _CARD,
            "opening_balance": "10000[.]00",
        }
        alike(fields, wanted)
        self.registered.add(user)
        return self._enter(identity, user)

    def _enter(self, identity: str, user: str) -> str:
        self.cookies += 1
        self.inside[str(self.cookies)] = (identity, user)
        return str(self.cookies)


def held(identity: str) -> list[int]:
    """Every fourth user has nothing to sell, the others one to three holdings."""
    number = int(identity[-6:])
    return [10 * number + at for at in range(number % 4)]


def page(identity: str, holdings: list[int]) -> str:
    rows = "".join(f'<tr data-holding="{one}"><td class="n">{one}</td></tr>\n' for one in holdings)
    rest = json.dumps({"user": identity, "market": {}, "symbol": "S00001"}, separators=(",", ":"))
    return (
        f"<!DOCTYPE html><title>Portfolio</title><p>Welcome, {identity} Most traded Latest orders <b>Log out {identity}"
        f'</b><dd>{identity}</dd><i data-symbol="S1"></i><table>{rows}</table>{rest}'
    )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    book: Book

    def do_GET(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        cookies = SimpleCookie(self.headers.get("Cookie") or "")
        cookie = cookies["sid"].value if "sid" in cookies else ""
        api = self.path.startswith(f"{BASE}/api/")
        new = None
        with self.book.lock:
            try:
                fields = fields_of(text, api)
                status, body, new = self.book.answer(self.command, self.path, fields, cookie)
                if api:
                    body = as_json(body, self.path, self.book, cookie)
            except (Wrong, KeyError, ValueError) as error:
                status, body = 400, "no"
                self.book.wrong.append(f"{self.command} {self.path} {text!r} with {cookie!r}: {error!r}")
        answer = body.encode()
        self.send_response(status)
        if new:
            self.send_header("Set-Cookie", f"sid={new}; Path={BASE}; HttpOnly")
        self.send_header("Content-Type", "application/json" if api else "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def fields_of(text: str, api: bool) -> dict[str, str]:
    if not api:
        return {key: value for key, (value,) in parse_qs(text, strict_parsing=bool(text)).items()}
    found = json.loads(text or "{}")
    for key, value in found.items():
        must(isinstance(value, int) == (key in ("quantity", "holding")), f"{key} of another kind")
    return {key: str(value) for key, value in found.items()}


def as_json(text: str, path: str, book: Book, cookie: str) -> str:
    """The same answer for the JSON interface."""
    found: dict[str, object] = {"market": 1, "symbol": "S1", "order": 1, "full_name": "Holder "}
    user = re.search(r"Welcome, ([\w-]+)", text)
    if user:
        found["user"] = user[1]
    identity = book.inside.get(cookie, ("", ""))[0]
    found["holdings"] = [{"id": one, "symbol": "S1", "quote": 7} for one in (held(identity) if identity else [])]
    return json.dumps(found, separators=(",", ":"))


@contextmanager
def serving() -> Iterator[tuple[str, type[_Handler]]]:
    class Handler(_Handler):
        book = Book()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_address[1]}", Handler
        found.shutdown()


def drawn(course: list[str]) -> Counter[str]:
    """What a session drew from the mix. Raises AssertionError where the course is not one of the scenario."""
    found: Counter[str] = Counter()
    steps = iter([*course, "end"])
    step = next(steps)
    while True:
        assert step == "login", (step, course)
        step = next(steps)
        while step not in ("logout", "register"):
            assert step in WEIGHTS, course
            found[step] += 1
            step = next(steps)
            if step == "sell":
                assert found["portfolio"] > 0
                found["sell"] += 1
                step = next(steps)
        total = sum(found[name] for name in WEIGHTS)
        if total < LENGTH:
            found[step] += 1
            total += 1
        else:
            assert step == "logout", course
        if step == "register":
            assert next(steps) == "logout", course
        step = next(steps)
        if step == "end":
            assert total == LENGTH, course
            return found


def audit(book: Book, sessions: tuple[int, int]) -> Counter[str]:
    """Checks every session, and the shares of what they drew against the mix. Returns the counts.

    ``sessions``: fewest and most there may be.
    """
    assert not book.wrong, book.wrong[:3]
    assert not book.inside, "somebody did not log out"
    count = len(book.courses)
    assert sessions[0] <= count <= sessions[1], count
    assert set(book.courses) == {f"user-{n:06d}" for n in range(1, count + 1)}
    found: Counter[str] = Counter()
    able = 0  # portfolios of those who have something to sell
    for identity, course in book.courses.items():
        own = drawn(course)
        assert not own["sell"] or held(identity)
        able += own["portfolio"] if held(identity) else 0
        found += own
    total = sum(found[name] for name in WEIGHTS)
    assert total == LENGTH * count
    expected = [total * weight / 100 for weight in WEIGHTS.values()]
    assert stats.chisquare([found[name] for name in WEIGHTS], expected).pvalue > _RARE, found
    assert stats.binomtest(found["sell"], able, SELL_OF_PORTFOLIO).pvalue > _RARE, (found["sell"], able)
    assert min(book.sold[0], book.sold[1] + book.sold[2]) > 0, book.sold
    return found
