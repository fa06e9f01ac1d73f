"""RSS and Atom feeds as readable entries. No entity is expanded and nothing is loaded."""

import re
from typing import Any

from lxml import etree as untyped  # pyright: ignore

from outrider.tools.web.main_text import fragment_text, parsable
from outrider.tools.web.markdown import Element

etree: Any = untyped  # pyright: ignore
_PROLOGUE = re.compile(r"^\s*<\?xml[^>]*>|<!DOCTYPE[^\[>]*(?:\[[^\]]*\]\s*)?>")
"""Where a feed could define entities; the encoding that it names is no longer its own."""
_DATES = ("published", "pubDate", "date", "updated")
_BODIES = ("encoded", "content", "description", "summary")


def feed_text(source: str, url: str) -> dict[str, str]:
    """Return the entries of a feed with their titles, dates, addresses and texts."""
    source = _PROLOGUE.sub("", parsable(source))
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=True
    )
    try:
        root = etree.fromstring(source.encode(errors="replace"), parser=parser)
    except etree.LxmlError:
        root = None
    if root is None:
        return {"text": "", "title": "", "note": "The feed can't be read."}
    channel = next((one for one in root.iter() if _name(one) == "channel"), root)
    entries = [one for one in root.iter() if _name(one) in ("item", "entry")]
    title = _text(channel, ("title",))
    parts = [f"# {title}"] if title else []
    parts += [_entry(one, url) for one in entries]
    return {
        "text": "\n\n".join(parts),
        "title": title[:300],
        "note": f"A feed: {len(entries)} entries.",
    }


def _entry(entry: Element, url: str) -> str:
    link = _text(entry, ("link",)) or next(
        (one.get("href", "") for one in entry if _name(one) == "link"), ""
    )
    about = " · ".join(
        filter(None, (_text(entry, _DATES), _text(entry, ("creator", "author")), link))
    )
    body = fragment_text(_text(entry, _BODIES, inner=True), link or url)
    head = f"## {_text(entry, ('title',)) or '(no title)'}"
    return "\n\n".join(filter(None, (head, about, body)))


def _text(entry: Element, names: tuple[str, ...], *, inner: bool = False) -> str:
    """Return the text of the first child of these names that has any."""
    for name in names:
        for child in entry:
            if _name(child) == name:
                words = "".join(child.itertext())
                if inner and len(child):  # XHTML inside of Atom
                    words = etree.tostring(child, encoding="unicode", method="html")
                if words.strip():
                    return words.strip() if inner else " ".join(words.split())
    return ""


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
