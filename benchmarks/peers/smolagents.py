"""smolagents: a managed agent, run in a thread of this process."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

from smolagents import LogLevel, OpenAIModel, ToolCallingAgent, tool

from benchmarks.peers.protocol import DESCRIPTION, MODEL, read_note, serve


@tool
def read(path: str) -> str:
    """Read a file.

    Args:
        path: Which file.
    """
    return read_note(path)


class Managed:
    """One managed agent and one thread for each task: an agent can do one thing at a time."""

    def __init__(self) -> None:
        self._model = OpenAIModel(MODEL, api_base=os.environ["OPENAI_BASE_URL"], api_key="none")
        self._idle: list[ToolCallingAgent] = []
        self._threads = ThreadPoolExecutor(1_000)

    def agent(self) -> ToolCallingAgent:
        """Return a new agent that can be managed."""
        return ToolCallingAgent(
            [read],
            self._model,
            name="explorer",
            description=DESCRIPTION,
            max_steps=1_000,
            verbosity_level=LogLevel.OFF,
        )

    async def prepare(self, tasks: int, _concurrent: int | None) -> None:
        """Have an agent ready for each task."""
        self._idle += [self.agent() for _ in range(tasks - len(self._idle))]

    async def delegate(self, task: str) -> str:
        """Return the report of a managed agent."""
        agent = self._idle.pop()
        loop = asyncio.get_running_loop()
        try:
            return str(await loop.run_in_executor(self._threads, agent, task))
        finally:
            self._idle.append(agent)

    async def offer(self, task: str) -> dict[str, Any]:
        """Let a parent ask the model once."""
        parent = ToolCallingAgent(
            [], self._model, managed_agents=[self.agent()], verbosity_level=LogLevel.OFF
        )
        await asyncio.to_thread(parent.run, task)
        return {"tool": "explorer"}


def main() -> None:
    """Serve delegations."""
    os.chdir(os.environ["BENCH_PROJECT"])
    managed = Managed()
    serve(
        managed.delegate,
        version=version("smolagents"),
        offer=managed.offer,
        prepare=managed.prepare,
    )


if __name__ == "__main__":
    main()
