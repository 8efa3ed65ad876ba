// Inside a trial or a log: one, or any two side by side, with one range of time for all their panels.
const explorer = document.getElementById("explorer");
if (explorer) {
  const selects = [...explorer.querySelectorAll("select")];
  const sides = ["a", "b"].slice(0, selects.length);
  const panels = [...explorer.querySelectorAll("[data-panel]")];
  const rows = (lines) => lines.flatMap((line, o) => line.t.map((t, i) => ({ t, v: line.v[i], s: line.s, o, ...(line.to && { to: line.to[i] }) })));
  const whole = () => {
    const spans = selects.map((select) => data.trials[select.value].series.span);
    return [-data.margin, Math.max(...spans) + data.margin];
  };
  let range = null; // seconds shown, null: all

  const fill = async (panel, holder, caption, trial, other) => {
    const mine = trial.series.panels[panel.name];
    const theirs = other && other.series.panels[panel.name];
    caption.textContent = trial.sentences[panel.name] || "";
    if (!mine) {
      if (holder.drawn) holder.drawn.finalize();
      holder.drawn = null;
      const text = document.createElement("p");
      text.className = "missing";
      text.textContent = "not recorded";
      holder.replaceChildren(text);
      return;
    }
    const span = Math.max(trial.series.span, other ? other.series.span : 0);
    const datasets = { phases: trial.series.phases };
    for (const i of panel.tracks) {
      const peak = Math.max(mine.peaks[i], theirs ? theirs.peaks[i] : 0);
      datasets[`t${i}`] = rows(mine.tracks[i]);
      datasets[`peak${i}`] = [{ t: span + data.margin, v: peak || 1 }, { t: -data.margin, v: 0 }];
    }
    const [from, until] = range || whole();
    const params = [{ name: "from_s", value: from }, { name: "until_s", value: until }];
    await draw(holder, { ...panel.spec, params, datasets, description: `${panel.title}: ${explorer.dataset.what} ${trial.label}` });
    zoomable(holder);
  };

  const words = explorer.querySelector("output");
  const zoom = (wanted) => {
    const [low, high] = whole();
    range = wanted && [Math.max(low, Math.min(...wanted)), Math.min(high, Math.max(...wanted))];
    if (range && (range[1] - range[0] >= high - low - 0.01 || range[1] - range[0] < 0.02)) range = null;
    const [from, until] = range || [low, high];
    const digits = until - from < 10 ? 2 : 1;
    words.textContent = range ? `${from.toFixed(digits)} to ${until.toFixed(digits)} s` : "all of it";
    for (const cell of panels) {
      const drawn = cell.querySelector(".chart").drawn;
      if (drawn) drawn.view.signal("from_s", from).signal("until_s", until).runAsync().catch(failed);
    }
  };
  const moves = {
    in: ([a, b]) => [a + (b - a) / 4, b - (b - a) / 4],
    out: ([a, b]) => [a - (b - a) / 2, b + (b - a) / 2],
    earlier: ([a, b]) => [a - (b - a) / 4, b - (b - a) / 4],
    later: ([a, b]) => [a + (b - a) / 4, b + (b - a) / 4],
    all: () => null,
  };
  const move = (name) => {
    const [low, high] = whole();
    let wanted = moves[name](range || [low, high]);
    const past = wanted && name !== "out" ? Math.max(0, low - wanted[0]) - Math.max(0, wanted[1] - high) : 0;
    if (past) wanted = wanted.map((end) => end + past);
    zoom(wanted);
  };
  for (const button of explorer.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => move(button.dataset.zoom));
  }

  // a drag over a panel chooses the range
  const plot = (holder) => {
    const groups = [];
    const walk = (item, dx) => {
      for (const mark of item.items || []) {
        if (mark.marktype !== "group") continue;
        for (const inner of mark.items) {
          if (mark.role === "scope" && inner.width > 60) groups.push({ left: dx + inner.x, width: inner.width });
          walk(inner, dx + inner.x);
        }
      }
    };
    for (const item of holder.drawn.view.scenegraph().root.items) walk(item, item.x || 0);
    return groups[0];
  };
  const zoomable = (holder) => {
    if (holder.classList.contains("zoomable")) return;
    holder.classList.add("zoomable");
    const second = (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(frame(holder).inverse());
      const { left, width } = plot(holder);
      const [from, until] = range || whole();
      return from + Math.min(1, Math.max(0, (at.x - left) / width)) * (until - from);
    };
    let band = null;
    holder.addEventListener("pointerdown", (event) => {
      if (event.button || event.pointerType === "touch" || !holder.drawn || event.target.closest(".role-legend")) return;
      holder.dragged = { from: second(event), x: event.clientX };
      holder.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    holder.addEventListener("pointermove", (event) => {
      if (!holder.dragged) return;
      if (!band) {
        band = document.createElement("div");
        band.className = "band";
        holder.append(band);
      }
      const box = holder.getBoundingClientRect();
      const [a, b] = [holder.dragged.x, event.clientX].sort((x, y) => x - y);
      Object.assign(band.style, { left: `${a - box.left}px`, width: `${b - a}px`, top: 0, bottom: 0 });
    });
    const done = (event) => {
      if (band) band.remove();
      band = null;
      const began = holder.dragged;
      holder.dragged = null;
      if (began && event.type === "pointerup" && Math.abs(event.clientX - began.x) > 6) zoom([began.from, second(event)]);
    };
    holder.addEventListener("pointerup", done);
    holder.addEventListener("pointercancel", done);
    holder.addEventListener("dblclick", () => zoom(null));
  };

  let turn = 0;
  let queue = Promise.resolve();
  const show = async (now) => {
    const trials = selects.map((select) => data.trials[select.value]);
    sides.forEach((side, i) => {
      for (const head of explorer.querySelectorAll(`[data-head="${side}"]`)) head.textContent = trials[i].label;
    });
    for (const panel of data.panels) {
      for (const [i, side] of sides.entries()) {
        if (now !== turn) return;
        const cell = explorer.querySelector(`[data-panel="${panel.name}"][data-side="${side}"]`);
        await fill(panel, cell.querySelector(".chart"), cell.querySelector("figcaption"), trials[i], trials[1 - i]);
      }
    }
    explorer.dataset.shown = selects.map((select) => select.value).join(" ");
  };
  const changed = () => {
    const now = ++turn;
    queue = queue.then(() => show(now)).catch(failed);
    return queue;
  };
  for (const select of selects) {
    select.addEventListener("change", () => {
      range = null;
      words.textContent = "all of it";
      changed();
    });
  }
  lazily([explorer], changed);
  document.addEventListener("resized", () => { if (explorer.dataset.shown) changed(); });
}
