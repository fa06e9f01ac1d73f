"""A model behind a server that speaks chat completions: one request each, over one connection."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import httpcore2

from outrider.models.failures import ModelUnavailable, RequestFailed, failure_of
from outrider.models.lean.chunks import Chunks
from outrider.models.lean.errors import seconds_to_wait, status_error
from outrider.models.lean.events import ERROR, server_events
from outrider.models.lean.network import AsyncioBackend
from outrider.models.lean.request import OPTIONS, request_body
from outrider.models.messages import Message, ModelAnswer, OfferedTool
from outrider.models.wires import CONNECT_SECONDS, LEAN_PREFIXES, OPENAI_URL, SILENCE_SECONDS
from outrider.protocol import jsonl
from outrider.protocol.outcomes import FailureKind

MAX_BODY_BYTES = 32 << 20
MAX_ERROR_BYTES = 64 << 10
REST_SECONDS = 0.5
"""How long the end of a stream is waited for that has said it is done."""
_DONE = b"[DONE]"
_REFUSALS = (400, 422)
_TIMEOUTS = {
    "connect": CONNECT_SECONDS,
    **dict.fromkeys(("read", "write", "pool"), SILENCE_SECONDS),
}


class LeanModel:
    """A model of OpenAI's, or of a server of the user's own."""

    takes_schema = True
    has_native = False

    def __init__(self, model: str, env: Mapping[str, str]) -> None:
        """Take the server's address and key from an environment; raises `ModelUnavailable`."""
        self._title = model
        prefix, _, self.name = model.partition(":")
        self.provider = prefix.removesuffix("-chat")
        start = LEAN_PREFIXES[prefix]
        default = OPENAI_URL if start == "OPENAI" else ""
        self.base_url = (env.get(f"{start}_BASE_URL", "").strip() or default).rstrip("/")
        key = env.get(f"{start}_API_KEY", "").strip()
        if not self.base_url:
            raise ModelUnavailable(f"Can't use the model {model}: set {start}_BASE_URL.")
        if not key and self.base_url == OPENAI_URL:
            raise ModelUnavailable(f"Can't use the model {model}: set {start}_API_KEY.")
        self._headers = {
            "Host": self.base_url.split("/")[2],
            "User-Agent": "outrider",
            "Accept": "application/json",
            "Content-Type": "application/json",
        }
        self._headers |= {"Authorization": f"Bearer {key}"} if key else {}
        if start == "OPENAI":
            ids = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
            self._headers |= {name: env[one].strip() for name, one in ids.items() if env.get(one)}
        if not all(value.isascii() and value.isprintable() for value in self._headers.values()):
            words = f"{start}_API_KEY, or another variable of it, has characters that can't be sent"
            raise ModelUnavailable(f"Can't use the model {model}: {words}.")
        self._pool = httpcore2.AsyncConnectionPool(
            _trusted(self.base_url, env), network_backend=AsyncioBackend()
        )
        self._has_options = True

    async def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[OfferedTool],
        schema: Any,
        answer: ModelAnswer,
    ) -> AsyncIterator[str]:
        """Yield the text as it comes; see `ChatModel`."""
        inline = self.provider != "openai"
        body = request_body(self.name, messages, tools, schema, inline=inline)
        chunks = Chunks(answer, self._title)
        try:
            response = await self._answered(body)
            answer.provider, answer.base_url, answer.model = self.provider, self.base_url, self.name
            try:
                async for text in _texts(response, chunks):
                    yield text
            finally:
                chunks.settle()
                await response.aclose()
        except httpcore2.TimeoutException as error:
            raise self._failed(FailureKind.TIMEOUT) from error
        except httpcore2.LocalProtocolError as error:  # its text may repeat a header, and so a key
            raise self._failed(FailureKind.CONNECTION) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as error:
            detail = f"{self.base_url}: {error or type(error).__name__}"
            raise self._failed(FailureKind.CONNECTION, detail=detail) from error

    async def _answered(self, body: dict[str, Any]) -> httpcore2.Response:
        """Return the head of an answer that is a success; raises `RequestFailed`."""
        if not self._has_options:
            body.pop(OPTIONS, None)
        request = httpcore2.Request(
            "POST",
            f"{self.base_url}/chat/completions",
            headers={**self._headers, "Content-Length": str(len(content := jsonl.encode(body)))},
            content=content,
            extensions={"timeout": _TIMEOUTS},
        )
        response = await self._pool.handle_async_request(request)
        if 200 <= response.status < 300:
            return response
        try:
            text = await _whole(response.aiter_stream(), MAX_ERROR_BYTES)
        finally:
            await response.aclose()
        if response.status in _REFUSALS and OPTIONS in body and OPTIONS.encode() in text:
            self._has_options = False
            return await self._answered(body)
        raise self._refused(response, text)

    def _refused(self, response: httpcore2.Response, text: bytes) -> RequestFailed:
        named = ((name.lower(), value) for name, value in response.headers)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in named}
        status = response.status
        kind, detail = status_error(status, text)
        if status < 400:
            where = headers.get("location") or "elsewhere"
            detail = f"{self.base_url} redirects to {where}, where no key is sent"
        wait = seconds_to_wait(headers)
        return self._failed(kind, status, detail, base_url=self.base_url, retry_after=wait)

    def _failed(
        self, kind: FailureKind, status: int | None = None, detail: str = "", **more: Any
    ) -> RequestFailed:
        return RequestFailed(failure_of(kind, status, detail, model=self._title, **more))


def _trusted(base_url: str, env: Mapping[str, str]) -> Any:
    if not base_url.startswith("https:"):
        return None
    from outrider.models.tls import trusted_certificates

    return trusted_certificates(env.get("SSL_CERT_FILE"), env.get("SSL_CERT_DIR"))


async def _texts(response: httpcore2.Response, chunks: Chunks) -> AsyncIterator[str]:
    """Yield the text of an answer; some servers send it in one piece, whatever was asked for."""
    received = response.aiter_stream()
    first = b""
    async for first in received:
        if not first.isspace():  # some send that while they wait
            break
    if first.lstrip().startswith(b"{"):
        yield chunks.take(await _whole(_chained(first, received), MAX_BODY_BYTES))
    else:
        async for event in server_events(_chained(first, received)):
            data = b"\n".join(event.data)
            if data.startswith(_DONE) and event.name != ERROR:
                await _drain(received)
                break
            yield chunks.take(data, is_error=event.name == ERROR)
    yield chunks.finish()


async def _chained(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


async def _whole(pieces: AsyncIterator[bytes], most: int) -> bytes:
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > most:
            break
    return bytes(body[:most])


async def _drain(rest: AsyncIterator[bytes]) -> None:
    """Read the end of a stream, so that its connection can be used again."""
    lost = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, OSError)
    with suppress(TimeoutError, *lost):
        async with asyncio.timeout(REST_SECONDS):
            async for _ in rest:
                pass
