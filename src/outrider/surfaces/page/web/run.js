// One run: its head, and tabs for its answer, its steps, its changes and its receipt.

import { act, ask, exported, get, listen, notice } from "./api.js";
import { clean, count, drawn, duration, listOf, long, money } from "./dom.js";
import { nodes, number, rich, title, tokens, ui, words } from "./dom.js";
import { figures, state, told } from "./list.js";
import { markdown } from "./markdown.js";
import { Steps } from "./steps.js";

const TABS = ["answer", "steps", "changes", "receipt"];
const OFFERED = { pending: ["land", "discard"], undone: ["land", "discard"], landed: ["undo"] };
const QUESTIONS = {
  land: "They are put into your files, all of them or nothing. You can undo it.",
  discard: "What hasn't landed is removed for good. Your files stay as they are.",
  undo: "What landed is taken out of your files again; what you changed since stays.",
  stop: "What it has said and changed so far is kept.",
  delete: "Its transcript, answer and changes are removed. This can't be undone.",
};
const LINES = { "+": "ins", "-": "del", "@": "at" };
const MAX_OPEN_LINES = 2000;

/** What stands above a run or a map. */
export function headOf(row, task, reasons, facts, button) {
  document.title = `${clean(row.agent)}: ${task.slice(0, 60)} – Outrider`;
  const reason = reasons.filter(Boolean).map(clean).join(" ");
  return ui`<div class="line">${state(row)} ${figures(row)} ${button}</div>
    <h1 data-long=${task.length > 300}>${rich(task || "(no task)")}</h1>
    ${reason && ui`<p class="reason">${rich(reason)}</p>`}${drawn(facts)}`;
}

export class RunView {
  head = ui`<div class="head"></div>`;
  tree = ui`<div></div>`;
  body = ui`<div class="body"></div>`;

  constructor(main, id, tab) {
    Object.assign(this, { id, tab, steps: new Steps(id) });
    main.replaceChildren(this.head, this.tree, this.body);
    this.refresh().then(() => {
      if (this.isClosed) return;
      this.close = listen(`/api/runs/${id}/news`, {
        events: (events) => this.take(events),
        end: () => this.isRunning && this.refresh(),
      });
    });
  }

  close() {
    this.isClosed = true;
  }

  /** Read all but the steps anew, and draw it; a run that is gone has its id and the reason. */
  async refresh() {
    try {
      this.data = await get(`/api/runs/${this.id}`);
    } catch (error) {
      this.body.parentNode?.replaceChildren(ui`<h1>Run ${this.id}</h1><p>${error.message}</p>`);
      throw error;
    }
    if (this.isClosed) return;
    const { answer, isWriter, opening, result, ...data } = this.data;
    this.isRunning = data.state === "running";
    const hasAnswered = !this.isRunning && (answer || "structuredOutput" in result);
    this.tab ??= hasAnswered ? "answer" : "steps";
    document.body.classList.toggle("has-editor", Boolean(data.hasEditor));
    const { resumes } = opening;
    const asked = result.askedModel && words` (asked for ${result.askedModel})`;
    const known = {
      agent: data.agent,
      model: words`${data.model}${asked}`,
      project: data.project,
      resumes: resumes && ui`<a href=${words`#/run/${resumes}`}>${resumes}</a>`,
      run: ui`<button class="copy" data-copy=${this.id} title="Copy">${this.id}</button>`,
    };
    const reasons = [result.error ?? data.error, data.recordProblem];
    const task = clean(opening.task ?? data.task);
    const tabs = TABS.filter((name) => name !== "changes" || isWriter);
    const link = (name) => ui`<a href=${`#/run/${this.id}/${name}`}>${title(name)}</a>`;
    this.head.replaceChildren(
      exported ? ui`<p class="dim">${leftOut(exported.leftOut)}</p>` : "",
      headOf(data, task, reasons, known, this.button(this.isRunning ? "stop" : "delete")),
      ui`<nav class="tabs" aria-label="Parts of the run">${tabs.map(link)}</nav>`,
    );
    this.show(this.tab);
  }

  take(events) {
    const root = document.documentElement;
    const isLive = this.isRunning && this.tab === "steps"; // then it follows whoever is at its end
    const isAtEnd = isLive && root.scrollHeight - root.scrollTop - root.clientHeight < 40;
    const before = this.steps.children.size;
    this.steps.take(events);
    if (isAtEnd) root.scrollTop = root.scrollHeight;
    if (this.steps.children.size > before) this.drawTree();
    const goesOn = events.some((one) => one.type === "run" && one.begin > 0); // a chat
    if (goesOn && !this.isRunning) this.refresh();
  }

  /** The runs that this one delegated, with their sums. */
  async drawTree() {
    const ids = [...this.steps.children].filter((id) => /^[0-9a-f]{8}$/.test(id));
    const asked = await Promise.allSettled(ids.map((id) => get(`/api/runs/${id}`)));
    const rows = asked.map((one) => one.value).filter(Boolean);
    const used = [this.data, ...rows].map((row) => row.usage).filter(Boolean);
    const cost = used.reduce((sum, usage) => sum + number(usage.cost), 0);
    const costKnown = used.every((usage) => usage.costKnown !== false);
    const sums = [
      `${count(used.reduce((sum, usage) => sum + tokens(usage), 0))} tokens`,
      money({ cost, costKnown }),
    ];
    const item = (row) =>
      ui`<li class="run"><a href=${exported ? null : `#/run/${row.runId}`}>${told(row)}</a></li>`;
    if (!rows.length) return;
    this.tree.replaceChildren(ui`<details class="tree" open><summary>Delegated runs
      <span class="dim">· all together ${sums.filter(Boolean).join(", ")}</span>
      </summary><ol>${rows.map(item)}</ol></details>`);
  }

  /** Show one of the tabs. */
  show(tab) {
    this.tab = TABS.includes(tab) ? tab : "answer";
    for (const link of this.head.querySelectorAll(".tabs a")) {
      link.ariaCurrent = link.hash.endsWith(this.tab) ? "page" : null;
    }
    this.body.replaceChildren(...nodes(this[`${this.tab}Tab`](this.data)));
  }

  answerTab({ answer, result }) {
    if ("structuredOutput" in result) return long(result.structuredOutput);
    const none = this.isRunning ? "It hasn't answered yet." : "It gave no answer.";
    return answer ? markdown(answer) : ui`<p class="dim">${none}</p>`;
  }

  stepsTab() {
    const tell = ui`<form class="tell" @submit=${(event) => this.tell(event)}>
      <input name="text" required autocomplete="off" aria-label="Tell the agent something"
        placeholder="Tell the agent something …"><button>Tell</button></form>`;
    return [this.steps.node, this.isRunning && !exported && tell];
  }

  changesTab() {
    const place = ui`<div></div>`;
    get(`/api/runs/${this.id}/changes`)
      .then((changes) => this.drawnChanges(changes))
      .catch((error) => error.message)
      .then((shown) => place.replaceChildren(shown));
    return place;
  }

  receiptTab({ result, opening, usage, durationMs, exitCode }) {
    const { receipt = {}, isolation, check, attempts, warnings } = result;
    const { cost, costKnown, ...used } = result.usage ?? usage ?? {};
    const known = { ...used, cost: money({ cost, costKnown }) || "unknown" };
    const told = ({ command, exitCode: code }) => words`${command} · exit code ${code ?? "none"}`;
    return drawn({
      time: duration(durationMs),
      ...known,
      ...receipt,
      filesWritten: listOf(receipt.filesWritten).map((one) => one.path),
      commands: listOf(receipt.commands).map(told),
      ...{ attempts, exitCode, isolation, check, warnings },
      tools: listOf(opening.tools).join(", "),
      withheld: listOf(opening.withheld).map(({ tool, reason }) => words`${tool}: ${reason}`),
    });
  }

  /** What a writer changed: the diff by file or by call, and what can be done with it. */
  drawnChanges({ files, state, added, removed, conflicts, withheld }) {
    const byFile = () => files.map((file) => diff(file, files.length < 20));
    const place = ui`<div>${byFile()}</div>`;
    const order = (label, draw, checked) => ui`<label><input type="radio" name="order"
      checked=${checked} @change=${() => place.replaceChildren(...draw())}> ${label}</label>`;
    return ui`<div class="line"><span class="state" data-state=${state}>${state}</span>
        ${count(files.length)} files ${sums(added, removed)}
        ${order("by file", byFile, true)} ${order("by call", () => this.byCall(files), false)}
        <span class="buttons">${listOf(OFFERED[state]).map((one) => this.button(one))}</span></div>
      ${drawn({ conflicts, withheld })}${place}`;
  }

  byCall(files) {
    const ids = new Set(files.flatMap((file) => (file.calls.length ? file.calls : [null])));
    return [...ids].flatMap((id) => {
      const own = files.filter((file) => (id ? file.calls.includes(id) : !file.calls.length));
      const { name = id ?? "No call is known", words } = this.steps.calls.get(id)?.event ?? {};
      return [ui`<h3>${name} <code>${words}</code></h3>`, ...own.map((file) => diff(file, false))];
    });
  }

  /** What does something to the run, after the person's yes. */
  button(name) {
    const kind = ["land", "undo"].includes(name) ? null : "danger";
    const press = async () => {
      if (!(await ask(`${title(name)}?`, QUESTIONS[name], title(name)))) return;
      await act(this.id, name);
      if (name === "delete") location.hash = "#/";
      else if (name !== "stop") await this.refresh(); // its end comes with the news
    };
    return !exported && ui`<button class=${kind} @click=${press}>${title(name)}…</button>`;
  }

  async tell(event) {
    event.preventDefault();
    const { text } = event.target.elements;
    notice("Sent. It reads this before its next request to the model.");
    const { turn } = await act(this.id, "tell", { text: text.value });
    notice(turn === null ? "The run ended before it read this." : `Read in turn ${turn}.`);
    text.value = "";
  }
}

const leftOut = (some) => `Left out: ${some.join("; ") || "nothing"}. Secrets are masked.`;
const sums = (added, removed) => ui`<ins>+${count(added)}</ins> <del>−${count(removed)}</del>`;

/** The diff of one file; its lines are drawn when it is opened. */
function diff(file, isOpen) {
  const lines = file.diff.split("\n").filter((line) => !/^(---|\+\+\+) /.test(line));
  const sum = (sign) => lines.filter((line) => line[0] === sign).length;
  const node = ui`<details class="file"><summary><code>${file.path}</code>
    ${sums(sum("+"), sum("-"))} ${file.kind !== "modified" && file.kind}</summary></details>`;
  const line = (text) => ui`<span data-line=${LINES[text[0]]}>${`${text}\n`}</span>`;
  const draw = () => node.append(ui`<pre class="diff" tabindex="0">${lines.map(line)}</pre>`);
  node.addEventListener("toggle", draw, { once: true });
  node.open = isOpen && lines.length < MAX_OPEN_LINES;
  return node;
}

/** Show two runs side by side. */
export async function showTwo(main, ...ids) {
  const runs = await Promise.all(ids.slice(0, 2).map((id) => get(`/api/runs/${id}`)));
  const read = runs.map((one) => listOf(one.result.receipt?.filesRead));
  const both = read[0].filter((path) => read[1].includes(path));
  const column = (one, at) => drawn({
    run: ui`<a href=${`#/run/${one.runId}`}>${one.runId}</a> ${state(one)}`,
    agent: words`${one.agent} ${one.model}`,
    task: clean(one.opening.task ?? one.task),
    time: duration(one.durationMs) || "–",
    tokens: tokens(one.usage),
    cost: money(one.usage) || "unknown",
    answer: markdown(one.answer),
    filesReadByBoth: both.join("\n") || "none",
    filesReadOnlyHere: read[at].filter((path) => !both.includes(path)).join("\n") || "none",
  });
  main.replaceChildren(ui`<h1>Two runs</h1>`, ui`<div class="two">${runs.map(column)}</div>`);
}
