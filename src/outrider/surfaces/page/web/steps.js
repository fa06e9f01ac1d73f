// The steps of a run: each turn with its text and its calls, and a timeline above them.

import { exported, get } from "./api.js";
import { clean, count, duration, long, money, number, rich, ui, words } from "./dom.js";
import { markdown } from "./markdown.js";

/** What is noted of an event, whatever else it does. */
const NOTES = {
  run: (event) => event.begin > 0 && words`The person: ${event.task}`,
  user_message: (event) => words`${event.id ? "Told" : "Noted"}: ${event.text}`,
  retry: ({ message, attempt, delayMs }) =>
    words`${message} Attempt ${attempt} after ${duration(delayMs)}.`,
  dropped: (event) => `${count(event.ids?.length)} older results were left out, to save room.`,
  fault: (event) => event.message,
  unconfined: (event) => words`Less confined than it should be, for want of: ${event.missing}.`,
  task_finish: (event) => event.error,
  end: ({ outcome, at }) => `Ended: ${clean(outcome).replaceAll("_", " ")} after ${duration(at)}.`,
};
const LANES = { model: "Model", tool: "tools", retry: "waiting to try again" };

/** All that is known of a run's steps, drawn as it comes. */
export class Steps {
  calls = new Map();
  children = new Set();
  spans = [];
  base = 0;
  now = 0;
  timeline = ui`<div class="timeline"></div>`;
  list = ui`<div></div>`;
  node = ui`<div>${this.timeline}${this.list}</div>`;

  constructor(id) {
    this.id = id;
  }

  /** Take in events, and draw what they change. */
  take(events) {
    for (const event of events) {
      if (event.type === "run" && event.begin > 0) this.base = this.now; // a later turn of a chat
      this.at = this.base + number(event.at);
      this.now = Math.max(this.now, this.at);
      this[`on_${event.type}`]?.(event);
      const text = Object.hasOwn(NOTES, event.type) && NOTES[event.type](event);
      if (text) this.add(ui`<p class="note" data-kind=${event.type}>${rich(text)}</p>`);
    }
    this.redraw ||= requestAnimationFrame(() => this.drawTimeline());
  }

  add(node) {
    (this.turn?.node ?? this.list).append(node);
  }

  span(lane, title, node) {
    const span = { lane, title, node, begin: this.at };
    this.spans.push(span);
    return span;
  }

  on_turn_start(event) {
    const head = ui`<h3>Turn ${event.turn}</h3>`;
    const node = ui`<section class="turn" tabindex="-1">${head}</section>`;
    this.list.append(node);
    this.turn = { head, node, span: this.span("model", head.textContent, node) };
  }

  on_retry(event) {
    const span = this.span("retry", "Waits to try again", this.turn?.node ?? this.list);
    span.end = span.begin + number(event.delayMs);
  }

  on_message_end(event) {
    if (!this.turn) return;
    const { head, node, span } = this.turn;
    const { input, output, cacheRead } = event.usage ?? {};
    const isUsual = !event.stopReason || ["stop", "tool_call"].includes(event.stopReason);
    const facts = [
      duration(this.at - span.begin),
      `${count(input)} in${cacheRead ? ` (${count(cacheRead)} cached)` : ""}, ${count(output)} out`,
      money(event.usage),
      !isUsual && words`stopped: ${event.stopReason}`,
    ];
    span.end = this.at;
    head.append(ui`<span>${facts.filter(Boolean).join(" · ")}</span>`);
    if (!event.text) return;
    const text = markdown(event.text);
    const showAll = async () => text.replaceWith(markdown((await this.whole(event)).text));
    if (event.isCut) text.append(ui`<button @click=${showAll}>Show all</button>`);
    node.append(text);
  }

  on_tool_start(event) {
    const result = ui`<span class="dim">…</span>`;
    const node = ui`<details class="call"><summary><b>${event.name}</b> <code>${event.words}</code>
      ${result}</summary></details>`;
    const call = { event, node, result, span: this.span("tool", node.textContent, node) };
    const open = async () => node.append(await this.inside(call));
    node.addEventListener("toggle", open, { once: true });
    this.calls.set(event.id, call);
    this.add(node);
  }

  on_tool_result_end(event) {
    if (!this.calls.has(event.id)) this.on_tool_start(event);
    const call = this.calls.get(event.id);
    const { code, message, data } = event.envelope ?? {};
    const summary = clean(event.summary).split("→").pop();
    const said = code === 0 ? summary : words`${code}: ${message}`;
    const isMasked = event.masked || call.event.masked;
    call.end = event;
    Object.assign(call.span, { end: this.at, failed: code !== 0 });
    call.node.dataset.failed = code !== 0;
    call.result.replaceChildren(`${said} · ${duration(this.at - call.span.begin)}`);
    if (isMasked) call.result.append(" ", ui`<mark>masked</mark>`);
    if (typeof data?.runId === "string") this.children.add(data.runId);
    const inside = call.node.querySelector(".inside"); // of a call that somebody has unfolded
    if (inside) this.inside(call).then((made) => inside.replaceWith(made));
  }

  on_run(event) {
    if (event.begin > 0) this.turn = null;
  }

  on_end() {
    this.turn = null;
  }

  async whole(event) {
    return event?.isCut ? get(`/api/runs/${this.id}/events/${event.begin}`) : event;
  }

  /** What a call was given, and what it gave back. */
  async inside({ event, end }) {
    const { args } = await this.whole(event);
    const { bytes, text, envelope } = (await this.whole(end)) ?? {};
    const run = envelope?.data?.runId;
    const isLinked = typeof run === "string" && !exported;
    return ui`<div class="inside"><h4>Called with</h4>${long(args)}
      <h4>${end ? `Result · ${count(bytes)} bytes` : "It hasn't answered yet."}</h4>
      ${end && long(text ?? envelope?.data ?? envelope?.message)}
      ${isLinked && ui`<a href=${`#/run/${run}`}>Open run ${run}</a>`}</div>`;
  }

  drawTimeline() {
    this.redraw = 0;
    const [total, sums] = [this.now || 1, { model: 0, tool: 0, retry: 0 }];
    const bars = this.spans.map(({ lane, title, node, begin, end = this.now, failed }) => {
      sums[lane] += end - begin;
      const bar = ui`<i data-lane=${lane} data-failed=${failed} @click=${() => lead(node)}
        title=${`${title} · ${duration(end - begin)}`}></i>`;
      bar.style.left = `${(100 * begin) / total}%`;
      bar.style.width = `${(100 * (end - begin)) / total}%`;
      return bar;
    });
    const said = Object.entries(LANES).map(([lane, name]) => `${name} ${duration(sums[lane])}`);
    const sum = `${said.join(", ")}, of ${duration(this.now)}`;
    this.timeline.replaceChildren(ui`<span>Model</span><span>Tools</span>
      <div role="img" aria-label=${`Timeline: ${sum}`}>${bars}</div><p>${sum}</p>`);
  }
}

function lead(node) {
  node.scrollIntoView({ block: "center" });
  (node.querySelector(":scope > summary") ?? node).focus({ preventScroll: true });
}
