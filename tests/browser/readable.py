"""What is wrong with a page for who reads it: sizes, contrast, text that is cut off, names, headings, landmarks."""

from typing import Any

READABLE = """() => {
  const colour = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (c) => c.slice(0, 3).map((v) => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const paper = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const c = colour(getComputedStyle(at).backgroundColor);
      if (c.length === 3 || c[3] > 0.9) return c;
    }
    return [255, 255, 255];
  };
  const wrong = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const holder = walker.currentNode.parentElement;
    const said = walker.currentNode.textContent.trim();
    if (!said || (said === "×" && holder.closest("svg")) || !holder.checkVisibility()) continue;
    if (holder.closest("script, style, .unseen, .skip, thead")) continue;
    const style = getComputedStyle(holder);
    const ink = holder.closest("svg") ? style.fill : style.color;
    if (parseFloat(style.fontSize) < 12) wrong.push(`${style.fontSize}: ${said}`);
    const [a, b] = [light(colour(ink)), light(paper(holder))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) wrong.push(`contrast ${((a + 0.05) / (b + 0.05)).toFixed(1)}: ${said}`);
  }
  for (const one of document.querySelectorAll("a, button, select, summary, [tabindex='0']")) {
    const name = one.getAttribute("aria-label") || one.textContent.trim() || (one.labels && one.labels.length);
    if (!name) wrong.push(`no name: ${one.outerHTML.slice(0, 80)}`);
  }
  let level = 0;
  for (const one of document.querySelectorAll("h1, h2, h3, h4")) {
    if (Number(one.tagName[1]) > level + 1) wrong.push(`heading ${one.tagName} below h${level}: ${one.textContent}`);
    level = Number(one.tagName[1]);
  }
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push(`twice: #${id}`);
  for (const name of ["main", "header", "footer", "h1"])
    if (document.querySelectorAll(name).length !== 1) wrong.push(`not one ${name}`);
  return [...new Set(wrong)];
}"""

CUT_OFF = """[...document.querySelectorAll('html, .scroll')].filter((one) => one.scrollWidth > one.clientWidth)
  .map((one) => `${one.className || one.tagName}: ${one.scrollWidth}`)"""

# The text of drawings as it is on the screen: a drawing that shrinks with the page shrinks its text, too.
DRAWN = """() => {
  const wrong = [];
  for (const text of document.querySelectorAll("svg text")) {
    const on = text.getScreenCTM(), size = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(on.a, on.b);
    if (size < 11.9) wrong.push(`${size.toFixed(1)} px: ${text.textContent}`);
    const box = text.getBoundingClientRect(), frame = text.closest("svg").getBoundingClientRect();
    if (box.left < frame.left - 1 || box.right > frame.right + 1) wrong.push(`cut off: ${text.textContent}`);
  }
  return wrong;
}"""


def violations(page: Any) -> list[str]:
    """Serious and critical ones of axe-core's rules: the rule, and where."""
    from axe_playwright_python.base import AXE_SCRIPT

    page.evaluate(AXE_SCRIPT)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [
        f"{one['id']}: {node['target']}: {node['failureSummary']}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


# Scrolls through the page: what is drawn when it is first seen is looked for in a frame, so each place has some frames.
SCROLL_THROUGH = """async () => {
  for (let y = 0; y < document.documentElement.scrollHeight; y += 700) {
    scrollTo({ top: y, behavior: "instant" });
    for (let frame = 0; frame < 3; frame++) {  // a page that nobody sees may get no frames
      await new Promise((done) => { requestAnimationFrame(done); setTimeout(done, 500); });
    }
  }
}"""

# What stands beyond the right margin, and is neither hidden nor in a box that scrolls by itself.
OVER_MARGIN = """() => {
  const margin = document.documentElement.clientWidth + 1, wrong = [];
  for (const one of document.querySelectorAll("body *")) {
    const box = one.getBoundingClientRect();
    if (box.width === 0 || box.height === 0 || box.right <= margin || !one.checkVisibility()) continue;
    let at = one.parentElement;
    while (at && !["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(at).overflowX)) at = at.parentElement;
    const said = one.textContent.trim().slice(0, 40);
    if (!at) wrong.push(`${one.tagName}.${one.getAttribute("class")} ${Math.round(box.right)}: ${said}`);
  }
  return wrong;
}"""
