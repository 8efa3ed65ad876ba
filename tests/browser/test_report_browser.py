"""The report opened in headless Chromium without a network."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright import sync_api as playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from planted_study import POOL, QUIET, planted
from readable import CUT_OFF, OVER_MARGIN, READABLE, SCROLL_THROUGH
from report_fixture import NASTY, fake_study

from leadline.model.record import StudyRecord
from leadline.model.result import StudyAnalysis
from leadline.report.page import build

pytestmark = pytest.mark.browser
A4_WIDTH = 703  # CSS pixels between the margins of 12 mm


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StudyRecord, StudyAnalysis]:
    folder = tmp_path_factory.mktemp("report")
    record, analysis = fake_study(folder / "lab", replicates=2)
    return build(record, analysis, folder / "report.html"), record, analysis


class Visit:
    """A page with everything it complained of or asked the network for."""

    def __init__(
        self, browser: playwright.Browser, path: Path, *, scripts: bool = True, width: int = 1280, scheme: Any = "light"
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, offline=True, java_script_enabled=scripts, color_scheme=scheme
        )
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page = self.context.new_page()
        self.page.set_default_timeout(120_000)  # forty figures on a machine that others use
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())


@pytest.fixture(scope="module")
def visit(browser: playwright.Browser, report: tuple[Path, StudyRecord, StudyAnalysis]) -> Iterator[Visit]:
    opened = Visit(browser, report[0])
    assert opened.page.evaluate("document.documentElement.scrollHeight") < 1800  # folded
    opened.page.get_by_role("button", name="Unfold all parts").click()
    opened.page.evaluate(SCROLL_THROUGH)
    opened.page.wait_for_function(
        "document.querySelectorAll('[data-figure]:not([data-live])').length === 0"
        " && document.getElementById('explorer').dataset.shown && document.querySelector('.flames').dataset.live"
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


def test_a_click_or_a_key_sorts_a_table(visit: Visit) -> None:
    table = visit.page.locator("section.layer", has=visit.page.locator("#effects")).locator("table").first

    def changes() -> list[float]:
        texts = table.locator("td[data-label='change, %']").all_inner_texts()
        return [float(text.replace("\u2212", "-")) for text in texts if text != "–"]

    written = changes()
    head = table.locator("th", has_text="change, %")
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert changes() == sorted(written)
    visit.page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert changes() == sorted(written, reverse=True)
    assert table.locator("tbody tr").last.locator("td[data-label='change, %']").inner_text() == "–"
    visit.page.keyboard.press("Enter")
    assert changes() == written


def test_a_legend_toggles_and_the_nearest_point_tells_its_value(visit: Visit) -> None:
    page = visit.page
    chart = page.locator("#timeline .chart")
    chart.scroll_into_view_if_needed()
    seen = "document.querySelectorAll('#timeline .mark-symbol.role-mark path:not(.hidden)').length"
    before = page.evaluate(seen)
    entry = chart.get_by_role("button", name="Show baseline")
    entry.focus()
    page.keyboard.press("Enter")
    assert entry.get_attribute("aria-pressed") == "false"
    assert 0 < page.evaluate(seen) < before
    chart.locator("text.off").click()
    assert page.evaluate(seen) == before
    point = chart.locator(".mark-symbol.role-mark path").first.bounding_box()
    assert point is not None
    page.mouse.move(point["x"] + 12, point["y"] + 14)  # beside the point
    tip = page.locator("#tip")
    assert "treatment: " in tip.inner_text()
    chart.focus()
    page.keyboard.press("ArrowRight")
    first = tip.inner_text()
    page.keyboard.press("ArrowRight")
    assert tip.inner_text() not in ("", first)
    page.keyboard.press("Escape")
    assert tip.inner_text() == ""


def test_a_zoom_is_shared_by_all_panels_of_both_trials(visit: Visit) -> None:
    page = visit.page
    panel = page.locator("[data-panel=throughput][data-side=a] .chart")
    panel.scroll_into_view_if_needed()
    box = panel.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 60, steps=3)
    page.mouse.up()
    shown = page.locator("#explorer output")
    assert re.fullmatch(r"\d+\.\d+ to \d+\.\d+ s", shown.inner_text())
    ranges = page.evaluate(
        "[...document.querySelectorAll('[data-panel] .chart')].filter(c => c.drawn)"
        ".map(c => [c.drawn.view.signal('from_s'), c.drawn.view.signal('until_s')].join())"
    )
    assert len(ranges) > 10
    assert len(set(ranges)) == 1
    page.get_by_role("button", name="show all of it").click()
    assert shown.inner_text() == "all of it"


def test_frames_are_zoomed_into_read_by_the_keyboard_and_found(visit: Visit) -> None:
    page = visit.page
    graph = page.locator(".flames").first
    flame, told = graph.locator(".flame"), graph.locator("output")
    whole = flame.locator("> div:visible").count()
    flame.get_by_text("Orders.place", exact=True).click()
    zoomed = flame.get_by_text("Orders.place", exact=True).bounding_box()
    assert zoomed is not None
    assert zoomed["width"] == pytest.approx(flame.evaluate("one => one.clientWidth"), abs=1.5)
    assert flame.get_by_text("Orders.list", exact=True).is_hidden()
    assert "Orders.place and below (application)" in told.inner_text()
    flame.focus()
    page.keyboard.press("Escape")
    assert flame.locator("> div:visible").count() == whole
    assert told.inner_text() == ""
    page.keyboard.press("ArrowDown")
    assert re.match(r"the (application|JDBC driver): .* ms of CPU per transaction, baseline", told.inner_text())
    page.keyboard.press("Escape")
    graph.get_by_label("Find").fill("orders.place")
    assert flame.locator(".hit").count() >= 1
    graph.get_by_label("Find").fill("")
    assert flame.locator(".hit").count() == 0
    assert visit.complaints == []


def test_it_is_readable_in_light_and_dark(visit: Visit) -> None:
    """Sizes, contrast (4.5 to 1), names, headings and landmarks."""
    for scheme in ("light", "dark"):
        visit.page.emulate_media(color_scheme=scheme)
        assert visit.page.evaluate(READABLE) == []
    visit.page.emulate_media(color_scheme="light")


def test_nothing_is_cut_off_on_a_phone(
    browser: playwright.Browser, report: tuple[Path, StudyRecord, StudyAnalysis]
) -> None:
    sized = Visit(browser, report[0], width=390)
    sized.page.evaluate("location.hash = '#order'")
    sized.page.wait_for_function("document.querySelector('#order').closest('details').open")
    sized.page.get_by_role("button", name="Unfold all parts").click()
    sized.page.evaluate(SCROLL_THROUGH)
    sized.page.wait_for_function("document.getElementById('explorer').dataset.shown")
    assert sized.page.evaluate(CUT_OFF) == []
    assert sized.page.evaluate(READABLE) == []
    assert sized.complaints == []
    sized.context.close()


def test_text_and_figures_are_there_without_scripts(
    browser: playwright.Browser, report: tuple[Path, StudyRecord, StudyAnalysis]
) -> None:
    plain = Visit(browser, report[0], scripts=False, width=420)
    assert plain.page.locator("#answer").inner_text() == report[2].answer
    assert plain.page.locator(".chart svg").count() > 20
    assert plain.page.locator(".flame > div").count() > 10
    assert plain.page.locator(".picker:visible").count() == 0
    assert "was starved" in (plain.page.locator("[data-panel=pool][data-side=b] figcaption").text_content() or "")
    assert plain.page.evaluate("document.documentElement.scrollWidth") <= 420
    plain.context.close()


def test_the_answer_prints_on_two_pages(
    browser: playwright.Browser, report: tuple[Path, StudyRecord, StudyAnalysis]
) -> None:
    opened = Visit(browser, report[0], scheme="dark")
    pdf = opened.page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 2
    opened.context.close()


@pytest.fixture(scope="module")
def sizes_report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StudyAnalysis]:
    """A study of pool sizes with five responses, of which three have one unit."""
    folder = tmp_path_factory.mktemp("sizes")
    responses = "throughput, p50, p90, p99, cpu_per_transaction"
    record, analysis = planted(POOL, "5: throughput -12%, p99 30%", QUIET, responses=responses)
    return build(record, analysis, folder / "report.html"), analysis


@pytest.mark.parametrize(("width", "media"), [(1400, "screen"), (768, "screen"), (390, "screen"), (A4_WIDTH, "print")])
def test_the_first_screen_answers_within_the_margins(
    browser: playwright.Browser, sizes_report: tuple[Path, StudyAnalysis], width: int, media: Any
) -> None:
    path, analysis = sizes_report
    opened = Visit(browser, path, width=width)
    page = opened.page
    page.emulate_media(media=media)
    head = page.locator("#answer b")
    assert head.inner_text() == analysis.headline
    assert analysis.headline.startswith("10 connections are enough: fewer hurt throughput")
    box = head.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 500, "the sentence that answers is seen without scrolling"
    assert page.evaluate(OVER_MARGIN) == []
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.evaluate(SCROLL_THROUGH)
    assert page.evaluate(OVER_MARGIN) == []
    opened.context.close()


def test_responses_of_one_unit_share_a_scale_that_says_which_way_is_better(
    browser: playwright.Browser, sizes_report: tuple[Path, StudyAnalysis]
) -> None:
    opened = Visit(browser, sizes_report[0], width=1400)
    zeros = opened.page.evaluate(
        "[...document.querySelector('#glance tbody tr').querySelectorAll('.zero')].map(line => line.getAttribute('x1'))"
    )
    assert len(zeros) == 5
    assert zeros[1] == zeros[2] == zeros[3], "p50, p90 and p99"
    head = opened.page.locator("#glance thead").inner_text()
    assert "more is better →" in head
    assert "← less is better" in head
    opened.context.close()
