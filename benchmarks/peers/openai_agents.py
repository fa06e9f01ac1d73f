"""openai-agents: an agent as a tool, run in this process."""

import json
import os
from importlib.metadata import version
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from agents.tool_context import ToolContext
from openai import AsyncOpenAI

from benchmarks.peers.protocol import DESCRIPTION, MODEL, read_note, serve


def main() -> None:
    """Serve delegations."""
    os.chdir(os.environ["BENCH_PROJECT"])
    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel(MODEL, AsyncOpenAI())

    @function_tool
    def read(path: str) -> str:
        """Read a file."""
        return read_note(path)

    child = Agent(
        name="explorer", instructions="Find the answer in the files.", tools=[read], model=model
    )
    tool = child.as_tool("explorer", DESCRIPTION, max_turns=1_000)
    parent = Agent(name="parent", tools=[tool], model=model)

    async def delegate(task: str) -> str:
        arguments = json.dumps({"input": task})
        context = ToolContext(
            None, tool_name="explorer", tool_call_id="call_0", tool_arguments=arguments
        )
        return str(await tool.on_invoke_tool(context, arguments))

    async def offer(task: str) -> dict[str, Any]:
        await Runner.run(parent, task)
        return {"tool": "explorer"}

    serve(delegate, version=version("openai-agents"), offer=offer)


if __name__ == "__main__":
    main()
