"""Alarms: a command, a webhook at the address that was named and at no other, and what fires."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from leadline.experiments.soak.record import (
    Alarm,
    Alarms,
    SoakRecord,
    Watch,
    check_webhook,
    post,
    read_record,
    run_command,
)
from leadline.model.errors import UsageError
from leadline.model.soak import Interval, SoakTimes

ALARM = Alarm("errors", 12.5, "3 % of the transactions failed", {"failed": 3})


class _Hook(BaseHTTPRequestHandler):
    bodies: list[tuple[str, bytes]] = []  # noqa: RUF012 - of all requests
    status = 204

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.bodies.append((self.path, body))
        self.send_response(self.status)
        if self.status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def hook() -> Iterator[str]:
    _Hook.bodies, _Hook.status = [], 204
    server = HTTPServer(("127.0.0.1", 0), _Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/alarms?of=soak"
    server.shutdown()
    thread.join(10)
    server.server_close()


def test_an_alarm_goes_to_both_in_order(hook: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    alarms = Alarms("soak-shop", f"cat >> {out}", hook)
    alarms.fire(ALARM)
    alarms.fire(Alarm("ended", 13.0, "Stable", {}))
    alarms.close()
    wanted = {"soak": "soak-shop", "kind": "errors", "at": 12.5, "sentence": ALARM.sentence, "failed": 3}
    assert [json.loads(line)["kind"] for line in out.read_text().splitlines()] == ["errors", "ended"]
    assert json.loads(out.read_text().splitlines()[0]) == wanted
    assert [path for path, _ in _Hook.bodies] == ["/alarms?of=soak"] * 2
    assert json.loads(_Hook.bodies[0][1]) == wanted


def test_a_redirect_is_a_failure_and_not_followed(hook: str) -> None:
    _Hook.status = 302
    assert post(hook, "{}") == "answered by status 302"
    assert [path for path, _ in _Hook.bodies] == ["/alarms?of=soak"]


def test_what_fails_is_told_and_ends_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    alarms = Alarms("soak-shop", "cat > /dev/null; echo no >&2; exit 7", "http://127.0.0.1:1/", told.append)
    alarms.fire(ALARM)
    alarms.close()
    assert told[0] == "--alarm failed: exit code 7: no"
    assert told[1].startswith("--webhook failed: ConnectionRefusedError")
    assert run_command("cat > /dev/null", "{}") == ""


@pytest.mark.parametrize("url", ["example.org", "ftp://example.org/", "http://", "http://a:99999/", "file:///etc"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--webhook"):
        check_webhook(url)


def _record(tmp_path: Path, failed: list[int]) -> SoakRecord:
    record = SoakRecord(tmp_path / "soak.jsonl", SoakTimes.of(7200))
    record.intervals = [Interval(60.0 * at, 60.0, 0, 1000, lost, 1.0, 2.0, 3.0) for at, lost in enumerate(failed)]
    return record


def test_errors_fire_once_until_they_are_gone_also_after_a_resume(tmp_path: Path) -> None:
    messages: list[str] = []
    record = _record(tmp_path, [0, 0])
    Watch(Alarms("soak", None, None), 0.01, messages.append)(record)
    for lost in (50, 50, 0, 50):
        record.intervals.append(Interval(record.intervals[-1].end, 60.0, 0, 1000, lost, 1.0, 2.0, 3.0))
        Watch(Alarms("soak", None, None), 0.01, messages.append)(record)
        record.save()
        record = read_record(record.path)
    assert [one["kind"] for one in record.alarms] == ["errors", "errors"]
    assert messages[0].startswith("alarm: 4.76% of the transactions failed")


def _leaking(minutes: range) -> list[Interval]:
    return [
        Interval(60.0 * at, 60.0, 0, 1000, 0, 1.0, 2.0, 3.0, "", {"handles/server": (100 + 5 * at + at % 3,) * 3})
        for at in minutes
    ]


def test_a_degradation_fires_once_when_two_looks_agree(tmp_path: Path) -> None:
    record = _record(tmp_path, [])
    degrading = ("degrading", "open files of the server")
    for until, fired in ((60, []), (66, [degrading]), (72, [degrading]), (78, [degrading])):
        record.intervals = _leaking(range(until))
        Watch(Alarms("soak", None, None), 0.01, lambda _: None)(record)
        assert [(one["kind"], one.get("series")) for one in record.alarms] == fired
        record.save()
        record = read_record(record.path)
    assert record.looks == 13
