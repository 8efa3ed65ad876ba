// Tables sort by a click on their heads; on a phone their rows become cards. Links to a part open it.
document.documentElement.classList.add("scripted");

const value = (cell) => {
  const found = cell.textContent.replaceAll(",", "").replaceAll("\u2212", "-").match(/-?\d+(\.\d+)?(e[+-]?\d+)?/i);
  return found ? Number(found[0]) : NaN;
};
const sortable = (table) => {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...body.rows];
  if (rows.length < 2 || table.querySelector("[colspan], [rowspan]")) return;
  heads.forEach((head, at) => {
    if (head.classList.contains("drawn")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    const numeric = head.classList.contains("n") ||
      rows.filter((row) => /^[\s\u2212-]*\d/.test(row.cells[at].textContent)).length > rows.length / 2;
    button.addEventListener("click", () => {
      const now = { none: "ascending", ascending: "descending", descending: "none" }[head.ariaSort || "none"];
      for (const other of heads) other.removeAttribute("aria-sort");
      const sorted = [...rows];
      if (now !== "none") {
        head.ariaSort = now;
        const sign = now === "ascending" ? 1 : -1;
        const compare = (a, b) => {
          if (!numeric) return sign * a.cells[at].textContent.localeCompare(b.cells[at].textContent, "en", { numeric: true });
          const [left, right] = [value(a.cells[at]), value(b.cells[at])];
          if (Number.isNaN(left) || Number.isNaN(right)) return Number.isNaN(left) - Number.isNaN(right);
          return sign * (left - right);
        };
        sorted.sort(compare);
      }
      body.append(...sorted);
    });
  });
};
for (const table of document.querySelectorAll("table")) {
  if (!table.tHead || !table.tBodies.length) continue;
  table.setAttribute("role", "table");
  for (const row of table.rows) row.setAttribute("role", "row");
  const names = [...table.tHead.rows[0].cells].map((head) =>
    [...head.childNodes].map((part) => part.textContent.trim()).filter(Boolean).join(", "),
  );
  for (const head of table.tHead.rows[0].cells) head.setAttribute("role", "columnheader");
  for (const row of table.tBodies[0].rows) {
    [...row.cells].forEach((cell, at) => {
      cell.setAttribute("role", cell.tagName === "TH" ? "rowheader" : "cell");
      if (cell.tagName === "TD" && !cell.dataset.label && !cell.hasAttribute("colspan")) cell.dataset.label = names[at];
    });
  }
  if (!table.classList.contains("glance")) table.classList.add("cards");
  sortable(table);
}

// ---- parts and links
const reveal = () => {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  requestAnimationFrame(() => target.scrollIntoView());
};
addEventListener("hashchange", reveal);
for (const link of document.querySelectorAll('a[href^="#"]')) {
  link.addEventListener("click", () => { if (link.hash === location.hash) reveal(); });
}
const parts = [...document.querySelectorAll(".layer > details")];
for (const button of document.querySelectorAll(".unfold")) {
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-pressed") !== "true";
    for (const part of parts) part.open = open;
    button.setAttribute("aria-pressed", String(open));
    button.textContent = open ? "Fold all parts" : "Unfold all parts";
  });
}
reveal();

// what can be scrolled can be reached by keyboard
const reachable = () => {
  for (const box of document.querySelectorAll(".scroll, pre")) {
    if (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
};
for (const part of document.querySelectorAll("details")) part.addEventListener("toggle", reachable);
reachable();
