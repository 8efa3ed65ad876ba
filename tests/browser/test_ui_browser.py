"""``leadline ui`` in headless Chromium, beside a simulated study that runs."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from leadline.api.running import run as run_study
from leadline.api.studies import Study

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser

STUDY = """\
study: caches
question: Does a statement cache of 20 do harm?
stack: { server: liberty }
factors: { server.datasource.statement_cache: [60, 20] }
workload: { users: 20, ramp_up: 2s, steady: 12s, ramp_down: 1s }
responses: [throughput, p99]
design: { replicates: 4, seed: 3 }
"""
TRUTH = """\
truth:
  seed: 4
  noise: { trials: 1%, latency_trials: 2% }
  effects:
    - { when: { server.datasource.statement_cache: 20 }, percent: { p99: 60% } }
"""
SOON = 240.0  # seconds for what happens at once on an idle machine


def leadline(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "leadline.cli", *arguments]
    return subprocess.Popen(argv, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Receiver(HTTPServer):
    """An OTLP/HTTP receiver that keeps what it is sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Received)
        self.requests: list[tuple[str, str, dict[str, Any]]] = []


class _Received(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, self.headers["Content-Type"], json.loads(body)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


@dataclass(frozen=True)
class Ui:
    directory: Path
    address: str
    token: str
    receiver: Receiver

    def ask(self, method: str, path: str, **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", int(self.address.rsplit(":", 1)[1]), timeout=SOON)
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """Two finished runs of a study, a third of 300 replicates that runs, the page and a receiver."""
    directory = tmp_path_factory.mktemp("ui")
    (directory / "study.yaml").write_text(STUDY)
    (directory / "truth.yaml").write_text(TRUTH)
    simulated = ("run", "study.yaml", "--simulate", "truth.yaml", "--new")
    for _ in range(2):
        study = Study.read(str(directory / "study.yaml"))
        assert run_study(study, directory / "lab", truth=directory / "truth.yaml", fresh=True).complete
    receiver = Receiver()
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    page = leadline("ui", "--otlp", f"http://127.0.0.1:{receiver.server_port}", cwd=directory)
    run = leadline(*simulated, "--set", "design.replicates=300", cwd=directory)
    assert page.stdout is not None
    found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/\?token=([\w-]{43})", page.stdout.readline().strip())
    assert found is not None
    yield Ui(directory, found[1], found[2], receiver)
    run.kill()  # it was stopped, and writes its report
    page.send_signal(signal.SIGINT)
    for started in (run, page):
        started.communicate(timeout=SOON)
    receiver.shutdown()


@pytest.fixture(scope="module")
def opened(browser: playwright.Browser, ui: Ui) -> Iterator[playwright.Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.set_default_timeout(1000 * SOON)
    complaints: list[str] = []
    page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{ui.address}/?token={ui.token}")
    yield page
    assert complaints == []
    context.close()


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + SOON
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.parametrize("path", ["/", "/live.json", "/metrics", "/ui.css", "/report/simulated/1", "/?token=wrong"])
def test_nothing_is_served_without_the_token(ui: Ui, path: str) -> None:
    status, said = ui.ask("GET", path)
    assert status == 403
    assert "token" in said
    assert "caches" not in said


def test_a_foreign_name_and_a_foreign_page_are_refused(ui: Ui, opened: playwright.Page) -> None:
    assert ui.ask("GET", f"/?token={ui.token}", Host="attacker.example")[0] == 403
    cookies = "; ".join(f"{one['name']}={one['value']}" for one in opened.context.cookies())
    assert ui.ask("GET", "/live.json", Cookie=cookies)[0] == 200
    stop = "/stop/simulated/3"
    form = opened.locator("meta[name=leadline-form]").get_attribute("content")
    assert form
    assert ui.ask("POST", stop, Cookie=cookies, Origin="http://attacker.example", X_Leadline_Form=form)[0] == 403
    assert ui.ask("POST", stop, Cookie=cookies, Origin=ui.address)[0] == 403
    assert ui.ask("POST", stop, Origin=ui.address, X_Leadline_Form=form)[0] == 403
    assert ui.ask("GET", stop, Cookie=cookies)[0] == 404


def test_the_token_leaves_the_address_and_the_cookie_is_closed_to_scripts(ui: Ui, opened: playwright.Page) -> None:
    assert opened.url == f"{ui.address}/"
    (cookie,) = opened.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert cookie["value"] != ui.token


def test_the_running_study_is_seen_as_it_goes(opened: playwright.Page) -> None:
    run = opened.locator("article.run")
    assert "caches@3" in run.locator("h2").inner_text()
    assert run.locator(".simulated").is_visible()
    line = re.compile(r"trial (\d+) of 60\d, .+: .+; about .+ left")
    first = line.fullmatch(run.locator(".now").inner_text())
    assert first is not None

    def later() -> bool:
        found = line.fullmatch(run.locator(".now").inner_text())
        return found is not None and int(found[1]) > int(first[1])

    until(later)
    opened.wait_for_selector(".comparison .band")
    assert "hold at every moment" in run.locator(".effects").inner_text()
    until(lambda: opened.locator(".comparison .worse").count() == 1)
    assert re.search(r"p99 \+\d.* % \[\+\d.*\], worse", opened.locator(".comparison").last.inner_text())


def test_its_figures_are_there_for_prometheus_and_are_sent_to_a_receiver(ui: Ui) -> None:
    until(lambda: "leadline_throughput" in ui.ask("GET", "/metrics", Authorization=f"Bearer {ui.token}")[1])
    _, text = ui.ask("GET", "/metrics", Authorization=f"Bearer {ui.token}")
    assert re.search(r'^leadline_trials\{study="caches@3",lab="simulated"\} 60\d$', text, re.MULTILINE)
    assert ui.ask("GET", "/live.json", Authorization=f"Bearer {ui.token}")[0] == 403
    until(lambda: ui.receiver.requests)
    path, kind, document = ui.receiver.requests[-1]
    assert (path, kind) == ("/v1/metrics", "application/json")
    metrics = document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    assert "leadline.trials" in [one["name"] for one in metrics]
