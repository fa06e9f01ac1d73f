"""The rehearsal: one task through the same code as any other, with a scripted model on loopback.

What is imported, compiled and cached here, every forked child has for free.
"""

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path

from pydantic_ai.models import Model

from outrider import agents
from outrider.child.main import run_task
from outrider.models.building import build_model
from outrider.models.failures import ModelUnavailable
from outrider.models.resolution import is_embedded, needs
from outrider.protocol.brief import Brief
from outrider.protocol.budget import Budget
from outrider.testing import ScriptedModel, answer, tool_call

_MODEL = "gpt-4o"
"""A model with a price, so that the price is looked up too."""

_CALLS = {"grep": {"pattern": "x"}, "read": {"path": "explorer.md"}}


def load_provider(provider: str) -> None:
    """Build a model of this provider once, with a key that opens nothing."""
    model = provider if is_embedded(provider) else f"{provider}:any"
    with suppress(ModelUnavailable):
        _build(model, dict.fromkeys(needs(model), "none"))


def rehearse(*tools: str) -> None:
    """Do one small task with these tools; it reads a folder of ours and writes nothing."""
    folder = Path(agents.__file__).parent / "builtin"
    brief = Brief("00000000", "warm", "You.", "Go.", "warm", str(folder), tools=tools)
    steps = [tool_call(tool, _CALLS[tool]) for tool in tools]
    with ScriptedModel([*steps, answer("Warm.")], name=_MODEL) as server:
        model = _build(server.model, server.environment)
        budget = Budget(brief.budget)
        asyncio.run(run_task(brief, model, lambda _event: None, budget, time.monotonic()))


def _build(model: str, variables: dict[str, str]) -> Model:
    """Return a model built in an environment with these variables, which are then removed."""
    os.environ.update(variables)
    try:
        return build_model(model)
    finally:
        for name in variables:
            del os.environ[name]
