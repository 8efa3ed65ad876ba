"""The page of GC logs in headless Chromium: live panels, one zoom for all of them, in print and in dark."""

from pathlib import Path
from typing import Any

import pytest
from page_kinds import gc_logs
from readable import CUT_OFF, OVER_MARGIN, READABLE, SCROLL_THROUGH

pytestmark = pytest.mark.browser
A4_WIDTH = 703  # CSS pixels between the margins of 12 mm
SHOWN = "!!document.getElementById('explorer').dataset.shown"
FROM = "[...document.querySelectorAll('[data-panel] .chart')].map((one) => one.drawn.view.signal('from_s'))"


def test_panels_share_a_zoom_and_tell_their_values_in_every_view(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(viewport={"width": 1400, "height": 900}, offline=True)
    page = context.new_page()
    page.set_default_timeout(120_000)
    wrong: list[str] = []
    page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(gc_logs("gc", tmp_path).as_uri())
    page.evaluate(SCROLL_THROUGH)
    while not page.evaluate(SHOWN):
        page.wait_for_timeout(50)
    assert page.locator("#answer").inner_text().startswith("Against A, B has ")
    assert len(set(page.evaluate(FROM))) == 1

    page.get_by_role("button", name="zoom in").click()
    assert page.locator("#explorer output").inner_text().endswith(" s")
    moved = page.evaluate(FROM)
    assert len(moved) == 8  # four panels, two logs
    assert len(set(moved)) == 1
    assert moved[0] > 0

    pauses = page.locator("[data-panel=gc][data-side=a] .chart")
    pauses.focus()
    pauses.press("ArrowRight")
    assert "Pause Young (Normal)" in page.locator("#tip").inner_text()

    for width, scheme in ((1400, "dark"), (390, "light"), (390, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(300)
        assert page.evaluate(CUT_OFF) == []
        assert page.evaluate(READABLE) == []
    page.set_viewport_size({"width": A4_WIDTH, "height": 1000})
    page.emulate_media(media="print")
    page.reload()
    page.evaluate(SCROLL_THROUGH)
    while not page.evaluate(SHOWN):
        page.wait_for_timeout(50)
    assert page.evaluate(OVER_MARGIN) == []
    assert wrong == []
    context.close()
