// What runs used: the receipt of one, the sums of those it delegated, and two side by side.

import { exported, get } from "./api.js";
import { count, duration, h, money, rich, tokens } from "./dom.js";
import { state } from "./list.js";
import { markdown } from "./markdown.js";

/** Return the nodes for a run's receipt. */
export function drawReceipt({ opening, result, usage: known, durationMs, exitCode }) {
  const { receipt = {}, isolation, check } = result, usage = result.usage ?? known ?? {};
  const facts = {
    "Turns": count(usage.turns),
    "Tokens in": count(usage.input),
    "… of them from the cache": count(usage.cacheRead),
    "Tokens out": count(usage.output),
    "Cost": money(usage) || "unknown",
    "Time": duration(durationMs),
    "Attempts": result.attempts,
    "Tool calls": count(receipt.toolCalls),
    "… that failed": count(receipt.toolErrors),
    "Exit code": exitCode,
    "Isolation": isolation && `${isolation.kind}, network: ${isolation.network}`,
    "Check": check && `${check.command} → ${check.exitCode}`,
  };
  const rows = Object.entries(facts).filter(([, value]) => value != null && value !== "");
  return [
    h("h2", { class: "hidden" }, "Receipt"),
    h("table", { class: "receipt" }, h("tbody", {}, rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value))))),
    listed("Files read", receipt.filesRead, (path) => h("code", {}, path)),
    listed("Files written", receipt.filesWritten, ({ path, before, after }) =>
      [h("code", {}, path), h("span", { class: "dim" }, ` ${(before ?? "new").slice(0, 12)} → ${(after ?? "gone").slice(0, 12)}`)]),
    listed("Commands", receipt.commands, ({ command, exitCode: code }) =>
      [h("code", {}, command), h("span", { class: code ? "bad" : "dim" }, ` exit code ${code ?? "none"}`)]),
    listed("Tools it has", opening.tools, (tool) => tool),
    listed("Tools withheld", opening.withheld, ({ tool, reason }) => `${tool}: ${reason}`),
    listed("Warnings", result.warnings, (warning) => warning),
  ];
}

function listed(title, some, draw) {
  if (!some?.length) return null;
  return [h("h3", {}, `${title} (${count(some.length)})`), h("ul", { class: "plain-list" }, some.map((one) => h("li", {}, draw(one))))];
}

/** Return a table of the runs that one delegated, with their sums. */
export function drawTree(own, rows) {
  const all = [own, ...rows].map((row) => row.usage).filter(Boolean);
  const sum = { cost: 0, tokens: 0, costKnown: all.every((usage) => usage.costKnown !== false) };
  for (const usage of all) {
    sum.cost += usage.cost ?? 0;
    sum.tokens += tokens(usage);
  }
  const line = (first, ms, used, usage) =>
    h("tr", {}, first, h("td", {}, duration(ms)), h("td", {}, count(used)), h("td", {}, money(usage)));
  const run = ({ runId, agent, task }) => [exported ? agent : h("a", { href: `#/run/${runId}` }, agent), " ", h("span", { class: "dim" }, task)];
  return h("details", { class: "tree", open: true },
    h("summary", {}, `Delegated runs (${count(rows.length)})`),
    h("table", {},
      h("thead", {}, h("tr", {}, ["Run", "Time", "Tokens", "Cost"].map((name) => h("th", {}, name)))),
      h("tbody", {},
        rows.map((row) => line(h("td", {}, state(row), " ", run(row)), row.durationMs, tokens(row.usage), row.usage)),
        line(h("th", { scope: "row" }, "Its own"), own.durationMs, tokens(own.usage), own.usage),
        line(h("th", { scope: "row" }, "Together"), null, sum.tokens, sum))));
}

/** Show two runs side by side. */
export async function showTwo(main, ids) {
  const runs = await Promise.all(ids.map((id) => get(`/api/runs/${id}`)));
  const read = runs.map((one) => one.result.receipt?.filesRead ?? []);
  const row = (name, draw) => h("tr", {}, h("th", { scope: "row" }, name), runs.map((one, at) => h("td", {}, draw(one, at))));
  const file = (path, other) => (other.includes(path) ? h("li", {}, h("code", {}, path)) : h("li", { class: "only" }, h("code", {}, path), " only here"));
  const table = h("table", { class: "two" }, h("tbody", {},
    row("Run", (one) => [h("a", { href: `#/run/${one.runId}` }, one.runId), " ", state(one)]),
    row("Agent", (one) => [one.agent, h("span", { class: "dim" }, ` ${one.model}`)]),
    row("Task", (one) => rich(one.opening.task ?? "")),
    row("Time", (one) => duration(one.durationMs)),
    row("Tokens", (one) => count(tokens(one.usage))),
    row("Cost", (one) => money(one.usage) || "unknown"),
    row("Answer", (one) => markdown(one.answer)),
    row("Files read", (_, at) => h("ul", { class: "plain-list" }, read[at].map((path) => file(path, read[1 - at]))))));
  main.replaceChildren(h("h1", {}, "Two runs"), h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Two runs" }, table));
}
