"""What programs put around the lines of a log that passes through them: each takes a line and its number."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

_START = datetime(2026, 1, 31, 23, 59, 50, tzinfo=UTC)
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def _at(number: int) -> datetime:
    return _START + timedelta(milliseconds=37 * number)


def _iso(number: int) -> str:
    return f"{_at(number):%Y-%m-%dT%H:%M:%S.%f}{number % 1000:03d}Z"


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


# What stands before each line; fields: ``at`` the time, ``iso`` and ``syslog`` in these forms, ``n`` the line's number.
_PREFIXES: Mapping[str, str] = {
    "plain": "",
    "process in brackets": "[web.1] ",
    "process in brackets, no space": "[web.1]",
    "time in brackets": "[{iso}] ",
    "time and level in brackets": "[{iso}] [INFO] [gc-server] ",
    "docker compose": "web-1  | ",
    "docker compose in colours": "\x1b[36mweb-1  | \x1b[0m",
    "CRI": "{iso} stdout F ",
    "kubectl with time": "{iso} ",
    "kubectl with prefix": "[pod/web-7d9f-x2x/app] ",
    "stern": "web-7d9f-x2x app ",
    "journal": "{syslog} db-1 java[4242]: ",
    "journal, short-iso": "{at:%Y-%m-%dT%H:%M:%S}+0100 db-1 java[4242]: ",
    "syslog, RFC 5424": '<14>1 {iso} db-1 java 4242 ID47 [meta sequenceId="{n}"] ',
    "Heroku": "{at:%Y-%m-%dT%H:%M:%S.%f}+00:00 app[web.1]: ",
    "Cloud Foundry": "   {at:%Y-%m-%dT%H:%M:%S}.25+0100 [APP/PROC/WEB/0] OUT ",
    "WildFly, domain": "[Server:server-one] ",
    "WildFly, standard output": "[Server:server-one] {at:%H:%M:%S},{n:03d} INFO  [stdout] (task-{n}) ",
    "log4j": "{at:%Y-%m-%d %H:%M:%S},{n:03d} INFO [gc-thread-{n}] o.e.Gc - ",
}


def _before(prefix: str) -> Callable[[str, int], str]:
    return lambda text, n: prefix.format(at=_at(n), iso=_iso(n), syslog=_syslog(n), n=n % 1000) + text


WRAPPERS: Mapping[str, Callable[[str, int], str]] = {
    **{name: _before(prefix) for name, prefix in _PREFIXES.items()},
    "colours around": lambda text, _: f"\x1b[0;32m{text}\x1b[0m",
    "colours written out": lambda text, _: f"#033[32m{text}#033[0m",
    "docker, JSON": _docker,
    "journal, JSON": _journal,
    "journal, JSON of bytes": _bytes,
    "logfmt": lambda text, n: f"time={_iso(n)} level=info msg=" + json.dumps(text),
    "Fluent Bit, JSON": _fluent,
    "JSON in JSON": lambda text, n: _docker(_fluent(text, n), n),
    "CRI with JSON": lambda text, n: f"{_iso(n)} stdout F {_fluent(text, n)}",
    "a trailing blank and return": lambda text, _: f"{text} \r",
}


def wrapped(lines: list[str], name: str) -> str:
    """The lines (without ends) inside the wrapper of this name."""
    return "".join(WRAPPERS[name](text, number) + "\n" for number, text in enumerate(lines))
