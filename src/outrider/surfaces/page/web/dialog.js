// Questions before anything is done, and the list of keys.

import { h } from "./dom.js";

const KEYS = { "j / k": "next, previous", "Enter": "open, fold or unfold", "/": "search", "1 – 4": "tabs of a run", "Esc": "back", "?": "these keys" };

function show(title, body, buttons) {
  const dialog = document.getElementById("dialog");
  dialog.replaceChildren(h("form", { method: "dialog" }, h("h2", { id: "dialog-title" }, title), body, h("p", { class: "buttons" }, buttons)));
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true }));
}

/** Whether the person says yes. */
export async function ask(title, text, yes) {
  const no = h("button", { value: "", autofocus: true }, "Cancel");
  const answer = await show(title, h("p", {}, text), [no, h("button", { value: "yes", class: "danger" }, yes)]);
  return answer === "yes";
}

export function showKeys() {
  const rows = Object.entries(KEYS).map(([key, does]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, does)]);
  return show("Keys", h("dl", { class: "keys" }, rows), h("button", { value: "", autofocus: true }, "Close"));
}
