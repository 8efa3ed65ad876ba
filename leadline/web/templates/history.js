"use strict";
const found = JSON.parse(document.getElementById("data").textContent);
const points = found.points, last = points.length - 1;
const ends = points.flatMap((one) => (one.interval ? [one.interval.low, one.interval.high] : [])).concat(points.map((one) => one.value));
const low = Math.min(...ends), high = Math.max(...ends), air = 0.08 * (high - low || Math.abs(high) || 1);
const every = Math.max(1, Math.ceil(points.length / 8));

function draw() {
  const plane = axes(document.querySelector("#history .plot"), {
    label: found.answer, height: 300, x: [-0.5, last + 0.5], y: [low - air, high + air],
    xTicks: points.map((_, at) => at).filter((at) => at % every === 0),
    name: (at) => `@${points[at].run.split("@").pop()}`,
  });
  for (const one of found.changes) {
    const from = plane.x(one.from_ - 0.5), until = plane.x(one.until - 0.5);
    if (until > from) plane.svg.append(drawn("rect", { class: "place", x: from, width: until - from, y: plane.top, height: plane.floor - plane.top }));
    plane.svg.append(drawn("line", { class: "change", x1: plane.x(one.at - 0.5), x2: plane.x(one.at - 0.5), y1: plane.top, y2: plane.floor }));
  }
  for (const [at, one] of points.entries()) {
    if (one.interval) plane.svg.append(drawn("line", { class: "whisker", x1: plane.x(at), x2: plane.x(at), y1: plane.y(one.interval.low), y2: plane.y(one.interval.high) }));
    const dot = drawn("circle", { cx: plane.x(at), cy: plane.y(one.value), r: 4 });
    dot.append(drawn("title", {}, `${one.run}: ${short(one.value)}`));
    plane.svg.append(dot);
  }
}

draw();
addEventListener("resize", draw);  // as wide as it is then
