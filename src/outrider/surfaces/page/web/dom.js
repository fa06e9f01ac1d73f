// What everything on the page is drawn with. Text from a run only ever becomes text nodes and the
// values of attributes that a template names: there is no way here to make markup of it.

const HIDDEN = /[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--[\n\t\u200c\u200d]]/gv;
const SPECIAL =
  /(\[masked:[\w-]{1,30}\]|(?<![\w./@~-])[\w.@~+-][\w./@+-]{0,200}\.[A-Za-z]\w{0,9}:\d{1,7}\b)/;
const MAX_NESTED = 5;
const templates = new WeakMap();

/** A value as text in which all that can't be seen, or that moves other text, is spelled out. */
export function clean(value) {
  const text = typeof value === "object" && value ? JSON.stringify(value, null, 2) : value ?? "";
  return String(text).replaceAll("\r\n", "\n").replace(HIDDEN, (char) => {
    const code = char.codePointAt(0);
    return code < 32 ? String.fromCodePoint(0x2400 + code) : `⟨U+${code.toString(16)}⟩`;
  });
}

/** A template as text, whatever is in its holes. */
export const words = (raw, ...values) => String.raw({ raw }, ...values.map(clean));

/** A template as a node: its holes take text, nodes, values of attributes, and `@event`s. */
export function ui(strings, ...values) {
  if (!templates.has(strings)) templates.set(strings, parsed(strings));
  const made = document.importNode(templates.get(strings), true);
  const walker = document.createTreeWalker(made, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_COMMENT);
  const found = [];
  while (walker.nextNode()) found.push(walker.currentNode);
  for (const node of found) {
    if (node instanceof Comment) node.replaceWith(...nodes(values[node.data]));
    for (const { name, value } of [...(node.attributes ?? [])]) {
      if (value.startsWith("hole-")) set(node, name, values[value.slice(5)]);
    }
  }
  return made.childNodes.length === 1 ? made.firstChild : made;
}

function parsed(strings) {
  const template = document.createElement("template");
  const hole = (text, at) => text + (text.endsWith("=") ? `"hole-${at}"` : `<!--${at}-->`);
  template.innerHTML = strings.slice(0, -1).map(hole).concat(strings.at(-1)).join("").trim();
  return template.content;
}

function set(node, name, value) {
  if (typeof value === "function") node.addEventListener(name.slice(1), value);
  if (typeof value === "function" || value == null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : clean(value));
}

export function nodes(...content) {
  const given = content.flat(Infinity).filter((one) => one != null && one !== false);
  return given.map((one) => (one instanceof Node ? one : clean(one)));
}

/** A list that a record should have; empty where it has something else. */
export const listOf = (value) => (Array.isArray(value) ? value : []);

/** Text with what was masked marked, and with each `path:line` to be copied and opened. */
export function rich(value) {
  const parts = clean(value).split(SPECIAL);
  return parts.map((part, at) => (at % 2 ? special(part) : part));
}

function special(text) {
  if (text.startsWith("[masked:")) return ui`<mark title="A secret was masked here">${text}</mark>`;
  return ui`<span><button class="copy" data-copy=${text} title="Copy">${text}</button><button
    class="open" data-open=${text} aria-label=${`Open ${text} in your editor`}>↗</button></span>`;
}

/** A long text in parts: the next one comes when it is asked for. */
export function long(value, size = 50_000) {
  const text = clean(value);
  const pre = ui`<pre tabindex="0">${rich(text.slice(0, size))}</pre>`;
  const more = () => button.replaceWith(long(text.slice(size), size * 4));
  const left = count(text.length - size);
  const button = ui`<button @click=${more}>Show ${left} more characters</button>`;
  return text.length > size ? ui`${pre}${button}` : pre;
}

/** A value of a record: objects as facts, lists as lists, and what is empty not at all. */
export function drawn(value, depth = 0) {
  if (value instanceof Node) return value;
  if (typeof value === "number") return count(value);
  if (typeof value !== "object" || !value || depth > MAX_NESTED) return rich(value);
  if (Array.isArray(value)) {
    return ui`<ul class="plain">${value.map((one) => ui`<li>${drawn(one, depth + 1)}</li>`)}</ul>`;
  }
  const isKnown = ([, one]) => (one || one === 0) && one.length !== 0;
  const known = Object.entries(value).filter(isKnown);
  return ui`<dl>${known.map(([name, one]) => {
    const term = name.replace(/([A-Z])/g, " $1").toLowerCase();
    return ui`<div><dt>${term}</dt><dd>${drawn(one, depth + 1)}</dd></div>`;
  })}</dl>`;
}

const whole = Intl.NumberFormat("en-US");
export const title = (name) => name[0].toUpperCase() + name.slice(1);
export const number = (value) => (Number.isFinite(value) ? value : 0);
export const count = (value) => whole.format(number(value));
export const tokens = (usage) => number(usage?.input) + number(usage?.output);

export function duration(ms) {
  if (!Number.isFinite(ms)) return "";
  if (ms < 0) return "0 ms"; // the clock was set back
  if (ms < 60_000) return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  const two = (part) => String(Math.floor(part) % 60).padStart(2, "0");
  if (minutes < 60) return `${minutes} min ${two(ms / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${two(minutes)} min`;
}

export function money(usage) {
  const cost = number(usage?.cost);
  return !usage || usage.costKnown === false ? "" : `$${cost.toFixed(cost < 0.1 ? 4 : 2)}`;
}

export function when(then) {
  const minutes = Math.floor((Date.now() - then) / 60_000);
  if (minutes < 60) return minutes < 1 ? "just now" : `${minutes} min ago`;
  return then.toLocaleString("en", { dateStyle: "medium", timeStyle: "short", hour12: false });
}
