"""brokerage clicked through by a person, and recorded meanwhile: a real server and database, a real browser."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import leadline

pytestmark = [pytest.mark.browser, pytest.mark.stack]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("application")
    up = leadline("up", "tomcat", "--json", cwd=place)
    assert up.returncode == 0, up.stderr
    yield json.loads(up.stdout)["url"]
    down = leadline("down", cwd=place)
    assert down.returncode == 0, down.stderr


def test_somebody_buys_and_sells(url: str, browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))

    page.goto(url + "/")
    page.get_by_label("User").fill("user-000001")
    page.get_by_label("Password").fill("pw-000001")
    page.get_by_role("button", name="Log in").click()
    assert page.url.endswith("/home")

    page.goto(url + "/portfolio")
    before = page.locator("tr[data-holding]").count()
    assert before > 0
    page.goto(url + "/quotes?symbols=S00007")
    page.get_by_label("Shares of S00007").fill("3")
    page.get_by_role("button", name="Buy").click()
    assert "Bought 3 shares of S00007" in page.inner_text("[data-order]")

    page.get_by_role("link", name="Portfolio").last.click()
    assert page.locator("tr[data-holding]").count() == before + 1
    bought = page.locator("tr[data-holding]", has_text="S00007").last
    bought.get_by_role("button", name="Sell").click()
    assert "Sold 3 shares of S00007" in page.inner_text("[data-order]")
    page.goto(url + "/portfolio")
    assert page.locator("tr[data-holding]").count() == before

    picture = tmp_path / "portfolio.png"
    page.screenshot(path=picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    page.get_by_role("button", name="Log out").click()
    page.goto(url + "/home")
    assert page.get_by_label("Password").is_visible()
    assert complaints == []
    context.close()


def test_what_somebody_does_is_recorded_as_a_scenario_that_runs(url: str, browser: Any, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "leadline.cli", "record", url, "-o", "visit.scenario.yaml", "--har", "visit.har"]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdout is not None
        proxy = recorder.stdout.readline().strip().removesuffix("/")
        assert proxy.endswith("/brokerage")
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{proxy}/")
        page.get_by_label("User").fill("user-000002")
        page.get_by_label("Password").fill("pw-000002")
        page.get_by_role("button", name="Log in").click()
        assert page.url == f"{proxy}/home", "the browser stays at the proxy"
        page.goto(f"{proxy}/quotes?symbols=S00007")
        page.get_by_label("Shares of S00007").fill("3")
        page.get_by_role("button", name="Buy").click()
        assert "Bought 3 shares of S00007" in page.inner_text("[data-order]")
        context.close()
        recorder.send_signal(signal.SIGINT)
        said = recorder.stdout.read()
    assert recorder.returncode == 0
    assert "written to visit.scenario.yaml" in said
    scenario = tmp_path / "visit.scenario.yaml"
    assert "give that server (or another) as --url" in scenario.read_text()
    entries = json.loads((tmp_path / "visit.har").read_text())["log"]["entries"]
    assert {entry["request"]["method"] for entry in entries} == {"GET", "POST"}
    # as slow as this browser was on this machine is slower than a test may be
    scenario.write_text(re.sub(r'(?m)^  mean: "\d+ms"$', '  mean: "1ms"', scenario.read_text()))
    words = ["--users", "1", "--ramp-up", "0s", "--steady", "3s", "--ramp-down", "0s"]
    done = leadline("load", "visit.scenario.yaml", "--url", url, *words, "--out", "load", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    steady = json.loads((tmp_path / "load" / "summary.json").read_text())["steady"]["all"]
    assert (steady["ok"] > 0, steady["failed"]) == (True, 0), steady
