"""deepagents: a subagent's graph run in this process by the `task` tool of a deep agent."""

import os
from importlib.metadata import version
from typing import Any

from deepagents import create_deep_agent
from deepagents.middleware.subagents import SubAgentMiddleware
from langchain.tools import ToolRuntime
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from benchmarks.peers.protocol import DESCRIPTION, MODEL, read_note, serve


def main() -> None:
    """Serve delegations."""
    os.chdir(os.environ["BENCH_PROJECT"])
    model = ChatOpenAI(model=MODEL, use_responses_api=False)

    @tool
    def read(path: str) -> str:
        """Read a file."""
        return read_note(path)

    explorer: Any = {
        "name": "explorer",
        "description": DESCRIPTION,
        "system_prompt": "Find the answer in the files.",
        "tools": [read],
        "model": model,
    }
    # The subagent as `create_deep_agent` sets it up, with the tools and middleware of its own.
    captured: list[SubAgentMiddleware] = []
    plain_init = SubAgentMiddleware.__init__

    def capturing(self, *args, **kwargs) -> None:
        plain_init(self, *args, **kwargs)
        captured.append(self)

    SubAgentMiddleware.__init__ = capturing
    parent = create_deep_agent(model, subagents=[explorer])
    SubAgentMiddleware.__init__ = plain_init
    [task_tool] = captured[-1].tools

    async def delegate(task: str) -> str:
        runtime = ToolRuntime(
            state={"messages": []},
            context=None,
            config={"recursion_limit": 10_000},
            stream_writer=lambda _: None,
            tool_call_id="call_0",
            store=None,
        )
        command = await task_tool.coroutine(
            description=task, subagent_type="explorer", runtime=runtime
        )
        return command.update["messages"][0].content

    async def offer(task: str) -> dict[str, Any]:
        await parent.ainvoke({"messages": [{"role": "user", "content": task}]})
        return {"tool": "task"}

    serve(delegate, version=version("deepagents"), offer=offer)


if __name__ == "__main__":
    main()
