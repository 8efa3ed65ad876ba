"use strict";
(() => {
  const data = JSON.parse(document.getElementById("page-data").textContent);
  // the interpreter runs expressions without eval, which the page's policy forbids
  const options = {
    mode: "vega-lite", renderer: "svg", actions: false, ast: true, hover: false,
    loader: { load: () => Promise.reject(new Error("a report loads nothing")) },
  };
  const draw = async (holder, spec) => {
    const stage = document.createElement("div");
    stage.style.position = "absolute";
    stage.style.visibility = "hidden";
    holder.append(stage);
    const result = await vegaEmbed(stage, spec, options);
    for (const old of [...holder.children]) if (old !== stage) old.remove();
    stage.removeAttribute("style");
    if (holder.view) holder.view.finalize();
    holder.view = result;
    holder.dataset.live = "true";
  };

  const lazily = (elements, act) => {
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        watcher.unobserve(entry.target);
        act(entry.target).catch((error) => console.error(error));
      }
    }, { rootMargin: "600px" });
    for (const element of elements) watcher.observe(element);
  };
  lazily(document.querySelectorAll("[data-figure]"), (holder) => draw(holder, data.figures[holder.dataset.figure]));

  const explorer = document.getElementById("explorer");
  if (!explorer) return;
  const selects = ["a", "b"].map((side) => document.getElementById(`trial-${side}`));
  const rows = (lines) => lines.flatMap((line, o) => line.t.map((t, i) => ({ t, v: line.v[i], s: line.s, o })));

  const fill = async (panel, holder, caption, trial, other) => {
    const mine = trial.series.panels[panel.name];
    const theirs = other.series.panels[panel.name];
    caption.textContent = trial.sentences[panel.name] || "";
    if (!mine) {
      if (holder.view) holder.view.finalize();
      holder.view = null;
      const text = document.createElement("p");
      text.className = "missing";
      text.textContent = "not recorded";
      holder.replaceChildren(text);
      return;
    }
    const span = Math.max(trial.series.span, other.series.span);
    const datasets = { phases: trial.series.phases };
    for (const i of panel.tracks) {
      const peak = Math.max(mine.peaks[i], theirs ? theirs.peaks[i] : 0);
      datasets[`t${i}`] = rows(mine.tracks[i]);
      datasets[`peak${i}`] = [{ t: span + data.margin, v: peak || 1 }, { t: -data.margin, v: 0 }];
    }
    await draw(holder, { ...panel.spec, datasets, description: `${panel.title}: trial ${trial.label}` });
  };

  let turn = 0;
  let queue = Promise.resolve();
  const show = async (now) => {
    const trials = selects.map((select) => data.trials[select.value]);
    ["a", "b"].forEach((side, i) => {
      for (const head of explorer.querySelectorAll(`[data-head="${side}"]`)) head.textContent = trials[i].label;
    });
    for (const panel of data.panels) {
      for (const [i, side] of ["a", "b"].entries()) {
        if (now !== turn) return;
        const cell = explorer.querySelector(`[data-panel="${panel.name}"][data-side="${side}"]`);
        await fill(panel, cell.querySelector(".chart"), cell.querySelector("figcaption"), trials[i], trials[1 - i]);
      }
    }
    explorer.dataset.shown = selects.map((select) => select.value).join(" ");
  };
  const changed = () => {
    const now = ++turn;
    queue = queue.then(() => show(now)).catch((error) => console.error(error));
    return queue;
  };
  for (const select of selects) select.addEventListener("change", changed);
  document.documentElement.classList.add("scripted");
  lazily([explorer], changed);
})();
