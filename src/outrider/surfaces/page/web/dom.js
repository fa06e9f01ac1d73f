// What everything on the page is drawn with. Text from a run only ever becomes text nodes and the
// values of a few harmless attributes: there is no way here to make markup of it.

const HIDDEN = new RegExp("[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b\\u200e" +
  "\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff\\ufff9-\\ufffb\\u{e0000}-\\u{e007f}]", "gu");
const SPECIAL = /\[masked:[\w-]{1,30}\]|(?<![\w./@~-])[\w.@~+-][\w./@+-]{0,200}\.[A-Za-z]\w{0,9}:\d{1,7}\b/g;

/** Text in which all that can't be seen, or that moves other text, is spelled out. */
export function clean(text) {
  return String(text).replaceAll("\r\n", "\n").replace(HIDDEN, (char) => {
    const code = char.codePointAt(0);
    return code < 32 ? String.fromCodePoint(0x2400 + code) : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** A new element; a property that is a function is called on the event of its name. */
export function h(tag, props = {}, ...children) {
  const isPicture = tag === "svg" || tag === "rect" || tag === "title";
  const node = isPicture ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value != null && value !== false) node.setAttribute(name, value === true ? "" : clean(value));
  }
  node.append(...nodes(children));
  return node;
}

export function nodes(...children) {
  const given = children.flat(Infinity).filter((one) => one != null && one !== false);
  return given.map((one) => (one instanceof Node ? one : clean(one)));
}

export const button = (label, click, kind = "") => h("button", { type: "button", class: kind, click }, label);

/** A list of short facts by their names; those that are empty are left out. */
export function factList(facts) {
  const known = Object.entries(facts).filter(([, value]) => value);
  return h("dl", { class: "facts" }, known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** Put these nodes into a parent, in this order, and move none that is in its place. */
export function arrange(parent, wanted) {
  wanted.forEach((node, at) => {
    if (parent.children[at] !== node) parent.insertBefore(node, parent.children[at] ?? null);
  });
  while (parent.children.length > wanted.length) parent.lastElementChild.remove();
}

/** Text with what was masked marked, and with each `path:line` to be copied and opened. */
export function rich(text) {
  const found = [], whole = clean(text);
  let last = 0;
  for (const match of whole.matchAll(SPECIAL)) {
    found.push(whole.slice(last, match.index), special(match[0]));
    last = match.index + match[0].length;
  }
  return [...found, whole.slice(last)].filter((one) => one !== "");
}

function special(text) {
  if (text.startsWith("[masked:")) return h("mark", { title: "A secret was masked here" }, text);
  const open = { class: "open", type: "button", "data-open": text, "aria-label": `Open ${text} in your editor` };
  return h("span", {}, h("button", { class: "copy", type: "button", "data-copy": text, title: "Copy" }, text), h("button", open, "↗"));
}

/** A long text in parts: the next one comes when it is asked for. */
export function long(text, size = 50000) {
  const pre = h("pre", { tabindex: 0 }, rich(text.slice(0, size)));
  if (text.length <= size) return pre;
  const more = button(`Show more (${count(text.length - size)} characters)`, () => more.replaceWith(long(text.slice(size), size * 4)));
  return h("div", {}, pre, more);
}

export const count = (number) => Number(number ?? 0).toLocaleString("en-US");
export const tokens = (usage) => (usage?.input ?? 0) + (usage?.output ?? 0);
const compact = Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
export const short = (number) => compact.format(number ?? 0);

export function duration(ms) {
  if (ms == null) return "";
  if (ms < 60000) return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60000), two = (number) => String(Math.floor(number)).padStart(2, "0");
  return minutes < 60 ? `${minutes} min ${two((ms / 1000) % 60)} s` : `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
}

export function money(usage) {
  const cost = usage?.cost ?? 0;
  return !usage || usage.costKnown === false ? "" : `$${cost.toFixed(cost < 0.1 ? 4 : 2)}`;
}

export function when(iso) {
  const then = new Date(iso), ago = (Date.now() - then) / 60000;
  if (ago < 60) return ago < 1 ? "just now" : `${Math.floor(ago)} min ago`;
  const time = then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const isToday = then.toDateString() === new Date().toDateString();
  return isToday ? time : `${then.toLocaleDateString([], { month: "short", day: "numeric" })}, ${time}`;
}
