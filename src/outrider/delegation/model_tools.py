"""Delegation as a tool of an agent that is written in Python, with the SDK that it uses."""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from outrider.delegation.perform import Caller
from outrider.delegation.profiles import SubAgentManager, SubAgentTool, sub_agent_profile
from outrider.delegation.project import open_project
from outrider.protocol.data import frozen

if TYPE_CHECKING:
    from pydantic_ai import FunctionToolset

Cwd = str | os.PathLike[str] | None
Settings = Mapping[str, object] | None
Json = dict[str, Any]


@frozen
class ModelTool:
    """A tool as an SDK takes it: its schema, and a call that does what the model asked for."""

    schema: Json
    answer: Callable[[Any], Awaitable[Json]]  # returns the message to send back


def _subagent(cwd: Cwd, config: Settings) -> SubAgentTool:
    project = open_project(cwd, os.environ, config)
    manager = SubAgentManager(project.folder, Caller(os.environ, config))
    return SubAgentTool(sub_agent_profile("subagent"), manager, tuple(project.discovery.agents))


def toolset(*, cwd: Cwd = None, config: Settings = None) -> "FunctionToolset[Any]":
    """Return the tool `subagent` for pydantic-ai's `Agent(toolsets=[…])`."""
    from pydantic_ai import FunctionToolset, Tool

    tool = _subagent(cwd, config)

    async def subagent(**arguments: Any) -> str:
        return (await tool.call(arguments)).text

    made = Tool[Any].from_schema(subagent, tool.name, tool.description, tool.parameters)
    return FunctionToolset([made])


def openai_tool(*, cwd: Cwd = None, config: Settings = None) -> ModelTool:
    """Return the tool for OpenAI's chat completions; `answer` takes one of the tool calls."""
    tool = _subagent(cwd, config)

    async def answer(call: Any) -> Json:
        result = await tool.call(call.function.arguments)
        return {"role": "tool", "tool_call_id": call.id, "content": result.text}

    about = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return ModelTool({"type": "function", "function": about}, answer)


def anthropic_tool(*, cwd: Cwd = None, config: Settings = None) -> ModelTool:
    """Return the tool for Anthropic's messages; `answer` takes the model's message, whole."""
    tool = _subagent(cwd, config)

    async def answer(message: Any) -> Json:
        results: list[Json] = []
        for block in message.content:
            if block.type == "tool_use" and block.name == tool.name:
                done = await tool.call(block.input)
                answered = {"tool_use_id": block.id, "content": done.text}
                results.append({"type": "tool_result", **answered, "is_error": not done.completed})
        return {"role": "user", "content": results}

    about = {"name": tool.name, "description": tool.description}
    return ModelTool({**about, "input_schema": tool.parameters}, answer)
