"""What a response says, as text a model can read: the main text of a page, data as it is."""

import mimetypes
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.processes.threads import in_thread
from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.tools.context import ToolContext
from outrider.tools.documents import convert_bytes
from outrider.tools.web.session import web_of

if TYPE_CHECKING:
    from outrider.tools.web.client import Response

_SNIFFED_BYTES = 4_096
MAX_DAMAGE = 0.01
"""How much of a text may be damaged before its charset is taken for wrong."""
_IN_PAGE = re.compile(
    rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})|"
    rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{2,40})",
    re.I,
)
_TEXT_CHARSET = re.compile(
    r"(?:x-)?(?:utf-?(?:8|16|32)|us-ascii|ascii|latin|iso-|windows-|cp\d|koi8|gb|big5|euc|shift|"
    r"s?jis|ms-kanji|ks_c|tis-?620|mac|hz-gb).*",
    re.I,
)
"""Python knows other codecs, which no page means and some of which take very long."""
_AS_BROWSERS_READ = {
    "iso-8859-1": "windows-1252",
    "latin1": "windows-1252",
    "us-ascii": "windows-1252",
    "ascii": "windows-1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "x-sjis": "cp932",
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
}
_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_VAGUE = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/unknown"})
_TEXTUAL = re.compile(
    r"text/.*|.*[/+](?:json|xml|yaml|toml|csv|javascript|ecmascript|typescript|sql|x-sh|graphql)|"
    r"application/(?:x-)?(?:ndjson|jsonlines|json-seq|httpd-php|python|perl|tex|latex|rtf)|message/.*"
)
_OFFICE = re.compile(
    r"application/(?:pdf|msword|epub\+zip|vnd\.(?:openxmlformats-|ms-|oasis\.opendocument).*)"
)
_OFFICE_NAME = re.compile(r"\.(?:pdf|docx?|pptx?|xlsx?|epub|odt|ods|odp)$", re.I)


@dataclass(frozen=True, slots=True)
class Extracted:
    """The readable form of a body."""

    text: str
    title: str = ""
    note: str = ""
    """What a reader should know of the page, in our words."""


async def extracted(context: ToolContext, response: "Response") -> Extracted:
    """Return the readable form of a response; raises `ToolFault` for what has none."""
    kind = kind_of(response)
    if kind == "document":
        return Extracted(await convert_bytes(context, response.body, document_name(response)))
    text = await in_thread(decoded)(response)
    if kind == "xml":
        kind = _xml_kind(text)
    if kind in ("html", "feed"):
        return Extracted(**await web_of(context).reader.read(kind, text, response.address.url))
    return Extracted(text)


def kind_of(response: "Response") -> str:
    """Return what a body is: html, xml, text or document; raises `ToolFault` for others."""
    declared, body = response.content_type, response.body
    name = response.address.target.partition("?")[0]
    if _OFFICE.fullmatch(declared) or body.startswith(b"%PDF-"):
        return "document"
    if _OFFICE_NAME.search(name) and (declared in _VAGUE or "zip" in declared):
        return "document"
    start = body[:_SNIFFED_BYTES]
    wide = start.startswith(tuple(mark for mark, _ in _MARKS)) or "charset=utf-" in (
        response.headers.get("content-type", "").lower()
    )
    if b"\0" in start and not wide and declared not in _HTML:
        raise _unsupported(declared or "binary data")
    if declared in _HTML or (declared in _VAGUE and _looks_like_html(start)):
        return "html"
    if declared not in _VAGUE and not _TEXTUAL.fullmatch(declared):
        raise _unsupported(declared)
    if declared.endswith(("/xml", "+xml")) or (declared in _VAGUE and start[:5] == b"<?xml"):
        return "xml"
    return "text"


def _looks_like_html(start: bytes) -> bool:
    begun = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return begun.startswith((b"<!doctype html", b"<html", b"<head", b"<body"))


def _xml_kind(text: str) -> str:
    root = re.search(r"<(?![?!])(?:\w+:)?(\w+)", text[:_SNIFFED_BYTES])
    name = root[1].lower() if root else ""
    return {"rss": "feed", "feed": "feed", "rdf": "feed", "html": "html"}.get(name, "text")


def _unsupported(what: str) -> ToolFault:
    return ToolFault(ToolCode.TOO_LARGE, f"The address gives {what[:100]}, which has no text form")


def document_name(response: "Response") -> str:
    """Return a name for what an address gave; its ending tells the kind of a plain text."""
    declared = response.content_type
    name = response.address.target.partition("?")[0].rpartition("/")[2][-100:] or "document"
    vague = declared in _VAGUE or declared == "text/plain"
    ending = "" if vague else mimetypes.guess_extension(declared) or ""
    if response.body.startswith(b"%PDF-"):
        ending = ".pdf"
    return name if name.lower().endswith(ending) else name + ending


def decoded(response: "Response") -> str:
    """Return the body as text: by its mark, the header, the page, or what it looks like."""
    body = response.body
    for mark, charset in _MARKS:
        if body.startswith(mark):
            return body.decode(charset, errors="replace")
    in_header = re.search(
        r"charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", response.headers.get("content-type", ""), re.I
    )
    in_page = _IN_PAGE.search(body[:_SNIFFED_BYTES])
    named = [in_header[1]] if in_header else []
    named += [(in_page[1] or in_page[2]).decode()] if in_page else []
    charsets = [
        _AS_BROWSERS_READ.get(one.lower(), one) for one in named if _TEXT_CHARSET.match(one)
    ]
    for charset in (*charsets, "utf-8"):
        try:
            return body.decode(charset)
        except (LookupError, UnicodeError):
            continue
    return _repaired(body, charsets)


def _repaired(body: bytes, charsets: list[str]) -> str:
    """Return a text that is damaged or in a charset that nobody names."""
    for charset in (*charsets, "utf-8"):
        try:
            text = body.decode(charset, errors="replace")
        except (LookupError, UnicodeError):
            continue
        if text.count("\ufffd") <= MAX_DAMAGE * len(text):
            return text
    from charset_normalizer import from_bytes

    best = from_bytes(body[:65_536]).best()
    return body.decode(best.encoding if best else "windows-1252", errors="replace")
