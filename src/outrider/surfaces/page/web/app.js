// The page itself: which view is shown, the keys, and what a click on a path does.

import { act, exported, notice } from "./api.js";
import { showKeys } from "./dialog.js";
import { showList } from "./list.js";
import { showMap } from "./map.js";
import { showTwo } from "./receipt.js";
import { showRun } from "./run.js";

const main = document.getElementById("main"), where = document.getElementById("where");
const TABS = ["answer", "steps", "changes", "receipt"];
let close = () => {}, run = null;

function route() {
  const [kind = "", ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  if (exported && rest[0] !== exported.runId) return void (location.hash = `#/run/${exported.runId}`);
  if (kind === "run" && run?.id === rest[0]) return run.data && run.show(TABS.includes(rest[1]) ? rest[1] : "answer");
  close();
  run = null;
  main.replaceChildren();
  where.textContent = { run: `Run ${rest[0]}`, map: "Map", compare: "Two runs" }[kind] ?? "";
  document.title = "Outrider";
  if (kind === "run") {
    run = showRun(main, rest[0], TABS.includes(rest[1]) ? rest[1] : null);
    close = () => run.close();
  } else if (kind === "map") {
    close = showMap(main, rest[0]);
  } else if (kind === "compare") {
    close = () => {};
    showTwo(main, rest.slice(0, 2)).catch((error) => notice(error.message));
  } else close = showList(main);
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

const STOPS = "#runs li a, .steps section, .steps summary, .file > summary, a.square";

function step(by) {
  const stops = [...main.querySelectorAll(STOPS)].filter((one) => one.checkVisibility());
  const at = stops.indexOf(document.activeElement.closest?.(STOPS) ?? null);
  const next = stops[Math.min(Math.max(at + by, 0), stops.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

const ACTIONS = {
  j: () => step(1),
  k: () => step(-1),
  "/": () => main.querySelector("input[type=search]")?.focus(),
  "?": showKeys,
  Escape: () => (exported ? null : (location.hash = "#/")),
};

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input:not([type=checkbox]), textarea, select") || document.querySelector("dialog[open]");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping) return void (event.key === "Escape" && event.target.blur?.());
  const tab = run && main.querySelectorAll(".tabs a")[Number(event.key) - 1];
  const action = tab ? () => tab.click() : ACTIONS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

document.addEventListener("click", async (event) => {
  const copied = event.target.closest("[data-copy]"), opened = event.target.closest("[data-open]");
  try {
    if (copied) {
      await navigator.clipboard.writeText(copied.dataset.copy);
      notice(`Copied ${copied.dataset.copy}`);
    } else if (opened && run) {
      const [, path, line] = /^(.*):(\d+)$/.exec(opened.dataset.open);
      await act(run.id, "open", { path, line: Number(line) });
    }
  } catch (error) {
    notice(error.message);
  }
});

document.getElementById("keys").addEventListener("click", showKeys);
addEventListener("hashchange", route);
route();
