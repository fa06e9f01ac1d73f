"""The main text of a page as Markdown, without navigation and without what a reader can't see.

What is hidden and what calls itself navigation, banner or advertisement is cut out. trafilatura
says where the main text is, and all that stands there is rendered. Where it finds too little,
the whole body is. Of a feed, RSS or Atom, each entry is read so; no entity of it is expanded.
"""

import re
from collections import Counter
from copy import deepcopy
from itertools import islice
from typing import Any

from lxml import etree as untyped_etree, html as untyped_html  # pyright: ignore

from outrider.protocol.quoting import cleaned
from outrider.tools.web.markdown import Element, markdown

etree: Any = untyped_etree  # pyright: ignore
lxml_html: Any = untyped_html
MAX_JUDGED_ELEMENTS = 25_000
"""Of how large a page trafilatura judges the main text; so many take it two or three seconds."""
MIN_SHARE = 0.35
"""How little of a page's text the main text may be before the whole body is taken instead."""
MAX_SHELL_CHARACTERS = 300
"""How little text a page has that only a script can fill."""
MAX_PRUNED_SHARE = 0.5
"""How much of a page's text may be cut out because of what its element is or is called."""
MAX_NAMED_CHARACTERS = 300
"""How much text that isn't links an element may have to be cut out for its name alone."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_UNSEEN = _words(
    "script style noscript template iframe object embed svg canvas video audio map title "
    "input select textarea option datalist progress meter dialog"
)
_ASIDE_TAGS = _words("nav aside footer header button")
_ASIDE_ROLES = _words(
    "navigation contentinfo complementary search dialog alertdialog menu menubar toolbar"
)
_ASIDE_NAMES = re.compile(
    r"(?:^|[\s_-])(?:nav|navbar|navigation|menu|breadcrumbs?|sidebar|foot|footer|masthead|topbar|"
    r"toolbar|toc|pager|pagination|widget|cookies?|consent|gdpr|onetrust|newsletter|subscribe|ads?|"
    r"advert\w*|promo\w*|sponsor\w*|popup|modal|lightbox|overlay|share|sharing|social|related|"
    r"recommend\w*|popular|most-read|trending|ticker|respond|comment-form|reply-link|vote|votecell|"
    r"rank|edit|editsection|headerlink|jumpbox|skip-?link|sr-only|visually-hidden|"
    r"screen-reader-text)(?:$|[\s_-])",
    re.I,
)
_NOTES = re.compile(r"admonition|note|warning|tip|callout|important|caution|hint|pull", re.I)
_CODE = _words("pre code math")
_KEPT_IN = {
    "header": _CODE | _words("article main section"),
    "button": _CODE | _words("h1 h2 h3 h4 h5 h6 summary"),
}
"""What keeps an element from being cut out, where that isn't only code."""
_HIDING = re.compile(
    r"display:none|visibility:(?:hidden|collapse)|opacity:0(?:\.0+)?(?:;|$)|"
    r"font-size:0(?:\.0+)?(?:px|em|rem|pt|%)?(?:;|$|!)|clip:rect\(0|clip-path:inset\((?:50|100)%|"
    r"(?:left|top|right|text-indent|margin-left|margin-top):-\d{3,}|"
    r"(?:^|;)(?:max-)?(?:width|height):[01](?:px)?(?:;|$)|transform:scale\(0"
)
_COLOUR = re.compile(r"(?:^|;)color:([^;!]+)")
_BACKGROUND = re.compile(r"(?:^|;)background(?:-color)?:([^;!]+)")
_WHITE = frozenset({"white", "#fff", "#ffffff", "rgb(255,255,255)", "rgba(255,255,255,1)"})
_HOLDERS = _words("html head body div section article main form center table tbody tr td")
_BLOCKS = ("p", "li", "td", "th", "h2", "h3", "pre", "blockquote", "dd", "div")
_REFERENCE = re.compile(r"&#(?:[xX]([0-9a-fA-F]{1,9})|([0-9]{1,10}));?")
_PROLOGUE = re.compile(r"^\s*<\?xml[^>]*>|<!DOCTYPE[^\[>]*(?:\[[^\]]*\]\s*)?>")
"""Where a feed could define entities; the encoding that it names is no longer its own."""
_REFRESH = re.compile(r"^\s*\d+\s*[;,]\s*(?:url\s*=)?\s*[\"']?([^\"'\s]+)", re.I)


def main_text(source: str, url: str, *, whole: bool = False) -> dict[str, str]:
    """Return the text, title and note of a page; `whole` takes the body without judging it."""
    body = _tree(source)  # all of it: without `<body>`, libxml2 leaves text in the head
    if body is None:
        return {"text": "", "title": "", "note": "The page is empty."}
    titles = (body.find(path) for path in (".//head/title", ".//title", ".//h1"))
    named = (" ".join(one.text_content().split()) for one in titles if one is not None)
    title = next(filter(None, named), "")[:300]
    hint = _hint(body)
    _prune(body)
    whole = whole or sum(1 for _ in body.iter()) > MAX_JUDGED_ELEMENTS
    chosen = body if whole else _chosen(body, url)
    text = markdown(chosen, url)
    heading = next(body.iter("h1"), None)
    if heading is not None and chosen is not heading and chosen not in heading.iterancestors():
        text = f"{markdown(heading, url)}\n\n{text}"
    note = "" if len(text) > MAX_SHELL_CHARACTERS else hint or ("" if text else "It has no text.")
    return {"text": text, "title": title, "note": note}


def fragment_text(source: str, url: str) -> str:
    """Return a piece of HTML, such as a feed's entry, as Markdown."""
    tree = _tree(source)
    if tree is None:
        return ""
    _prune(tree)
    return markdown(tree, url)


def _parsable(source: str) -> str:
    """Return a source without characters, and references to them, that lxml can't hold."""
    return _REFERENCE.sub(_checked, cleaned(source))


def _checked(reference: re.Match[str]) -> str:
    code = int(reference[1], 16) if reference[1] else int(reference[2])
    return reference[0] if code in (9, 10, 13) or 32 <= code < 0xD800 or code > 0xDFFF else ""


def _tree(source: str) -> Element | None:
    # A declaration of an encoding in a text that is decoded already makes lxml refuse it.
    source = re.sub(r"^\s*<\?xml[^>]*>", "", _parsable(source))
    parser = lxml_html.HTMLParser(huge_tree=True, no_network=True, encoding="utf-8")
    try:
        return lxml_html.document_fromstring(source.encode(errors="replace"), parser=parser)
    except (etree.LxmlError, ValueError, AssertionError):
        return None


def _hint(tree: Element) -> str:
    """Return why a page may have little text."""
    for meta in tree.iter("meta"):
        target = _REFRESH.match(meta.get("content", ""))
        if target and meta.get("http-equiv", "").strip().lower() == "refresh":
            return f"The page has little text and leads on (meta refresh) to {target[1][:1000]}"
    if next(tree.iter("script"), None) is not None:
        return "The page has little text: it is filled by JavaScript, which is not run here."
    return ""


def _prune(body: Element) -> None:
    """Cut out what can't be seen, and then what isn't the page's own text."""
    for element in list(body.iter()):
        if element.tag == "script" and "math/tex" in element.get("type", ""):
            element.tag, element.text = "span", f"${(element.text or '').strip()}$"
        elif element is not body and _is_unseen(element):
            element.drop_tree()
    most = MAX_PRUNED_SHARE * len(body.text_content())
    for element in list(body.iter("*")):
        if element is not body and _is_aside(element) and len(element.text_content()) <= most:
            element.drop_tree()


def _is_unseen(element: Element) -> bool:
    if not isinstance(element.tag, str) or element.tag in _UNSEEN:  # a comment, or not for readers
        return True
    if element.tag in ("html", "body", "main"):
        return False
    if element.get("hidden", "until-found") != "until-found":
        return True
    style = _style(element)
    hides = bool(_HIDING.search(style)) or _is_colourless(element, style)
    return hides or element.get("aria-hidden") == "true"


def _style(element: Element) -> str:
    return re.sub(r"\s+", "", element.get("style", "")).lower()


def _is_colourless(element: Element, style: str) -> bool:
    """Return whether text has the colour of the background that it, or what it is in, names."""
    if colour := _COLOUR.search(style):
        for one in (element, *islice(element.iterancestors(), 20)):
            behind = _BACKGROUND.search(_style(one))
            if shade := behind[1] if behind else one.get("bgcolor", "").lower():
                return shade == colour[1] or {shade, colour[1]} <= _WHITE
    return False


def _is_aside(element: Element) -> bool:
    tag, names = element.tag, f"{element.get('class', '')} {element.get('id', '')}"
    by_kind = tag in _ASIDE_TAGS or element.get("role", "").lower() in _ASIDE_ROLES
    if not by_kind and not _ASIDE_NAMES.search(names):
        return False
    if tag == "aside" and _NOTES.search(names):
        return False
    if next(element.iter("body", "main", "article", "h1"), None) is not None:
        return False
    kept_in = _KEPT_IN.get(tag, _CODE)
    if any(one.tag in kept_in for one in (element, *element.iterancestors())):
        return False
    return by_kind or _prose(element) <= MAX_NAMED_CHARACTERS


def _chosen(body: Element, url: str) -> Element:
    """Return the element that holds the main text, or the body where that can't be told."""
    import trafilatura

    found = trafilatura.extract(
        deepcopy(body), url=url, output_format="txt", favor_recall=True, include_comments=True
    )
    lines = {_key(line) for line in (found or "").splitlines()} - {""}
    weights = Counter[Element]()
    for block in body.iter(*_BLOCKS):
        text = block.text_content()
        if block.find("div") is None and block.find("p") is None and _key(text) in lines:
            weights.update(dict.fromkeys((block, *block.iterancestors()), len(text)))
    # The innermost one that has nearly all that was found.
    most = 0.98 * weights[body]
    *_, chosen = (one for one in body.iter(*_HOLDERS) if weights[one] >= most)
    return chosen if most and _prose(chosen) >= MIN_SHARE * _prose(body) else body


def _key(text: str) -> str:
    return re.sub(r"[\W_]+", "", text[:400])[:60]


def _prose(element: Element) -> int:
    """Return how much text an element has that isn't a link."""
    links = sum(len(link.text_content()) for link in element.iter("a"))
    return len("".join(element.text_content().split())) - links


def feed_text(source: str, url: str) -> dict[str, str]:
    """Return the entries of a feed with their titles, dates, addresses and texts."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True)
    try:
        source = _PROLOGUE.sub("", _parsable(source))
        root = etree.fromstring(source.encode(errors="replace"), parser=parser)
    except etree.LxmlError:
        root = None
    if root is None:
        return {"text": "", "title": "", "note": "The feed can't be read."}
    title = " ".join(_said(next(root.iter("{*}channel"), root), "title").split())
    entries = [_entry(one, url) for one in root.iter("{*}item", "{*}entry")]
    text = "\n\n".join([f"# {title}"] * bool(title) + entries)
    return {"text": text, "title": title[:300], "note": f"A feed: {len(entries)} entries."}


def _entry(entry: Element, url: str) -> str:
    link = _said(entry, "link")
    dates = _said(entry, "published", "pubDate", "date", "updated")
    about = " · ".join(filter(None, (dates, _said(entry, "creator", "author"), link)))
    body = fragment_text(_said(entry, "encoded", "content", "description", "summary"), link or url)
    head = f"## {_said(entry, 'title') or '(no title)'}"
    return "\n\n".join(filter(None, (" ".join(head.split()), " ".join(about.split()), body)))


def _said(entry: Element, *names: str) -> str:
    """Return what the first child of these names says that says anything; XHTML as its source."""
    for child in (one for name in names for one in entry.iterchildren(f"{{*}}{name}")):
        text = "".join(child.itertext()).strip() or child.get("href", "")
        if child.tag.endswith("content") and len(child):
            text = etree.tostring(child, encoding="unicode", method="html")
        if text:
            return text
    return ""
