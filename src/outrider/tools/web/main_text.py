"""The main text of a page as Markdown, without navigation and without what a reader can't see.

What is hidden and what calls itself navigation, banner or advertisement is cut out. trafilatura
says where the main text is, and all that stands there is rendered. Where it finds too little,
the whole body is. Of a feed, RSS or Atom, each entry is read so; no entity of it is expanded.
"""

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from lxml import etree as untyped_etree, html as untyped_html  # pyright: ignore

from outrider.tools.web.markdown import Element, markdown
from outrider.tools.web.marking import cleaned

etree: Any = untyped_etree  # pyright: ignore
lxml_html: Any = untyped_html
MAX_JUDGED_ELEMENTS = 25_000
"""Of how large a page trafilatura judges the main text; so many take it two or three seconds."""
MIN_SHARE = 0.35
"""How little of a page's text the main text may be before the whole body is taken instead."""
MAX_SHELL_CHARACTERS = 300
"""How little text a page has that only a script can fill."""
MAX_PRUNED_SHARE = 0.5
"""How much of a page's text may be cut out because of the name that its element has."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_UNSEEN = _words(
    "script style noscript template iframe object embed svg canvas video audio map title "
    "input select textarea option datalist progress meter dialog"
)
_ASIDE_TAGS = frozenset(["nav", "aside", "footer", "button"])
_ASIDE_ROLES = _words(
    "navigation contentinfo complementary search dialog alertdialog menu menubar toolbar"
)
_ASIDE_NAMES = re.compile(
    r"(?:^|[\s_-])(?:navbar|navigation|breadcrumbs?|sidebar|cookies?|consent|gdpr|onetrust|"
    r"newsletter|advert\w*|sponsor\w*|popup|modal|lightbox|pagination|skip-?link|most-read|ticker|"
    r"comment-form|reply-link|votecell|jumpbox|headerlink|editsection|sr-only|visually-hidden|"
    r"screen-reader-text)(?:$|[\s_-])",
    re.I,
)
_DOUBTFUL_NAMES = re.compile(
    r"(?:^|[\s_-])(?:nav|menu|foot|footer|widget|share|sharing|social|related|recommend\w*|ads?|"
    r"promo\w*|overlay|pager|toc|popular|trending|respond|vote|rank|toolbar|topbar|masthead|"
    r"subscri(?:be|ption)|edit)(?:$|[\s_-])",
    re.I,
)
MAX_DOUBTFUL_CHARACTERS = 150
"""How much text that isn't links an element may have to be cut out for a doubtful name."""
_SPARED = frozenset(["html", "body", "main", "article", "pre", "code", "math"])
_HIDING = re.compile(
    r"display:none|visibility:(?:hidden|collapse)|opacity:0(?:\.0+)?(?:;|$)|"
    r"font-size:0(?:\.0+)?(?:px|em|rem|pt|%)?(?:;|$|!)|clip:rect\(0|clip-path:inset\((?:50|100)%|"
    r"(?:left|top|right|text-indent|margin-left|margin-top):-\d{3,}|"
    r"(?:^|;)(?:max-)?(?:width|height):[01](?:px)?(?:;|$)|transform:scale\(0"
)
_COLOUR = re.compile(r"(?:^|;)color:([^;!]+)")
_BACKGROUND = re.compile(r"(?:^|;)background(?:-color)?:([^;!]+)")
_WHITE = frozenset({"white", "#fff", "#ffffff", "rgb(255,255,255)", "rgba(255,255,255,1)"})
_HOLDERS = _words("head body div section article main form center table tbody tr td")
_NOTES = re.compile(r"admonition|note|warning|tip|callout|important|caution|hint|pull", re.I)
_REFERENCE = re.compile(r"&#(?:[xX]([0-9a-fA-F]{1,9})|([0-9]{1,10}));?")
_PROLOGUE = re.compile(r"^\s*<\?xml[^>]*>|<!DOCTYPE[^\[>]*(?:\[[^\]]*\]\s*)?>")
"""Where a feed could define entities; the encoding that it names is no longer its own."""
_DATES = ("published", "pubDate", "date", "updated")
_BODIES = ("encoded", "content", "description", "summary")
_REFRESH = re.compile(r"^\s*\d+\s*[;,]\s*(?:url\s*=)?\s*[\"']?([^\"'\s]+)", re.I)


def main_text(source: str, url: str, *, whole: bool = False) -> dict[str, str]:
    """Return the text, title and note of a page; `whole` takes the body without judging it."""
    tree = _tree(source)
    if tree is None:
        return {"text": "", "title": "", "note": "The page is empty."}
    title = _title(tree)
    moved = _moved(tree)
    scripts = sum(1 for _ in tree.iter("script"))
    body = tree  # without `<body>` in the source, libxml2 leaves text in the head
    _prune(body)
    whole = whole or sum(1 for _ in body.iter()) > MAX_JUDGED_ELEMENTS
    chosen = body if whole else _chosen(body, url)
    text = markdown(chosen, url)
    heading = next(body.iter("h1"), None)
    if heading is not None and chosen is not heading and chosen not in heading.iterancestors():
        text = f"{markdown(heading, url)}\n\n{text}"
    return {"text": text, "title": title, "note": _note(text, moved, scripts)}


def fragment_text(source: str, url: str) -> str:
    """Return a piece of HTML, such as a feed's entry, as Markdown."""
    tree = _tree(source)
    if tree is None:
        return ""
    _prune(tree)
    return markdown(tree, url)


def parsable(source: str) -> str:
    """Return a source without characters, and references to them, that lxml can't hold."""
    return _REFERENCE.sub(_checked, cleaned(source))


def _checked(reference: re.Match[str]) -> str:
    code = int(reference[1], 16) if reference[1] else int(reference[2])
    return reference[0] if code in (9, 10, 13) or 32 <= code < 0xD800 or code > 0xDFFF else ""


def _tree(source: str) -> Element | None:
    # A declaration of an encoding in a text that is decoded already makes lxml refuse it.
    source = re.sub(r"^\s*<\?xml[^>]*>", "", parsable(source))
    parser = lxml_html.HTMLParser(huge_tree=True, no_network=True, encoding="utf-8")
    try:
        return lxml_html.document_fromstring(source.encode(errors="replace"), parser=parser)
    except (etree.LxmlError, ValueError, AssertionError):
        return None


def _title(tree: Element) -> str:
    for path in (".//head/title", ".//title", ".//h1"):
        found = tree.find(path)
        if found is not None and (words := " ".join(found.text_content().split())):
            return words[:300]
    return ""


def _moved(tree: Element) -> str:
    """Return where a page without content of its own leads."""
    for meta in tree.iter("meta"):
        if meta.get("http-equiv", "").strip().lower() == "refresh":
            target = _REFRESH.match(meta.get("content", ""))
            return target[1] if target else ""
    return ""


def _note(text: str, moved: str, scripts: int) -> str:
    if len(text) > MAX_SHELL_CHARACTERS:
        return ""
    if moved:
        return f"The page has little text and leads on (meta refresh) to {moved[:1000]}"
    if scripts:
        return "The page has little text: it is filled by JavaScript, which is not run here."
    return "" if text else "The page has no text."


def _prune(body: Element) -> None:
    """Cut out what can't be seen, and then what isn't the page's own text."""
    for element in list(body.iter()):
        if element.tag == "script" and "math/tex" in element.get("type", ""):
            element.tag, element.text = "span", f"${(element.text or '').strip()}$"
        elif element is not body and _is_unseen(element):
            _drop(element)
    most = MAX_PRUNED_SHARE * len(body.text_content())
    for element in list(body.iter("*")):
        if element is not body and _is_aside(element) and len(element.text_content()) <= most:
            _drop(element)


def _drop(element: Element) -> None:
    if element.getparent() is not None:
        element.drop_tree()


def _is_unseen(element: Element) -> bool:
    if not isinstance(element.tag, str) or element.tag in _UNSEEN:  # a comment, or not for readers
        return True
    if element.tag in ("html", "body", "main"):
        return False
    hidden = element.get("hidden")
    if (hidden is not None and hidden != "until-found") or element.get("aria-hidden") == "true":
        return True
    style = re.sub(r"\s+", "", element.get("style", "")).lower()
    return bool(style) and (_HIDING.search(style) is not None or _is_colourless(element, style))


def _is_colourless(element: Element, style: str) -> bool:
    """Return whether text has the colour of the background that it, or what it is in, names."""
    colour = _COLOUR.search(style)
    if colour is None:
        return False
    for _, one in zip(range(20), (element, *element.iterancestors()), strict=False):
        own = re.sub(r"\s+", "", one.get("style", "")).lower()
        behind = _BACKGROUND.search(own)
        shade = behind[1] if behind else one.get("bgcolor", "").lower()
        if shade:
            return shade == colour[1] or {shade, colour[1]} <= _WHITE
    return False


def _is_aside(element: Element) -> bool:
    tag = element.tag
    if tag in _SPARED or any(above.tag in ("pre", "code", "math") for above in _near(element)):
        return False
    names = f"{element.get('class', '')} {element.get('id', '')}"
    if tag == "aside" and _NOTES.search(names):
        return False
    if tag == "button":
        return not any(re.fullmatch("h[1-6]|summary", above.tag) for above in _near(element))
    if tag in _ASIDE_TAGS or element.get("role", "").lower() in _ASIDE_ROLES:
        return True
    if tag == "header":
        return element.find(".//h1") is None and _is_outermost(element)
    if len(names) < 2 or next(element.iter("main", "article", "h1"), None) is not None:
        return False
    doubtful = _DOUBTFUL_NAMES.search(names) and _prose(element) <= MAX_DOUBTFUL_CHARACTERS
    return bool(doubtful or _ASIDE_NAMES.search(names))


def _near(element: Element) -> Iterator[Element]:
    for _, above in zip(range(4), element.iterancestors(), strict=False):
        yield above


def _is_outermost(element: Element) -> bool:
    return not any(above.tag in ("article", "main", "section") for above in element.iterancestors())


def _chosen(body: Element, url: str) -> Element:
    """Return the element that holds the main text, or the body where that can't be told."""
    import trafilatura

    found = trafilatura.extract(
        deepcopy(body), url=url, output_format="txt", favor_recall=True, include_comments=True
    )
    keys = {_key(line) for line in (found or "").splitlines()} - {""}
    kept = [one for one in _leaves(body) if _key(one.text_content()) in keys]
    chosen = _common(body, kept)
    full = _prose(body)
    return chosen if full and _prose(chosen) >= MIN_SHARE * full else body


def _leaves(body: Element) -> Iterator[Element]:
    for element in body.iter("p", "li", "td", "th", "h2", "h3", "pre", "blockquote", "dd", "div"):
        if element.find("div") is None and element.find("p") is None:
            yield element


def _key(text: str) -> str:
    return re.sub(r"[\W_]+", "", text[:400])[:60]


def _common(body: Element, kept: list[Element]) -> Element:
    """Return the smallest element that holds nearly all that was kept."""
    weights: dict[Element, int] = {}
    for one in kept:
        size = len(one.text_content())
        for holder in (one, *one.iterancestors()):
            weights[holder] = weights.get(holder, 0) + size
    total = weights.get(body, 0)
    chosen = body
    while total:
        holders = chosen.iterchildren(*_HOLDERS)
        inner = [child for child in holders if weights.get(child, 0) >= 0.98 * total]
        if not inner:
            break
        chosen = inner[0]
    return chosen


def _prose(element: Element) -> int:
    """Return how much text an element has that isn't a link."""
    links = sum(len(link.text_content()) for link in element.iter("a"))
    return len("".join(element.text_content().split())) - links


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
    title = _words_of(channel, ("title",))
    parts = [f"# {title}"] if title else []
    parts += [_entry(one, url) for one in entries]
    return {
        "text": "\n\n".join(parts),
        "title": title[:300],
        "note": f"A feed: {len(entries)} entries.",
    }


def _entry(entry: Element, url: str) -> str:
    link = _words_of(entry, ("link",)) or next(
        (one.get("href", "") for one in entry if _name(one) == "link"), ""
    )
    about = " · ".join(
        filter(None, (_words_of(entry, _DATES), _words_of(entry, ("creator", "author")), link))
    )
    body = fragment_text(_words_of(entry, _BODIES, inner=True), link or url)
    head = f"## {_words_of(entry, ('title',)) or '(no title)'}"
    return "\n\n".join(filter(None, (head, about, body)))


def _words_of(entry: Element, names: tuple[str, ...], *, inner: bool = False) -> str:
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
