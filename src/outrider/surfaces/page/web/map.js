// A map: a square for each item, by state, and how far it is, as its journal tells.

import { get, listen, notice } from "./api.js";
import { count, duration, factList, h, money, tokens } from "./dom.js";
import { state } from "./list.js";

const NOT_STARTED = "not started", OPEN = ["running", "put back", "interrupted"];

/** Show a map, and return what ends that. */
export function showMap(main, id) {
  const view = new MapView(main, id);
  view.open().catch((error) => notice(error.message));
  return () => view.close();
}

class MapView {
  constructor(main, id) {
    Object.assign(this, { main, id, items: new Map(), changed: new Set(), refused: 0 });
    this.call = { call: null, most: [] };
    this.ended = { times: 0, at: 0 };
    this.spent = { tokens: 0, cost: 0, costKnown: true };
    this.figures = h("p", { class: "line figures" });
    this.legend = h("ul", { class: "legend", "aria-label": "Items by state" });
    this.squares = h("div", { class: "squares", role: "group", "aria-label": "Items" });
    this.rest = h("div", { class: "squares", "aria-hidden": "true" });
  }

  get isRunning() { return this.row.state === "running"; }

  async open() {
    await this.refresh();
    if (this.isClosed) return;
    this.stop = listen(`/api/maps/${this.id}/news`, {
      lines: (lines) => this.take(lines),
      end: () => this.refresh(),
    });
  }

  close() {
    this.isClosed = true;
    this.stop?.();
  }

  /** Read how the map is, and show it. */
  async refresh() {
    this.row = await get(`/api/maps/${this.id}`);
    const { agent, model, project, error, task } = this.row;
    this.main.replaceChildren(
      h("div", { class: "head" },
        h("div", { class: "line" }, state(this.row)),
        h("h1", {}, task || "(no task)"),
        factList({ Agent: agent, Model: model, Project: project, "Stopped because": error })),
      this.figures, this.legend, h("div", { class: "all-squares" }, this.squares, this.rest));
    document.title = `${agent}: ${task.slice(0, 60)} – Outrider`;
    for (const item of this.items.values()) this.changed.add(item);
    this.draw();
  }

  take(lines) {
    for (const line of lines) {
      if ("call" in line) this.begin(line);
      else if ("start" in line) this.change(line.start, { state: "running", runId: null });
      else if ("run" in line) this.change(line.run, { runId: line.runId });
      else if ("back" in line) this.change(line.back, { state: "put back" }, line.usage);
      else if ("end" in line) this.finish(line);
      else if ("refused" in line) this.change(`refused ${(this.refused += 1)}`, { state: "refused", error: line.refused });
    }
    this.redraw ||= requestAnimationFrame(() => { this.redraw = 0; this.draw(); });
  }

  /** The map begins, or goes on: it reads all items again. */
  begin(line) {
    this.call = line;
    this.ended = { times: 0, at: line.at };
    for (; this.refused; this.refused -= 1) {
      const key = `refused ${this.refused}`;
      this.items.get(key).node.remove();
      this.items.delete(key);
    }
  }

  finish({ end, at, row = {} }) {
    this.ended = { times: this.ended.times + 1, at };
    this.change(end, { state: row.outcome, task: row.task, error: row.error?.message }, row.usage);
  }

  change(key, news, usage = {}) {
    const item = this.items.get(key) ?? { key, state: "running", node: this.squares.appendChild(h("span")) };
    this.items.set(key, Object.assign(item, news));
    this.changed.add(item);
    this.spent.tokens += tokens(usage);
    this.spent.cost += usage.cost ?? 0;
    this.spent.costKnown &&= usage.costKnown !== false;
  }

  draw() {
    for (const item of this.changed) if (this.items.has(item.key)) this.drawSquare(item);
    this.changed.clear();
    const left = Math.max(0, (this.call.call ?? 0) - this.items.size);
    while (this.rest.childElementCount > left) this.rest.lastElementChild.remove();
    while (this.rest.childElementCount < left) this.rest.append(h("span", { class: "square", title: NOT_STARTED }));
    const sums = new Map();
    for (const item of this.items.values()) sums.set(this.word(item), (sums.get(this.word(item)) ?? 0) + 1);
    if (left) sums.set(NOT_STARTED, left);
    this.legend.replaceChildren(...[...sums].map(([word, number]) => h("li", {}, h("span", { class: squareOf(word) }), ` ${count(number)} ${word}`)));
    this.drawFigures(left, sums);
  }

  /** How an item is: what was running when its map died isn't running any more. */
  word(item) {
    return item.state === "running" && !this.isRunning ? "interrupted" : String(item.state).replaceAll("_", " ");
  }

  drawSquare(item) {
    const said = [item.key, this.word(item), item.error ?? item.task].filter(Boolean).join(" · ");
    const link = item.runId ? { href: `#/run/${item.runId}`, "aria-label": said, tabindex: item.node.previousSibling ? -1 : 0 } : {};
    const node = h(item.runId ? "a" : "span", { class: squareOf(this.word(item)), title: said, ...link });
    item.node.replaceWith(node);
    item.node = node;
  }

  drawFigures(left, sums) {
    const open = OPEN.reduce((sum, word) => sum + (sums.get(word) ?? 0), 0), done = this.items.size - open;
    const { call: total, most, at } = this.call, seconds = this.ended.at - at;
    const [mostCost, mostTokens] = most;
    const parts = [
      `${count(done)}${total === null ? "" : ` of ${count(done + open + left)}`} done`,
      `${money(this.spent) || "cost unknown"}${mostCost ? ` of $${mostCost}` : ""}`,
      `${count(this.spent.tokens)}${mostTokens ? ` of ${count(mostTokens)}` : ""} tokens`,
    ];
    if (seconds > 0) {
      const rate = this.ended.times / seconds;
      parts.push(rate >= 1 ? `${rate.toFixed(1)} a second` : `${(rate * 60).toFixed(1)} a minute`);
      if (this.isRunning && total !== null) parts.push(`about ${duration(((left + open) / rate) * 1000)} left`);
    }
    this.figures.replaceChildren(...parts.map((part) => h("span", {}, part)));
  }
}

const squareOf = (word) => `square ${word.replaceAll(" ", "_")}`;
