"""The report opened in headless Chromium without a network."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from report_fixture import NASTY, fake_study

from leadline.model.record import StudyRecord
from leadline.model.result import StudyAnalysis
from leadline.report.page import build

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StudyRecord, StudyAnalysis]:
    folder = tmp_path_factory.mktemp("report")
    record, analysis = fake_study(folder / "lab", replicates=2)
    return build(record, analysis, folder / "report.html"), record, analysis


class Visit:
    """A page with everything it complained of or asked the network for."""

    def __init__(self, browser: playwright.Browser, path: Path, *, scripts: bool = True, width: int = 1280) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, offline=True, java_script_enabled=scripts
        )
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page = self.context.new_page()
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def scroll_through(self) -> None:
        height = self.page.evaluate("document.documentElement.scrollHeight")
        for y in range(0, height, 700):
            self.page.evaluate(f"window.scrollTo(0, {y})")
            self.page.wait_for_timeout(30)


@pytest.fixture(scope="module")
def visit(browser: playwright.Browser, report: tuple[Path, StudyRecord, StudyAnalysis]) -> Iterator[Visit]:
    opened = Visit(browser, report[0])
    opened.scroll_through()
    opened.page.wait_for_function(
        "document.querySelectorAll('[data-figure]:not([data-live])').length === 0"
        " && document.getElementById('explorer').dataset.shown"
    )
    yield opened
    opened.context.close()


def test_the_answer_is_seen_first(visit: Visit, report: tuple[Path, StudyRecord, StudyAnalysis]) -> None:
    visit.page.evaluate("window.scrollTo(0, 0)")
    answer = visit.page.locator("#answer")
    assert answer.inner_text() == report[2].answer
    box = answer.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 500
    size = visit.page.evaluate("parseFloat(getComputedStyle(document.getElementById('answer')).fontSize)")
    assert size > 20


def test_every_chart_is_live_and_has_marks(visit: Visit) -> None:
    counts = visit.page.evaluate(
        "[...document.querySelectorAll('.chart[data-live]')].map(c => c.querySelectorAll("
        "'.mark-symbol path, .mark-line path, .mark-rect path, .mark-area path, .mark-rule line').length)"
    )
    assert len(counts) > 20
    assert min(counts) > 0


def test_nothing_was_asked_of_a_network_and_nothing_went_wrong(visit: Visit) -> None:
    assert [url for url in visit.asked if not url.startswith("file:")] == []
    assert visit.complaints == []


def test_strings_from_outside_ran_nothing(visit: Visit) -> None:
    assert visit.page.evaluate("window.hacked === undefined")
    assert NASTY in visit.page.inner_text("body")


def test_the_selector_shows_another_trial(visit: Visit, report: tuple[Path, StudyRecord, StudyAnalysis]) -> None:
    record = report[1]
    page = visit.page
    pool = page.locator("[data-panel=pool][data-side=b]")
    before = pool.locator("svg").inner_html()
    assert "was starved" in pool.locator("figcaption").inner_text()
    left = page.locator("#trial-a").input_value()
    calm = next(
        t
        for t in record.trials
        if t.state == "done"
        and str(t.id) != left
        and t.planned.position not in (5, 7)
        and t.planned.treatment["server.datasource.max_connections"] == 40
    )
    page.select_option("#trial-b", str(calm.id))
    page.wait_for_function(f"document.getElementById('explorer').dataset.shown === '{left} {calm.id}'")
    assert "nobody waited" in pool.locator("figcaption").inner_text()
    assert pool.locator("svg").inner_html() != before
    # a trial that lost its files says so and the page goes on
    lost = next(t for t in record.trials if t.state == "done" and t.planned.position == 5)
    page.select_option("#trial-b", str(lost.id))
    page.wait_for_function(f"document.getElementById('explorer').dataset.shown === '{left} {lost.id}'")
    assert pool.inner_text().strip() == "not recorded"
    page.select_option("#trial-b", str(calm.id))
    page.wait_for_function(f"document.getElementById('explorer').dataset.shown === '{left} {calm.id}'")
    assert pool.locator("svg").count() == 1
    assert visit.complaints == []


@pytest.mark.parametrize("width", [420, 1280])
def test_text_and_figures_are_there_without_scripts(
    browser: playwright.Browser, report: tuple[Path, StudyRecord, StudyAnalysis], width: int
) -> None:
    plain = Visit(browser, report[0], scripts=False, width=width)
    assert plain.page.locator("#answer").inner_text() == report[2].answer
    assert plain.page.locator(".chart svg").count() > 20
    assert not plain.page.locator(".picker").is_visible()
    assert "was starved" in plain.page.locator("[data-panel=pool][data-side=b] figcaption").inner_text()
    plain.context.close()


@pytest.mark.parametrize("width", [420, 800, 1280])
def test_the_page_never_scrolls_sideways(
    browser: playwright.Browser, report: tuple[Path, StudyRecord, StudyAnalysis], width: int
) -> None:
    sized = Visit(browser, report[0], width=width)
    assert sized.page.evaluate("document.documentElement.scrollWidth") <= width
    sized.context.close()


def test_it_prints(browser: playwright.Browser, report: tuple[Path, StudyRecord, StudyAnalysis]) -> None:
    opened = Visit(browser, report[0])
    pdf = opened.page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) > 3
    opened.context.close()
