"""Pages of every kind in headless Chromium by the rules of axe-core, at two widths, in light and dark."""

import sys
from pathlib import Path
from typing import Any

import pytest
from playwright import sync_api as playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "stack"))

from page_kinds import KINDS, page_of
from readable import CUT_OFF, DRAWN, READABLE, SCROLL_THROUGH, violations
from witnesses import matrix

pytestmark = pytest.mark.browser

# Of a study and of a tuning; soak and load have templates of their own, in the matrix like the rest.
ALWAYS = ("factorial", "tuning")
ALIKE = matrix("a page of a kind that is checked, with other figures")


def open_all(page: playwright.Page) -> None:
    """Unfold every part, and wait until its drawings are live."""
    page.get_by_role("button", name="Unfold all parts").click()
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    page.evaluate(SCROLL_THROUGH)
    while page.evaluate("document.querySelectorAll('[data-figure]:not([data-live])').length"):
        page.wait_for_timeout(50)  # wait_for_function evaluates a text, which the page's policy forbids


@pytest.mark.parametrize("kind", [kind if kind in ALWAYS else pytest.param(kind, marks=ALIKE) for kind in KINDS])
def test_a_page_breaks_no_rule_and_nothing_leaves_it(browser: Any, tmp_path: Path, kind: str) -> None:
    """Contrast is judged in all four views: axe sees that of text in the page, ``READABLE`` also that in drawings."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, offline=True)
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(page_of(kind, tmp_path).as_uri())
    open_all(page)
    for width, of_axe in ((1400, "light"), (390, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(300)
        assert page.evaluate(CUT_OFF) == []
        if width == 1400:
            assert page.evaluate(DRAWN) == []
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(READABLE) == []
            if scheme == of_axe:
                assert violations(page) == []
    context.close()
