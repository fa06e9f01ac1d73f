// Markdown as nodes. Whatever is no Markdown that is known here stays the text that it is; nothing
// is loaded, and links lead only to http and https, with their host beside them.

import { clean, rich, ui } from "./dom.js";

const MAX_INLINE = 20_000;
const MAX_DEPTH = 8;
/** What a block looks like from its first character on, and what draws it; the first that fits. */
const BLOCKS = [
  [/\s*\n/y, () => null],
  [/ {0,3}(`{3,}|~{3,}).*\n?([^]*?)(?:\n {0,3}\1.*|$(?![^]))/my, ([, , code]) => fenced(code)],
  [/ {0,3}(#{1,6})[ \t]+(.*)/y, ([, { length }, text]) => heading(length + 2, text)],
  [/ {0,3}([-*_])(?: ?\1){2,} *$/my, () => ui`<hr>`],
  [/ {0,3}>.*(?:\n {0,3}>.*)*/y, ([text], depth) => quote(text.replace(/^ {0,3}> ?/gm, ""), depth)],
  [/.*\|.*\n(?=.*-)(?=.*\|)[ \t|:-]{3,1000}$(?:\n.*\|.*)*/my, ([text]) => table(text)],
  [
    /( {0,40})([-*+]|\d{1,9}[.)])[ \t].*(?:\n(?: *\n)?\1(?: +\S|(?:[-*+]|\d{1,9}[.)])[ \t]).*)*/y,
    ([text, indent, mark], depth) => list(text, indent.length, mark, depth),
  ],
  [
    /.+(?:\n(?! {0,3}(?:#{1,6}[ \t]|>|`{3}|~{3}|[-*+][ \t]|\d{1,9}[.)][ \t])).*\S.*)*/y,
    ([text], depth) => ui`<p>${inline(text, depth)}</p>`,
  ],
];
const INLINE = [
  [/`{1,2}([^`\n]{1,2000})`{1,2}/, (text) => ui`<code>${rich(text)}</code>`],
  [/\*\*([^*\n]{1,2000})\*\*/, (text, depth) => ui`<strong>${inline(text, depth)}</strong>`],
  [/(?<![\w*])[*_]([^*_\n]{1,999})[*_](?!\w)/, (text, at) => ui`<em>${inline(text, at)}</em>`],
  [/~~([^~\n]{1,1000})~~/, (text, depth) => ui`<del>${inline(text, depth)}</del>`],
  [/(!?\[[^[\]\n]{0,1000}\]\([^()\s]{1,2000}\))/, (text) => link(text)],
  [/(https?:\/\/[^\s<>"'`)\]]{1,2000})/, (text) => link(`[${text}](${text})`)],
];
const ANY = new RegExp(INLINE.map(([pattern]) => pattern.source).join("|"), "g");

/** A Markdown text as a block of nodes. */
export function markdown(text) {
  return ui`<div class="md">${blocks(clean(text), 0)}</div>`;
}

function blocks(text, depth) {
  if (depth > MAX_DEPTH) return rich(text);
  const made = [];
  for (let at = 0; at < text.length; ) {
    for (const [pattern, draw] of BLOCKS) {
      pattern.lastIndex = at;
      const found = pattern.exec(text);
      if (!found) continue;
      at += found[0].length;
      made.push(draw(found, depth + 1));
      break;
    }
  }
  return made;
}

const fenced = (code) => ui`<pre tabindex="0">${rich(code)}</pre>`;
const heading = (level, text) => ui`<h3 aria-level=${level}>${inline(text)}</h3>`;
const quote = (text, depth) => ui`<blockquote>${blocks(text, depth)}</blockquote>`;

function list(text, indent, mark, depth) {
  const begin = new RegExp(`^ {${indent}}(?:[-*+]|\\d{1,9}[.)])[ \\t]+`, "m");
  const inside = new RegExp(`^ {1,${indent + mark.length + 1}}`, "gm");
  const items = text.split(begin).slice(1);
  const drawn = items.map((own) => ui`<li>${blocks(own.replace(inside, ""), depth)}</li>`);
  return /\d/.test(mark) ? ui`<ol start=${parseInt(mark)}>${drawn}</ol>` : ui`<ul>${drawn}</ul>`;
}

function table(text) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/, 30);
  const [head, , ...body] = text.split("\n", 500).map(cells);
  const row = (own) => ui`<tr>${own.map((cell) => ui`<td>${inline(cell.trim())}</td>`)}</tr>`;
  return ui`<div class="wide" tabindex="0" role="group" aria-label="Table"><table>
    <thead><tr>${head.map((cell) => ui`<th>${inline(cell.trim())}</th>`)}</tr></thead>
    <tbody>${body.map(row)}</tbody></table></div>`;
}

function inline(text, depth = 0) {
  if (depth > MAX_DEPTH || text.length > MAX_INLINE) return rich(text);
  const found = [];
  let last = 0;
  for (const { index, 0: whole, ...groups } of text.matchAll(ANY)) {
    const kind = INLINE.findIndex((_, at) => groups[at + 1] != null);
    found.push(rich(text.slice(last, index)), INLINE[kind][1](groups[kind + 1], depth + 1));
    last = index + whole.length;
  }
  return [...found, rich(text.slice(last))];
}

function link(text) {
  const [, image, label, target] = /^(!?)\[(.*)\]\((.*)\)$/s.exec(text);
  const url = URL.parse(target);
  // A browser sends this page's cookie to every port of this machine.
  const isHere = /^(localhost|.*\.localhost|127\..*|0\.0\.0\.0|\[.*\])$/.test(url?.hostname);
  if (isHere || !["http:", "https:"].includes(url?.protocol)) {
    return rich(label === target ? label : text);
  }
  const shown = (image && "image: ") + (label || url.href);
  return ui`<a href=${url.href} title=${url.href} rel="noopener noreferrer" target="_blank"
    >${shown}</a> ${label !== target && ui`<span class="dim">(${url.host})</span>`}`;
}
