"""HTML as Markdown: headings, lists, tables, links, and code with every space that it has."""

import re
from collections import Counter
from typing import Any

from lxml import html as untyped_html  # pyright: ignore
from markdownify import MarkdownConverter as UntypedConverter  # pyright: ignore

Element = Any  # an element of lxml, which has no types

lxml_html: Any = untyped_html
Converter: Any = UntypedConverter
MAX_LINK_CHARACTERS = 1_000
MAX_SPAN = 20
_LANGUAGE = re.compile(r"(?:language-|lang-|highlight-source-|brush:\s*)([\w+#.-]{1,20})")
_ANCHORS = frozenset(["¶", "#", "§", "🔗"])
"""What documentation puts at its headings to link to them."""
_CODE_PLACE = re.compile(r"^([^\0\n]*)\0(\d+)\0", re.M)
"""Where code will stand in a text: markdownify and what tidies the text would change its spaces."""
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_IN_NO_CELL = ("pre", "table", *HEADINGS)  # what a table in Markdown has no room for
_TABLE_TAGS = ("caption", "thead", "tbody", "tfoot", "tr", "td", "th")
_SCRIPTS = {"sub": "_", "msub": "_", "sup": "^", "msup": "^", "mfrac": "/"}
_OPTIONS = {
    "heading_style": "atx", "bullets": "-", "newline_style": "backslash", "autolinks": False,
    "escape_asterisks": False, "escape_underscores": False, "table_infer_header": True,
    "bs4_options": "lxml",
}  # fmt: skip


def markdown(element: Element, base: str) -> str:
    """Return an element as Markdown; the addresses in it are made absolute."""
    # In two steps: done in one, a base that the page names lets a broken link raise.
    element.resolve_base_href(handle_failures="discard")
    element.make_links_absolute(base, resolve_base_href=False, handle_failures="discard")
    for link in element.iter("a"):
        _keep_link(link)
    for formula in list(element.iter("math")):
        formula.tail = f"{_formula(formula)}{formula.tail or ''}"
        formula.drop_tree()
    for block in element.iter("pre", "xmp", "listing", "plaintext"):
        block.tag = "pre"
        block.text = (block.text or "").removeprefix("\n")  # as browsers do
        for line_break in block.iter("br"):
            line_break.tail = f"\n{line_break.tail or ''}"
    for cell in element.iter("td", "th"):  # also outside of any table
        cell.set("colspan", str(_span(cell, "colspan")))
    for term in element.iter("dt"):
        term.tag = "div" if has(term, "p", "ul", "ol", "dl", *_IN_NO_CELL) else "dt"
    _unfold(element)
    for table in element.iter("table"):
        _spread(table)
    codes: list[str] = []
    try:
        text: str = _Converter(codes).convert(lxml_html.tostring(element, encoding="unicode"))
    except Exception:  # whatever the library trips over
        text = "\n".join(filter(None, map(str.strip, element.itertext())))
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t\xa0]+\n", "\n", text)).strip()
    return _CODE_PLACE.sub(lambda place: _indented(place[1], codes[int(place[2])]), text)


def _indented(margin: str, code: str) -> str:
    """Return code with the margin of its place, a list's or a quotation's, before each line."""
    return "\n".join(f"{margin}{line}" if line else margin.rstrip() for line in code.split("\n"))


def _keep_link(link: Element) -> None:
    """Let a link lead only to a page, and say nothing but where."""
    target = link.attrib.pop("href", "")
    link.attrib.pop("title", "")
    if link.text_content().strip() in _ANCHORS:
        link.clear(keep_tail=True)
    elif target.startswith(("http://", "https://")) and len(target) <= MAX_LINK_CHARACTERS:
        link.set("href", re.sub(r"[\s()<>]", lambda odd: f"%{ord(odd[0]):02X}", target))


def _formula(element: Element) -> str:
    """Return a formula as TeX where the page has that, or else in a line."""
    for note in element.iter("annotation"):
        if "tex" in note.get("encoding", "").lower():
            return f"${' '.join(note.text_content().split())}$"
    return element.get("alttext") or _in_line(element)


def _in_line(element: Element) -> str:
    parts = [_in_line(child) for child in element if isinstance(child.tag, str)]
    own = (element.text or "").strip()
    return own + _SCRIPTS.get(element.tag, "").join(filter(None, parts))


def _unfold(element: Element) -> None:
    """Turn tables whose cells hold code, headings or tables into lists of rows, or into blocks."""
    wide = {table for table in element.iter("table") if has(table, *_IN_NO_CELL)}
    parts = [(part, next(part.iterancestors("table"), None)) for part in element.iter(*_TABLE_TAGS)]
    rows = Counter(table for part, table in parts if part.tag == "tr")
    for part, table in parts:
        if part.tag == "td" and _is_gutter(part):
            part.drop_tree()
        elif table in wide:
            part.tag = "li" if part.tag == "tr" and rows[table] > 1 else "div"
    for table in wide:
        table.tag = "div"


def has(element: Element, *tags: str) -> bool:
    return next(element.iterdescendants(*tags), None) is not None


def _is_gutter(cell: Element) -> bool:
    """Return whether a cell has only the numbers of the lines of the code beside it."""
    beside = cell.getnext()
    numbers = re.fullmatch(r"[\d\s]+", cell.text_content())
    return bool(numbers) and beside is not None and has(beside, "pre")


def _spread(table: Element) -> None:
    """Give each row a cell for one above that spans it."""
    spanned: dict[int, int] = {}
    for row in table.iter("tr"):
        column = 0
        for cell in row.xpath("./td | ./th") if next(row.iterancestors("table")) is table else ():
            while spanned.get(column, 0) > 0:
                spanned[column] -= 1
                cell.addprevious(cell.makeelement("td"))
                column += 1
            columns = int(cell.get("colspan"))
            spanned |= dict.fromkeys(range(column, column + columns), _span(cell, "rowspan") - 1)
            column += columns


def _span(cell: Element, name: str) -> int:
    given = cell.get(name, "1").strip()
    return min(max(int(given), 1), MAX_SPAN) if given.isdecimal() and len(given) < 9 else 1


class _Converter(Converter):
    def __init__(self, codes: list[str]) -> None:
        Converter.__init__(self, **_OPTIONS)
        self.codes = codes

    def convert_sub(self, element: Any, text: str, parent_tags: Any) -> str:
        return f"_{text}" if text.strip() else text

    def convert_sup(self, element: Any, text: str, parent_tags: Any) -> str:
        return f"^{text}" if text.strip() else text

    def convert_pre(self, element: Any, text: str, parent_tags: Any) -> str:
        """Return a fence that the code in it can't end, and a place where the code will stand."""
        code = element.get_text().removesuffix("\n")
        near = (element, *element.find_all("code")[:1], element.parent)
        language = _LANGUAGE.search(" ".join(" ".join(one.get("class") or ()) for one in near))
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
        self.codes.append(code)
        place = f"\0{len(self.codes) - 1}\0"
        named = f"{fence}{language[1] if language else ''}"
        return f"\n\n{named}\n{place}\n{fence}\n\n" if code.strip() else ""
