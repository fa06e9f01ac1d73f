// The page itself: which view is shown, the keys, and what a click on a path does.

import { act, exported, notice } from "./api.js";
import { showList } from "./list.js";
import { MapView } from "./map.js";
import { RunView, showTwo } from "./run.js";

const main = document.querySelector("main");
const STOPS = "li.run a, .turn, summary, a.square[href]";
const VIEWS = {
  run: (id, tab) => new RunView(main, id, tab),
  map: (id) => new MapView(main, id),
  compare: (...ids) => showTwo(main, ...ids),
};
const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  "/": () => main.querySelector("input[type=search]")?.focus(),
  "?": () => document.getElementById("keys").showModal(),
  Escape: () => (location.hash = "#/"),
};
let current = null;

function route() {
  const [kind, id, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  if (exported && id !== exported.runId) return void (location.hash = `#/run/${exported.runId}`);
  if (kind === "run" && current?.id === id) return current.data && current.show(rest[0]);
  current?.close?.();
  document.title = "Outrider";
  main.replaceChildren();
  current = VIEWS[kind]?.(id, ...rest) ?? { close: showList(main) };
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

/** Go to the next or the one before of what can be opened. */
function step(by) {
  const stops = [...main.querySelectorAll(STOPS)].filter((one) => one.checkVisibility());
  const at = stops.indexOf(document.activeElement) + by;
  const next = stops[Math.min(Math.max(at, 0), stops.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input:not([type=checkbox]), select");
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("dialog")) return;
  if (isTyping && event.key !== "Escape") return;
  const tab = main.querySelectorAll(".tabs a")[Number(event.key) - 1];
  const known = Object.hasOwn(KEYS, event.key) && KEYS[event.key];
  const action = isTyping ? () => event.target.blur() : tab ? () => tab.click() : known;
  if (!action) return;
  event.preventDefault();
  action();
});

addEventListener("click", async ({ target }) => {
  const { copy, open } = target.closest("[data-copy], [data-open]")?.dataset ?? {};
  if (copy) {
    await navigator.clipboard.writeText(copy);
    notice(`Copied ${copy}`);
  } else if (open) {
    const [, path, line] = /^(.*):(\d+)$/.exec(open);
    await act(current.id, "open", { path, line: Number(line) });
  }
});

// Whatever was asked for and failed says so in one place.
addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  notice(event.reason.message);
});

document.getElementById("help").addEventListener("click", KEYS["?"]);
addEventListener("hashchange", route);
route();
