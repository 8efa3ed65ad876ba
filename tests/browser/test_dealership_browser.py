"""dealership clicked through by a person: a real server and database, a real browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import server_cells

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.usefixtures("own_cache")]


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    made = server_cells.stack(tmp_path, "tomcat", "direct", app="dealership")
    made.up({}, tmp_path / "trial")
    try:
        yield made.url()
    finally:
        assert made.down() == []


def test_somebody_orders_cancels_and_sells(url: str, browser: Any) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))

    page.goto(f"{url}/")
    page.locator("input[name=name]").fill("dealer-000001")
    page.locator("input[name=password]").fill("pw-000001")
    page.get_by_role("button", name="Log in").click()
    assert "Welcome, dealer-000001" in page.inner_text("main")

    page.get_by_role("link", name="Catalogue").click()
    shown = page.locator("tr[data-model]").first.get_attribute("data-model")
    page.get_by_role("link", name="Forward").click()
    model = page.locator("tr[data-model]").first.get_attribute("data-model")
    assert model != shown
    page.get_by_role("link", name=model).click()
    page.get_by_label("Vehicles to order").fill("120")  # a large order, which is open until the plant has made them
    page.get_by_role("button", name="Add").click()
    assert page.locator("[data-cart='1']").is_visible()
    page.get_by_role("button", name="Check out").click()
    order = page.locator("[data-order]").get_attribute("data-order")
    assert model in page.inner_text("[data-order]")

    page.get_by_role("link", name="Orders").click()
    row = page.locator("tr", has=page.get_by_role("link", name=order, exact=True))
    row.get_by_role("button", name="Cancel").click()
    page.get_by_role("link", name="Orders").click()
    assert row.count() == 0
    page.get_by_role("link", name="Inventory").click()
    line = page.locator("tr", has=page.get_by_role("button", name="Sell")).first
    vehicles = int(line.locator("td.n").first.inner_text().replace(",", ""))
    sold = line.get_by_role("link").inner_text()
    line.get_by_role("button", name="Sell").click()
    page.get_by_role("link", name="Inventory").click()
    left = page.locator("tr", has=page.get_by_role("link", name=sold, exact=True))
    now = int(left.locator("td.n").first.inner_text().replace(",", "")) if left.count() else 0
    assert now == vehicles - 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Log out").click()
    page.goto(f"{url}/inventory")
    assert page.locator("input[name=password]").is_visible()
    assert [each for each in complaints if "401" not in each] == []
    context.close()
