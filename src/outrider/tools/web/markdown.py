"""HTML as Markdown: headings, lists, tables, links, and code with every space that it has."""

import re
from typing import Any
from urllib.parse import urljoin

Element = Any
"""An element of lxml, which has no types."""

MAX_DEPTH = 200
"""How deep elements may be nested before only their text is taken."""
MAX_LINK_CHARACTERS = 1_000
MAX_SPAN = 20


def words(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


_SPACES = re.compile(r"[ \t\r\n\f\xa0]+")
_LANGUAGE = re.compile(r"(?:language-|lang-|highlight-source-|brush:\s*)([\w+#.-]{1,20})")
_BLOCKS = words(
    "address article aside blockquote body caption center dd details dialog dir div dl dt "
    "fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr legend li main "
    "menu nav ol p pre section summary table tbody td tfoot th thead tr ul"
)
_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "del": "~~", "s": "~~"}
_CODE = frozenset({"code", "kbd", "samp", "tt", "var"})
_SCRIPTS = {"sub": "_", "msub": "_", "sup": "^", "msup": "^", "mfrac": "/"}


class Markdown:
    """Renders one page; addresses in it are made absolute."""

    def __init__(self, root: Element, base: str) -> None:
        self._base = base
        self._containers: set[Element] = set()
        for element in root.iter(*_BLOCKS):
            for above in element.iterancestors():
                if above in self._containers:
                    break
                self._containers.add(above)

    def text(self, root: Element) -> str:
        """Return an element as Markdown."""
        return "\n\n".join(self._block(root, 0))

    def _children(self, element: Element, depth: int) -> list[str]:
        """Return the blocks inside an element; text between them is a block too."""
        found: list[str] = []
        line = [element.text or ""]

        def end_line() -> None:
            text = _tidied("".join(line))
            found.extend([text] if text else [])
            line.clear()

        for child in element:
            if isinstance(child.tag, str):
                if child.tag in _BLOCKS or child in self._containers:
                    end_line()
                    found += self._block(child, depth + 1)
                else:
                    line.append(self._inline(child, depth + 1))
            line.append(child.tail or "")
        end_line()
        return found

    def _block(self, element: Element, depth: int) -> list[str]:
        if depth > MAX_DEPTH:
            return list(filter(None, [_tidied(element.text_content())]))
        tag = element.tag
        if len(tag) == 2 and tag[0] == "h" and tag[1] in "123456":
            title = " ".join(" ".join(self._children(element, depth)).split())
            return [f"{'#' * int(tag[1])} {title}"] if title else []
        match tag:
            case "hr":
                text = "---"
            case "pre":
                text = _fenced(element)
            case "ul" | "ol" | "menu":
                text = self._list(element, depth)
            case "dl":
                text = self._definitions(element, depth)
            case "blockquote":
                text = self._quote(element, depth)
            case "table":
                text = self._table(element, depth)
            case _:
                return self._children(element, depth)
        return [text] if text else []

    def _list(self, element: Element, depth: int) -> str:
        start = element.get("start", "1")
        number = int(start) if start.isdecimal() and len(start) < 7 else 1
        items: list[str] = []
        for child in element:
            blocks = self._block(child, depth + 1) if isinstance(child.tag, str) else []
            if not blocks:
                continue
            mark = f"{number}. " if element.tag == "ol" else "- "
            number += 1
            loose = (
                "\n\n" if any("\n```" in one or one.startswith("```") for one in blocks) else "\n"
            )
            items.append(mark + _indented(loose.join(blocks), " " * len(mark)))
        return "\n".join(items)

    def _definitions(self, element: Element, depth: int) -> str:
        lines: list[str] = []
        for child in element.iter("dt", "dd"):
            if next(child.iterancestors("dl")) is not element:
                continue
            text = "\n".join(self._children(child, depth + 1))
            if text:
                lines.append(text if child.tag == "dt" else ": " + _indented(text, "  "))
        return "\n".join(lines)

    def _quote(self, element: Element, depth: int) -> str:
        text = "\n\n".join(self._children(element, depth))
        return "> " + _indented(text, "> ") if text else ""

    def _table(self, element: Element, depth: int) -> str:
        rows = [row for row in element.iter("tr") if next(row.iterancestors("table")) is element]
        if element.find(".//table") is not None or all(len(row) < 2 for row in rows):
            return "\n\n".join(part for row in rows for part in self._children(row, depth + 1))
        grid = self._grid(rows, depth)
        lines = [f"| {' | '.join(row)} |" for row in grid]
        lines.insert(1, "|---" * max(map(len, grid[:1]), default=1) + "|")
        captions = [self._children(one, depth + 1) for one in element.findall("caption")]
        return "\n\n".join([*(part for parts in captions for part in parts), "\n".join(lines)])

    def _grid(self, rows: list[Element], depth: int) -> list[list[str]]:
        """Return the cells of a table; one that spans rows stands in the first of them."""
        reserved: dict[int, int] = {}
        grid: list[list[str]] = []
        for row in rows:
            cells: list[str] = []
            for cell in row.iterchildren("td", "th"):
                while reserved.get(len(cells), 0) > 0:
                    reserved[len(cells)] -= 1
                    cells.append("")
                text = " ".join(" ".join(self._children(cell, depth + 1)).split())
                for part in (text.replace("|", "\\|"), *[""] * (_span(cell, "colspan") - 1)):
                    reserved[len(cells)] = _span(cell, "rowspan") - 1
                    cells.append(part)
            if any(cells):
                grid.append(cells)
        return grid

    def _inline(self, element: Element, depth: int) -> str:
        tag = element.tag
        if depth > MAX_DEPTH:
            return element.text_content()
        if tag == "br":
            return "\0"  # kept apart from line ends in the source, which mean nothing
        if tag == "img":
            return self._image(element)
        if tag == "math":
            return _formula(element)
        inner = "".join(self._parts(element, depth))
        bare = inner.strip()
        if not bare or tag == "rp":
            return inner if tag != "rp" else ""
        if tag == "a":
            return self._link(element, inner)
        if tag in _CODE:
            return f"`{bare}`" if "`" not in bare else f"`` {bare} ``"
        if tag in _SCRIPTS:
            return f"{_SCRIPTS[tag]}{bare}" if len(bare) <= 12 and "[" not in bare else inner
        if tag in _MARKS and "\0" not in bare:
            mark = _MARKS[tag]
            return inner.replace(bare, f"{mark}{bare}{mark}", 1)
        return inner

    def _parts(self, element: Element, depth: int) -> list[str]:
        parts = [element.text or ""]
        for child in element:
            if isinstance(child.tag, str):
                parts.append(self._inline(child, depth + 1))
            parts.append(child.tail or "")
        return parts

    def _link(self, element: Element, inner: str) -> str:
        bare = inner.strip()
        target = self._absolute(element.get("href", ""))
        if bare in ("¶", "#", "§", "🔗"):  # the anchor that documentation puts at its headings
            return ""
        return inner.replace(bare, f"[{bare}]({target})", 1) if target else inner

    def _image(self, element: Element) -> str:
        words, source = _tidied(element.get("alt", "")), self._absolute(element.get("src", ""))
        return f"![{words}]({source})" if words and source else words

    def _absolute(self, link: str) -> str:
        link = link.strip()
        if not link or link.startswith("#") or len(link) > MAX_LINK_CHARACTERS:
            return ""
        try:
            link = urljoin(self._base, link)
        except ValueError:
            return ""
        fits = link.startswith(("http://", "https://")) and len(link) <= MAX_LINK_CHARACTERS
        return re.sub(r"[\s()<>]", lambda odd: f"%{ord(odd[0]):02X}", link) if fits else ""


def _fenced(element: Element) -> str:
    classes = " ".join(one.get("class", "") for one in (element, *element[:1]))
    above = element.getparent()
    classes += "" if above is None else " " + above.get("class", "")
    language = _LANGUAGE.search(classes)
    for line_break in element.iter("br"):
        line_break.tail = "\n" + (line_break.tail or "")
    code = element.text_content().replace("\r\n", "\n").strip("\n").rstrip()
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    return f"{fence}{language[1] if language else ''}\n{code}\n{fence}" if code else ""


def _formula(element: Element) -> str:
    """Return a formula as TeX where the page has that, or else in a line."""
    for note in element.iter("annotation"):
        if "tex" in note.get("encoding", "").lower():
            return f"${_tidied(note.text_content())}$"
    return element.get("alttext") or _in_line(element)


def _in_line(element: Element) -> str:
    parts = [_in_line(child) for child in element if isinstance(child.tag, str)]
    own = (element.text or "").strip()
    return own + _SCRIPTS.get(element.tag, "").join(filter(None, parts))


def _span(cell: Element, name: str) -> int:
    given = cell.get(name, "1").strip()
    return min(max(int(given), 1), MAX_SPAN) if given.isdecimal() and len(given) < 9 else 1


def _indented(text: str, by: str) -> str:
    return text.replace("\n", "\n" + by).replace(f"\n{by}\n", f"\n{by.rstrip()}\n")


def _tidied(text: str) -> str:
    lines = (_SPACES.sub(" ", line).strip() for line in text.split("\0"))
    return "\n".join(lines).strip()
