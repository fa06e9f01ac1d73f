"""The rehearsal: one task through the same code as any other, with a scripted model on loopback.

What is imported, compiled and cached here, every forked child has for free.
"""

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from outrider import agents
from outrider.child.confinement import cells_for
from outrider.child.emitter import Emitter
from outrider.child.main import run_task
from outrider.models.building import build_model
from outrider.models.cost import remember_price
from outrider.models.failures import ModelUnavailable
from outrider.models.messages import ChatModel
from outrider.models.resolution import needs
from outrider.models.wires import Wire
from outrider.protocol import jsonl
from outrider.protocol.brief import Brief, Start
from outrider.protocol.budget import Budget
from outrider.protocol.data import from_json, to_json
from outrider.protocol.events import SessionEvent
from outrider.protocol.isolation import Isolation
from outrider.settings.keys import LspConfig
from outrider.testing import ScriptedModel, answer, tool_call
from outrider.workspaces.run_walls import walls_for

_MODEL = "gpt-4o"
"""A model with a price, so that the price is looked up too."""

_TOOLS = ("read", "grep", "find", "ls", "lsp")
_CALLS = {"grep": {"pattern": "x"}, "read": {"path": "explorer.md"}}


def load_model(loads: str) -> None:
    """Build a model once of a wire of ours or of a provider, with a key that opens nothing."""
    names: dict[str, str] = {Wire.LEAN: "openai-chat:any", Wire.EMBEDDED: Wire.EMBEDDED}
    model = names.get(loads, f"{loads}:any")
    remember_price(model)
    with suppress(ModelUnavailable):
        _build(model, dict.fromkeys(needs(model), "none"), _wire(loads))


def rehearse(loads: str, *tools: str) -> None:
    """Do one small task with these tools; it reads a folder of ours and writes nothing."""
    folder = str(Path(agents.__file__).parent / "builtin")
    told = Brief("00000000", "warm", "You.", "Go.", "warm", folder, tools=_TOOLS)
    told = replace(told, isolation="readonly", lsp=to_json(LspConfig()))
    brief = from_json(Start, jsonl.decode(jsonl.encode(to_json(Start(told, {}))))).brief
    steps = [tool_call(tool, _CALLS[tool]) for tool in tools]
    with (
        ScriptedModel([*steps, answer("Warm.")], name=_MODEL) as server,
        open(os.devnull, "wb") as nowhere,
    ):
        emit = Emitter(nowhere.fileno())
        walls_for(brief, os.environ)
        emit(SessionEvent(brief.run_id, brief.agent, brief.model, brief.cwd, Isolation()))
        cells_for(brief, Isolation(), emit)
        model = _build(server.model, server.environment, _wire(loads))
        budget = Budget(brief.budget)
        emit(asyncio.run(run_task(brief, model, emit, budget, time.monotonic())))


def _wire(loads: str) -> str:
    return loads if loads in (Wire.LEAN, Wire.EMBEDDED) else Wire.SDK


def _build(model: str, variables: dict[str, str], wire: str) -> ChatModel:
    """Return a model built in an environment with these variables, which are then removed."""
    os.environ.update(variables)
    try:
        return build_model(model, wire=wire)
    finally:
        for name in variables:
            del os.environ[name]
