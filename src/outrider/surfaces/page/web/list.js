// The list of all runs: those that need somebody first, then those at work, then the others.

import { act, ask, get, listen, notice } from "./api.js";
import { clean, count, duration, money, tokens, ui, when } from "./dom.js";

const NEEDS = { question: "has a question", changes: "to review" };
const GROUPS = { needs: "Needs you", running: "Running", ended: "Ended" };
const HOURS = { "Last hour": 1, "Last 24 hours": 24, "Last 7 days": 168, "Last 30 days": 720 };
/** Of each filter its name, its label, what shows all, the values of a row, and the choices. */
const FILTERS = [
  ["state", "Outcome", "Any outcome", (row) => [row.needs && "needs you", row.state]],
  ["agent", "Agent", "All agents", (row) => [row.agent]],
  ["project", "Project", "All projects", (row) => [row.project]],
  ["since", "Time", "Any time", (row) => times(row.startedAt), Object.keys(HOURS)],
];
const SEARCH = "Search tasks and answers";
const NONE = 'No runs yet. Start one with: outrider run explorer "Where is …?"';
const PAGE = 100;
const compact = Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const rows = new Map();
const items = new Map();
let [found, shown, due, timer] = [[], PAGE, 0, 0];

const form = ui`<form class="filters" role="search" @submit=${(event) => event.preventDefault()}
  @change=${anew}><input name="words" type="search" aria-label=${SEARCH} @input=${search}
    placeholder=${`${SEARCH}  ( / )`} autocomplete="off">
  ${FILTERS.map(([name, label]) => ui`<select name=${name} aria-label=${label}></select>`)}
  <span class="dim"></span></form>`;
const bar = ui`<p class="picked" hidden><span></span> <button @click=${compare}>Compare</button>
  <button class="danger" @click=${remove}>Delete…</button></p>`;
const sections = Object.keys(GROUPS).map((name) => ui`
  <section data-group=${name} aria-labelledby=${name}><h2 id=${name}></h2><ol></ol></section>`);
const empty = ui`<p class="dim">Reading runs …</p>`;
const end = ui`<div></div>`;
const view = ui`<div id="runs" @change=${drawBar}><h1 class="hidden">Runs</h1>
  ${form}${bar}${sections}${empty}${end}</div>`;

/** Show the list, and return what ends that. */
export function showList(main) {
  main.replaceChildren(view);
  draw();
  const more = new IntersectionObserver(showMore, { rootMargin: "600px" });
  more.observe(end);
  const stop = listen("/api/runs", { rows: take });
  const clock = setInterval(drawSoon, 1000);
  return () => [stop(), clearInterval(clock), more.disconnect()];
}

/** The word for how a run stands, with its colour. */
export function state(row) {
  const word = NEEDS[row.needs] ?? clean(row.state).replaceAll("_", " ");
  return ui`<span class="state" data-state=${row.needs || row.state}>${word}</span>`;
}

/** When a run began, how long it took, and what it used. */
export function figures(row) {
  const began = new Date(row.startedAt);
  const used = tokens(row.usage);
  const took = row.state === "running" ? Date.now() - began : row.durationMs;
  return ui`<span class="figures"><time title=${began}>${when(began)}</time>
    <span class="took">${duration(took)}</span>
    <span class="tokens" title=${count(used)}>${used ? `${compact.format(used)} tok` : ""}</span>
    <span class="cost">${money(row.usage)}</span></span>`;
}

/** What a row tells of a run. */
export function told(row) {
  const step = (row.state !== "running" && row.error) || row.step;
  const about = [row.isMap && "map", row.agent, clean(row.project).split("/").pop(), step];
  return ui`${state(row)} <span class="task">${row.task || "(no task)"}</span>
    <span class="about">${about.filter(Boolean).join(" · ")}</span> ${figures(row)}`;
}

function take(changed) {
  for (const row of changed) {
    rows.set(row.runId, row);
    if (row.state === "gone") [rows, items].forEach((all) => all.delete(row.runId));
  }
  empty.textContent = rows.size ? "No runs match." : NONE;
  drawSoon();
}

function drawSoon() {
  due ||= requestAnimationFrame(draw);
}

function draw() {
  due = 0;
  const all = [...rows.values()];
  const asked = form.elements.words.value.trim().toLowerCase();
  let passed = all.filter((row) => !asked || found.includes(row.runId) || has(row, asked));
  for (const [name, , title, values, choices] of FILTERS) {
    const select = form.elements[name];
    offer(select, title, choices ?? [...new Set(all.flatMap(values))].filter(Boolean).sort());
    if (select.value) passed = passed.filter((row) => values(row).includes(select.value));
  }
  passed.sort((one, other) => (one.startedAt < other.startedAt ? 1 : -1));
  const groups = Object.groupBy(passed, (row) =>
    row.needs ? "needs" : row.state === "running" ? "running" : "ended");
  let room = shown;
  for (const section of sections) {
    const { group } = section.dataset;
    const own = groups[group] ?? [];
    section.hidden = !own.length;
    section.firstChild.replaceChildren(ui`${GROUPS[group]} <span>${count(own.length)}</span>`);
    arrange(section.lastChild, own.slice(0, Math.max(room, 0)).map(item));
    room -= own.length;
  }
  empty.hidden = passed.length > 0;
  const sum = passed.length < all.length ? `${count(passed.length)} of ` : "";
  form.lastElementChild.textContent = `${sum}${count(all.length)} runs`;
  drawBar();
}


function times(startedAt) {
  const hours = (Date.now() - Date.parse(startedAt)) / 3_600_000;
  return Object.keys(HOURS).filter((name) => hours < HOURS[name]);
}
const has = (row, asked) => `${row.task} ${row.agent} ${row.runId}`.toLowerCase().includes(asked);

function offer(select, title, names) {
  const known = [...select.options].map((one) => one.value);
  if (known.join("\n") === ["", ...names].join("\n")) return;
  const before = select.value;
  select.replaceChildren(...["", ...names].map((name) => new Option(clean(name) || title, name)));
  select.value = before;
}

/** Put these nodes into a parent, in this order, and move none that is in its place. */
function arrange(parent, wanted) {
  wanted.forEach((node, at) => {
    if (parent.children[at] !== node) parent.insertBefore(node, parent.children[at] ?? null);
  });
  while (parent.children.length > wanted.length) parent.lastChild.remove();
}

/** The item of a run; while that is at work, drawn each time, for the time it took. */
function item(row) {
  const { runId, isMap } = row;
  const known = items.get(runId) ?? {
    node: ui`<li class="run" data-id=${runId}><input type="checkbox" value=${runId}
      aria-label=${`Select run ${runId}`} disabled=${Boolean(isMap)}><a
      href=${`#/${isMap ? "map" : "run"}/${runId}`}></a></li>`,
  };
  if (known.row !== row || row.state === "running") known.node.lastChild.replaceChildren(told(row));
  items.set(runId, { ...known, row });
  return known.node;
}

function showMore([seen]) {
  if (!seen.isIntersecting || shown >= rows.size) return;
  shown += PAGE;
  draw();
}

function anew() {
  shown = PAGE;
  draw();
}

/** Show whose tasks have the words at once, and whose answers do when the server has looked. */
function search(event) {
  const words = event.target.value.trim();
  found = [];
  anew();
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const ids = words.length > 1 ? await get(`/api/search?words=${encodeURIComponent(words)}`) : [];
    if (words === event.target.value.trim()) found = ids;
    draw();
  }, 200);
}

const picked = () => [...view.querySelectorAll("li input:checked")].map((box) => box.value);

function drawBar() {
  const { length } = picked();
  bar.hidden = !length;
  bar.firstChild.textContent = `${count(length)} selected`;
  bar.querySelector("button").disabled = length !== 2;
}

function compare() {
  location.hash = `#/compare/${picked().join("/")}`;
}

async function remove() {
  const ids = picked();
  const text = "Their transcripts, answers and changes are removed. This can't be undone.";
  if (!(await ask(`Delete ${count(ids.length)} runs?`, text, "Delete"))) return;
  const done = await Promise.allSettled(ids.map((id) => act(id, "delete")));
  const failed = done.filter((one) => one.reason).map((one) => one.reason.message);
  notice(failed.join(" ") || `${count(ids.length)} deleted.`);
}
