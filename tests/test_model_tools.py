"""Delegation as a tool of agents in Python, with the real SDKs."""

import os

import pytest
from anthropic import AsyncAnthropic
from benchmarks.messages_wire import TwoWires
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import outrider
from outrider.testing import answer, tool_call

TASK = {"agent": "explorer", "task": "Where is main?"}
CONFIG = {"model": "embedded"}


@pytest.fixture
def model(world):
    """A model that delegates once, and then says what it was told."""
    (world / "app.py").write_text('def main():\n    """The entry point."""\n')

    def step(request):
        return answer("It is there.") if request.turn else tool_call("subagent", TASK)

    with TwoWires(step) as server:
        yield server


async def test_pydantic_ai_delegates_with_the_toolset(model):
    async with AsyncOpenAI(base_url=model.base_url, api_key="any") as client:
        chat = OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client))
        agent = Agent(chat, toolsets=[outrider.toolset(config=CONFIG)])
        result = await agent.run("Where is main?")
    assert result.output == "It is there."
    [told] = [one for one in model.requests[1].messages if one["role"] == "tool"]
    assert "app.py" in told["content"]
    assert "explorer" in str(model.requests[0].tools)


async def test_openai_delegates_with_the_tool(model):
    tool = outrider.openai_tool(config=CONFIG)
    messages = [{"role": "user", "content": "Where is main?"}]
    asked = {"model": "scripted", "tools": [tool.schema], "messages": messages}
    async with AsyncOpenAI(base_url=model.base_url, api_key="any") as client:
        said = (await client.chat.completions.create(**asked)).choices[0].message
        messages += [said, *[await tool.answer(call) for call in said.tool_calls]]
        said = (await client.chat.completions.create(**asked)).choices[0].message
    assert said.content == "It is there." and "app.py" in messages[-1]["content"]


async def test_anthropic_delegates_with_the_tool(model):
    tool = outrider.anthropic_tool(config=CONFIG)
    messages = [{"role": "user", "content": "Where is main?"}]
    asked = {"model": "scripted", "max_tokens": 500, "tools": [tool.schema], "messages": messages}
    address = model.base_url.removesuffix("/v1")
    async with AsyncAnthropic(base_url=address, api_key="any") as client:
        async with client.messages.stream(**asked) as stream:
            said = await stream.get_final_message()
        messages += [{"role": "assistant", "content": said.content}, await tool.answer(said)]
        async with client.messages.stream(**asked) as stream:
            said = await stream.get_final_message()
    assert said.content[0].text == "It is there."
    [result] = messages[-1]["content"]
    assert "app.py" in result["content"] and not result["is_error"]


async def test_what_a_model_asks_for_wrongly_is_told_to_it(world):
    from types import SimpleNamespace as Said

    call = Said(id="1", function=Said(arguments='{"agent": "nobody", "task": "x"}'))
    message = await outrider.openai_tool().answer(call)
    assert message["tool_call_id"] == "1" and "Unknown agent: nobody" in message["content"]
    block = Said(type="tool_use", name="subagent", id="2", input={"agent": "explorer"})
    message = await outrider.anthropic_tool().answer(Said(content=[block]))
    [result] = message["content"]
    assert result["is_error"] and "Missing: task" in result["content"]
    assert not os.path.exists(os.environ["OUTRIDER_HOME"])
