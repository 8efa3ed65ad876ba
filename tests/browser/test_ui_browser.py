"""``leadline ui`` in headless Chromium, beside a simulated study that runs."""

import http.client
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright import sync_api as playwright
from readable import CUT_OFF, DRAWN, READABLE, violations

from leadline.api.running import run as run_study
from leadline.api.studies import Study

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
RUNS, CHANGED = 8, 6  # finished runs, and the first of them on a slower server
SLOWER = TRUTH.replace("seed: 4", "seed: 4\n  server: { demand: 3.6ms, think: 10ms }")
FASTER = SLOWER.replace("3.6ms", "3ms")
SOON = 240.0  # seconds for what happens at once on an idle machine


def leadline(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "leadline.cli", *arguments]
    return subprocess.Popen(argv, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@dataclass(frozen=True)
class Ui:
    directory: Path
    address: str
    token: str

    def ask(self, method: str, path: str, **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", int(self.address.rsplit(":", 1)[1]), timeout=SOON)
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def children(process: subprocess.Popen[str]) -> list[int]:
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    return [int(word) for task in tasks for word in (task / "children").read_text().split()]


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """Finished runs of a study, one more of 300 replicates that runs, and the page."""
    directory = tmp_path_factory.mktemp("ui")
    (directory / "study.yaml").write_text(STUDY)
    (directory / "truth.yaml").write_text(TRUTH)
    simulated = ("run", "study.yaml", "--simulate", "truth.yaml", "--new")
    for number in range(1, RUNS + 1):
        truth = (SLOWER if number >= CHANGED else FASTER).replace("seed: 4", f"seed: {number}")
        (directory / "earlier.yaml").write_text(truth)
        study = Study.read(str(directory / "study.yaml"))
        assert run_study(study, directory / "lab", truth=directory / "earlier.yaml", fresh=True).complete
    page = leadline("ui", cwd=directory)
    run = leadline(*simulated, "--set", "design.replicates=300", cwd=directory)
    assert page.stdout is not None
    found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/\?token=([\w-]{43})", page.stdout.readline().strip())
    assert found is not None
    yield Ui(directory, found[1], found[2])
    run.kill()  # it was stopped, and writes its report
    for number in children(page):  # as does what the page has resumed
        os.kill(number, signal.SIGKILL)
    page.send_signal(signal.SIGINT)
    for started in (run, page):
        started.communicate(timeout=SOON)


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
    stop = f"/stop/simulated/{RUNS + 1}"
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
    assert f"caches@{RUNS + 1}" in run.locator("h2").inner_text()
    assert run.locator(".simulated").is_visible()
    line = re.compile(r"trial (\d+) of 60\d, .+: .+; about .+ left")
    first = line.fullmatch(run.locator(".now").inner_text())
    assert first is not None

    def later() -> bool:
        found = line.fullmatch(run.locator(".now").inner_text())
        return found is not None and int(found[1]) > int(first[1])

    until(later)
    opened.wait_for_selector(".comparison .band")
    assert "hold after all blocks of the plan together" in run.locator(".effects").inner_text()
    until(lambda: opened.locator(".comparison .worse").count() == 1)
    assert re.search(r"p99 \+\d.* % \[\+\d.*\], worse", opened.locator(".comparison").last.inner_text())


def test_its_figures_are_there_for_prometheus(ui: Ui) -> None:
    until(lambda: "leadline_throughput" in ui.ask("GET", "/metrics", Authorization=f"Bearer {ui.token}")[1])
    _, text = ui.ask("GET", "/metrics", Authorization=f"Bearer {ui.token}")
    assert re.search(r'^leadline_trials\{study="caches@9",lab="simulated"\} 60\d$', text, re.MULTILINE)
    assert ui.ask("GET", "/live.json", Authorization=f"Bearer {ui.token}")[0] == 403


@contextmanager
def on_a_phone(page: playwright.Page) -> Iterator[None]:
    """390 px wide; nothing is cut off or too small to read, in light and dark."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    yield
    assert page.evaluate(CUT_OFF) == []
    assert page.evaluate(DRAWN) == []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(READABLE) == []
        assert violations(page) == []
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1400, "height": 900})


def test_two_runs_are_compared(ui: Ui, opened: playwright.Page) -> None:
    opened.goto(ui.address)
    opened.get_by_label("first").select_option("simulated/1")
    opened.get_by_label("second").select_option(f"simulated/{RUNS}")
    opened.get_by_role("button", name="Compare").click()
    assert "caches@8: the baseline's throughput \u2212" in opened.locator(".answer").inner_text()
    assert opened.locator(".simulated").is_visible()
    with on_a_phone(opened):
        row = opened.locator("tbody tr", has_text="throughput").first
        assert row.locator("[data-label=verdict]").inner_text() == "lower"
        assert re.match(r"\u2212\d", row.locator("[data-label='change, %']").inner_text())
        assert "truth" in opened.locator("li").inner_text()


def test_a_history_shows_where_it_changed(ui: Ui, opened: playwright.Page) -> None:
    opened.goto(ui.address)
    opened.get_by_role("link", name="history").last.click()
    opened.wait_for_selector("#history svg")
    assert opened.locator(".simulated").is_visible()
    assert f"with caches@{CHANGED}" in opened.locator(".answer").inner_text()
    with on_a_phone(opened):
        opened.wait_for_selector("#history svg")
        circles = opened.locator("#history circle").count()
        assert circles >= RUNS
        change = opened.locator("#history line.change")
        places = [float(circle.get_attribute("cx") or "") for circle in opened.locator("#history circle").all()]
        assert places[CHANGED - 2] < float(change.get_attribute("x1") or "") < places[CHANGED - 1]
        assert opened.locator("[data-label=differs]").first.inner_text() == "– (the first run)"
    opened.get_by_label("figure").select_option("server.datasource.statement_cache=20")
    opened.get_by_label("response").select_option("p99")
    opened.get_by_role("button", name="Show").click()
    opened.wait_for_selector("#history svg")
    assert "no change point" in opened.locator(".answer").inner_text()


def test_a_study_is_stopped_and_resumed_from_the_page(ui: Ui, opened: playwright.Page) -> None:
    opened.goto(ui.address)
    name = f"caches@{RUNS + 1}"
    run, listed = opened.locator("article.run"), opened.locator(".studies tbody tr", has_text=name)
    with on_a_phone(opened):
        opened.wait_for_selector("article.run .comparison .band")
    opened.get_by_role("button", name=f"Stop {name}").click()
    opened.get_by_text(f"{name} is asked to stop").wait_for()
    resume = opened.get_by_role("button", name=f"Resume {name}")
    resume.wait_for()
    assert run.count() == 0
    done = int(listed.locator("[data-label=trials]").inner_text().split()[0])
    assert 0 < done < 600
    resume.click()
    run.wait_for()
    assert run.locator("h2").inner_text() == name
    again = re.search(r"trial (\d+) of", run.locator(".now").inner_text())
    assert again is not None
    assert int(again[1]) > done
    assert listed.count() == 1
