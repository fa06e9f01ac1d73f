// What is asked of the server; in a file that was exported, of the file itself.

const embedded = document.getElementById("data");
export const exported = embedded && JSON.parse(embedded.textContent);
const LOST = "The server has ended. Run “outrider view” again, and open its new link.";

export function notice(text) {
  const place = document.getElementById("notice");
  place.textContent = text;
  place.classList.toggle("shown", text !== "");
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
  return answered(fetch(`/api/runs/${id}`, { method: "POST", body: JSON.stringify({ action, ...more }) }));
}

async function answered(request) {
  const answer = await request.catch(() => { throw new Error(LOST); });
  const isOurs = answer.headers.get("content-type") === "application/json";
  const data = isOurs ? await answer.json() : { error: await answer.text() };
  if (answer.ok) return data;
  throw new Error([data.error, ...(data.conflicts ?? []).map((one) => `${one.path}: ${one.reason}.`)].join(" "));
}

/** Follow a stream of news until it is closed; a tab that nobody sees doesn't hold a connection. */
export function listen(path, handlers) {
  if (exported) {
    handlers.events(exported.events);
    return handlers.end;
  }
  let source = null, last = "0", over = false;
  const open = () => {
    if (source || over || document.hidden) return;
    source = new EventSource(`${path}?after=${last}`);
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (message) => {
        last = message.lastEventId;
        handle(JSON.parse(message.data));
      });
    }
    // A browser doesn't say why. Asked again, the server does, if it is still there.
    source.addEventListener("error", () => {
      const isRefused = source?.readyState === EventSource.CLOSED;
      get(isRefused ? path : "/").catch((error) => notice(error.message));
    });
  };
  const pause = () => { source?.close(); source = null; };
  const turn = () => (document.hidden ? pause() : open());
  document.addEventListener("visibilitychange", turn);
  open();
  return () => { over = true; pause(); document.removeEventListener("visibilitychange", turn); };
}
