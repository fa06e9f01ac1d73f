"""The main text of a page as Markdown, without navigation and without what a reader can't see.

What is hidden is cut out, and what is navigation, a banner or an advertisement by its kind, or by
its class and its links. The innermost element that then holds all paragraphs and all code is
rendered.
"""

import re
from itertools import islice
from typing import Any

from lxml import etree as untyped_etree, html as untyped_html  # pyright: ignore

from outrider.protocol.quoting import cleaned
from outrider.tools.web.markdown import HEADINGS, Element, has, markdown

etree: Any = untyped_etree  # pyright: ignore
lxml_html: Any = untyped_html
MIN_SHARE = 0.35  # of a page's text; with less as its main text, the whole body is taken
MAX_SHELL_CHARACTERS = 300  # how little text a page has that only a script can fill
MAX_PRUNED_SHARE = 0.5  # of a page's text, in an element cut out for what it is or is called
MAX_NAMED_CHARACTERS = 300  # of text, links apart, in an element cut out for its name
MIN_ASIDE_LINKS = 3  # how many links an aside that is mostly links must have to be navigation
MIN_PARAGRAPH_CHARACTERS = 80  # of text, links apart, in what is certainly main text


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _names(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|[\s_-])(?:{words})(?:$|[\s_-])", re.I)


_UNSEEN = _words(
    "script style noscript template iframe object embed svg canvas video audio map title "
    "input select textarea option datalist progress meter dialog"
)
_ASIDE_TAGS = _words("nav footer header button")
_ASIDE_ROLES = _words(
    "navigation contentinfo complementary search dialog alertdialog menu menubar toolbar"
)
_LISTINGS = _names(
    r"nav|navbar|navigation|menu|sidebar|toolbar|toc|widget|related|recommend\w*|popular|most-read|"
    r"trending|share|sharing|social"
)
_BANNERS = _names(
    r"foot|footer|masthead|top-?bar|breadcrumbs?|cookies?|consent|gdpr|onetrust|newsletter|subscribe|pager|ticker|"
    r"pagination|ads?|advert\w*|promo\w*|sponsor\w*|popup|modal|lightbox|overlay|respond|vote|rank|"
    r"votecell|comment-form|jumpbox"
)
_MARKS = _names(
    "headerlink|editsection|reply-link|skip-?link|sr-only|visually-hidden|screen-reader-text"
)
_CONTAINERS = _words("div section aside form ul ol")
_CODE = _words("pre code math")
_KEPT_IN = {
    "header": _CODE | _words("article main section"),
    "footer": _CODE | _words("blockquote"),
    "button": _CODE.union(HEADINGS, ["summary"]),
}
"""What keeps an element from being cut out, where that isn't only code."""
_HIDING = re.compile(
    r"display:none|visibility:(?:hidden|collapse)|content-visibility:hidden|transform:scale\(0|"
    r"opacity[:(](?:0?\.0\d*|0+(?:\.0\d*)?|\d%)(?:;|$|\))|"
    r"font-size:(?:0?(?:\.0\d*)?(?:[a-z]{2,3}|%)?(?:;|$)|[01]?(?:\.\d+)?p[xt])|"
    r"clip:rect\(0|clip-path:(?:inset\((?:[5-9]\d|100)%|circle\(0)|"
    r"(?:^|;)(?:left|top|right|bottom|text-indent):-(?:\d{3,}|\d\dr?em)|"
    r"margin-(?:left|top):-(?:999|\d{4,}|\d\d+r?em)|"  # a smaller one moves or centres a block
    r"translate[xy]?\(-\d{4,}"
)
_TINY = re.compile(r"(?:^|;)(?:max-)?(?:width|height):[01](?:px)?(?:;|$)")
_GROWING = _words("table tr td th")  # what is as large as its text needs, whatever size it is given
_CLEAR = re.compile(  # a colour with an opacity of less than a tenth
    r"transparent|#[\da-f]{3}0|#[\da-f]{6}[01][\da-f]|"
    r"(?:rgb|hsl)a?\((?:(?:[^,()]*,){3}|[^,()/]*/)0?(?:\.0\d*)?%?\)"
)
_COLOUR = re.compile(r"(?:^|;)(?:color|-webkit-text-fill-color):([^;]+)")
_BACKGROUND = re.compile(r"(?:^|;)background(?:-color)?:([^;]+)")
_WHITE = frozenset({"white", "#fff", "#ffffff", "rgb(255,255,255)", "rgba(255,255,255,1)"})
_TEXTS = ("p", "div", "li", "td", "dd", "blockquote")
_BLOCKS = (*_TEXTS, *HEADINGS, "ul", "ol", "dl", "table", "section", "form", "pre")
_REFERENCE = re.compile(r"&#(?:[xX]([0-9a-fA-F]{1,9})|([0-9]{1,10}));?")
_REFRESH = re.compile(r"^\s*\d+\s*[;,]\s*(?:url\s*=)?\s*[\"']?([^\"'\s]+)", re.I)


def main_text(source: str, url: str) -> dict[str, str]:
    """Return the text, title and note of a page; where there is no text, the note says why."""
    body = _tree(source)  # all of it: without `<body>`, libxml2 leaves text in the head
    if body is None:
        return {"text": "", "title": "", "note": "The page is empty, or nested too deeply to read."}
    titles = (body.find(path) for path in (".//head/title", ".//title", ".//h1"))
    named = (" ".join(one.text_content().split()) for one in titles if one is not None)
    title = next(filter(None, named), "")[:300]
    hint = _hint(body)
    _prune(body)
    chosen = _chosen(body)
    parts = [markdown(one, url) for one in (_lead(chosen), chosen) if one is not None]
    text = "\n\n".join(filter(None, parts))
    hint = hint or ("" if text else "The page has no text that people would see.")
    return {"text": text, "title": title, "note": hint * (len(text) <= MAX_SHELL_CHARACTERS)}


def _checked(reference: re.Match[str]) -> str:
    """Return a reference to a character, unless lxml can't hold that."""
    code = int(reference[1], 16) if reference[1] else int(reference[2])
    return reference[0] if code in (9, 10, 13) or 32 <= code < 0xD800 or code > 0xDFFF else ""


def _tree(source: str) -> Element | None:
    source = _REFERENCE.sub(_checked, cleaned(re.sub("\r\n?", "\n", source)))
    # A declaration of an encoding in a text that is decoded already makes lxml refuse it.
    source = re.sub(r"^\s*<\?xml[^>]*>", "", source)
    parser = lxml_html.HTMLParser(huge_tree=True, no_network=True, encoding="utf-8")
    try:
        tree = lxml_html.document_fromstring(source.encode(errors="replace"), parser=parser)
    except (etree.LxmlError, ValueError, AssertionError):
        return None
    # Beyond so many levels libxml2 loses everything, also what comes after them.
    errors = parser.error_log
    return None if len(errors) and "depth" in errors[-1].message else tree


def _hint(tree: Element) -> str:
    """Return why a page may have little text."""
    for meta in tree.iter("meta"):
        target = _REFRESH.match(meta.get("content", ""))
        if target and meta.get("http-equiv", "").strip().lower() == "refresh":
            return f"The page has little text and leads on (meta refresh) to {target[1][:1000]}"
    if next(tree.iter("script"), None) is not None:
        return "The page has little text: it may be filled by JavaScript, which is not run here."
    return ""


def _prune(body: Element) -> None:
    """Cut out what can't be seen, and then what isn't the page's own text."""
    panels = frozenset(body.xpath("//*[@role='tab']/@aria-controls"))
    for element in list(body.iter()):
        if element.tag == "script" and "math/tex" in element.get("type", ""):
            element.tag, element.text = "span", f"${(element.text or '').strip()}$"
        elif _is_unseen(element, panels):
            element.drop_tree()
    most = MAX_PRUNED_SHARE * len(body.text_content())
    for element in list(body.iter("*")):
        if _is_aside(element) and len(element.text_content()) <= most:
            element.drop_tree()


def _is_unseen(element: Element, panels: frozenset[str]) -> bool:
    if not isinstance(element.tag, str) or element.tag in _UNSEEN:  # a comment, or not for readers
        return True
    if element.tag in ("html", "body", "main") or element.get("id") in panels:
        return False
    if element.get("hidden", "until-found") != "until-found":
        return True
    style = _style(element)
    is_tiny = element.tag not in _GROWING and bool(_TINY.search(style))
    hides = is_tiny or bool(_HIDING.search(style)) or _is_colourless(element, style)
    return hides or element.get("aria-hidden") == "true"


def _style(element: Element) -> str:
    style = f"color:{element.get('color', '')};{element.get('style', '')}"
    return re.sub(r"\s+|!important", "", style.lower())


def _is_colourless(element: Element, style: str) -> bool:
    """Return whether text is clear, or as its background, or that of what it is in, is named."""
    colour = next(iter(_COLOUR.findall(style)[-1:]), "")
    if not colour or "background-clip:text" in style:  # then the background colours the letters
        return False
    for one in (element, *islice(element.iterancestors(), 20)):
        behind = _BACKGROUND.search(_style(one))
        if shade := behind[1] if behind else one.get("bgcolor", "").lower():
            return shade == colour or {shade, colour} <= _WHITE or bool(_CLEAR.fullmatch(colour))
    return bool(_CLEAR.fullmatch(colour))


def _is_aside(element: Element) -> bool:
    """Return whether an element is no part of the text, by its kind or by its names and links."""
    tag, names, is_container = element.tag, element.get("class", ""), element.tag in _CONTAINERS
    if tag in _ASIDE_TAGS or element.get("role", "").lower() in _ASIDE_ROLES:
        is_aside = True
    elif _MARKS.search(names) or (is_container and _is_called(element, _BANNERS)):
        is_aside = _prose(element) <= MAX_NAMED_CHARACTERS
    elif tag == "aside" or (is_container and _is_called(element, _LISTINGS)):
        links = len(element.findall(".//a")) - (MIN_ASIDE_LINKS - 1) * (tag == "aside")
        is_aside = links > 0 and _size(element) >= 2 * _prose(element)
    else:
        return False
    return is_aside and not _holds_text(element)


def _is_called(element: Element, names: re.Pattern[str]) -> bool:
    """Return whether a class, or an id that isn't made of a heading's words, is such a name."""
    if names.search(element.get("class", "")):
        return True
    return bool(names.search(element.get("id", ""))) and not has(element, *HEADINGS)


def _holds_text(element: Element) -> bool:
    """Return whether an element has the text in it, or stands in it or in code."""
    if has(element, "body", "main", "article", "h1"):
        return True
    kept_in = _KEPT_IN.get(element.tag, _CODE)
    return any(one.tag in kept_in for one in (element, *element.iterancestors()))


def _chosen(body: Element) -> Element:
    """Return the innermost element with all paragraphs and code, and the sections beside them."""
    sure = ("main", "article", "pre")
    texts = [one for one in body.iter(*_TEXTS, *sure) if one.tag in sure or _is_paragraph(one)]
    chosen = _shared(texts) if texts else body
    while not has(chosen, *HEADINGS) and chosen is not body:
        chosen = chosen.getparent()
    top = _top(chosen)
    chosen = _shared([chosen, *body.iter(top)]) if top != "h1" else chosen
    return chosen if _prose(chosen) >= MIN_SHARE * _prose(body) else body


def _is_paragraph(element: Element) -> bool:
    return not has(element, *_BLOCKS) and _prose(element) >= MIN_PARAGRAPH_CHARACTERS


def _shared(elements: list[Element]) -> Element:
    """Return the innermost element that all of these are in."""
    shared = elements[0]
    for element in elements[1:]:
        around = {element, *element.iterancestors()}
        while shared not in around:
            shared = shared.getparent()
    return shared


def _lead(chosen: Element) -> Element | None:
    """Return the title above the main text, with what stands around it where that is text too."""
    titles = [one for one in chosen.xpath("preceding::h1|preceding::h2") if one.tag < _top(chosen)]
    if not titles:
        return None
    title = min(reversed(titles), key=lambda one: one.tag)
    around = title.getparent()
    is_text = 2 * _prose(around) >= _size(around) and around not in chosen.iterancestors()
    return around if is_text else title


def _top(element: Element) -> str:
    return min((one.tag for one in element.iter(*HEADINGS)), default="h1")


def _prose(element: Element) -> int:
    """Return how much text an element has that isn't a link."""
    return _size(element) - sum(map(_size, element.iter("a")))


def _size(element: Element) -> int:
    return len("".join(element.text_content().split()))
