"""What a report costs its reader: bytes, height, time to first paint, smallest text, sideways scrolling.

    python -m bench report
    python bench/report/page.py [REPORT.html ...] [--repeats 5] [--shots DIR]

Without a file: the report of a simulated study, made for this. Each page is opened afresh in headless Chromium without
a network, at 1400 and 390 CSS pixels. First paint: first contentful paint after navigation began, ms, the median of the
repeats. Smallest text: of all that is laid out. `--shots` writes pictures: light, dark, phone, and the print as PDF.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
WIDTHS = (1400, 390)
TRUTH = """\
truth:
  seed: 1
  effects:
    - { when: { server.datasource.max_connections: 2 }, percent: { throughput: -8%, p99: 40% } }
"""
FACTS = """() => {
  const sizes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const holder = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !holder.checkVisibility()) continue;
    const box = holder.getBoundingClientRect();
    if (!box.width || holder.closest("script, style")) continue;
    const svg = holder.closest("svg");
    const scale = svg && svg.viewBox.baseVal.width ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    sizes.push(parseFloat(getComputedStyle(holder).fontSize) * scale);
  }
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return { height: document.documentElement.scrollHeight, smallest: Math.min(...sizes),
    wider: document.documentElement.scrollWidth - innerWidth, paint: paint ? paint.startTime : NaN };
}"""


def measured(browser: Browser, path: Path, width: int, *, opened: bool = False) -> dict[str, Any]:
    """Figures of one fresh visit; with ``opened`` every part is unfolded first."""
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
    page = context.new_page()
    page.goto(path.resolve().as_uri())
    page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0", timeout=30_000)
    if opened:
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        for y in range(0, page.evaluate("document.documentElement.scrollHeight"), 600):
            page.evaluate(f"window.scrollTo(0, {y})")
            page.wait_for_timeout(60)
    found: dict[str, Any] = page.evaluate(FACTS)
    context.close()
    return found


def shoot(browser: Browser, path: Path, out: Path) -> None:
    """Pictures of the first screen and the whole page, and the print."""
    out.mkdir(parents=True, exist_ok=True)
    views: list[tuple[str, int, Any]] = [("light", 1400, "light"), ("dark", 1400, "dark"), ("phone", 390, "light")]
    for name, width, scheme in views:
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, color_scheme=scheme)
        page = context.new_page()
        page.goto(path.resolve().as_uri())
        page.wait_for_timeout(500)
        page.screenshot(path=out / f"{name}.png")
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        for y in range(0, page.evaluate("document.documentElement.scrollHeight"), 600):
            page.evaluate(f"window.scrollTo(0, {y})")
            page.wait_for_timeout(60)
        page.wait_for_timeout(1500)
        page.screenshot(path=out / f"{name}-opened.png", full_page=True)
        context.close()
    page = browser.new_page()
    page.goto(path.resolve().as_uri())
    page.pdf(path=out / "print.pdf", format="A4")
    page.close()


def simulated(place: Path) -> Path:
    """The report of a small study on a simulated host."""
    (place / "truth.yaml").write_text(TRUTH)
    done = subprocess.run(
        [sys.executable, "-m", "leadline", "run", "quickstart", "--simulate", "truth.yaml"],
        cwd=place, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    found = sorted(place.glob("lab/simulated/reports/*/report.html"))
    if not found:
        sys.exit(f"the simulated study has no report: {done.stderr}")
    return found[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="*", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--shots", type=Path)
    options = parser.parse_args()
    chromium = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if chromium is None:
        sys.exit(f"none of {', '.join(CHROMIUM)} is on the path")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as started:
        reports = options.reports or [simulated(Path(place))]
        browser = started.chromium.launch(executable_path=chromium, headless=True, args=ARGUMENTS)
        for path in reports:
            print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")
            for width in WIDTHS:
                seen = [measured(browser, path, width) for _ in range(options.repeats)]
                whole = measured(browser, path, width, opened=True)
                paint = statistics.median(one["paint"] for one in seen)
                print(
                    f"  {width:4d} px wide: {seen[0]['height']} px tall ({whole['height']} opened), "
                    f"first paint {paint:.0f} ms, smallest text {min(seen[0]['smallest'], whole['smallest']):.1f} px, "
                    f"{max(0, seen[0]['wider'], whole['wider'])} px of sideways scrolling"
                )
            if options.shots:
                shoot(browser, path, options.shots / path.stem)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
