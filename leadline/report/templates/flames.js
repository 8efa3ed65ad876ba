// Differential flame graphs: a zoom fills the width with a frame, a search marks frames, arrow keys read them.
for (const graph of document.querySelectorAll(".flames")) {
  const [find, words, holder] = ["input", "output", ".flame"].map((part) => graph.querySelector(part));
  const frames = [...holder.children].map((box) => ({
    box, depth: Number(box.dataset.depth), left: parseFloat(box.style.left), width: parseFloat(box.style.width),
  }));
  let zoomed = frames[0];
  let at = frames[0];
  const within = (one, other) => one.left < other.left + other.width - 1e-3 && one.left + one.width > other.left + 1e-3;
  const render = () => {
    const wanted = find.value.trim().toLowerCase();
    for (const one of frames) {
      const { box, depth, left, width } = one;
      const from = Math.max(left, zoomed.left);
      box.hidden = !within(one, zoomed);
      box.style.left = `${(100 * (from - zoomed.left)) / zoomed.width}%`;
      box.style.width = `${(100 * (Math.min(left + width, zoomed.left + zoomed.width) - from)) / zoomed.width}%`;
      box.classList.toggle("caller", depth < zoomed.depth);
      box.classList.toggle("hit", wanted !== "" && depth > 0 && box.title.toLowerCase().includes(wanted));
      box.classList.toggle("told", one === at && at !== frames[0]);
    }
    words.textContent = at === frames[0] ? "" : at.box.title;
  };
  const zoomInto = (one) => {
    zoomed = at = one;
    render();
  };
  const step = (key) => {
    const shown = frames.filter(({ box }) => !box.hidden);
    const near = { ArrowUp: at.depth - 1, ArrowDown: at.depth + 1 }[key];
    const beside = shown.filter(({ depth }) => depth === at.depth).sort((a, b) => a.left - b.left);
    const widest = shown.filter((one) => one.depth === near && within(one, at)).sort((a, b) => b.width - a.width)[0];
    at = widest ?? { ArrowLeft: beside[beside.indexOf(at) - 1], ArrowRight: beside[beside.indexOf(at) + 1] }[key] ?? at;
    render();
  };
  holder.addEventListener("click", ({ target }) => zoomInto(frames.find(({ box }) => box === target) ?? zoomed));
  holder.addEventListener("keydown", (event) => {
    if (event.key === "Escape") zoomInto(frames[0]);
    else if (event.key === "Enter") zoomInto(at);
    else if (event.key.startsWith("Arrow")) step(event.key);
    else return;
    event.preventDefault();
  });
  find.addEventListener("input", render);
  graph.dataset.live = "true";
}
