"use strict";
const EVERY = 1000;
const form = document.querySelector("meta[name=leadline-form]").content;
const shown = new Map();  // key of a running study: its article
let rows = "";

function words(holder, selector, text) {
  const element = holder.querySelector(selector);
  if (element.textContent !== text) element.textContent = text;
}

function duration(seconds) {
  const whole = Math.round(seconds), parts = [[3600, "h"], [60, "min"], [1, "s"]];
  const at = parts.findIndex(([size]) => whole >= size);
  if (at < 0) return "0 s";
  const [size, unit] = parts[at], rest = parts[at + 1];
  const more = rest ? Math.floor((whole % size) / rest[0]) : 0;
  return `${Math.floor(whole / size)} ${unit}${more ? ` ${more} ${rest[1]}` : ""}`;
}

/* As the report has it: one digit after the point, none from 100 on. */
function signed(value) {
  const digits = Math.abs(value) >= 100 ? 0 : 1, size = Math.abs(value);
  const text = size.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return text === "0.0" ? text : `${value < 0 ? "\u2212" : "+"}${text}`;
}

async function change(what, key, button) {
  button.disabled = true;
  try {
    const answer = await fetch(`/${what}/${key}`, { method: "POST", headers: { "X-Leadline-Form": form } });
    tell(await answer.text(), !answer.ok);
  } catch (error) {
    tell("leadline ui does not answer", true);
  }
  setTimeout(() => { button.disabled = false; }, 3000);
}

function tell(text, bad) {
  const said = document.getElementById("said");
  said.className = bad ? "warning" : "soft";
  said.textContent = text;
}

function effect(comparison, response, all) {
  const row = document.createElement("div"), said = document.createElement("p"), plot = document.createElement("div");
  row.className = "comparison";
  plot.className = "plot";
  const last = comparison.moments[comparison.moments.length - 1];
  const name = document.createElement("b");
  name.textContent = `${comparison.factor} = ${comparison.level}`;
  const verdict = document.createElement("span");
  verdict.className = comparison.verdict;
  verdict.textContent = comparison.verdict;
  const figure = last.low === null || last.percent === null ? "nothing can be told yet"
    : `${signed(last.percent)} % [${signed(last.low)}, ${signed(last.high)}]`;
  said.append(name, `: ${response} ${figure}, `, verdict);
  row.append(said, plot);
  row.draw = () => fan(plot, `${name.textContent} on ${response}: ${figure}`, comparison.moments, all);
  return row;
}

function effects(holder, study) {
  const state = JSON.stringify(study.effects);
  if (holder.dataset.state === state) return;
  holder.dataset.state = state;
  holder.replaceChildren(...study.effects.map((one) => {
    const part = document.createElement("section"), head = document.createElement("h4");
    head.textContent = `${one.response}, after ${one.blocks[0]} of ${one.blocks[1]} blocks`;
    part.append(head);
    if (one.reason) part.append(one.reason);
    part.append(...one.comparisons.map((each) => effect(each, one.response, one.blocks[1])));
    return part;
  }));
  for (const row of holder.querySelectorAll(".comparison")) row.draw();  // as wide as it is on the page
}

addEventListener("resize", () => {
  for (const row of document.querySelectorAll(".comparison")) row.draw();
});

function update(article, study) {
  article.querySelector(".simulated").hidden = !study.simulated;
  words(article, ".name", study.study);
  words(article, ".question", study.question);
  const bar = article.querySelector(".bar");
  bar.setAttribute("aria-valuemax", study.trials);
  bar.setAttribute("aria-valuenow", study.done);
  bar.firstElementChild.style.width = `${(100 * study.done) / study.trials}%`;
  const again = study.attempt > 1 ? ` (attempt ${study.attempt})` : "";
  const silent = study.told > 120 ? `; no message for ${duration(study.told)}` : "";
  words(article, ".now", `trial ${study.trial} of ${study.trials}${again}, ${study.label}: ${study.phase}; ${study.left}${silent}`);
  const at = (index) => study.seconds.map((one) => [one[0], one[index], one[5] !== null && one[index] >= one[5]]);
  lines(article.querySelector(".throughput .plot"), "throughput over time", [{ name: "a", points: at(1).map(([x, y]) => [x, y]) }], false);
  lines(article.querySelector(".latency .plot"), "response time over time",
    [{ name: "a", points: at(2) }, { name: "b", points: at(3) }], true);
  effects(article.querySelector(".responses"), study);
  article.querySelector(".told ol").replaceChildren(...study.messages.map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
}

function running(studies) {
  const place = document.getElementById("running");
  for (const [key, article] of shown) if (!studies.some((one) => one.key === key)) { article.remove(); shown.delete(key); }
  for (const study of studies) {
    if (!shown.has(study.key)) {
      const article = document.getElementById("running-study").content.cloneNode(true).firstElementChild;
      const stop = article.querySelector(".stop");
      stop.setAttribute("aria-label", `Stop ${study.study}`);
      stop.addEventListener("click", () => change("stop", study.key, stop));
      place.append(article);
      shown.set(study.key, article);
    }
    update(shown.get(study.key), study);
  }
  let none = place.querySelector(":scope > p");
  if (studies.length && none) none.remove();
  if (!studies.length) {
    if (!none) place.append(none = document.createElement("p"));
    none.className = "soft";
    if (none.textContent !== "No study runs.") none.textContent = "No study runs.";
  }
}

function cell(row, label, ...content) {
  const element = document.createElement("td");
  element.dataset.label = label;
  element.append(...content);
  row.append(element);
}

function link(address, text) {
  const element = document.createElement("a");
  element.href = address;
  element.textContent = text;
  return element;
}

function listed(study) {
  const row = document.createElement("tr"), head = document.createElement("th");
  head.scope = "row";
  head.append(link(`/report/${study.key}`, study.study), study.simulated ? " SIMULATED" : "");
  row.append(head);
  const started = new Date(1000 * study.started);
  cell(row, "started", `${started.getFullYear()}-${String(started.getMonth() + 1).padStart(2, "0")}-${String(started.getDate()).padStart(2, "0")} ${started.toTimeString().slice(0, 5)}`);
  cell(row, "trials", `${study.done} of ${study.trials}`);
  cell(row, "state", study.state);
  cell(row, "conclusion", study.sentence);
  const lab = study.key.split("/")[0];
  const more = [link(`/history?lab=${lab}&study=${encodeURIComponent(study.name)}`, "history")];
  if (study.state === "unfinished") {
    const resume = document.createElement("button");
    resume.type = "button";
    resume.textContent = "Resume";
    resume.setAttribute("aria-label", `Resume ${study.study}`);
    resume.addEventListener("click", () => change("resume", study.key, resume));
    more.push(" ", resume);
  }
  cell(row, "more", ...more);
  return row;
}

function studies(found) {
  const state = JSON.stringify(found);
  if (state === rows) return;
  rows = state;
  document.querySelector(".studies tbody").replaceChildren(...found.map(listed));
  for (const [at, select] of document.querySelectorAll(".two select").entries()) {
    const before = select.value;
    const ended = found.filter((one) => one.state === "finished");
    select.replaceChildren(...ended.map((one) => new Option(one.study + (one.simulated ? " SIMULATED" : ""), one.key)));
    select.value = ended.some((one) => one.key === before) ? before : (ended[Math.min(1 - at, ended.length - 1)] || {}).key;
  }
}

async function ask() {
  const trouble = document.getElementById("trouble");
  try {
    const answer = await fetch("/live.json");
    if (!answer.ok) throw new Error(await answer.text());
    const found = await answer.json();
    trouble.hidden = true;
    running(found.running);
    studies(found.studies);
  } catch (error) {
    trouble.hidden = false;
    trouble.textContent = error instanceof TypeError ? "leadline ui does not answer: it has ended, or is busy" : String(error.message);
  }
  setTimeout(ask, document.hidden ? 10 * EVERY : EVERY);
}

ask();
