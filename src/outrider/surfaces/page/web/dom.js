// What everything on the page is drawn with. Text from a run only ever becomes text nodes and the
// values of a few harmless attributes: there is no way here to make markup of it.

const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** Text in which all that can't be seen, or that moves other text, is spelled out. */
export function clean(text) {
  return String(text).replaceAll("\r\n", "\n").replace(HIDDEN, (char) => {
    const code = char.codePointAt(0);
    if (code < 32) return String.fromCodePoint(0x2400 + code);
    return code === 127 ? "␡" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** A new element; what is a function is called on an event of that name. */
export function h(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** The same for a picture. */
export function svg(tag, props = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function filled(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value == null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : clean(value));
  }
  node.append(...nodes(children));
  return node;
}

export function nodes(...children) {
  const given = children.flat(Infinity).filter((one) => one != null && one !== false);
  return given.map((one) => (one instanceof Node ? one : clean(one)));
}

/** Put these nodes into a parent, in this order, and move none that is in its place. */
export function arrange(parent, wanted) {
  wanted.forEach((node, at) => {
    if (parent.children[at] !== node) parent.insertBefore(node, parent.children[at] ?? null);
  });
  while (parent.children.length > wanted.length) parent.lastElementChild.remove();
}

const SPECIAL =
  /\[masked:[\w-]{1,30}\]|(?<![\w./@~-])[\w.@~+-][\w./@+-]{0,200}\.[A-Za-z]\w{0,9}:\d{1,7}\b/g;

/** Text with what was masked marked, and with each `path:line` to be copied and opened. */
export function rich(text) {
  const found = [];
  let last = 0;
  for (const match of clean(text).matchAll(SPECIAL)) {
    found.push(match.input.slice(last, match.index), special(match[0]));
    last = match.index + match[0].length;
  }
  return [...found, clean(text).slice(last)].filter((one) => one !== "");
}

function special(text) {
  if (text.startsWith("[masked:")) return h("mark", { title: "A secret was masked here" }, text);
  const open = { class: "open", type: "button", "data-open": text, title: "Open in your editor" };
  return h("span", { class: "ref" },
    h("button", { class: "copy", type: "button", "data-copy": text, title: "Copy" }, text),
    h("button", { ...open, "aria-label": `Open ${text} in your editor` }, "↗"));
}

/** A long text in parts: the next one comes when it is asked for. */
export function long(text, size = 50000) {
  const pre = h("pre", { tabindex: 0 }, rich(text.slice(0, size)));
  if (text.length <= size) return pre;
  const left = `Show more (${count(text.length - size)} characters)`;
  const more = h("button", { type: "button", click: () => more.replaceWith(long(text.slice(size), size * 4)) }, left);
  return h("div", {}, pre, more);
}

export const count = (number) => Number(number ?? 0).toLocaleString("en-US");

export function short(number) {
  return Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 }).format(number ?? 0);
}

export function duration(ms) {
  if (ms == null) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${String(Math.floor(seconds % 60)).padStart(2, "0")} s`;
  return `${Math.floor(seconds / 3600)} h ${String(Math.floor(seconds / 60) % 60).padStart(2, "0")} min`;
}

export function money(usage) {
  if (!usage || usage.costKnown === false) return "";
  return `$${usage.cost < 0.1 ? (usage.cost ?? 0).toFixed(4) : usage.cost.toFixed(2)}`;
}

export const tokens = (usage) => (usage?.input ?? 0) + (usage?.output ?? 0);

export function when(iso) {
  const then = new Date(iso), ago = (Date.now() - then) / 1000;
  if (ago < 60) return "just now";
  if (ago < 3600) return `${Math.floor(ago / 60)} min ago`;
  const time = then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  if (then.toDateString() === new Date().toDateString()) return time;
  return `${then.toLocaleDateString([], { month: "short", day: "numeric" })}, ${time}`;
}
