"""What a response says, as text a model can read: the main text of a page, data as it is."""

import re
from dataclasses import dataclass

from outrider.tools.web.client import Response

MIN_SHARE = 0.1
"""How little of a page's text the main text may be before the whole body is taken instead."""
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset=[\"']?\s*([A-Za-z0-9_.:-]{2,40})", re.I)
_HTML = ("text/html", "application/xhtml+xml")


@dataclass(frozen=True, slots=True)
class Extracted:
    """The readable form of a body."""

    text: str
    title: str = ""


def extracted(response: Response) -> Extracted:
    """Return the readable form of a response; raises `ToolFault` for what has none."""
    text = decoded(response)
    if response.content_type in _HTML or text.lstrip()[:15].lower().startswith("<!doctype html"):
        return _page(text, response.address.url)
    return Extracted(text)


def decoded(response: Response) -> str:
    """Return the body as text, in the charset that the header or the page names."""
    named = re.search(r"charset=[\"']?([\w.:-]+)", response.headers.get("content-type", ""), re.I)
    in_page = _CHARSET.search(response.body[:4096])
    names = [named and named[1], in_page and in_page[1].decode(), "utf-8", "windows-1252"]
    for name in filter(None, names):
        try:
            return response.body.decode(name)
        except (LookupError, UnicodeDecodeError):
            continue
    return response.body.decode(errors="replace")


def _page(html: str, url: str) -> Extracted:
    import trafilatura

    text = trafilatura.extract(
        html, url=url, output_format="markdown", include_links=True, include_tables=True
    )
    return Extracted(text or "")
