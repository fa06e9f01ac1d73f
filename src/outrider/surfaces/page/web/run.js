// One run: its head, and tabs for its answer, its steps, its changes and its receipt.

import { act, exported, get, listen, notice } from "./api.js";
import { ask } from "./dialog.js";
import { button, count, duration, h, long, money, nodes, rich, tokens } from "./dom.js";
import { facts, state } from "./list.js";
import { markdown } from "./markdown.js";
import { Steps } from "./steps.js";

const QUESTIONS = {
  land: ["Land these changes?", "They are put into your files, all of them or nothing. You can undo it.", "Land"],
  discard: ["Discard these changes?", "What hasn't landed is removed for good. Your files stay as they are.", "Discard"],
  undo: ["Undo this landing?", "What landed is taken out of your files again; what you changed since stays.", "Undo"],
  stop: ["Stop this run?", "What it has said and changed so far is kept.", "Stop"],
  delete: ["Delete this run?", "Its transcript, answer and changes are removed. This can't be undone.", "Delete"],
};

/** Do something to a run after the person's yes; return whether it was done. */
async function perform(id, action) {
  if (!(await ask(...QUESTIONS[action]))) return false;
  return act(id, action).then(() => true, (error) => notice(error.message));
}

class RunView {
  constructor(main, id, tab) {
    Object.assign(this, { main, id, tab, steps: new Steps(id) });
    this.head = h("div", { class: "head" });
    this.tree = h("div");
    this.body = h("div", { class: "body" });
    main.replaceChildren(this.head, this.tree, this.body);
  }

  async open() {
    try {
      this.data = exported ? exported.head : await get(`/api/runs/${this.id}`);
    } catch (error) {
      this.main.replaceChildren(h("h1", {}, `Run ${this.id}`), h("p", {}, error.message));
      return;
    }
    if (this.isClosed) return;
    this.tab ??= this.data.state === "running" ? "steps" : "answer";
    document.body.classList.toggle("has-editor", Boolean(this.data.hasEditor));
    this.draw();
    if (exported) {
      this.steps.take(exported.events);
      return void this.drawTree(exported.rows);
    }
    this.stop = listen(`/api/runs/${this.id}/news`, {
      events: (events) => this.follow(() => this.steps.take(events)),
      text: (text) => this.follow(() => this.steps.text(text)),
      end: () => this.ended(),
    });
  }

  /** Draw something, and stay at the bottom if the reader is there. */
  follow(draw) {
    const root = document.documentElement;
    const isAtEnd = root.scrollHeight - root.scrollTop - root.clientHeight < 40;
    const before = this.steps.children.length;
    draw();
    if (isAtEnd && this.tab === "steps" && this.data.state === "running") root.scrollTop = root.scrollHeight;
    if (this.steps.children.length !== before) this.loadTree();
  }

  async ended() {
    this.stop?.();
    const wasRunning = this.data.state === "running";
    if (!wasRunning) return;
    this.data = await get(`/api/runs/${this.id}`).catch(() => this.data);
    if (!this.isClosed) this.draw();
  }

  close() {
    this.isClosed = true;
    this.stop?.();
  }

  draw() {
    this.drawHead();
    this.show(this.tab);
  }

  drawHead() {
    const { data } = this, { opening, result } = data, running = data.state === "running";
    const task = opening.task ?? data.task ?? "";
    const about = [["Agent", data.agent], ["Model", [data.model, result.askedModel && ` (asked for ${result.askedModel})`]], ["Project", data.project],
      ["Resumes", opening.resumes && h("a", { href: `#/run/${opening.resumes}` }, opening.resumes)], ["Run", h("button", { class: "copy", type: "button", "data-copy": data.runId, title: "Copy" }, data.runId)]];
    const reason = [result.error ?? data.error, result.timeoutReason && `(${result.timeoutReason})`, data.recordProblem];
    const file = exported && `Exported from Outrider. ${exported.leftOut.length ? `Left out: ${exported.leftOut.join("; ")}.` : "Nothing was left out."} Secrets are masked.`;
    this.head.replaceChildren(...nodes(file ? h("p", { class: "dim" }, file) : null),
      h("div", { class: "line" }, state(data), facts(data), h("span", { class: "buttons" }, exported ? null : running ? button("Stop…", () => this.do("stop"), "danger") : button("Delete…", () => this.do("delete"), "plain"))),
      h("h1", { class: task.length > 300 || task.includes("\n") ? "long" : "" }, rich(task || "(no task)")),
      ...nodes(reason.some(Boolean) ? h("p", { class: "reason" }, rich(reason.filter(Boolean).join(" "))) : null),
      h("dl", { class: "facts" }, about.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
      this.tabs = h("nav", { class: "tabs", "aria-label": "Parts of the run" },
        ["answer", "steps", ...(data.isWriter ? ["changes"] : []), "receipt"].map((name) =>
          h("a", { href: `#/run/${this.id}/${name}`, "data-tab": name }, name[0].toUpperCase() + name.slice(1)))));
    document.title = `${data.agent}: ${task.slice(0, 60)} – Outrider`;
  }

  /** Show one of the tabs. */
  show(tab) {
    this.tab = tab;
    for (const link of this.tabs.children) link.dataset.tab === tab ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
    const made = { answer: () => this.answer(), steps: () => this.stepsTab(), changes: () => this.changes(), receipt: () => this.receipt() };
    this.body.replaceChildren(...nodes((made[tab] ?? made.answer)()));
  }

  answer() {
    const { data } = this, { result } = data;
    if (result.structuredOutput !== undefined) return [h("h2", {}, "Structured output"), long(JSON.stringify(result.structuredOutput, null, 2))];
    if (!data.answer) return h("p", { class: "dim" }, data.state === "running" ? "It hasn't answered yet." : "It gave no answer.");
    return [markdown(data.answer), data.answer.length >= 1 << 20 ? h("p", { class: "dim" }, `There is more: outrider show ${this.id}`) : null];
  }

  stepsTab() {
    const tell = h("form", { class: "tell", submit: (event) => this.tell(event) },
      h("input", { name: "text", required: true, autocomplete: "off", "aria-label": "Tell the agent something", placeholder: "Tell the agent something …" }), h("button", {}, "Tell"));
    return [h("h2", { class: "hidden" }, "Steps"), this.steps.node, this.data.state === "running" && !exported ? tell : null];
  }

  async tell(event) {
    event.preventDefault();
    const field = event.target.elements.text;
    field.disabled = true;
    notice("Sent. It reads this before its next request to the model.");
    try {
      const { turn } = await act(this.id, "tell", { text: field.value });
      notice(turn === null ? "The run ended before it read this." : `Read in turn ${turn}.`);
      field.value = "";
    } catch (error) {
      notice(error.message);
    }
    field.disabled = false;
  }

  async do(action) {
    if (!(await perform(this.id, action))) return;
    if (action === "delete") location.hash = "#/";
    else if (action !== "stop") {
      this.data = await get(`/api/runs/${this.id}`);
      this.draw();
    }
  }

  changes() {
    const place = h("div", {}, h("p", { class: "dim" }, "Reading the changes …"));
    const load = exported ? Promise.resolve(exported.changes) : get(`/api/runs/${this.id}/changes`);
    load.then((changes) => place.replaceChildren(...this.drawChanges(changes)), (error) => place.replaceChildren(h("p", {}, error.message)));
    return place;
  }

  drawChanges(changes) {
    const offered = { pending: ["land", "discard"], undone: ["land", "discard"], landed: ["undo"] }[changes.state] ?? [];
    const files = h("div"), call = (id) => this.steps.calls.get(id)?.node.querySelector("summary .args")?.textContent ?? "";
    const reasons = (title, some) => some.length ? [h("h3", {}, title), h("ul", {}, some.map((one) => h("li", {}, h("code", {}, one.path), `: ${one.reason}`)))] : null;
    const byFile = () => files.replaceChildren(...changes.files.map((file) => diff(file, changes.files.length < 20)));
    const byCall = () => {
      const groups = new Map();
      for (const file of changes.files) for (const id of file.calls.length ? file.calls : [""]) groups.set(id, [...(groups.get(id) ?? []), file]);
      files.replaceChildren(...[...groups].flatMap(([id, some]) => {
        const name = this.steps.calls.get(id)?.event.name ?? id;
        return [h("h3", {}, id ? [h("b", {}, name), " ", call(id)] : "No call is known"), ...some.map((file) => diff(file, false))];
      }));
    };
    byFile();
    const choice = (label, draw, isOn) => h("label", {}, h("input", { type: "radio", name: "order", checked: isOn, change: draw }), ` ${label}`);
    const words = { land: "Land…", discard: "Discard…", undo: "Undo…" };
    return nodes(
      h("h2", { class: "hidden" }, "Changes"),
      h("div", { class: "line" }, h("span", { class: `state ${changes.state === "pending" ? "asks" : ""}` }, changes.state),
        h("span", {}, `${count(changes.files.length)} files, `, h("ins", {}, `+${count(changes.added)}`), " ", h("del", {}, `−${count(changes.removed)}`)),
        h("fieldset", {}, h("legend", { class: "hidden" }, "Order"), choice("by file", byFile, true), choice("by call", byCall, false)),
        h("span", { class: "buttons" }, exported ? null : offered.map((action) => button(words[action], () => this.do(action), action === "discard" ? "danger" : "")))),
      reasons("These conflict with your files", changes.conflicts), reasons("These don't land", changes.withheld), files);
  }

  receipt() {
    const { result, data = this.data } = this.data, receipt = result.receipt ?? {}, usage = result.usage ?? this.data.usage ?? {};
    const rows = (title, some, draw) => (some?.length ? [h("h3", {}, `${title} (${count(some.length)})`), h("ul", { class: "plain-list" }, some.map((one) => h("li", {}, draw(one))))] : null);
    const table = [["Turns", count(usage.turns)], ["Tokens in", count(usage.input)], ["… of them from the cache", count(usage.cacheRead)], ["Tokens out", count(usage.output)],
      ["Cost", money(usage) || "unknown"], ["Time", duration(this.data.durationMs)], ["Attempts", result.attempts], ["Tool calls", count(receipt.toolCalls)], ["… that failed", count(receipt.toolErrors)],
      ["Exit code", this.data.exitCode], ["Isolation", result.isolation && `${result.isolation.kind}, network: ${result.isolation.network}`], ["Check", result.check && `${result.check.command} → ${result.check.exitCode}`]];
    return [h("h2", { class: "hidden" }, "Receipt"),
      h("table", { class: "receipt" }, h("tbody", {}, table.filter(([, value]) => value != null && value !== "").map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value))))),
      rows("Files read", receipt.filesRead, (path) => h("code", {}, path)),
      rows("Files written", receipt.filesWritten, (file) => [h("code", {}, file.path), h("span", { class: "dim" }, ` ${(file.before ?? "new").slice(0, 12)} → ${(file.after ?? "gone").slice(0, 12)}`)]),
      rows("Commands", receipt.commands, (one) => [h("code", {}, one.command), h("span", { class: one.exitCode ? "bad" : "dim" }, ` exit code ${one.exitCode ?? "none"}`)]),
      rows("Tools it has", data.opening?.tools ?? this.data.opening.tools, (tool) => tool),
      rows("Tools withheld", this.data.opening.withheld, (one) => `${one.tool}: ${one.reason}`), rows("Warnings", result.warnings, (one) => one)];
  }

  async loadTree() {
    const ids = this.steps.children.filter((id) => /^[0-9a-f]{8}$/.test(id));
    const found = await Promise.allSettled(ids.map((id) => get(`/api/runs/${id}`)));
    this.drawTree(found.map((one) => one.value).filter(Boolean));
  }

  drawTree(rows) {
    if (!rows.length) return;
    const own = { ...this.data.usage }, all = rows.reduce((sum, row) => ({ tokens: sum.tokens + tokens(row.usage), cost: sum.cost + (row.usage?.cost ?? 0), ms: sum.ms + (row.durationMs ?? 0) }), { tokens: 0, cost: 0, ms: 0 });
    const line = (first, usage, ms) => h("tr", {}, first, h("td", {}, duration(ms)), h("td", {}, count(usage.tokens)), h("td", {}, money(usage)));
    this.tree.replaceChildren(h("details", { class: "tree", open: true }, h("summary", {}, `Delegated runs (${count(rows.length)})`),
      h("table", {}, h("thead", {}, h("tr", {}, ["Run", "Time", "Tokens", "Cost"].map((name) => h("th", {}, name)))), h("tbody", {},
        rows.map((row) => line(h("td", {}, state(row), " ", exported ? row.agent : h("a", { href: `#/run/${row.runId}` }, row.agent), " ", h("span", { class: "dim" }, row.task)), { ...row.usage, tokens: tokens(row.usage) }, row.durationMs)),
        line(h("th", { scope: "row" }, "Its own"), { ...own, tokens: tokens(own) }, this.data.durationMs),
        line(h("th", { scope: "row" }, "Together"), { tokens: all.tokens + tokens(own), cost: all.cost + (own.cost ?? 0), costKnown: own.costKnown }, null)))));
  }
}

/** The diff of one file. */
function diff(file, isOpen) {
  const lines = file.diff.split("\n").filter((line) => !/^(---|\+\+\+) /.test(line));
  const kinds = { "+": "ins", "-": "del" };
  const added = lines.filter((line) => line[0] === "+").length, removed = lines.filter((line) => line[0] === "-").length;
  const draw = () => h("pre", { class: "diff", tabindex: 0 }, lines.map((line) => h(kinds[line[0]] ?? "span", { class: line[0] === "@" ? "at" : null }, `${line}\n`)));
  const body = h("details", { class: "file" }, h("summary", {}, h("code", {}, file.path), " ", h("ins", {}, `+${count(added)}`), " ", h("del", {}, `−${count(removed)}`), file.kind === "modified" ? "" : ` ${file.kind}`));
  body.addEventListener("toggle", () => body.append(draw()), { once: true });
  body.open = isOpen && lines.length < 1000;
  return body;
}

/** Show a run, and return its view. */
export function showRun(main, id, tab) {
  const view = new RunView(main, id, tab);
  view.open();
  return view;
}

/** Two runs side by side. */
export async function showTwo(main, ids) {
  const [first, second] = await Promise.all(ids.map((id) => get(`/api/runs/${id}`)));
  const read = [first, second].map((one) => new Set(one.result.receipt?.filesRead ?? []));
  const row = (name, draw) => h("tr", {}, h("th", { scope: "row" }, name), [first, second].map((one, at) => h("td", {}, draw(one, at))));
  const files = (one, at) => h("ul", { class: "plain-list" }, [...read[at]].map((path) => h("li", { class: read[1 - at].has(path) ? "dim" : "" }, h("code", {}, path), read[1 - at].has(path) ? "" : " only here")));
  main.replaceChildren(h("h1", {}, "Two runs"), h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Two runs" }, h("table", { class: "two" }, h("tbody", {},
    row("Run", (one) => [h("a", { href: `#/run/${one.runId}` }, one.runId), " ", state(one)]), row("Agent", (one) => [one.agent, h("span", { class: "dim" }, ` ${one.model}`)]), row("Task", (one) => rich(one.opening.task ?? "")),
    row("Time", (one) => duration(one.durationMs)), row("Tokens", (one) => count(tokens(one.usage))), row("Cost", (one) => money(one.usage) || "unknown"), row("Answer", (one) => markdown(one.answer)), row("Files read", files)))));
}
