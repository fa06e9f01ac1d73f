// The steps of a run: each turn with its text and its calls, and a timeline above them.

import { exported, get } from "./api.js";
import { button, count, duration, h, long, money, rich } from "./dom.js";
import { markdown } from "./markdown.js";

const NOTES = {
  retry: (event) => `${event.message} Attempt ${event.attempt} after ${duration(event.delayMs)}.`,
  dropped: (event) => `${count(event.ids?.length)} older results were left out, to fit the model's window.`,
  fault: (event) => event.message,
  unconfined: (event) => `Less confined than it should be; this machine lacks: ${(event.missing ?? []).join(", ")}.`,
};
const WIDTH = 1000;
const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "");

/** All that is known of a run's steps, drawn as it comes. */
export class Steps {
  constructor(id) {
    this.id = id;
    this.list = h("div", { class: "steps" });
    this.timeline = h("div", { class: "timeline" });
    this.live = h("div", { class: "live", hidden: true });
    this.node = h("div", {}, this.timeline, this.list, this.live);
    this.calls = new Map();
    this.spans = [];
    this.children = [];
    this.base = this.now = 0;
    this.turn = null;
    this.isAnswering = false;
  }

  /** Take in events, and draw what they change. */
  take(events) {
    for (const event of events) {
      if (event.type === "run" && event.begin > 0) this.base = this.now; // a later turn of a chat
      this.at = this.base + (Number(event.at) || 0);
      this.now = Math.max(this.now, this.at);
      this[`on_${event.type}`]?.(event);
      if (event.type in NOTES) this.note(event.type, NOTES[event.type](event));
    }
    this.live.hidden = !this.isAnswering || !this.live.textContent;
    this.redraw ||= requestAnimationFrame(() => { this.redraw = 0; this.drawTimeline(); });
  }

  text({ text, isNew }) {
    if (isNew) this.live.textContent = "";
    this.live.append(...rich(text));
    this.live.hidden = !this.isAnswering;
  }

  note(kind, ...content) {
    (this.turn?.body ?? this.list).append(h("p", { class: `note ${kind}` }, content));
  }

  folded(title, content) {
    const details = h("details", { class: "call" }, h("summary", {}, title));
    details.addEventListener("toggle", async () => details.append(await content()), { once: true });
    return details;
  }

  on_run(event) {
    if (event.begin > 0) {
      this.turn = null;
      this.list.append(h("section", { class: "said" }, h("h3", {}, "The person"), h("div", {}, rich(event.task ?? ""))));
    }
  }

  on_prompt(event) {
    if (event.systemPrompt) this.list.append(this.folded("System prompt", async () => long((await this.whole(event)).systemPrompt)));
  }

  on_user_message(event) {
    this.note("told", h("b", {}, event.id ? "Told: " : "Noted: "), rich(event.text));
  }

  on_turn_start(event) {
    const head = h("h3", {}, `Turn ${event.turn}`), body = h("div");
    const node = h("section", { class: "turn", tabindex: -1, id: `step-${this.spans.length}` }, head, body);
    this.turn = { head, body, node, at: this.at };
    this.list.append(node);
    this.live.textContent = "";
    this.isAnswering = true;
    this.model = this.span("model", `Turn ${event.turn}`, node);
  }

  on_retry(event) {
    const wait = this.span("retry", "Waits to try again", this.turn?.node ?? this.list);
    wait.end = wait.begin + (Number(event.delayMs) || 0);
  }

  on_message_end(event) {
    this.isAnswering = false;
    if (this.model) this.model.end = this.at;
    if (!this.turn) return;
    const usage = event.usage ?? {}, cached = usage.cacheRead ? ` (${count(usage.cacheRead)} cached)` : "";
    const facts = [duration(this.at - this.turn.at), `${count(usage.input)} in${cached}, ${count(usage.output)} out`, money(usage),
      ["stop", "tool_call"].includes(event.stopReason) ? "" : `stopped: ${event.stopReason}`];
    this.turn.head.append(h("span", { class: "dim" }, facts.filter(Boolean).map((fact) => ` · ${fact}`)));
    if (!event.text) return;
    const text = markdown(event.text);
    this.turn.body.append(text);
    if (event.isCut) text.append(button("Show all", async () => text.replaceWith(markdown((await this.whole(event)).text))));
  }

  on_tool_start(event) {
    const result = h("span", { class: "result dim" }, " …");
    const title = [h("b", {}, event.name), " ", h("span", { class: "args" }, event.words), result];
    const node = this.folded(title, () => this.opened(event));
    node.id = `call-${event.begin}`;
    (this.turn?.body ?? this.list).append(node);
    this.calls.set(event.id, { event, result, node, span: this.span("tool", `${event.name} ${event.words}`, node) });
  }

  on_tool_result_end(event) {
    const call = this.calls.get(event.id) ?? (this.on_tool_start({ ...event, words: "" }), this.calls.get(event.id));
    const code = event.envelope?.code, failed = code !== 0, child = event.envelope?.data?.runId;
    const said = failed ? `${code}: ${event.envelope?.message}` : String(event.summary ?? "").split("→").pop();
    call.end = event;
    call.span.end = this.at;
    call.span.failed = failed;
    call.node.classList.toggle("failed", failed);
    const masked = event.masked || call.event.masked ? h("mark", {}, "masked") : null;
    call.result.replaceChildren(" ", said, ` · ${duration(this.at - call.span.begin)} `, ...(masked ? [masked] : []));
    if (typeof child === "string" && !this.children.includes(child)) this.children.push(child);
    const inside = call.node.querySelector(".inside"); // of a call that somebody has unfolded
    if (inside) this.opened(event).then((made) => inside.replaceWith(made));
  }

  on_task_finish(event) {
    if (event.error) this.note("error", rich(event.error));
  }

  on_end(event) {
    this.isAnswering = false;
    this.turn = null;
    this.note("end", `Ended: ${String(event.outcome).replaceAll("_", " ")} after ${duration(event.at)}. `, rich(event.error ?? ""));
  }

  async whole(event) {
    if (!event.isCut) return event;
    return get(`/api/runs/${this.id}/events/${event.begin}`).catch((error) => ({ ...event, text: error.message }));
  }

  /** What a call was given, and what it gave back. */
  async opened({ id, name }) {
    const { event, end } = this.calls.get(id);
    const parts = [h("h4", {}, "Called with"), long(asText((await this.whole(event)).args))];
    if (!end) return h("div", { class: "inside" }, parts, h("p", { class: "dim" }, "It hasn't answered yet."));
    const all = await this.whole(end), text = all.text ?? asText(all.envelope?.data ?? all.envelope?.message ?? "");
    const run = all.envelope?.data?.runId;
    const link = typeof run === "string" && !exported ? h("p", {}, h("a", { href: `#/run/${encodeURIComponent(run)}` }, `Open run ${run}`)) : null;
    return h("div", { class: "inside", "data-tool": name }, parts, h("h4", {}, "Result", h("span", { class: "dim" }, ` · ${count(end.bytes)} bytes`)), long(text), link);
  }

  span(lane, title, node) {
    const span = { lane, title, node, begin: this.at, end: null };
    this.spans.push(span);
    return span;
  }

  drawTimeline() {
    const total = Math.max(this.now, 1), x = (at) => (at / total) * WIDTH;
    const lanes = { model: 2, retry: 2, tool: 24 };
    const bars = this.spans.map((span) => {
      const begin = x(span.begin), wide = Math.max(x(span.end ?? this.now) - begin, 1.5);
      const took = duration((span.end ?? this.now) - span.begin);
      const bar = h("rect", { x: begin, y: lanes[span.lane], width: wide, height: 16, rx: 1, class: `${span.lane}${span.failed ? " failed" : ""}${span.end === null ? " open" : ""}` },
        h("title", {}, `${span.title} · ${took}`));
      bar.addEventListener("click", () => this.lead(span.node));
      return bar;
    });
    const sums = (lane) => this.spans.filter((one) => one.lane === lane).reduce((sum, one) => sum + (one.end ?? this.now) - one.begin, 0);
    const words = `Model ${duration(sums("model"))}, tools ${duration(sums("tool"))}, waiting for retries ${duration(sums("retry"))}, of ${duration(this.now)}.`;
    this.timeline.replaceChildren(
      h("span", { class: "lane" }, "Model"), h("span", { class: "lane" }, "Tools"),
      h("svg", { viewBox: `0 0 ${WIDTH} 42`, preserveAspectRatio: "none", role: "img", "aria-label": `Timeline. ${words}` }, bars),
      h("p", { class: "dim" }, words));
  }

  lead(node) {
    node.scrollIntoView({ block: "center" });
    node.classList.add("found");
    setTimeout(() => node.classList.remove("found"), 1500);
    (node.querySelector("summary") ?? node).focus({ preventScroll: true });
  }
}
