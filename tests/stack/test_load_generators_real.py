"""Real generators where they are installed: what the server counted is what leadline says they did.

JMeter and Gatling come from Maven Central with LEADLINE_MATRIX=1.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from jvm_generators import JVM_GENERATORS, jars, jmeter, program
from witnesses import matrix

pytestmark = pytest.mark.stack

SCRIPT = """
import http from 'k6/http';
export const options = { scenarios: { s: {
  executor: 'constant-arrival-rate', rate: Number(__ENV.RATE), timeUnit: '1s',
  duration: `${__ENV.LEADLINE_SECONDS}s`, preAllocatedVUs: 5 } } };
export default function () { http.get(`${__ENV.LEADLINE_URL}/k6`, { tags: { name: 'page' } }); }
"""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    lock = threading.Lock()
    seen: dict[str, int]

    def do_GET(self) -> None:
        with self.lock:
            self.seen[self.path] = self.seen.get(self.path, 0) + 1
        self.send_response(404 if self.path == "/none" else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 64  # twenty users at once


@pytest.fixture
def server() -> Iterator[tuple[str, dict[str, int]]]:
    _Handler.seen = {}
    with _Server(("127.0.0.1", 0), _Handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_address[1]}", _Handler.seen
        found.shutdown()


def load(tool: str, url: str, out: Path, *words: str, status: int = 0) -> dict[str, Any]:
    """The summary that ``load`` prints; ``status`` is its exit status, 1 where no transaction succeeded."""
    if shutil.which(tool) is None and shutil.which(f"{tool}.sh") is None:
        pytest.skip(f"{tool} is not on the path")
    argv = [sys.executable, "-m", "leadline.cli", "load", *words, "--generator", tool, "--url", url, "--json"]
    done = subprocess.run([*argv, "--out", str(out)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == status, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found == json.loads((out / "summary.json").read_text())
    return found


def test_wrk_with_a_script_of_its_own(server: tuple[str, dict[str, int]], tmp_path: Path) -> None:
    url, seen = server
    script = tmp_path / "mine.lua"
    script.write_text('function init(args) wrk.path = "/" .. args[1] end\nfunction done() print("mine was run") end\n')
    found = load("wrk", url, tmp_path / "out", str(script), "--options", "-t1 -c1 -d1s -- lua")
    assert 0 < found["steady"]["all"]["ok"] <= seen["/lua"] <= found["steady"]["all"]["ok"] + 1
    assert found["steady"]["all"]["response_ms"]["p999"] > 0
    assert found["generator"]["model"] == "closed"
    assert "mine was run" in (tmp_path / "out" / "raw" / "printed.txt").read_text()


def test_httperf_keeps_its_rate(server: tuple[str, dict[str, int]], tmp_path: Path) -> None:
    url, seen = server
    found = load("httperf", f"{url}/none", tmp_path / "out", "--options", "--rate 40 --num-conns 20", status=1)
    assert found["errors"] == {"status_4xx": seen["/none"]} == {"status_4xx": 20}
    assert (found["generator"]["model"], found["generator"]["measured_from"]) == ("open", "send")


@matrix("k6, whose reader has unit tests")
def test_k6_request_by_request(server: tuple[str, dict[str, int]], tmp_path: Path) -> None:
    url, seen = server
    script = tmp_path / "mine.js"
    script.write_text(SCRIPT)
    found = load("k6", url, tmp_path / "out", str(script), "--steady", "1s", "--options", "-e RATE=20")
    assert found["total"]["page"]["ok"] == seen["/k6"]
    assert seen["/k6"] + found["dropped"] in (20, 21)
    assert found["generator"]["model"] == "open"


@matrix("oha, whose reader has unit tests")
def test_oha_from_the_intended_start(server: tuple[str, dict[str, int]], tmp_path: Path) -> None:
    url, seen = server
    options = "-n 20 -q 40 -c 2 --latency-correction"
    found = load("oha", f"{url}/oha", tmp_path / "out", "--options", options)
    assert found["total"]["request"]["ok"] == seen["/oha"] == 20
    assert found["generator"]["measured_from"] == "intended start"


@matrix("JMeter is fetched; a study on Liberty is loaded by it")
def test_jmeter_sample_by_sample(
    server: tuple[str, dict[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, seen = server
    home = Path(jmeter(tmp_path / "jmeter")).parent.parent
    monkeypatch.setenv("PATH", str(home / "bin"), prepend=os.pathsep)
    found = load("jmeter", url, tmp_path / "out", str(JVM_GENERATORS / "twenty.jmx"))
    assert found["total"]["page"]["ok"] == seen["/jmeter"] == 20
    assert found["total"]["none"]["failed"] == seen["/none"] == 20
    assert found["errors"] == {"status_4xx": 20}
    assert (found["generator"]["model"], found["generator"]["measured_from"]) == ("closed", "send")


@matrix("Gatling is fetched; its reader has unit tests")
@pytest.mark.parametrize("version", ["3.11.5", "3.13.5"])
def test_gatling_by_its_log_or_its_totals(
    server: tuple[str, dict[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    url, seen = server
    classes = jars(tmp_path / "gatling", "gatling", f"-Dgatling={version}")
    source = str(JVM_GENERATORS / "Twenty.java")
    subprocess.run(["javac", "-cp", f"{classes}/*", "-d", str(classes), source], check=True)
    opens = "--add-opens=java.base/java.lang=ALL-UNNAMED"
    sight = "-XX:ActiveProcessorCount=2"  # with one processor it waits for ever
    words = ["java", sight, "-XX:TieredStopAtLevel=1", opens, "$JAVA_OPTS", "-cp", f"'{classes}:{classes}/*'"]
    program(tmp_path / "gatling.sh", *words, "io.gatling.app.Gatling")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    found = load("gatling", url, tmp_path / "out", "Twenty")
    assert seen["/gatling"] == seen["/none"] == 20
    if version.startswith("3.11"):
        assert found["total"]["page"]["ok"] == 20
        assert found["total"]["none"]["failed"] == 20
        assert found["errors"] == {"status_4xx": 20}
    else:
        assert found["total"]["request"]["ok"] == 20
        assert found["errors"] == {"failed": 20}
    assert found["generator"]["measured_from"] == "send"
