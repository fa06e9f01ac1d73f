"""Warming up: one task through the same code as any other, against a provider that isn't there.

What is imported, compiled and cached here, each forked child has for nothing.
"""

import asyncio
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import httpx2
from openai import AsyncOpenAI
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from outrider.child.budget import Budget
from outrider.child.main import run_task
from outrider.models.failures import ModelUnavailable
from outrider.models.providers import build_model
from outrider.models.resolution import needs
from outrider.protocol.brief import Brief
from outrider.protocol.events import Event

_CHUNK = (
    'data: {{"id":"0","object":"chat.completion.chunk","created":0,"model":"m","choices":[{}]}}\n\n'
)
_CALL = _CHUNK.format(
    '{"index":0,"finish_reason":"tool_calls","delta":{"role":"assistant","tool_calls":[{"index":0,'
    '"id":"0","type":"function","function":{"name":"grep","arguments":"{\\"pattern\\":\\"warm\\"}"}}]}}'
)
_ANSWER = _CHUNK.format('{"index":0,"finish_reason":"stop","delta":{"content":"Warm."}}')


def exercise(provider: str) -> None:
    """Do one small task, and load what `provider` needs."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.txt").write_text("warm\n")
        brief = Brief("00000000", "warm", "You.", "Go.", "warm", folder, tools=("grep",))
        budget = Budget(brief.budget)
        asyncio.run(run_task(brief, _pretended(), _ignore, budget, time.monotonic()))
    _load(provider)


def _ignore(_event: Event) -> None:
    """Nobody listens."""


def _pretended() -> Model:
    answers = iter((_CALL, _ANSWER))

    def respond(_request: httpx2.Request) -> httpx2.Response:
        body = f"{next(answers)}data: [DONE]\n\n"
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=body)

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(respond))
    client = AsyncOpenAI(api_key="none", base_url="http://127.0.0.1:1", http_client=http)
    return OpenAIChatModel("warm", provider=OpenAIProvider(openai_client=client))


def _load(provider: str) -> None:
    """Build a model of this provider once, with a key that opens nothing."""
    names = needs(f"{provider}:any")
    os.environ.update(dict.fromkeys(names, "none"))
    with suppress(ModelUnavailable):
        build_model(f"{provider}:any")
    for name in names:
        del os.environ[name]
