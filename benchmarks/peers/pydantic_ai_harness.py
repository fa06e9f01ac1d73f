"""pydantic-ai-harness: a child agent run in this process by the delegate tool of `SubAgents`."""

import os
from importlib.metadata import version
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RunUsage, UsageLimits
from pydantic_ai_harness.subagents import SubAgent, SubAgents

from benchmarks.peers.protocol import DESCRIPTION, MODEL, read_note, serve


def main() -> None:
    """Serve delegations."""
    os.chdir(os.environ["BENCH_PROJECT"])
    model = OpenAIChatModel(MODEL)
    child = Agent(model, name="explorer", instructions="Find the answer in the files.")

    @child.tool_plain
    def read(path: str) -> str:
        """Read a file."""
        return read_note(path)

    limits = UsageLimits(request_limit=1_000)
    worker = SubAgent(child, description=DESCRIPTION, usage_limits=limits)
    capability = SubAgents(agents=[worker])
    toolset: Any = capability.get_toolset()

    async def delegate(task: str) -> str:
        context = RunContext(deps=None, model=model, usage=RunUsage())
        return await toolset.delegate_task(context, "explorer", task)

    async def offer(task: str) -> dict[str, Any]:
        await Agent(model, capabilities=[capability]).run(task)
        return {"tool": "delegate_task"}

    serve(delegate, version=version("pydantic-ai-harness"), offer=offer)


if __name__ == "__main__":
    main()
