"""Prints when each turn of a long task starts, with a model in the same process and no wire.

python -m benchmarks.loop TURNS
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from outrider.child.main import run_task
from outrider.models.endings import StopReason
from outrider.models.messages import ModelAnswer, ModelCall
from outrider.protocol.brief import Brief
from outrider.protocol.budget import Budget
from outrider.protocol.events import Event, TurnStartEvent
from outrider.protocol.outcomes import Outcome
from outrider.settings.keys import BudgetConfig


class ReadingModel:
    """A model in this process: it reads a small file in every turn but the last."""

    name = provider = "bench"
    base_url = None
    takes_schema = has_native = False

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self.starts: list[float] = []
        """When each turn began."""

    def emit(self, event: Event) -> None:
        """Note the start of a turn."""
        if isinstance(event, TurnStartEvent):
            self.starts.append(time.monotonic())

    async def stream(
        self, _messages: object, _tools: object, _schema: object, answer: ModelAnswer
    ) -> AsyncIterator[str]:
        """Call the tool, or say the end."""
        number = len(self.starts)
        is_last = number >= self._turns
        answer.endings = [StopReason.DONE if is_last else StopReason.CALLED]
        if not is_last:
            call = {"path": "note.txt", "limit": number + 1}  # the same again would end the run
            answer.calls = [ModelCall(f"call_{number}", "read", call)]
        yield "Done." if is_last else ""


async def starts_of_turns(turns: int, folder: Path) -> list[float]:
    """Return when each turn of a task began."""
    (folder / "note.txt").write_text("The note says: all is well.\n")
    limits = BudgetConfig(max_turns=turns + 1)
    brief = Brief(
        "00000000", "bench", "You.", "Go.", "bench", str(folder), tools=("read",), budget=limits
    )
    model = ReadingModel(turns)
    finish = await run_task(brief, model, model.emit, Budget(limits), time.monotonic())
    assert finish.outcome is Outcome.COMPLETED, finish
    return model.starts


def main() -> None:
    """Print the times as JSON."""
    turns = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(starts_of_turns(20, Path(name)))
        print(json.dumps(asyncio.run(starts_of_turns(turns, Path(name)))))


if __name__ == "__main__":
    main()
