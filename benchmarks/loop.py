"""Prints when each turn of a long task starts, with a model in the same process and no wire.

python -m benchmarks.loop TURNS
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from outrider.child.main import run_task
from outrider.protocol.brief import Brief
from outrider.protocol.budget import Budget
from outrider.protocol.events import Event, TurnStartEvent
from outrider.protocol.outcomes import Outcome
from outrider.settings.keys import BudgetConfig


class FinishingModel(FunctionModel):
    """A model that is a function, and reports a finish reason as real ones do."""

    @asynccontextmanager
    async def request_stream(self, *args: Any, **options: Any) -> AsyncIterator[StreamedResponse]:
        """Stream what the function says."""
        async with super().request_stream(*args, **options) as stream:
            stream.finish_reason = "stop"
            yield stream


async def starts_of_turns(turns: int, folder: Path) -> list[float]:
    """Return when each turn of a task began; every turn but the last reads a small file."""
    (folder / "note.txt").write_text("The note says: all is well.\n")
    starts: list[float] = []

    async def reply(
        _messages: list[ModelMessage], _info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls]:
        number = len(starts)
        if number >= turns:
            yield "Done."
        else:
            call = DeltaToolCall("read", '{"path": "note.txt"}', tool_call_id=f"call_{number}")
            yield {0: call}

    def emit(event: Event) -> None:
        if isinstance(event, TurnStartEvent):
            starts.append(time.monotonic())

    limits = BudgetConfig(max_turns=turns + 1)
    brief = Brief(
        "00000000", "bench", "You.", "Go.", "bench", str(folder), tools=("read",), budget=limits
    )
    model = FinishingModel(stream_function=reply)
    finish = await run_task(brief, model, emit, Budget(limits), time.monotonic())
    assert finish.outcome is Outcome.COMPLETED, finish
    return starts


def main() -> None:
    """Print the times as JSON."""
    turns = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(starts_of_turns(20, Path(name)))
        print(json.dumps(asyncio.run(starts_of_turns(turns, Path(name)))))


if __name__ == "__main__":
    main()
