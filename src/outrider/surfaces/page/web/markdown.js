// Markdown as nodes. Whatever is no Markdown that is known here stays the text that it is; nothing
// is loaded, and links lead only to http and https, with their host beside them.

import { h, rich } from "./dom.js";

const MAX_INLINE = 20000, MAX_NESTED = 8;
const INLINE =
  /`{1,2}([^`\n]{1,2000})`{1,2}|\*\*([^*\n]{1,2000})\*\*|(?<![\w*])[*_]([^*_\n]{1,1000})[*_](?!\w)|~~([^~\n]{1,1000})~~|(!?)\[([^[\]\n]{0,1000})\]\(([^()\s]{1,2000})\)|(https?:\/\/[^\s<>"'`)\]]{1,2000})/g;

/** A Markdown text as a block of nodes. */
export function markdown(text) {
  return h("div", { class: "md" }, blocks(text.replaceAll("\r\n", "\n").split("\n"), 0));
}

function blocks(lines, depth) {
  const made = [];
  let at = 0;
  const taken = (test) => {
    const from = at;
    while (at < lines.length && test(lines[at], at - from)) at += 1;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at];
    const fence = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]{0,30})/.exec(line);
    const heading = /^ {0,3}(#{1,6})\s+(.*)$/.exec(line);
    if (!line.trim()) at += 1;
    else if (fence) {
      at += 1;
      const code = taken((one) => !one.trim().startsWith(fence[1]));
      at += 1;
      made.push(h("pre", { tabindex: 0, "data-language": fence[2] || null }, rich(code.join("\n"))));
    } else if (heading) {
      at += 1;
      made.push(h(`h${Math.min(heading[1].length + 2, 6)}`, {}, inline(heading[2])));
    } else if (/^ {0,3}([-*_])( ?\1){2,}\s*$/.test(line)) {
      at += 1;
      made.push(h("hr"));
    } else if (/^ {0,3}>/.test(line) && depth < MAX_NESTED) {
      const quoted = taken((one) => /^ {0,3}>/.test(one)).map((one) => one.replace(/^ {0,3}> ?/, ""));
      made.push(h("blockquote", {}, blocks(quoted, depth + 1)));
    } else if (item(line) && depth < MAX_NESTED) {
      const indent = item(line).indent, kind = item(line).ordered;
      const own = taken((one, nth) => nth === 0 || !one.trim() || one.search(/\S/) > indent ||
        (item(one)?.indent === indent && item(one).ordered === kind));
      made.push(list(own, indent, kind, depth));
    } else if (line.includes("|") && /^[\s|:-]{3,1000}$/.test(lines[at + 1] ?? "") && /-.*\||\|.*-/.test(lines[at + 1])) {
      made.push(table(taken((one) => one.includes("|"))));
    } else {
      const own = taken((one, nth) => nth === 0 || (one.trim() && !/^ {0,3}(#{1,6}\s|>|`{3}|~{3})/.test(one) && !item(one)));
      made.push(h("p", {}, inline(own.join("\n"))));
    }
  }
  return made;
}

function item(line) {
  const found = /^( {0,40})([-*+]|\d{1,9}[.)])\s+/.exec(line);
  return found && { indent: found[1].length, ordered: /\d/.test(found[2]), width: found[0].length };
}

function list(lines, indent, ordered, depth) {
  const items = [];
  for (const line of lines) {
    const begins = item(line);
    if (begins?.indent === indent) items.push([line.slice(begins.width)]);
    else items.at(-1).push(line.slice(Math.min(Math.max(line.search(/\S/), 0), indent + 2)));
  }
  const start = ordered ? parseInt(lines[0], 10) : 1;
  const drawn = items.map((own) => {
    const box = /^\[([ xX])\]\s/.exec(own[0]);
    if (box) own[0] = `${box[1] === " " ? "☐" : "☑"} ${own[0].slice(box[0].length)}`;
    const inner = blocks(own, depth + 1);
    return h("li", {}, inner[0]?.tagName === "P" ? [...inner[0].childNodes] : inner[0], inner.slice(1));
  });
  return h(ordered ? "ol" : "ul", { start: ordered && start !== 1 ? start : null }, drawn);
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).slice(0, 30);
  const [head, , ...body] = lines.slice(0, 500).map(cells);
  const row = (kind) => (own) => h("tr", {}, own.map((cell) => h(kind, {}, inline(cell.trim()))));
  const drawn = h("table", {}, h("thead", {}, row("th")(head)), h("tbody", {}, body.map(row("td"))));
  return h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Table" }, drawn);
}

function inline(text, depth = 0) {
  const found = [];
  let last = 0;
  if (depth > MAX_NESTED || text.length > MAX_INLINE) return rich(text);
  for (const match of text.matchAll(INLINE)) {
    const [whole, code, bold, slanted, struck, image, label, target, address] = match;
    found.push(rich(text.slice(last, match.index)));
    if (code != null) found.push(h("code", {}, rich(code)));
    else if (bold != null) found.push(h("strong", {}, inline(bold, depth + 1)));
    else if (slanted != null) found.push(h("em", {}, inline(slanted, depth + 1)));
    else if (struck != null) found.push(h("del", {}, inline(struck, depth + 1)));
    else found.push(link(target ?? address, image ? `image: ${label}` : (label ?? address), whole));
    last = match.index + whole.length;
  }
  return [...found, rich(text.slice(last))];
}

function link(target, label, whole) {
  let url = null;
  try { url = new URL(target); } catch { return rich(whole); }
  if (url.protocol !== "http:" && url.protocol !== "https:") return rich(whole);
  // A browser sends this page's cookie to every port of this machine.
  if (/^(localhost|.*\.localhost|127\..*|0\.0\.0\.0|\[.*\])$/.test(url.hostname)) return rich(whole);
  const props = { href: url.href, rel: "noopener noreferrer", target: "_blank", title: url.href };
  return [h("a", props, label || url.href), label === target ? null : h("span", { class: "host" }, ` (${url.host})`)];
}
