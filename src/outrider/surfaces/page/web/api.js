// What is asked of the server, or of the file itself where one was exported, and of the person.

import { clean, listOf, ui } from "./dom.js";

const embedded = document.getElementById("data");
export const exported = embedded && JSON.parse(embedded.textContent);
const LOST = "The server has ended. Run “outrider view” again, and open its new link.";

export function notice(text) {
  document.getElementById("notice").textContent = clean(text);
  clearTimeout(notice.timer);
  if (text && text !== LOST) notice.timer = setTimeout(() => notice(""), 6000);
}

export async function get(path) {
  if (!exported) return answered(fetch(path));
  if (path in exported.answers) return exported.answers[path];
  throw new Error("Left out of this file.");
}

/** Have something done; throws an error with what the server says. */
export async function act(id, action, more = {}) {
  const body = JSON.stringify({ action, ...more });
  return answered(fetch(`/api/runs/${id}`, { method: "POST", body }));
}

async function answered(request) {
  const answer = await request.catch(() => Promise.reject(new Error(LOST)));
  const isOurs = answer.headers.get("content-type") === "application/json";
  const data = isOurs ? await answer.json() : { error: await answer.text() };
  if (answer.ok) return data;
  const conflicts = listOf(data.conflicts).map((one) => `${one.path}: ${one.reason}.`);
  throw new Error([data.error, ...conflicts].join(" "));
}

/** Follow news until that is ended; a tab that nobody sees holds no connection. */
export function listen(path, handlers) {
  if (exported) return handlers.events?.(exported.events);
  const over = new AbortController();
  let [source, last] = [null, "0"];
  const turn = () => {
    source?.close();
    if (document.hidden || over.signal.aborted) return;
    source = new EventSource(`${path}?after=${last}`);
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (message) => {
        last = message.lastEventId;
        handle(JSON.parse(message.data));
      });
    }
    // A browser doesn't say why. Asked again, the server does, if it is still there.
    source.onerror = () => get(source.readyState === EventSource.CLOSED ? path : "/");
  };
  document.addEventListener("visibilitychange", turn, { signal: over.signal });
  over.signal.onabort = turn;
  turn();
  return () => over.abort();
}

/** Whether the person says yes. */
export function ask(title, text, yes) {
  const dialog = document.getElementById("ask");
  dialog.replaceChildren(ui`<form method="dialog"><h2 id="ask-title">${title}</h2><p>${text}</p>
    <p class="buttons"><button autofocus>Cancel</button>
      <button class="danger" value="yes">${yes}</button></p></form>`);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(dialog.returnValue === "yes");
  });
}
