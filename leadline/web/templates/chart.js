"use strict";
/* Small drawings in SVG; their text is set as text, never as markup. */
const SVG = "http://www.w3.org/2000/svg";

function drawn(name, attributes, words) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (words !== undefined) element.textContent = words;
  return element;
}

function short(value) {
  const size = Math.abs(value);
  if (size >= 1000) return value.toLocaleString("en", { maximumFractionDigits: 0 });
  return String(Number(value.toPrecision(size < 0.01 ? 2 : 3)));
}

/* Round values between low and high: powers of ten with 2 and 5 on a log axis. */
function ticks(low, high, log) {
  const found = [];
  if (log) {
    for (let ten = Math.floor(Math.log10(low)); ten <= Math.ceil(Math.log10(high)); ten++)
      for (const one of [1, 2, 5]) { const at = one * 10 ** ten; if (at >= low && at <= high) found.push(at); }
    return found.length > 7 ? found.filter((at) => String(at / 10 ** Math.floor(Math.log10(at) + 1e-9)).startsWith("1")) : found;
  }
  const rough = (high - low) / 4, ten = 10 ** Math.floor(Math.log10(rough));
  const step = ten * ([1, 2, 5, 10].find((one) => one * ten >= rough) || 10);
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-6; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return found;
}

/* An empty drawing with axes, as wide as its holder so that its text has its size: {svg, x, y}.
   x: [low, high], y: [low, high]. */
function axes(holder, wanted) {
  const width = holder.clientWidth || 560, height = wanted.height || 190, left = 52, right = 10, top = 8, bottom = 24;
  const [x0, x1] = wanted.x, log = Boolean(wanted.log);
  let [y0, y1] = wanted.y;
  if (log) { y0 = Math.max(y0, 1e-6); if (y1 / y0 < 2) { y0 /= 1.5; y1 *= 1.5; } }
  else if (y1 - y0 < 1e-9) { y0 -= 1; y1 += 1; }
  const on = (value) => (log ? Math.log(value) : value);
  const x = (value) => left + ((value - x0) / (x1 - x0 || 1)) * (width - left - right);
  const y = (value) => height - bottom - ((on(value) - on(y0)) / (on(y1) - on(y0))) * (height - top - bottom);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": wanted.label });
  for (const at of ticks(y0, y1, log)) {
    svg.append(drawn("line", { class: "grid", x1: left, x2: width - right, y1: y(at), y2: y(at) }));
    svg.append(drawn("text", { x: left - 6, y: y(at) + 4, "text-anchor": "end" }, short(at)));
  }
  for (const at of wanted.xTicks || ticks(x0, x1, false)) {
    const atEdge = x(at) > width - 2 * right;
    svg.append(drawn("text", { x: atEdge ? width : x(at), y: height - 6, "text-anchor": atEdge ? "end" : "middle" },
      wanted.name ? wanted.name(at) : short(at)));
  }
  svg.append(drawn("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }));
  if (!log && y0 < 0 && y1 > 0) svg.append(drawn("line", { class: "zero", x1: left, x2: width - right, y1: y(0), y2: y(0) }));
  holder.replaceChildren(svg);
  return { svg, x, y: (value) => y(Math.min(Math.max(value, y0), y1)), top, floor: height - bottom };
}

function path(points) {
  return points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

/* Lines over seconds. series: [{name, points: [[x, y, whether y is a lower bound]]}] */
function lines(holder, label, series, log) {
  const all = series.flatMap((one) => one.points).filter(([, y]) => !log || y > 0);
  if (!all.length) { holder.replaceChildren("no load yet"); return; }
  const xs = all.map(([x]) => x), ys = all.map(([, y]) => y);
  const most = Math.max(...ys);
  const plane = axes(holder, { label, log, x: [Math.min(...xs), Math.max(...xs, Math.min(...xs) + 1)],
    y: log ? [Math.min(...ys), most] : [0, most * 1.05] });
  for (const one of series) {
    const points = one.points.filter(([, y]) => !log || y > 0).map(([x, y]) => [plane.x(x), plane.y(y)]);
    plane.svg.append(drawn("path", { class: one.name, d: path(points) }));
    for (const [x, y, least] of one.points)
      if (least) plane.svg.append(drawn("text", { x: plane.x(x), y: plane.y(y) + 4, "text-anchor": "middle" }, "\u2265"));
  }
}

/* One effect as it narrows. moments: [{blocks, percent, low, high}] */
function fan(holder, label, moments, blocks) {
  const known = moments.filter((one) => one.low !== null && one.percent !== null);
  if (!known.length) { holder.replaceChildren("no interval yet"); return; }
  const latest = known[known.length - 1];
  const reach = 1.3 * Math.max(...known.slice(-4).flatMap((one) => [Math.abs(one.low), Math.abs(one.high)]), Math.abs(latest.percent));
  const first = known[0].blocks;
  const plane = axes(holder, { label, height: 120, x: [first, Math.max(blocks, first + 1)], y: [-reach, reach],
    xTicks: [...new Set([first, latest.blocks, blocks])] });
  const bound = (key) => known.map((one) => [plane.x(one.blocks), plane.y(one[key])]);
  if (known.length > 1)
    plane.svg.append(drawn("path", { class: "band", d: `${path(bound("high"))}${path(bound("low").reverse()).replace("M", "L")}Z` }));
  plane.svg.append(drawn("path", { class: "a", d: path(bound("percent")) }));
  plane.svg.append(drawn("line", { class: "whisker", x1: plane.x(latest.blocks), x2: plane.x(latest.blocks),
    y1: plane.y(latest.low), y2: plane.y(latest.high) }));
  plane.svg.append(drawn("circle", { cx: plane.x(latest.blocks), cy: plane.y(latest.percent), r: 4 }));
}
