"""HTTP archives (HAR 1.2), as browsers save them, as a first scenario."""

from __future__ import annotations

import base64
import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, pairwise
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from leadline.load.convert.correlate import Correlation
from leadline.load.convert.write import FORM, METHODS, UUID, Draft, Names, literal
from leadline.model.errors import UsageError
from leadline.model.received import from_json

# Bodies of the requests of an HTTP archive.


@dataclass(frozen=True)
class Body:
    """What was sent: ``kind`` is the media type as recorded, ``text`` empty where there was none or it is not known
    (``lost``).
    """

    kind: str = ""
    text: str = ""
    lost: bool = False

    @property
    def plain(self) -> str:
        """The media type without its parameters."""
        return self.kind.split(";")[0].strip().lower()

    def fields(self) -> list[tuple[str, str]]:
        """Names and values of a form, decoded; none for other bodies."""
        return parse_qsl(self.text, keep_blank_values=True) if self.plain == FORM else []

    def write(self, values: Correlation) -> dict[str, Any]:
        """The body and its headers in a request of a scenario."""
        fields = self.fields()
        names = [name for name, _ in fields]
        # Another encoding than UTF-8 is only right as it was.
        if fields and len(set(names)) == len(names) and not any("\ufffd" in value for pair in fields for value in pair):
            return {"form": {name: values.text(value, name) for name, value in fields}}
        if fields:
            return {"text": values.form(self.text), "headers": {"Content-Type": FORM}}
        if not self.text:
            return {}
        try:
            value = values.json(from_json(self.text), "") if "json" in self.plain else None
        except (ValueError, RecursionError):
            value = None
        if value is not None:
            return {"json": value, "headers": _typed(self.plain, "application/json")}
        # A boundary belongs to its body.
        return {
            "text": values.text(self.text, "body"),
            "headers": _typed(self.kind if self.plain.startswith("multipart/") else self.plain, ""),
        }


def body_of(request: Mapping[str, Any]) -> Body:
    """The body of a recorded request. The text counts; what it was read as (``params``) is encoded in some browsers'
    files and decoded in others'. Raises TypeError for what no HAR holds.
    """
    posted = request.get("postData") or {}
    if not isinstance(posted, Mapping):
        raise TypeError("`postData` is no mapping")
    kind, params = " ".join(str(posted.get("mimeType") or "").split()), posted.get("params") or []
    if not isinstance(params, list) or not all(
        isinstance(p, Mapping) and isinstance(p.get("name"), str) for p in params
    ):
        raise TypeError("`params` is no list of names and values")
    text = text_of(posted, "postData")
    if not text and params and Body(kind).plain == FORM:
        text = urlencode([(p["name"], str(p.get("value") or "")) for p in params])
    size = request.get("bodySize")
    return Body(kind, text or "", not text and (text is None or bool(params) or (isinstance(size, int) and size > 0)))


def text_of(found: Mapping[str, Any], what: str) -> str | None:
    """The text of a body or an answer, base64 undone; None where it is none. Raises TypeError for what no HAR holds."""
    text = found.get("text") or ""
    if not isinstance(text, str):
        raise TypeError(f"the `text` of `{what}` is no text")
    if str(found.get("encoding") or "").lower() != "base64":
        return text
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return None


def _typed(kind: str, own: str) -> dict[str, str]:
    """The header for a media type that the driver does not send by itself."""
    return {"Content-Type": literal(kind)} if kind and kind != own else {}


STATIC = re.compile(r"\.(css|js|mjs|map|png|jpe?g|gif|svg|webp|avif|ico|woff2?|ttf|otf|mp4|webm)$", re.IGNORECASE)
_HEADERS = ("accept", "accept-language", "x-requested-with")
_DRIVERS = {"host", "connection", "content-length", "content-type", "transfer-encoding", "cookie"}  # sent by itself
_BROWSERS = re.compile(
    "origin|referer|user-agent|accept-encoding|cache-control|pragma|dnt|te|priority|purpose|save-data|expect|"
    "keep-alive|upgrade.*|if-(none-match|modified-since|range)|range|sec-.*|proxy-.*|x-client-data"
)
_TRACES = re.compile(
    "trace(parent|state)|baggage|b3|x-b3-.*|x-amzn-trace-id|x-cloud-trace-context|uber-trace-id|x-datadog-.*|"
    "sentry-trace|newrelic|elastic-apm-.*|request-id|x-(request|correlation|trace|span|transaction)-?id"
)
_ONCE = re.compile("(x-)?idempotency-key|x-idempotency-token")
_STATUSES = range(400, 600)  # that a check can expect besides success
_NO_MOMENT = (KeyError, ValueError, TypeError, OverflowError)
_LONGEST = 256 << 20  # characters of a recording, which is held in memory some times over
_PASSWORD = re.compile("passw|pwd|passphrase|^pass$", re.IGNORECASE)  # names of fields
_PASSWORD_INPUT = re.compile(r"""<input\b[^<>]*\btype\s*=\s*["']?password""", re.IGNORECASE)
_PROMPT = 2.0  # seconds in which a browser follows a redirect; a later request for its target is a visit of its own


def from_har(text: str, name: str, resources: bool = False) -> Draft:
    """One transaction a recorded page, walked in the recorded order with the recorded mean pause. Only the server that
    was asked most is kept; images, styles and scripts only with ``resources``. What requests send of earlier responses
    is extracted there. Raises UsageError for what is no HAR.
    """
    return of_entries(_entries(text), name, resources)


def of_entries(entries: Sequence[dict[str, Any]], name: str, resources: bool = False) -> Draft:
    """As ``from_har``, from the entries of an archive, each with its response's status."""
    origin = Counter(_origin(entry) for entry in entries).most_common(1)[0][0]
    kept_entries = [entry for entry in entries if _origin(entry) == origin]
    notes = [f"Made from requests to {origin}: give that server (or another) as --url."]
    if len(kept_entries) < len(entries):
        notes.append(f"Requests left out, to other servers: {len(entries) - len(kept_entries)}.")
    dynamic = [
        entry for entry in kept_entries if resources or not STATIC.search(urlsplit(entry["request"]["url"]).path)
    ]
    if len(dynamic) < len(kept_entries):
        notes.append(f"Requests left out, for images, styles and scripts: {len(kept_entries) - len(dynamic)}.")
    walked = _without_followed(dynamic)
    asked = [entry for entry in walked if _method(entry) in METHODS]
    if len(asked) < len(walked):
        others = sorted({_method(entry).upper() for entry in walked} - {method.upper() for method in METHODS})
        notes.append(f"Requests left out, by {', '.join(others)}: {len(walked) - len(asked)}.")
    pages = _pages(asked)
    if not pages:
        raise UsageError("the recording has no request that a scenario can hold")
    log_in, visits = _begun(pages)
    transactions: dict[str, list[dict[str, Any]]] = {}
    values, names = Correlation(), Names()
    walk = [log_in, *visits] if log_in else visits
    for entry in chain.from_iterable(walk):
        _request(entry, values)
    values.begin()
    for page in walk:
        path = urlsplit(page[-1 if page is log_in else 0]["request"]["url"]).path
        transactions[names.make(path.strip("/") or "home", "page")] = [_request(entry, values) for entry in page]
    notes += [*values.notes(), *_left_out(asked)]
    places = list(transactions)
    scenario: dict[str, Any] = {"scenario": name}
    pause = _mean_pause(pages)
    if pause:
        scenario["pause"] = {"kind": "think", "shape": "exponential", "mean": f"{round(1000 * pause)}ms"}
    if log_in:
        scenario |= {"login": places.pop(0), "logged_out": _signs(log_in, kept_entries)}
        signs = " or ".join(f"{kind} {sign}" for kind, sign in scenario["logged_out"].items())
        notes.append(f"Users log in by {scenario['login']}, and again when they are logged out: {signs}.")
    graph: dict[str, dict[str, int]] = {"start": {places[0]: 1}}
    for place, following in zip(places, [*places[1:], "end"], strict=True):
        graph[place] = {following: 1}
    scenario |= {"graph": graph, "transactions": transactions}
    notes.append("Values that differ from user to user (accounts, searches) are still those of the recording.")
    return Draft(scenario, notes)


def _entries(text: str) -> list[dict[str, Any]]:
    if len(text) > _LONGEST:
        raise UsageError(
            f"the HAR file has {len(text):,} characters, at most {_LONGEST:,} are read: record less at once"
        )
    try:
        entries = from_json(text.removeprefix("\ufeff"))["log"]["entries"]
        if not isinstance(entries, list):
            raise ValueError("`entries` is not a list")
    except ValueError as error:
        raise UsageError(f"not a HAR file: {error}") from None
    except (KeyError, TypeError) as error:
        raise UsageError(f"not a HAR file: it lacks {error}") from None
    found = []
    for number, entry in enumerate(entries, 1):
        try:
            if urlsplit(str(entry["request"]["url"])).scheme not in ("http", "https"):
                continue
            _typed_entry(entry)
        except KeyError as error:
            raise UsageError(f"not a HAR file: entry {number} lacks {error}") from None
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise UsageError(f"not a HAR file: entry {number}: {error}") from None
        found.append(entry)
    if not found:
        raise UsageError("the HAR file holds no request over HTTP")
    try:
        return sorted(found, key=_seconds)
    except (KeyError, ValueError, OverflowError):
        return found


def _typed_entry(entry: dict[str, Any]) -> None:
    """Give an entry its response's status. Raises KeyError, TypeError or ValueError for what no HAR holds."""
    str(entry["request"]["method"])
    _headers(entry["request"])
    body_of(entry["request"])
    response = entry["response"] = entry.get("response") or {}
    response["status"] = int(response.get("status") or 0)
    _headers(response)
    _content(entry)


def _origin(entry: Mapping[str, Any]) -> str:
    parts = urlsplit(entry["request"]["url"])
    return f"{parts.scheme}://{parts.netloc}"


def _method(entry: Mapping[str, Any]) -> str:
    return str(entry["request"]["method"]).lower()


def _content(entry: Mapping[str, Any]) -> str:
    """The text of the answer; empty where there is none or the recording lacks it."""
    content = entry["response"].get("content") or {}
    if not isinstance(content, Mapping):
        raise TypeError("`content` is no mapping")
    return text_of(content, "content") or ""


def _without_followed(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the requests a redirect led to: the driver follows redirects itself, and the last answer is that of the
    request redirected first, with the cookies of all.
    """
    kept_entries: list[dict[str, Any]] = []
    awaited: dict[tuple[str, str], deque[tuple[int, dict[str, Any]]]] = {}  # by method and address: who was redirected
    for entry in entries:
        waiting = awaited.get((_method(entry), _address(entry["request"]["url"])), deque())
        while waiting and not _is_prompt(waiting[0][1], entry):
            waiting.popleft()
        place = waiting.popleft()[0] if waiting else len(kept_entries)
        if place == len(kept_entries):
            kept_entries.append(entry)
        else:
            headers = [*_set_cookies(kept_entries[place]["response"]), *(entry["response"].get("headers") or [])]
            kept_entries[place] = {**kept_entries[place], "response": {**entry["response"], "headers": headers}}
        target = _redirected(entry)
        if target:
            awaited.setdefault(target, deque()).append((place, entry))
    return kept_entries


def _is_prompt(redirect: Mapping[str, Any], following: Mapping[str, Any]) -> bool:
    try:
        return _seconds(following) <= _ended(redirect) + _PROMPT
    except _NO_MOMENT:
        return True  # then the order alone tells


def _redirected(entry: Mapping[str, Any]) -> tuple[str, str] | None:
    """Method and address of the driver's next request (RFC 9110, 15.4)."""
    status, target = entry["response"]["status"], str(entry["response"].get("redirectURL") or "")
    if not target or status not in (301, 302, 303, 307, 308):
        return None
    try:
        address = _address(urljoin(entry["request"]["url"], target))
    except ValueError:
        return None
    method = _method(entry)
    to_get = (status == 303 and method != "head") or (status in (301, 302) and method == "post")
    return "get" if to_get else method, address


def _address(url: str) -> str:
    parts = urlsplit(url)
    server = parts.netloc.lower().removesuffix(":443" if parts.scheme == "https" else ":80")
    return f"{parts.scheme}://{server}{_path(url)}"


def _path(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _pages(entries: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """By the page a browser counted them to; without pages each request is one."""
    pages: dict[str, list[dict[str, Any]]] = {}
    for number, entry in enumerate(entries):
        pages.setdefault(str(entry.get("pageref") or f"#{number}"), []).append(entry)
    return list(pages.values())


def _begun(pages: list[list[dict[str, Any]]]) -> tuple[list[dict[str, Any]], list[list[dict[str, Any]]]]:
    """The requests up to the first that logs in, and the pages after it; all pages where there is no such request, or
    nothing after it.
    """
    for number, page in enumerate(pages):
        for count, entry in enumerate(page, 1):
            if _logs_in(entry) and (after := [rest for rest in (page[count:], *pages[number + 1 :]) if rest]):
                return [*chain.from_iterable(pages[:number]), *page[:count]], after
    return [], pages


def _logs_in(entry: Mapping[str, Any]) -> bool:
    """Whether a password, and no second one as for a new account, was sent and not refused."""
    body, names = body_of(entry["request"]), []
    with suppress(ValueError, TypeError, RecursionError):
        names = [name for name, _ in body.fields()] or list(from_json(body.text) if "json" in body.plain else ())
    passwords = [name for name in names if _PASSWORD.search(str(name))]
    return _method(entry) == "post" and len(passwords) == 1 and entry["response"]["status"] < _STATUSES.start


def _signs(log_in: Sequence[Mapping[str, Any]], recorded: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """By what a user that was logged out is known: status 401, or a redirect to the page that asks for the password,
    unless the recording has one after the log-in.
    """
    signs: dict[str, Any] = {"status": 401}
    *before, sent = log_in
    forms = [entry for entry in before if _method(entry) == "get" and _PASSWORD_INPUT.search(_content(entry))]
    path = urlsplit((forms or [sent])[-1]["request"]["url"]).path
    last = max(at for at, entry in enumerate(recorded) if entry["request"] is sent["request"])
    later = [str(entry["response"].get("redirectURL") or "") for entry in recorded[last:]]
    if body_of(sent["request"]).fields() and len(path) > 1 and not any(path in target for target in later):
        signs["redirect"] = literal(path)
    return signs


def _request(entry: Mapping[str, Any], values: Correlation) -> dict[str, Any]:
    recorded, response = entry["request"], entry["response"]
    values.next(f"{_method(entry)} {_path(recorded['url'])}")
    request: dict[str, Any] = {_method(entry): values.path(_path(recorded["url"]))}
    headers = {}
    for name, value in _headers(recorded).items():
        if name in _HEADERS and value != "*/*":
            headers[name.title()] = literal(value)
        elif _ONCE.fullmatch(name):
            headers[name.title()] = UUID
        elif _is_sent(name):
            headers[name.title()] = values.text(" ".join(value.split()), name)
    body = body_of(recorded).write(values)
    headers |= body.pop("headers", {})
    request |= body
    if headers:
        request["headers"] = headers
    if response["status"] in _STATUSES:
        request["check"] = {"status": response["status"]}
    if entry.get("extract"):
        request["extract"] = entry["extract"]
    answered = _headers(response)
    if target := str(response.get("redirectURL") or answered.get("location") or ""):
        with suppress(ValueError):
            answered["location"] = _path(urljoin(recorded["url"], target))
    values.response(request, answered, _content(entry), _cookies(response))
    return request


def _is_sent(name: str) -> bool:
    """Whether a header is the application's: no browser, driver or tracer sends it by itself."""
    if name in _HEADERS or name in _DRIVERS or not re.fullmatch(r"[\w-]{1,64}", name, re.ASCII):
        return False
    return not (_BROWSERS.fullmatch(name) or _TRACES.fullmatch(name))


def _cookies(response: Mapping[str, Any]) -> dict[str, str]:
    """Names and values of the cookies that a response sets."""
    lines = [str(header.get("value", "")) for header in _set_cookies(response)]
    pairs = (line.split(";")[0].partition("=") for text in lines for line in text.split("\n"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _set_cookies(response: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = [header for header in response.get("headers") or [] if isinstance(header, Mapping)]
    return [header for header in listed if str(header.get("name", "")).lower() == "set-cookie"]


def _headers(message: Mapping[str, Any]) -> dict[str, str]:
    """The recorded headers of a request or response by their names in small letters."""
    listed = [header for header in message.get("headers") or [] if isinstance(header, Mapping)]
    return {str(h.get("name", "")).lower(): str(h.get("value", "")) for h in listed}


def _left_out(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the requests of the scenario lack."""
    notes = []
    for entry in entries:
        where, body = f"{_method(entry)} {_path(entry['request']['url'])}", body_of(entry["request"])
        if body.lost:
            notes.append(f"The body of {where}{f' ({body.kind})' if body.kind else ''} was left out.")
        status = entry["response"]["status"]
        if status >= _STATUSES.stop:
            notes.append(f"Status {status} of {where} cannot be expected by a check.")
    names = {name for entry in entries for name in _headers(entry["request"]) if not name.startswith(":")}
    names -= {*_HEADERS, *_DRIVERS}
    if omitted := [name for name in names if not _is_sent(name)]:
        notes.append(f"Headers of the recording that were left out: {', '.join(sorted(n.title() for n in omitted))}.")
    if once := [name for name in names if _ONCE.fullmatch(name)]:
        notes.append(f"{', '.join(sorted(n.title() for n in once))}: each request sends a value of its own.")
    silent = sum(not entry["response"]["status"] for entry in entries)
    if silent:
        notes.append(f"{silent} of {len(entries)} requests have no response: what later ones send of it was not found.")
    if "cookie" in _headers(entries[0]["request"]):
        notes.append("The recording begins with cookies, a session of the scenario without any.")
    return notes


def _mean_pause(pages: Sequence[Sequence[Mapping[str, Any]]]) -> float | None:
    """Seconds between the end of one page and the start of the next, on average."""
    gaps = []
    for page, following in pairwise(pages):
        try:
            gaps.append(max(0.0, _seconds(following[0]) - max(_ended(entry) for entry in page)))
        except _NO_MOMENT:
            return None
    return sum(gaps) / len(gaps) if gaps else None


def _seconds(entry: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(str(entry["startedDateTime"]).replace("Z", "+00:00")).timestamp()


def _ended(entry: Mapping[str, Any]) -> float:
    return _seconds(entry) + float(entry.get("time") or 0) / 1000
