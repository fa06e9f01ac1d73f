"""The tool `convert_content`: a document as Markdown, in pages, converted once in a run."""

import hashlib
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

from outrider.tools import Formatter, ToolCode, ToolContext, ToolFault, tool
from outrider.tools.documents.start_converter import convert_bytes, convert_file
from outrider.tools.web import get_search_content as pages
from outrider.tools.web.fetch_content import document_name, raise_for_status
from outrider.tools.web.get_search_content import DEFAULT_CHARACTERS, MAX_CHARACTERS
from outrider.tools.web.session import web_of
from outrider.workspaces.opening import keep_new, read_kept

TIMEOUT_MS = 900_000  # a last resort: web.timeoutMs and convert.timeoutMs end a call before
OVERLAP = 100
_FORMAT = Formatter(lambda data, _: pages.page_shown(data["source"], data))


@tool("document:convert", name="convert_content", timeout_ms=TIMEOUT_MS, format=_FORMAT)
async def convert_content(
    context: ToolContext,
    path: Annotated[str | None, {"minLength": 1}] = None,
    url: Annotated[str | None, {"minLength": 1}] = None,
    offset: Annotated[int, {"minimum": 0}] = 0,
    limit: Annotated[int, {"minimum": 1, "maximum": MAX_CHARACTERS}] = DEFAULT_CHARACTERS,
) -> dict[str, Any]:
    """Read a document as Markdown: PDF, DOCX, PPTX, XLSX, EPUB, HTML, CSV or a notebook.

    Args:
        path: The file, relative to the working tree.
        url: Or its address, with http or https.
        offset: The first character to show.
        limit: How many characters to show.
    """
    if (path is None) == (url is None):
        raise ToolFault(ToolCode.BAD_PARAMETER, "Give either path or url.")
    if url is not None:
        source, text = await _from_web(context, url)
    else:
        source, text = await _from_file(context, path or "")
    data = {"source": source, **pages.paged(text, offset, limit)}
    if path is not None and context.web is not None:
        # It is local text, though the tool can reach the web. Pages overlap, so that what is
        # split by their border is recognised too.
        context.web.remember(text[max(0, offset - OVERLAP) : offset + limit])
    return data


async def _from_file(context: ToolContext, path: str) -> tuple[str, str]:
    place = context.workspace.resolve(path)
    with context.workspace.open_file(place) as file:
        about = os.fstat(file.fileno())
        version = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        convert = partial(convert_file, context, file, place.shown)
        text = await _once(context, f"{place.path} {version}", convert)
    context.effects.file_read(place.path)
    return place.shown, text


async def _from_web(context: ToolContext, url: str) -> tuple[str, str]:
    session = web_of(context)
    if not session.config.enabled:
        raise ToolFault(ToolCode.DENIED, "Nothing is fetched: web.enabled is off")

    async def convert() -> str:
        session.outgoing.check(url)
        most = context.convert.max_bytes if context.convert else None
        response = await session.client.get(url, max_bytes=most)
        raise_for_status(response)
        return await convert_bytes(context, response.body, document_name(response))

    return url, await _once(context, url, convert)


async def _once(context: ToolContext, key: str, convert: Callable[[], Awaitable[str]]) -> str:
    """Return the text of a document, which is kept in the folder of the run where there is one."""
    folder = context.spill_folder()
    if folder is None:
        return await convert()
    name = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
    kept = folder / f"document-{name}.md"
    with suppress(OSError):
        return read_kept(kept).decode()
    text = await convert()
    written = kept.with_suffix(f".{os.urandom(4).hex()}")
    keep_new(written, text.encode())
    written.replace(kept)
    return text
