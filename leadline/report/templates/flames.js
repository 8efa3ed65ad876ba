// Flame graphs of two treatments: a zoom goes into the same stack on both sides, a search marks frames.
const flames = document.getElementById("flame-graphs");
if (flames) {
  const ROW = 18;
  const NARROW = 0.4; // pixels below which a frame is not drawn
  const { names, colours, of } = data.flames;
  const find = document.getElementById("flame-find");
  const words = flames.querySelector("output");
  const short = (name) => name.split(".").slice(-2).join(".");
  const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 2 : 1)} %`;
  let path = []; // numbers of the names of the frame that fills the width and of its callers, without "all samples"
  const sides = ["a", "b"].map((side) => {
    const holder = flames.querySelector(`[data-flame="${side}"] .flame`);
    return { holder, select: document.getElementById(`flame-${side}`), at: -1, drawn: new Map() };
  });

  // callers of the frames of a treatment, by their number; -1 of the whole
  const callers = new Map();
  const parents = (treatment) => {
    if (!callers.has(treatment)) {
      const last = [];
      callers.set(treatment, of[treatment].frames.map(([depth], i) => {
        last[depth] = i;
        return depth ? last[depth - 1] : -1;
      }));
    }
    return callers.get(treatment);
  };
  const pathOf = (treatment, frame) => {
    const found = [];
    for (let i = frame; i > 0; i = parents(treatment)[i]) found.unshift(of[treatment].frames[i][3]);
    return found;
  };
  const frameOf = (treatment, wanted) => {
    const { frames } = of[treatment];
    const above = parents(treatment);
    let at = 0;
    for (const name of wanted) {
      at = frames.findIndex((frame, i) => i > at && above[i] === at && frame[3] === name);
      if (at < 0) return -1;
    }
    return at;
  };

  const render = (side) => {
    const { holder, select } = side;
    if (!holder.clientWidth) return; // in a part that is folded
    const { frames, samples } = of[select.value];
    const caption = holder.parentElement.querySelector("figcaption");
    const zoomed = frameOf(select.value, path);
    side.drawn.clear();
    side.at = -1;
    holder.replaceChildren();
    const where = path.length ? `, ${names[path[path.length - 1]]}` : "";
    holder.setAttribute("aria-label", `Flame graph of ${select.value}${where} (arrow keys read the frames)`);
    if (zoomed < 0) {
      holder.style.height = `${ROW}px`;
      caption.textContent = `${select.value}: no sample of this stack${where}.`;
      return;
    }
    const [, from, span] = frames[zoomed];
    const room = holder.clientWidth;
    const wanted = find.value.trim().toLowerCase();
    const above = parents(select.value);
    const hits = new Set();
    let deepest = 0;
    let share = 0;
    frames.forEach(([depth, left, width, name], i) => {
      const inside = left < from + span - 1e-9 && left + width > from + 1e-9;
      if (!inside || (depth > frames[zoomed][0] && (width / span) * room < NARROW)) return;
      const hit = wanted && names[name].toLowerCase().includes(wanted);
      if (hits.has(above[i])) hits.add(i);
      else if (hit && i) {
        hits.add(i);
        if (i >= zoomed) share += width;
      }
      const low = Math.max(left, from);
      const part = (Math.min(left + width, from + span) - low) / span;
      const box = document.createElement("div");
      box.className = `c${i ? colours[name] : "whole"}${hit ? " hit" : ""}${i && depth < frames[zoomed][0] ? " caller" : ""}`;
      Object.assign(box.style, { left: `${(100 * (low - from)) / span}%`, width: `${100 * part}%`, top: `${ROW * depth}px` });
      if (part * room > 40) box.textContent = short(names[name]);
      box.dataset.frame = i;
      side.drawn.set(i, box);
      deepest = Math.max(deepest, depth);
      holder.append(box);
    });
    holder.style.height = `${ROW * (deepest + 1)}px`;
    caption.textContent = `${select.value}: ${samples.toLocaleString("en")} samples${where}${path.length ? ` ${percent(span)}` : ""}`
      + `${wanted ? `; ${find.value.trim()}: ${percent(share)}` : ""}.`;
  };
  const renderAll = () => {
    sides.forEach(render);
    words.textContent = path.length ? `in ${names[path[path.length - 1]]}` : "";
  };
  const zoomInto = (side, frame) => {
    path = frame > 0 ? pathOf(side.select.value, frame) : [];
    renderAll();
  };

  const tellFrame = (side, frame, x, y) => {
    for (const box of side.holder.querySelectorAll(".told")) box.classList.remove("told");
    const box = side.drawn.get(frame);
    if (!box) {
      tip.textContent = "";
      return;
    }
    box.classList.add("told");
    const [, , width, name] = of[side.select.value].frames[frame];
    tip.textContent = `${names[name]}\n${percent(width)} of the samples`;
    const wide = tip.offsetWidth;
    tip.style.left = `${Math.max(4, x + 14 + wide < innerWidth ? x + 14 : x - 14 - wide)}px`;
    tip.style.top = `${Math.min(y + 14, innerHeight - tip.offsetHeight - 4)}px`;
  };
  const step = (side, key) => {
    const { frames } = of[side.select.value];
    const above = parents(side.select.value);
    const shown = [...side.drawn.keys()];
    const at = side.at;
    if (!shown.length) return;
    if (at < 0) return void (side.at = frameOf(side.select.value, path));
    const widest = (all) => all.sort((a, b) => frames[b][2] - frames[a][2])[0];
    const beside = shown.filter((i) => frames[i][0] === frames[at][0]);
    const next = {
      ArrowUp: above[at],
      ArrowDown: widest(shown.filter((i) => above[i] === at)),
      ArrowLeft: beside[beside.indexOf(at) - 1],
      ArrowRight: beside[beside.indexOf(at) + 1],
    }[key];
    if (next !== undefined && next >= 0) side.at = next;
  };

  const live = async () => {
    for (const side of sides) {
      const { holder } = side;
      holder.tabIndex = 0;
      holder.setAttribute("role", "group");
      holder.addEventListener("click", (event) => {
        const box = event.target.closest("[data-frame]");
        if (box) zoomInto(side, Number(box.dataset.frame));
      });
      holder.addEventListener("pointermove", (event) => {
        const box = event.target.closest("[data-frame]");
        tellFrame(side, box ? Number(box.dataset.frame) : -1, event.clientX, event.clientY);
      });
      for (const name of ["pointerleave", "blur"]) holder.addEventListener(name, () => tellFrame(side, -1));
      holder.addEventListener("keydown", (event) => {
        if (event.key === "Escape") zoomInto(side, 0);
        else if (event.key === "Enter" && side.at >= 0) zoomInto(side, side.at);
        else if (event.key.startsWith("Arrow")) {
          step(side, event.key);
          const box = side.drawn.get(side.at);
          if (!box) return;
          box.scrollIntoView({ block: "nearest" });
          const { left, bottom } = box.getBoundingClientRect();
          tellFrame(side, side.at, Math.max(0, left), bottom - 14);
        } else return;
        event.preventDefault();
      });
      side.select.addEventListener("change", renderAll);
    }
    find.addEventListener("input", renderAll);
    document.addEventListener("resized", renderAll);
    renderAll();
    flames.dataset.live = "true";
  };
  lazily([flames], live);
}
