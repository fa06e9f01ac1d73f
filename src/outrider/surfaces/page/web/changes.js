// What a writer changed: the diff by file or by call, and what can be done with it.

import { button, count, h, nodes } from "./dom.js";

const OFFERED = { pending: ["land", "discard"], undone: ["land", "discard"], landed: ["undo"] };
const WORDS = { land: "Land…", discard: "Discard…", undo: "Undo…" };
const KINDS = { "+": "ins", "-": "del", "@": "b" };

/** Return the nodes for a run's changes; `does` is called with an action, where there are any. */
export function drawChanges(changes, steps, does) {
  const files = h("div");
  const byFile = () => files.replaceChildren(...changes.files.map((file) => diff(file, changes.files.length < 20)));
  const byCall = () => files.replaceChildren(...groupedByCall(changes.files, steps));
  const order = (label, draw, isOn) =>
    h("label", {}, h("input", { type: "radio", name: "order", checked: isOn, change: draw }), ` ${label}`);
  const offered = does ? OFFERED[changes.state] ?? [] : [];
  byFile();
  return nodes(
    h("h2", { class: "hidden" }, "Changes"),
    h("div", { class: "line" },
      h("span", { class: `state ${changes.state === "pending" ? "asks" : ""}` }, changes.state),
      h("span", {}, `${count(changes.files.length)} files, `, sums(changes.added, changes.removed)),
      h("fieldset", {}, h("legend", { class: "hidden" }, "Order"), order("by file", byFile, true), order("by call", byCall, false)),
      h("span", { class: "buttons" }, offered.map((action) => button(WORDS[action], () => does(action), action === "discard" ? "danger" : "")))),
    reasons("These conflict with your files", changes.conflicts),
    reasons("These don't land", changes.withheld),
    files);
}

const sums = (added, removed) => [h("ins", {}, `+${count(added)}`), " ", h("del", {}, `−${count(removed)}`)];

function reasons(title, some) {
  if (!some.length) return null;
  return [h("h3", {}, title), h("ul", {}, some.map((one) => h("li", {}, h("code", {}, one.path), `: ${one.reason}`)))];
}

function groupedByCall(files, steps) {
  const groups = new Map();
  for (const file of files) {
    for (const id of file.calls.length ? file.calls : [""]) groups.set(id, [...(groups.get(id) ?? []), file]);
  }
  return [...groups].flatMap(([id, some]) => {
    const call = steps.calls.get(id)?.event;
    const title = id ? [h("b", {}, call?.name ?? id), " ", call?.words ?? ""] : "No call is known";
    return [h("h3", {}, title), ...some.map((file) => diff(file, false))];
  });
}

/** The diff of one file; its lines are drawn when it is opened. */
function diff(file, isOpen) {
  const lines = file.diff.split("\n").filter((line) => !/^(---|\+\+\+) /.test(line));
  const [added, removed] = ["+", "-"].map((sign) => lines.filter((line) => line[0] === sign).length);
  const drawn = () => h("pre", { class: "diff", tabindex: 0 }, lines.map((line) => h(KINDS[line[0]] ?? "span", {}, `${line}\n`)));
  const kind = file.kind === "modified" ? "" : ` ${file.kind}`;
  const body = h("details", { class: "file" }, h("summary", {}, h("code", {}, file.path), " ", sums(added, removed), kind));
  body.addEventListener("toggle", () => body.append(drawn()), { once: true });
  body.open = isOpen && lines.length < 1000;
  return body;
}
