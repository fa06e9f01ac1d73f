// A map: a square for each item, by state, and how far it is, as its journal tells.

import { get, listen } from "./api.js";
import { clean, count, duration, money, number, tokens, ui, words } from "./dom.js";
import { headOf } from "./run.js";

const NOT_STARTED = "not started";
const OPEN = ["running", "put back", "interrupted", NOT_STARTED];

export class MapView {
  items = new Map();
  changed = new Set();
  rest = [];
  call = { call: 0, most: [] };
  ended = { times: 0, at: 0 };
  spent = { tokens: 0, cost: 0, costKnown: true };
  head = ui`<div class="head"></div>`;
  figures = ui`<p class="line sums"></p>`;
  legend = ui`<ul class="legend" aria-label="Items by state"></ul>`;
  squares = ui`<div class="squares" role="group" aria-label="Items"></div>`;

  constructor(main, id) {
    main.replaceChildren(this.head, this.figures, this.legend, this.squares);
    this.id = id;
    this.refresh().then(() => {
      if (this.isClosed) return;
      this.close = listen(`/api/maps/${id}/news`, {
        lines: (lines) => this.take(lines),
        end: () => this.refresh(),
      });
    });
  }

  close() {
    this.isClosed = true;
  }

  /** Read how the map is, and show it. */
  async refresh() {
    this.row = await get(`/api/maps/${this.id}`);
    if (this.isClosed) return;
    const { agent, model, project, error, task } = this.row;
    this.isRunning = this.row.state === "running";
    this.head.replaceChildren(headOf(this.row, clean(task), [error], { agent, model, project }));
    this.changed = new Set(this.items.values());
    this.draw();
  }

  take(lines) {
    for (const line of lines) {
      const { start, run, back, end, refused, row = {} } = line;
      if ("call" in line) this.begin(line);
      if ("start" in line) this.change(start, { state: "running", runId: null });
      if ("run" in line) this.change(run, { runId: line.runId });
      if ("back" in line) this.change(back, { state: "put back" }, line.usage);
      if ("refused" in line) this.change(line, { state: "refused", error: refused });
      if ("end" in line) {
        this.ended = { times: this.ended.times + 1, at: line.at };
        const { outcome: state, task, error } = row;
        this.change(end, { state, task, error: error?.message }, row.usage);
      }
    }
    this.redraw ||= requestAnimationFrame(() => this.draw());
  }

  /** The map begins, or goes on: it reads all items again, and refuses those that it must. */
  begin(line) {
    this.call = line;
    this.ended = { times: 0, at: line.at };
    for (const [key, item] of this.items) {
      if (item.state !== "refused") continue;
      item.node.remove();
      this.items.delete(key);
    }
  }

  change(key, news, usage = {}) {
    const item = this.items.get(key) ?? { key, node: this.rest.shift() ?? this.square() };
    this.items.set(key, Object.assign(item, news));
    this.changed.add(item);
    this.spent.tokens += tokens(usage);
    this.spent.cost += number(usage.cost);
    this.spent.costKnown &&= usage.costKnown !== false;
  }

  /** A square for an item that hasn't begun. */
  square() {
    const isFirst = !this.squares.firstChild;
    const node = ui`<a class="square" data-state=${NOT_STARTED} title=${NOT_STARTED}
      tabindex=${isFirst ? 0 : -1}></a>`;
    return this.squares.appendChild(node);
  }

  draw() {
    this.redraw = 0;
    const left = Math.max(0, (this.call.call ?? 0) - this.items.size);
    while (this.rest.length < left) this.rest.push(this.square());
    while (this.rest.length > left) this.rest.pop().remove();
    for (const item of this.changed) this.drawItem(item);
    this.changed.clear();
    const states = [...this.items.values()].map((item) => this.word(item));
    const groups = Object.groupBy([...states, ...Array(left).fill(NOT_STARTED)], (word) => word);
    const sums = Object.entries(groups).map(([word, all]) => [word, all.length]);
    this.legend.replaceChildren(...sums.map(([word, sum]) =>
      ui`<li><i class="square" data-state=${word}></i> ${count(sum)} ${word}</li>`));
    const isOpen = ([word]) => OPEN.includes(word);
    this.drawFigures(sums.filter(isOpen).reduce((all, [, sum]) => all + sum, 0), left);
  }

  /** How an item is: what was running when its map died isn't running any more. */
  word({ state }) {
    return state === "running" && !this.isRunning ? "interrupted" : clean(state).replace("_", " ");
  }

  drawItem(item) {
    const { key, node, runId, error, task } = item;
    const word = this.word(item);
    node.dataset.state = word;
    const name = typeof key === "string" && key; // one that was refused has none
    node.title = clean([name, word, error ?? task].filter(Boolean).join(" · "));
    if (runId) node.href = `#/run/${encodeURIComponent(runId)}`;
    else node.removeAttribute("href");
  }

  drawFigures(open, left) {
    const [total, done] = [this.items.size + left, this.items.size + left - open];
    const [mostCost, mostTokens] = this.call.most;
    const rate = this.ended.times / (this.ended.at - this.call.at);
    const parts = [
      `${count(done)}${this.call.call === null ? "" : ` of ${count(total)}`} done`,
      `${money(this.spent) || "cost unknown"}${mostCost ? words` of $${mostCost}` : ""}`,
      `${count(this.spent.tokens)}${mostTokens ? ` of ${count(mostTokens)}` : ""} tokens`,
      rate > 0 && (rate < 1 ? `${(rate * 60).toFixed(1)} a minute` : `${rate.toFixed(1)} a second`),
      rate > 0 && this.isRunning && `about ${duration((open / rate) * 1000)} left`,
    ];
    this.figures.textContent = clean(parts.filter(Boolean).join(" · "));
  }
}
