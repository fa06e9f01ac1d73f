"""What a response says, as text a model can read: the main text of a page, data as it is."""

import mimetypes
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from outrider.processes.threads import in_thread
from outrider.tools import ToolCode, ToolContext, ToolFault
from outrider.tools.documents.start_converter import convert_bytes
from outrider.tools.files.text import encoding_by_mark
from outrider.tools.web.session import web_of

if TYPE_CHECKING:
    from outrider.tools.web.client import Response

_SNIFFED_BYTES = 4_096
MAX_DAMAGE = 0.01
"""How much of a text may be damaged before its charset is taken for wrong."""
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.I)
_IN_PAGE = re.compile(
    rb"(?:<meta[^>]{0,300}?charset|^\s*<\?xml[^>]{0,200}?encoding)\s*=\s*[\"']?\s*([\w.:-]{2,40})",
    re.I,
)
_TEXT_CHARSET = re.compile(
    r"(?:x-)?(?:utf-?(?:8|16|32)|us-ascii|ascii|latin|iso-|windows-|cp\d|koi8|gb|big5|euc|shift|"
    r"s?jis|ms-kanji|ks_c|tis-?620|mac|hz-gb).*",
    re.I,
)
"""Python knows other codecs, which no page means and some of which take very long."""
_AS_BROWSERS_READ = {
    **dict.fromkeys(("iso-8859-1", "latin1", "us-ascii", "ascii"), "windows-1252"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    **dict.fromkeys(("shift_jis", "x-sjis"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987"), "cp949"),
}
_HTML_START = re.compile(rb"(?:\xef\xbb\xbf|\s)*<(?:!doctype html|html|head|body)", re.I)
_ROOTS = {"rss": "feed", "feed": "feed", "rdf": "feed", "html": "html"}
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


async def extract(context: ToolContext, response: "Response") -> dict[str, str]:
    """Return the text of a response, a page's title and note too; raises `ToolFault` for others."""
    kind = response_kind(response)
    if kind == "document":
        return {"text": await convert_bytes(context, response.body, document_name(response))}
    text = await in_thread(body_text)(response)
    if kind == "xml":
        root = re.search(r"<(?![?!])(?:\w+:)?(\w+)", text[:_SNIFFED_BYTES])
        kind = _ROOTS.get(root[1].lower() if root else "", "text")
    if kind in ("html", "feed"):
        return await web_of(context).reader.read(kind, text, response.address.url)
    return {"text": text}


def response_kind(response: "Response") -> str:
    """Return what a body is: html, xml, text or document; raises `ToolFault` for others."""
    declared, body = response.content_type, response.body
    name = response.address.target.partition("?")[0]
    if _OFFICE.fullmatch(declared) or body.startswith(b"%PDF-"):
        return "document"
    if _OFFICE_NAME.search(name) and (declared in _VAGUE or "zip" in declared):
        return "document"
    start, vague = body[:_SNIFFED_BYTES], declared in _VAGUE
    if declared in _HTML or (vague and _HTML_START.match(start)):
        return "html"
    named = response.headers.get("content-type", "").lower()
    wide = "charset=utf-" in named or encoding_by_mark(start) is not None
    if not (vague or _TEXTUAL.fullmatch(declared)) or (b"\0" in start and not wide):
        what = declared[:100] or "binary data"
        raise ToolFault(ToolCode.TOO_LARGE, f"The address gives {what}, which has no text form")
    is_xml = declared.endswith(("/xml", "+xml")) or (vague and start[:5] == b"<?xml")
    return "xml" if is_xml else "text"


def document_name(response: "Response") -> str:
    """Return a name for what an address gave; its ending tells the kind of a plain text."""
    declared = response.content_type
    name = response.address.target.partition("?")[0].rpartition("/")[2][-100:] or "document"
    vague = declared in _VAGUE or declared == "text/plain"
    kind = "application/pdf" if response.body.startswith(b"%PDF-") else declared
    ending = "" if vague and kind == declared else mimetypes.guess_extension(kind) or ""
    return name if name.lower().endswith(ending) else name + ending


def body_text(response: "Response") -> str:
    """Return the body as text: by its mark, the header, the page, or what it looks like."""
    marked = encoding_by_mark(response.body)
    body = response.body[len(marked.mark) if marked else 0 :]
    in_header = _CHARSET.search(response.headers.get("content-type", "").encode())
    in_page = _IN_PAGE.search(body[:_SNIFFED_BYTES])
    named = [found[1].decode() for found in (in_header, in_page) if found]
    fit = [_AS_BROWSERS_READ.get(one.lower(), one) for one in named if _TEXT_CHARSET.match(one)]
    for damage in (0, MAX_DAMAGE):
        for charset in (*([marked.codec] if marked else []), *fit, "utf-8"):
            with suppress(LookupError, UnicodeError):
                text = body.decode(charset, errors="replace")
                if text.count("\ufffd") <= damage * len(text):
                    return text
    from charset_normalizer import from_bytes

    best = from_bytes(body[:65_536]).best()
    return body.decode(best.encoding if best else "windows-1252", errors="replace")
