"""What programs put around the lines of a log that passes through them: each takes a line and its number."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

_START = datetime(2026, 1, 31, 23, 59, 50, tzinfo=UTC)
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def _at(number: int) -> datetime:
    return _START + timedelta(milliseconds=37 * number)


def _iso(number: int, zone: str = "Z") -> str:
    return _at(number).strftime("%Y-%m-%dT%H:%M:%S.%f") + f"{number % 1000:03d}{zone}"


def _syslog(number: int) -> str:
    at = _at(number)
    return f"{_MONTHS[at.month - 1]} {at.day:2d} {at:%H:%M:%S}"


def _journal(text: str, number: int) -> str:
    return json.dumps({"__REALTIME_TIMESTAMP": f"{17e14 + number:.0f}", "_HOSTNAME": "db-1", "MESSAGE": text})


def _bytes(text: str, number: int) -> str:
    return json.dumps({"PRIORITY": "6", "_PID": str(number), "MESSAGE": list(text.encode())})


def _docker(text: str, number: int) -> str:
    escaped = json.dumps({"log": text + "\n", "stream": "stdout", "time": _iso(number)}, separators=(",", ":"))
    return escaped.replace("<", "\\u003c").replace(">", "\\u003e")


def _fluent(text: str, number: int) -> str:
    return json.dumps({"@timestamp": _iso(number), "kubernetes": {"pod": {"name": "web-1"}}, "message": text})


def _twice(text: str, number: int) -> str:
    return _docker(_fluent(text, number), number)


def _server(text: str, number: int) -> str:
    return f"[Server:server-one] {_at(number):%H:%M:%S},{number % 1000:03d} INFO  [stdout] (task-{number % 7}) {text}"


WRAPPERS: Mapping[str, Callable[[str, int], str]] = {
    "plain": lambda text, _: text,
    "process in brackets": lambda text, _: f"[web.1] {text}",
    "process in brackets, no space": lambda text, _: f"[web.1]{text}",
    "time in brackets": lambda text, n: f"[{_iso(n)}] {text}",
    "time and level in brackets": lambda text, n: f"[{_iso(n)}] [INFO] [gc-server] {text}",
    "docker compose": lambda text, _: f"web-1  | {text}",
    "docker compose in colours": lambda text, _: f"\x1b[36mweb-1  | \x1b[0m{text}",
    "colours around": lambda text, _: f"\x1b[0;32m{text}\x1b[0m",
    "colours written out": lambda text, _: f"#033[32m{text}#033[0m",
    "docker, JSON": _docker,
    "CRI": lambda text, n: f"{_iso(n)} stdout F {text}",
    "kubectl with time": lambda text, n: f"{_iso(n)} {text}",
    "kubectl with prefix": lambda text, _: f"[pod/web-7d9f-x2x/app] {text}",
    "stern": lambda text, _: f"web-7d9f-x2x app {text}",
    "journal": lambda text, n: f"{_syslog(n)} db-1 java[4242]: {text}",
    "journal, short-iso": lambda text, n: f"{_at(n):%Y-%m-%dT%H:%M:%S}+0100 db-1 java[4242]: {text}",
    "journal, JSON": _journal,
    "journal, JSON of bytes": _bytes,
    "syslog, RFC 5424": lambda text, n: f'<14>1 {_iso(n)} db-1 java 4242 ID47 [meta sequenceId="{n}"] {text}',
    "Heroku": lambda text, n: f"{_iso(n, '+00:00')} app[web.1]: {text}",
    "Cloud Foundry": lambda text, n: f"   {_iso(n)[:22]}+0100 [APP/PROC/WEB/0] OUT {text}",
    "WildFly, domain": lambda text, _: f"[Server:server-one] {text}",
    "WildFly, standard output": _server,
    "log4j": lambda text, n: f"{_at(n):%Y-%m-%d %H:%M:%S},{n % 1000:03d} INFO [gc-thread-{n % 3}] o.e.Gc - {text}",
    "logfmt": lambda text, n: f"time={_iso(n)} level=info msg=" + json.dumps(text),
    "Fluent Bit, JSON": _fluent,
    "JSON in JSON": _twice,
    "CRI with JSON": lambda text, n: f"{_iso(n)} stdout F {_fluent(text, n)}",
    "a trailing blank and return": lambda text, _: f"{text} \r",
}


def wrapped(lines: list[str], name: str) -> str:
    """The lines (without ends) inside the wrapper of this name."""
    return "".join(WRAPPERS[name](text, number) + "\n" for number, text in enumerate(lines))
