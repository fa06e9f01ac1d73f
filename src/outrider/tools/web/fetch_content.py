"""The tool `fetch_content`: pages as text, several at once, each with its own outcome.

Of a page it is the main text, of a document its Markdown, and other text as it is.
"""

import asyncio
import json
import mimetypes
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from outrider.processes.threads import in_thread
from outrider.protocol.quoting import cleaned, harmless_line, untrusted
from outrider.tools import Arguments, Formatter, ToolCode, ToolContext, ToolFault, tool
from outrider.tools.documents.start_converter import convert_bytes
from outrider.tools.files.text import encoding_by_mark
from outrider.tools.web.session import StoredPage, web_of

if TYPE_CHECKING:
    from outrider.tools.web.client import Response

MAX_URLS = 20
MAX_SHOWN_BYTES = 16_000  # of one page at first; `get_search_content` has the rest
MAX_ALL_SHOWN_BYTES = 36_000  # of all pages of a call; beyond 50,000 a result would be cut
MAX_EXCERPT_CHARACTERS = 300
PAGE_SECONDS = 100.0  # for one page in all: less than a call has, so that it ends no others
_FILE = "(?:blob|raw|blame)/([^/]+/.+)"
_GITHUB = r"https://raw.githubusercontent.com/\1/\2"
_SOURCES = {
    rf"https?://(?:www\.)?github\.com/([^/]+/[^/]+)/{_FILE}": _GITHUB,
    rf"(https?://gitlab\.[^/]+/.+)/-/{_FILE}": r"\1/-/raw/\2",
}
"""Pages that show a file of a repository, and the address of the file itself."""
_SNIFFED_BYTES = 4_096
MAX_DAMAGE = 0.01  # how much of a text may be damaged before its charset is taken for wrong
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
_AS_HTML = re.compile(rb"(?:\xef\xbb\xbf|\s|<\?xml[^>]*>)*<(?:!doctype html|html|head|body)", re.I)
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


def _format_long(data: Any, arguments: Arguments) -> str:
    shown = (_shown(page, data["responseId"]) for page in data["pages"])
    return "\n\n".join([f"responseId: {data['responseId']}", *shown])


def _shown(page: Any, response_id: str) -> str:
    if "error" in page:
        return f"{page['index']}: {harmless_line(page['url'])}: {page['error']}"
    parts = [untrusted(page["url"], page["text"], page["title"])]
    parts += [f"[{page['note']}]"] if page["note"] else []
    if page["next"] is not None:
        on = {"responseId": response_id, "index": page["index"], "offset": page["next"]}
        size = f"{page['next']:,} of {page['characters']:,} characters"
        parts.append(f"[{size}; read on with get_search_content {json.dumps(on)}]")
    return "\n".join(parts)


@tool("web:fetch", name="fetch_content", format=Formatter(_format_long))
async def fetch_content(
    context: ToolContext,
    url: Annotated[str | None, {"minLength": 1}] = None,
    urls: Annotated[list[str] | None, {"minItems": 1, "maxItems": MAX_URLS}] = None,
) -> dict[str, Any]:
    """Fetch web pages and return their main text as Markdown; other text as it is.

    Args:
        url: The address, with http or https.
        urls: Several addresses, fetched at the same time.
    """
    wanted = [*([url] if url else []), *(urls or [])]
    if not wanted:
        raise ToolFault(ToolCode.BAD_PARAMETER, "Give url or urls.")
    pages = await asyncio.gather(*(fetch_page(context, one) for one in dict.fromkeys(wanted)))
    faults = [page.about for page in pages if "error" in page.about]
    room = min(MAX_SHOWN_BYTES, MAX_ALL_SHOWN_BYTES // max(len(pages) - len(faults), 1))
    shown = [await in_thread(_data)(index, page, room) for index, page in enumerate(pages)]
    data = {"responseId": web_of(context).keep(pages), "pages": shown}
    if len(faults) == len(pages):
        single = len(pages) == 1
        message = faults[0]["error"] if single else f"None of {len(pages)} pages could be fetched"
        raise ToolFault(faults[0]["code"], message, None if single else data)
    return data


async def fetch_page(context: ToolContext, url: str) -> StoredPage:
    """Return what an address gives, or the fault that kept it away; never raises `ToolFault`."""
    try:
        async with asyncio.timeout(PAGE_SECONDS):
            return await _fetch(context, url)
    except ToolFault as error:
        fault = error
    except TimeoutError:
        fault = ToolFault(ToolCode.TIMEOUT, f"The page took longer than {PAGE_SECONDS:g} s")
    except Exception as error:  # whatever one page does, the others are still wanted
        fault = ToolFault(ToolCode.INTERNAL, f"The page could not be read ({type(error).__name__})")
    return StoredPage(url, "", about={"error": fault.message, "code": int(fault.code)})


async def _fetch(context: ToolContext, url: str) -> StoredPage:
    client, response, note = web_of(context).client, None, ""
    web_of(context).outgoing.check(url)
    if source := source_address(url):
        with suppress(ToolFault):
            response = await client.get(source)
            note = f"Fetched as its source, {harmless_line(source)}."
    if response is None or (note and response.status >= 400):
        response, note = await client.get(url), ""
    raise_for_status(response)
    found = await extract(context, response)
    about = {"asked": url, "note": f"{note} {harmless_line(found.get('note', ''), 1_200)}".strip()}
    text = await in_thread(cleaned)(found["text"])
    return StoredPage(response.address.url, cleaned(found.get("title", "")), text, about)


def source_address(url: str) -> str | None:
    """Return the address of the source that a page shows, or None where it shows none."""
    address = re.split("[?#]", url.strip())[0]
    found = ((re.fullmatch(page, address), source) for page, source in _SOURCES.items())
    return next((match.expand(source) for match, source in found if match), None)


def raise_for_status(response: "Response") -> None:
    """Raise `ToolFault` with what the server says where it answered with an error."""
    if response.status >= 400:
        text = response.body[:20_000].decode(errors="replace")
        if not re.match(r"text/|application/(json|problem|xhtml\+xml|xml)", response.content_type):
            text = ""
        # What isn't closed goes on to the end: looked for again and again, it would take long.
        text = re.sub(r"(?is)<(script|style|head)\b.*?(?:</\1\s*>|\Z)|<[^<>]*>", " ", text)
        excerpt = harmless_line(text, MAX_EXCERPT_CHARACTERS)
        said = f" It says:\n{untrusted(response.address.url, excerpt)}" if excerpt else ""
        raise ToolFault(response.fault_code, f"The server answered {response.status}.{said}")


def _data(index: int, page: StoredPage, room: int) -> dict[str, Any]:
    """Return a page as data, with as much of its text as is shown at first."""
    data = {"index": index, "url": page.url, "title": page.title}
    if "error" in page.about:
        return data | {"error": page.about["error"], "code": page.about["code"]}
    text = page.text
    end = cut_at(text, 0, room)
    rest = {"characters": len(text), "next": end if end < len(text) else None}
    return data | {"text": text[:end], "note": page.about.get("note", ""), **rest}


def cut_at(text: str, start: int, room: int) -> int:
    """Return where to cut a text so that it takes at most so many bytes: after a line or word."""
    piece = text[start : start + room].encode(errors="replace")[:room].decode(errors="ignore")
    end = start + len(piece)
    if end >= len(text):
        return len(text)
    for mark in ("\n", " "):
        at = text.rfind(mark, start + len(piece) // 2, end)
        if at >= 0:
            return at + 1
    return max(end, start + 1)


async def extract(context: ToolContext, response: "Response") -> dict[str, str]:
    """Return the text of a response, a page's title and note too; raises `ToolFault` for others."""
    kind = response_kind(response)
    if kind == "document":
        return {"text": await convert_bytes(context, response.body, document_name(response))}
    text = await in_thread(body_text)(response)
    if kind == "text":
        return {"text": text}
    found = await web_of(context).reader.read(text, response.address.url)
    if not found["text"]:
        raise ToolFault(ToolCode.TOO_LARGE, harmless_line(found["note"], 1_200))
    return found


def response_kind(response: "Response") -> str:
    """Return what a body is: html, text or document; raises `ToolFault` for others."""
    declared, body = response.content_type, response.body
    name = response.address.target.partition("?")[0]
    if _OFFICE.fullmatch(declared) or body.startswith(b"%PDF-"):
        return "document"
    if _OFFICE_NAME.search(name) and (declared in _VAGUE or "zip" in declared):
        return "document"
    start, vague = body[:_SNIFFED_BYTES], declared in _VAGUE
    if declared in _HTML or (vague and _AS_HTML.match(start)):
        return "html"
    named = response.headers.get("content-type", "").lower()
    wide = "charset=utf-" in named or encoding_by_mark(start) is not None
    if not (vague or _TEXTUAL.fullmatch(declared)) or (b"\0" in start and not wide):
        what = declared[:100] or "binary data"
        raise ToolFault(ToolCode.TOO_LARGE, f"The URL returned {what}, which has no text form")
    return "text"


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
