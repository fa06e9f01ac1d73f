"""A model behind a server that speaks chat completions: one request each, over one connection."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import h11

from outrider.models.failures import ModelUnavailable, RequestFailed, failure_of
from outrider.models.lean.chunks import Chunks
from outrider.models.lean.connection import Connection, words_of
from outrider.models.lean.errors import seconds_to_wait, status_error
from outrider.models.lean.events import ERROR, server_events
from outrider.models.lean.request import OPTIONS, request_body
from outrider.models.messages import Conversation, ModelAnswer, OfferedTools
from outrider.models.wires import LEAN_PREFIXES, OPENAI_URL, trusted_certificates
from outrider.protocol import jsonl
from outrider.protocol.outcomes import FailureKind

MAX_BODY_BYTES = 32 << 20
MAX_ERROR_BYTES = 64 << 10
REST_SECONDS = 0.5  # how long the end of a stream is waited for that has said it is done
_DONE = b"[DONE]"
_REFUSALS = (400, 422)


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
        given = env.get(f"{start}_BASE_URL", "").strip() or default
        self.base_url: str | None = given.rstrip("/")
        key = env.get(f"{start}_API_KEY", "").strip()
        if not self.base_url:
            raise ModelUnavailable(f"Can't use the model {model}: set {start}_BASE_URL.")
        if not key and self.base_url == OPENAI_URL:
            raise ModelUnavailable(f"Can't use the model {model}: set {start}_API_KEY.")
        self._headers = {"Host": self.base_url.split("/")[2], "User-Agent": "outrider"}
        self._headers |= dict.fromkeys(("Accept", "Content-Type"), "application/json")
        self._headers |= {"Authorization": f"Bearer {key}"} if key else {}
        if start == "OPENAI":
            ids = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
            self._headers |= {name: env[one].strip() for name, one in ids.items() if env.get(one)}
        if not all(value.isascii() and value.isprintable() for value in self._headers.values()):
            words = f"{start}_API_KEY, or another variable of it, has characters that can't be sent"
            raise ModelUnavailable(f"Can't use the model {model}: {words}.")
        self._connection = Connection(self.base_url, _trusted(self.base_url, env))
        self._has_options = True

    async def stream(
        self, messages: Conversation, tools: OfferedTools, schema: Any, answer: ModelAnswer
    ) -> AsyncIterator[str]:
        inline = self.provider != "openai"
        body = request_body(self.name, messages, tools, schema, inline=inline)
        chunks = Chunks(answer, self._title)
        try:
            try:
                await self._ask(body)
                answer.provider, answer.model = self.provider, self.name
                answer.base_url = self.base_url
                async for text in _texts(self._connection.pieces(), chunks):
                    yield text
            finally:
                chunks.settle()
                self._connection.settle()
        except TimeoutError as error:
            raise self._failed(FailureKind.TIMEOUT) from error
        except h11.LocalProtocolError as error:  # its text may repeat a header, and so a key
            raise self._failed(FailureKind.CONNECTION) from error
        except (h11.ProtocolError, OSError) as error:
            detail, at = words_of(error), self.base_url
            raise self._failed(FailureKind.CONNECTION, detail=detail, base_url=at) from error

    async def _ask(self, body: dict[str, Any]) -> None:
        """Send a request, and return when a success is on its way; raises `RequestFailed`."""
        if not self._has_options:
            body.pop(OPTIONS, None)
        connection, content = self._connection, jsonl.encode(body)
        response = await connection.post("/chat/completions", self._headers, content)
        if 200 <= response.status_code < 300:
            return None
        text = await _whole(connection.pieces(), MAX_ERROR_BYTES)
        if response.status_code in _REFUSALS and OPTIONS in body and OPTIONS.encode() in text:
            self._has_options = False
            connection.settle()
            return await self._ask(body)
        raise self._refused(response, text)

    def _refused(self, response: h11.Response, text: bytes) -> RequestFailed:
        named = response.headers
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in named}
        status = response.status_code
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
    context = trusted_certificates(env.get("SSL_CERT_FILE"), env.get("SSL_CERT_DIR"))
    context.set_alpn_protocols(["http/1.1"])
    return context


async def _texts(received: AsyncIterator[bytes], chunks: Chunks) -> AsyncIterator[str]:
    """Yield the text of an answer; some servers send it in one piece, whatever was asked for."""
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
    with suppress(OSError, h11.ProtocolError):
        async with asyncio.timeout(REST_SECONDS):
            async for _ in rest:
                pass
