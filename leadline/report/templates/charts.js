"use strict";
// Figures: drawn when they come into view, as wide as their place; legends toggle; the nearest point tells its value.
const data = JSON.parse(document.getElementById("page-data").textContent);
// the interpreter runs expressions without eval, which the page's policy forbids
const options = {
  mode: "vega-lite", renderer: "svg", actions: false, ast: true, hover: false, tooltip: false,
  loader: { load: () => Promise.reject(new Error("a report loads nothing")) },
};
const NEAR = 70; // pixels within which a point tells its value
const failed = (error) => console.error(error);

const each = (spec, act) => {
  act(spec);
  for (const key of ["vconcat", "hconcat", "concat", "layer"]) for (const part of spec[key] || []) each(part, act);
  if (spec.spec) each(spec.spec, act);
};

// The specification for a place of so many pixels; ``excess``: how much too wide the first drawing was.
const fitted = (spec, room, excess) => {
  const copy = structuredClone(spec);
  const narrow = room < 640;
  if (narrow && copy.hconcat) {
    copy.vconcat = copy.hconcat;
    delete copy.hconcat;
    each(copy, (one) => {
      const y = one.encoding && one.encoding.y;
      if (y && y.axis && y.axis.labels === false) delete y.axis.labels;
    });
  }
  each(copy, (one) => {
    if (typeof one.width === "number") one.width = Math.max(120, one.width - excess / (copy.hconcat || [1]).length);
    for (const channel of narrow ? Object.values(one.encoding || {}) : []) {
      if (channel && channel.legend) Object.assign(channel.legend, { columns: room < 420 ? 1 : 2, labelLimit: room - 60 });
      if (channel && channel.axis && channel.axis.labelLimit > 130) channel.axis.labelLimit = 130;
    }
  });
  return copy;
};

const excesses = new Map(); // figure and room -> what was too wide at the first drawing
const draw = async (holder, spec) => {
  const stage = document.createElement("div");
  stage.style.position = "absolute";
  stage.style.visibility = "hidden";
  holder.append(stage);
  const room = holder.clientWidth;
  const key = `${holder.dataset.figure || holder.parentElement.dataset.panel} ${room}`;
  let excess = excesses.get(key) || 0;
  let shown = fitted(spec, room, excess);
  let result = await vegaEmbed(stage, shown, options);
  for (let turn = 0; turn < 2; turn++) {
    const over = stage.querySelector("svg").viewBox.baseVal.width - room;
    if (over <= 0) break;
    excess += over + 2;
    excesses.set(key, excess);
    result.finalize();
    shown = fitted(spec, room, excess);
    result = await vegaEmbed(stage, shown, options);
  }
  for (const old of [...holder.children]) if (old !== stage) old.remove();
  stage.removeAttribute("style");
  if (holder.drawn) holder.drawn.finalize();
  holder.drawn = result;
  for (const mark of stage.querySelectorAll("[role=graphics-symbol]:not([aria-label])"))  // of nothing
    for (const name of ["role", "aria-roledescription"]) mark.removeAttribute(name);
  holder.off = holder.off || new Set();
  legends(holder, shown);
  if (!holder.dataset.live) telling(holder);
  holder.dataset.live = "true";
};

const lazily = (elements, act) => {
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      watcher.unobserve(entry.target);
      act(entry.target).catch(failed);
    }
  }, { rootMargin: "600px" });
  for (const element of elements) watcher.observe(element);
};

// ---- legends
const legends = (holder, spec) => {
  const fields = new Set();
  each(spec, (one) => {
    for (const name of ["color", "strokeDash", "shape"]) {
      const channel = one.encoding && one.encoding[name];
      if (channel && channel.field && channel.legend !== null) fields.add(channel.field);
    }
  });
  const entries = [...holder.querySelectorAll(".role-legend-label text, .role-legend-symbol path")];
  const apply = () => {
    for (const element of entries) {
      const name = String(element.__data__.datum.value);
      element.classList.toggle("off", holder.off.has(name));
      if (element.tagName === "text") element.setAttribute("aria-pressed", String(!holder.off.has(name)));
    }
    for (const element of holder.querySelectorAll("svg path, svg line, svg text, svg rect")) {
      const item = element.__data__;
      const row = item && item.datum;
      if (!row || element.closest(".role-legend, .role-axis")) continue;
      element.classList.toggle("hidden", [...fields].some((field) => holder.off.has(String(row[field]))));
    }
  };
  const toggle = (name) => {
    if (!holder.off.delete(name)) holder.off.add(name);
    apply();
  };
  for (const element of entries) {
    const name = String(element.__data__.datum.value);
    element.addEventListener("click", () => toggle(name));
    element.style.pointerEvents = "auto";
    if (element.tagName !== "text") continue;
    element.setAttribute("role", "button");
    element.setAttribute("tabindex", "0");
    const seen = element.textContent; // shortened where the name is long
    element.setAttribute("aria-label", seen === name ? `Show ${name}` : `Show ${seen}: ${name}`);
    for (let above = element.parentElement; above && above.tagName !== "svg"; above = above.parentElement) {
      above.removeAttribute("aria-hidden");
      above.removeAttribute("pointer-events");
      if (above.classList.contains("role-legend")) above.setAttribute("role", "group");
    }
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      toggle(name);
    });
  }
  apply();
};

// ---- the nearest point
const tip = document.createElement("div");
tip.id = "tip";
tip.setAttribute("role", "status");
document.body.append(tip);

const points = (holder) => {
  const found = [];
  const walk = (mark, dx, dy) => {
    for (const item of mark.items || []) {
      if (mark.marktype === "group") for (const child of item.items || []) walk(child, dx + item.x, dy + item.y);
      else if (item.tooltip && typeof item.tooltip === "object" && Number.isFinite(item.x) && Number.isFinite(item.y)) {
        const line = mark.marktype === "line" || mark.marktype === "area";
        const middle = mark.marktype === "rect";
        found.push({
          x: dx + item.x + (middle ? (item.width || 0) / 2 : 0),
          y: dy + item.y + (middle ? (item.height || 0) / 2 : 0),
          line, item,
        });
      }
    }
  };
  walk(holder.drawn.view.scenegraph().root, 0, 0);
  const hidden = (item) => Object.values(item.datum || {}).some((value) => holder.off.has(String(value)));
  return found.filter((point) => !hidden(point.item)).sort((a, b) => a.x - b.x || a.y - b.y);
};
const frame = (holder) => holder.querySelector("svg > g").getScreenCTM();
const tell = (holder, point) => {
  const at = new DOMPoint(point.x, point.y).matrixTransform(frame(holder));
  const words = Object.entries(point.item.tooltip).map(([name, value]) => `${name}: ${value}`).join("\n");
  if (tip.textContent !== words) tip.textContent = words;
  const width = tip.offsetWidth;
  tip.style.left = `${Math.max(4, at.x + 14 + width < innerWidth ? at.x + 14 : at.x - 14 - width)}px`;
  tip.style.top = `${Math.min(at.y + 12, innerHeight - tip.offsetHeight - 4)}px`;
  let ring = holder.querySelector(".ring");
  if (!ring) {
    ring = document.createElement("div");
    ring.className = "ring";
    holder.append(ring);
  }
  const box = holder.getBoundingClientRect();
  ring.style.left = `${at.x - box.left + holder.scrollLeft}px`;
  ring.style.top = `${at.y - box.top}px`;
};
const silent = (holder) => {
  tip.textContent = "";
  const ring = holder.querySelector(".ring");
  if (ring) ring.remove();
  holder.told = -1;
};
const telling = (holder) => {
  holder.told = -1;
  holder.tabIndex = 0;
  holder.setAttribute("role", "group");
  const caption = holder.parentElement.querySelector("figcaption");
  const name = (caption && caption.textContent) || holder.closest("figure").dataset.panel || "figure";
  holder.setAttribute("aria-label", `${name.slice(0, 120)} (arrow keys read the points)`);
  holder.addEventListener("pointermove", (event) => {
    if (!holder.drawn || holder.dragged) return;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(frame(holder).inverse());
    let best = null;
    let least = NEAR;
    for (const point of points(holder)) {
      const far = point.line ? Math.hypot(2 * (point.x - at.x), (point.y - at.y) / 2) : Math.hypot(point.x - at.x, point.y - at.y);
      if (far < least) [best, least] = [point, far];
    }
    if (best) tell(holder, best);
    else silent(holder);
  });
  for (const name of ["pointerleave", "blur"]) holder.addEventListener(name, () => silent(holder));
  holder.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") silent(holder);
    if (!step || event.target !== holder || !holder.drawn) return;
    event.preventDefault();
    const all = points(holder);
    if (!all.length) return;
    holder.told = Math.min(all.length - 1, Math.max(0, holder.told + step));
    tell(holder, all[holder.told]);
  });
};

lazily(document.querySelectorAll("[data-figure]"), (holder) => draw(holder, data.figures[holder.dataset.figure]));
let settled = 0;
let width = innerWidth;
addEventListener("resize", () => {
  clearTimeout(settled);
  settled = setTimeout(() => {
    if (width === innerWidth) return;
    width = innerWidth;
    for (const holder of document.querySelectorAll("[data-figure][data-live]"))
      draw(holder, data.figures[holder.dataset.figure]).catch(failed);
    document.dispatchEvent(new Event("resized"));
  }, 200);
});
