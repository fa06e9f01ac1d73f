// One run: its head, and tabs for its answer, its steps, its changes and its receipt.

import { act, exported, get, listen, notice } from "./api.js";
import { drawChanges } from "./changes.js";
import { ask } from "./dialog.js";
import { button, factList, h, long, nodes, rich } from "./dom.js";
import { facts, state } from "./list.js";
import { markdown } from "./markdown.js";
import { drawReceipt, drawTree } from "./receipt.js";
import { Steps } from "./steps.js";

const QUESTIONS = {
  land: ["Land these changes?", "They are put into your files, all of them or nothing. You can undo it.", "Land"],
  discard: ["Discard these changes?", "What hasn't landed is removed for good. Your files stay as they are.", "Discard"],
  undo: ["Undo this landing?", "What landed is taken out of your files again; what you changed since stays.", "Undo"],
  stop: ["Stop this run?", "What it has said and changed so far is kept.", "Stop"],
  delete: ["Delete this run?", "Its transcript, answer and changes are removed. This can't be undone.", "Delete"],
};

/** Show a run, and return its view. */
export function showRun(main, id, tab) {
  const view = new RunView(main, id, tab);
  view.open().catch((error) => view.fail(error));
  return view;
}

class RunView {
  constructor(main, id, tab) {
    Object.assign(this, { main, id, tab, steps: new Steps(id) });
    this.head = h("div", { class: "head" });
    this.tree = h("div");
    this.body = h("div", { class: "body" });
    main.replaceChildren(this.head, this.tree, this.body);
  }

  get isRunning() { return this.data.state === "running"; }

  async open() {
    await this.refresh();
    if (this.isClosed) return;
    this.stop = listen(`/api/runs/${this.id}/news`, {
      events: (events) => this.follow(() => this.steps.take(events)),
      text: (text) => this.follow(() => this.steps.text(text)),
      end: () => this.ended(),
    });
  }

  close() {
    this.isClosed = true;
    this.stop?.();
  }

  fail(error) {
    this.main.replaceChildren(h("h1", {}, `Run ${this.id}`), h("p", {}, error.message));
  }

  /** Read all but the steps anew, and draw it. */
  async refresh() {
    this.data = await get(`/api/runs/${this.id}`);
    if (this.isClosed) return;
    const { answer, result, hasEditor } = this.data;
    const hasAnswered = !this.isRunning && (answer || "structuredOutput" in result);
    this.tab ??= hasAnswered ? "answer" : "steps";
    document.body.classList.toggle("has-editor", Boolean(hasEditor));
    this.drawHead();
    this.show(this.tab);
  }

  /** Draw something, and stay at the bottom if the reader is there while the run is at work. */
  follow(draw) {
    const root = document.documentElement, isLive = this.tab === "steps" && this.isRunning;
    const isAtEnd = isLive && root.scrollHeight - root.scrollTop - root.clientHeight < 40;
    const before = this.steps.children.length;
    draw();
    if (isAtEnd) root.scrollTop = root.scrollHeight;
    if (this.steps.children.length !== before) this.loadTree();
  }

  async loadTree() {
    const ids = this.steps.children.filter((id) => /^[0-9a-f]{8}$/.test(id));
    const found = await Promise.allSettled(ids.map((id) => get(`/api/runs/${id}`)));
    const rows = found.map((one) => one.value).filter(Boolean);
    if (rows.length) this.tree.replaceChildren(drawTree(this.data, rows));
  }

  async ended() {
    this.stop?.();
    if (this.isRunning) await this.refresh().catch((error) => this.fail(error)); // deleted
  }

  drawHead() {
    const { data } = this, { opening, result } = data, task = opening.task ?? data.task ?? "";
    const doing = this.isRunning ? button("Stop…", () => this.do("stop"), "danger") : button("Delete…", () => this.do("delete"), "plain");
    const reason = [result.error ?? data.error, result.timeoutReason && `(${result.timeoutReason})`, data.recordProblem].filter(Boolean);
    const names = ["answer", "steps", ...(data.isWriter ? ["changes"] : []), "receipt"];
    this.tabs = h("nav", { class: "tabs", "aria-label": "Parts of the run" }, names.map((name) =>
      h("a", { href: `#/run/${this.id}/${name}`, "data-tab": name }, name[0].toUpperCase() + name.slice(1))));
    this.head.replaceChildren(...nodes(
      exported && h("p", { class: "dim" }, `Exported from Outrider. ${leftOut(exported.leftOut)} Secrets are masked.`),
      h("div", { class: "line" }, state(data), facts(data), h("span", { class: "buttons" }, exported ? null : doing)),
      h("h1", { class: task.length > 300 || task.includes("\n") ? "long" : "" }, rich(task || "(no task)")),
      reason.length > 0 && h("p", { class: "reason" }, rich(reason.join(" "))),
      factList({
        Agent: data.agent,
        Model: [data.model, result.askedModel && ` (asked for ${result.askedModel})`],
        Project: data.project,
        Resumes: opening.resumes && h("a", { href: `#/run/${opening.resumes}` }, opening.resumes),
        Run: h("button", { class: "copy", type: "button", "data-copy": data.runId, title: "Copy" }, data.runId),
      }),
      this.tabs));
    document.title = `${data.agent}: ${task.slice(0, 60)} – Outrider`;
  }

  /** Show one of the tabs. */
  show(tab) {
    this.tab = tab;
    for (const link of this.tabs.children) {
      if (link.dataset.tab === tab) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    const made = { answer: () => this.answer(), steps: () => this.stepsTab(), changes: () => this.changes(), receipt: () => drawReceipt(this.data) };
    this.body.replaceChildren(...nodes(made[tab]()));
  }

  answer() {
    const { answer, result } = this.data;
    if ("structuredOutput" in result) return [h("h2", {}, "Structured output"), long(JSON.stringify(result.structuredOutput, null, 2))];
    if (!answer) return h("p", { class: "dim" }, this.isRunning ? "It hasn't answered yet." : "It gave no answer.");
    return [markdown(answer), answer.length >= 1 << 20 && h("p", { class: "dim" }, `There is more: outrider show ${this.id}`)];
  }

  stepsTab() {
    const field = h("input", { name: "text", required: true, autocomplete: "off", "aria-label": "Tell the agent something", placeholder: "Tell the agent something …" });
    const tell = h("form", { class: "tell", submit: (event) => this.tell(event) }, field, h("button", {}, "Tell"));
    return [h("h2", { class: "hidden" }, "Steps"), this.steps.node, this.isRunning && !exported && tell];
  }

  changes() {
    const place = h("div", {}, h("p", { class: "dim" }, "Reading the changes …"));
    get(`/api/runs/${this.id}/changes`).then(
      (changes) => place.replaceChildren(...drawChanges(changes, this.steps, exported ? null : (action) => this.do(action))),
      (error) => place.replaceChildren(h("p", {}, error.message)));
    return place;
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

  /** Do something to the run after the person's yes. */
  async do(action) {
    if (!(await ask(...QUESTIONS[action]))) return;
    try {
      await act(this.id, action);
      if (action === "delete") location.hash = "#/";
      else if (action !== "stop") await this.refresh(); // its end comes with the news
    } catch (error) {
      notice(error.message);
    }
  }
}

const leftOut = (some) => (some.length ? `Left out: ${some.join("; ")}.` : "Nothing was left out.");
