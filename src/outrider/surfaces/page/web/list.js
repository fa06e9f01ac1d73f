// The list of all runs: those that need somebody first, then those at work, then the others.

import { act, get, listen, notice } from "./api.js";
import { arrange, button, count, duration, h, money, short, tokens, when } from "./dom.js";
import { ask } from "./dialog.js";

const GROUPS = [["needs", "Needs you"], ["running", "Running"], ["ended", "Ended"]];
const TIMES = { "Any time": 0, "Last hour": 3600, "Last 24 hours": 86400, "Last 7 days": 604800, "Last 30 days": 2592000 };
const PAGE = 100;
const rows = new Map(), drawn = new Map(), picked = new Set();
const wanted = { agent: "", state: "", project: "", since: 0, words: "" };
let inAnswers = { words: "", ids: new Set() }, shown = PAGE, due = 0, searching = 0;

export const groupOf = (row) => (row.needs ? "needs" : row.state === "running" ? "running" : "ended");

/** The word for how a run stands, with its colour. */
export function state(row) {
  const [name, word] = row.needs === "question" ? ["asks", "has a question"]
    : row.needs === "changes" ? ["asks", "to review"] : [row.state, row.state.replaceAll("_", " ")];
  return h("span", { class: `state ${/^\w+$/.test(name) ? name : ""}` }, word);
}

export function facts(row) {
  return [
    h("span", { class: "when", title: row.startedAt }, when(row.startedAt)),
    h("span", { class: "took" }, took(row)),
    h("span", { class: "tokens" }, tokens(row.usage) ? h("span", { title: `${count(tokens(row.usage))} tokens` }, short(tokens(row.usage)), h("i", {}, " tok")) : ""),
    h("span", { class: "cost" }, money(row.usage)),
  ];
}

const took = (row) => duration(row.state === "running" ? Date.now() - new Date(row.startedAt) : row.durationMs);
const folder = (project) => String(project ?? "").split("/").pop();

function element(row) {
  const known = drawn.get(row.runId);
  if (known?.row === row) return known.item;
  const about = [row.isMap && "map", row.agent, folder(row.project), row.error && row.state !== "running" ? row.error : row.step];
  const parts = [state(row), h("span", { class: "task" }, row.task || "(no task)"),
    h("span", { class: "about" }, about.filter(Boolean).join(" · ")), ...facts(row)];
  if (known) {
    known.item.lastElementChild.replaceChildren(...parts);
    known.row = row;
    return known.item;
  }
  const box = h("input", { type: "checkbox", "aria-label": `Select run ${row.runId}`, change: pick, disabled: row.isMap });
  const address = `#/${row.isMap ? "map" : "run"}/${row.runId}`;
  const item = h("li", { class: "run", "data-id": row.runId }, box, h("a", { href: address }, parts));
  drawn.set(row.runId, { row, item });
  return item;
}

function pick(event) {
  const id = event.target.closest("li").dataset.id;
  event.target.checked ? picked.add(id) : picked.delete(id);
  draw();
}

function unpick() {
  picked.clear();
  for (const box of document.querySelectorAll(".run input:checked")) box.checked = false;
  draw();
}

/** The runs that pass the filters, in the order of the list. */
function chosen() {
  const words = wanted.words.toLowerCase(), after = wanted.since ? Date.now() - wanted.since * 1000 : 0;
  const passes = (row) =>
    (!wanted.agent || row.agent === wanted.agent) && (!wanted.project || row.project === wanted.project) &&
    (!wanted.state || (wanted.state === "needs you" ? row.needs : row.state === wanted.state)) &&
    (!after || Date.parse(row.startedAt) >= after) &&
    (!words || inAnswers.ids.has(row.runId) || `${row.task}\n${row.agent}\n${row.runId}`.toLowerCase().includes(words));
  const found = { needs: [], running: [], ended: [] };
  for (const row of rows.values()) if (passes(row)) found[groupOf(row)].push(row);
  for (const group of Object.values(found)) group.sort((a, b) => (a.startedAt < b.startedAt ? 1 : -1));
  return found;
}

function options(select, values, all) {
  const names = [all, ...[...new Set(values)].filter(Boolean).sort()];
  if (select.options.length === names.length && [...select.options].every((one, at) => one.text === names[at])) return;
  const before = select.value;
  select.replaceChildren(...names.map((name, at) => h("option", { value: at ? name : "" }, name)));
  select.value = before;
}

function draw() {
  due = 0;
  const view = document.getElementById("runs");
  if (!view) return;
  const all = [...rows.values()], found = chosen();
  options(view.querySelector("[name=agent]"), all.map((row) => row.agent), "All agents");
  options(view.querySelector("[name=state]"), [...all.map((row) => row.state), "needs you"], "Any outcome");
  options(view.querySelector("[name=project]"), all.map((row) => row.project), "All projects");
  let room = shown;
  for (const [name, title] of GROUPS) {
    const place = view.querySelector(`[data-group=${name}]`), own = found[name];
    place.hidden = own.length === 0;
    place.querySelector("h2").replaceChildren(title, h("span", { class: "dim" }, ` ${count(own.length)}`));
    arrange(place.querySelector("ol"), own.slice(0, Math.max(room, 0)).map(element));
    room -= own.length;
  }
  const total = Object.values(found).reduce((sum, group) => sum + group.length, 0);
  view.querySelector(".empty").hidden = total > 0;
  view.querySelector(".empty").textContent = rows.size ? "No runs match." : "No runs yet. Start one with: outrider run explorer \"Where is …?\"";
  view.querySelector(".sum").textContent = total === rows.size ? `${count(total)} runs` : `${count(total)} of ${count(rows.size)} runs`;
  view.querySelector(".picked").hidden = picked.size === 0;
  view.querySelector(".picked span").textContent = `${count(picked.size)} selected`;
  view.querySelector(".compare").disabled = picked.size !== 2;
}

const drawSoon = () => { due ||= requestAnimationFrame(draw); };

async function search() {
  const words = wanted.words, turn = (searching += 1);
  if (words.length < 2) return;
  const ids = await get(`/api/search?words=${encodeURIComponent(words)}`).catch((error) => (notice(error.message), []));
  if (turn !== searching) return;
  inAnswers = { words, ids: new Set(ids) };
  draw();
}

function change(event) {
  const field = event.target;
  wanted[field.name] = field.name === "since" ? Number(field.value) : field.value.trim();
  shown = PAGE;
  if (field.name === "words") {
    inAnswers = { words: "", ids: new Set() };
    clearTimeout(search.timer);
    search.timer = setTimeout(search, 200);
  }
  draw();
}

async function remove() {
  const ids = [...picked];
  if (!(await ask("Delete runs?", `${count(ids.length)} of them, with their transcripts and answers. This can't be undone.`, "Delete"))) return;
  const left = [];
  for (const id of ids) await act(id, "delete").then(() => picked.delete(id), (error) => left.push(error.message));
  notice(left.length ? left.join(" ") : `${count(ids.length)} deleted.`);
  draw();
}

function compare() {
  const [first, second] = picked;
  location.hash = `#/compare/${first}/${second}`;
}

/** Show the list, and return what ends it. */
export function showList(main) {
  const select = (name, label) => h("select", { name, "aria-label": label, change });
  const since = Object.entries(TIMES).map(([title, seconds]) => h("option", { value: seconds }, title));
  const view = h("div", { id: "runs" },
    h("h1", { class: "hidden" }, "Runs"),
    h("form", { class: "filters", role: "search", submit: (event) => event.preventDefault() },
      h("input", { name: "words", type: "search", placeholder: "Search tasks and answers  ( / )", "aria-label": "Search tasks and answers", value: wanted.words, input: change, autocomplete: "off" }),
      select("state", "Outcome"), select("agent", "Agent"), select("project", "Project"),
      h("select", { name: "since", "aria-label": "Time", change }, since), h("span", { class: "sum dim" })),
    h("p", { class: "picked", hidden: true }, h("span"),
      button("Compare", compare, "compare"),
      button("Delete…", remove, "danger"),
      button("Clear", unpick, "plain")),
    GROUPS.map(([name]) => h("section", { "data-group": name, hidden: true, "aria-labelledby": `group-${name}` }, h("h2", { id: `group-${name}` }), h("ol"))),
    h("p", { class: "empty dim" }, "Reading runs …"), h("div", { class: "more", "aria-hidden": "true" }));
  main.replaceChildren(view);
  const more = new IntersectionObserver(([seen]) => {
    if (seen.isIntersecting && shown < rows.size) { shown += PAGE; draw(); }
  }, { rootMargin: "600px" });
  const stop = listen("/api/runs", {
    rows(changed) {
      for (const row of changed) {
        if (row.state === "gone") { rows.delete(row.runId); drawn.delete(row.runId); picked.delete(row.runId); }
        else rows.set(row.runId, row);
      }
      drawSoon();
    },
  });
  if (rows.size) draw();
  view.querySelector("[name=since]").value = String(wanted.since);
  for (const name of ["agent", "state", "project"]) view.querySelector(`[name=${name}]`).value = wanted[name];
  more.observe(view.querySelector(".more"));
  const clock = setInterval(() => {
    for (const { row, item } of drawn.values()) if (row.state === "running") item.querySelector(".took").textContent = took(row);
  }, 1000);
  return () => { stop(); clearInterval(clock); more.disconnect(); };
}
