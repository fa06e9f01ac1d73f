"""What is refused before a child starts: the right code, one clear line, and no child."""

import asyncio
import os
from pathlib import Path

import pytest

from outrider.agents.definitions import AgentDefinition
from outrider.delegation.api import DelegationError, delegate, subagent, subagent_sync
from outrider.delegation.depth import current_depth
from outrider.delegation.perform import Caller, perform
from outrider.delegation.request import Request
from outrider.protocol.errors import ErrorCode
from outrider.protocol.results import ToolResult


def assert_refused(result: ToolResult, code: ErrorCode, *words: str, mode: str = "single") -> None:
    assert result.details.error is not None
    assert result.details.error.code is code
    assert result.details.results == ()
    assert result.details.mode == mode
    assert result.details.run_id is None
    assert "\n" not in result.text
    assert result.text == result.details.error.message
    for word in words:
        assert word in result.text
    runs = Path(os.environ["OUTRIDER_HOME"]) / "runs"
    assert not runs.exists() or not list(runs.iterdir())


BAD_INPUT = {
    "an empty agent": ({"agent": "", "task": "x"}, "agent is empty"),
    "a blank task": ({"agent": "explorer", "task": " \n"}, "task is empty. Say what to do."),
    "a schema that is a number": (
        {"agent": "explorer", "task": "x", "output_schema": 7},
        "this is a number",
    ),
    "an agent that is no text": ({"agent": 7, "task": "x"}, "agent must be a string, not a number"),
    "a task that is no text": (
        {"agent": "explorer", "task": ["x"]},
        "task must be a string, not a list",
    ),
    "a NUL in the task": ({"agent": "explorer", "task": "a\0b"}, "NUL"),
    "a lone surrogate in the task": ({"agent": "explorer", "task": "a\ud800b"}, "Unicode"),
    "a task of 10 MB": ({"agent": "explorer", "task": "x" * 10_000_000}, "10,000,000 bytes"),
    "an agent of 10 MB": ({"agent": "x" * 10_000_000, "task": "x"}, "the limit is 200"),
    "a missing folder": ({"agent": "explorer", "task": "x", "cwd": "/no/such"}, "/no/such"),
    "a file for a folder": ({"agent": "explorer", "task": "x", "cwd": "/etc/passwd"}, "folder"),
    "a NUL in the folder": ({"agent": "explorer", "task": "x", "cwd": "a\0"}, "directory"),
    "a model without a provider": ({"agent": "explorer", "task": "x", "model": "gpt"}, "provider"),
    "a provider nobody knows": ({"agent": "explorer", "task": "x", "model": "oops:a"}, "oops"),
    "a provider without its key": (
        {"agent": "explorer", "task": "x", "model": "openai:gpt-5"},
        "OPENAI_API_KEY",
    ),
    "a setting that doesn't exist": (
        {"agent": "explorer", "task": "x", "config": {"subagents.timeoutms": 1}},
        "subagents.timeoutMs",
    ),
    "a schema that is none": (
        {"agent": "explorer", "task": "x", "output_schema": {"type": "strnig"}},
        "output_schema",
    ),
    "a schema that wants the network": (
        {"agent": "explorer", "task": "x", "output_schema": {"$ref": "http://example.com/s"}},
        "output_schema",
    ),
    "a schema from the file system": (
        {"agent": "explorer", "task": "x", "output_schema": {"$ref": "file:///etc/passwd"}},
        "output_schema",
    ),
}


@pytest.mark.parametrize("name", BAD_INPUT)
async def test_bad_input_is_refused(world: Path, name: str) -> None:
    arguments, words = BAD_INPUT[name]
    assert_refused(await subagent(**arguments), ErrorCode.INVALID_INPUT, words)


async def test_an_unknown_agent_is_answered_with_those_there_are(world: Path) -> None:
    result = await subagent("explorrer", "x")
    assert_refused(
        result,
        ErrorCode.UNKNOWN_AGENT,
        "Unknown agent: explorrer. Available agents: ",
        "explorer",
        "implementer",
        "researcher",
        "reviewer",
        "tester",
    )


async def test_an_unusable_agent_file_is_named(world: Path) -> None:
    folder = world / ".outrider/agents"
    folder.mkdir(parents=True)
    (folder / "mine.md").write_bytes(b"---\nname: mine\n---\n\xff\xfe")
    result = await subagent("mine", "x")
    assert_refused(result, ErrorCode.UNKNOWN_AGENT, "mine.md")


async def test_delegation_can_be_switched_off(world: Path) -> None:
    result = await subagent("explorer", "x", config={"subagents.enabled": False})
    assert_refused(result, ErrorCode.SUBAGENTS_DISABLED, "subagents.enabled")


async def test_an_agent_can_be_switched_off(world: Path) -> None:
    result = await subagent("tester", "x", config={"subagents.disabled": ["tester"]})
    assert_refused(result, ErrorCode.SUBAGENT_DISABLED, "tester")


async def test_a_project_can_switch_an_agent_off(world: Path) -> None:
    (world / ".outrider").mkdir()
    (world / ".outrider/config.json").write_text('{"subagents": {"disabled": ["tester"]}}')
    assert_refused(await subagent("tester", "x"), ErrorCode.SUBAGENT_DISABLED, "tester")


@pytest.mark.parametrize(
    ("env", "depth"),
    [
        ({}, 0),
        ({"PI_SUBAGENT_CHILD": "1"}, 1),
        ({"OUTRIDER_SUBAGENT_CHILD": "1"}, 1),
        ({"OUTRIDER_SUBAGENT_DEPTH": "3"}, 3),
        ({"OUTRIDER_SUBAGENT_DEPTH": "0", "PI_SUBAGENT_CHILD": "1"}, 1),
        ({"OUTRIDER_SUBAGENT_DEPTH": "-7", "OUTRIDER_SUBAGENT_CHILD": "1"}, 1),
        ({"OUTRIDER_SUBAGENT_DEPTH": "9" * 5000, "OUTRIDER_SUBAGENT_CHILD": "1"}, 1),
    ],
)
def test_depth_is_read_so_that_doubt_counts_as_deep(env: dict[str, str], depth: int) -> None:
    assert current_depth(env) == depth


@pytest.mark.parametrize("name", ["PI_SUBAGENT_CHILD", "OUTRIDER_SUBAGENT_DEPTH"])
async def test_a_child_does_not_delegate(
    world: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")
    result = await subagent("explorer", "x")
    assert_refused(result, ErrorCode.SUBAGENT_DEPTH_EXCEEDED, "maxDepth", mode="management")


PROJECT_AGENT = "---\nname: local\ntools: read, fetch_content, bash\n---\nDo it.\n"


@pytest.fixture
def with_project_agent(world: Path) -> Path:
    folder = world / ".outrider/agents"
    folder.mkdir(parents=True)
    (folder / "local.md").write_text(PROJECT_AGENT)
    return world


async def test_a_repositorys_agent_can_be_denied(with_project_agent: Path) -> None:
    result = await subagent("local", "x", config={"subagents.projectAgentPolicy": "deny"})
    assert_refused(result, ErrorCode.SUBAGENT_DISABLED, "projectAgentPolicy")
    result = await subagent("local", "x", config={"subagents.nonInteractivePolicy": "deny"})
    assert_refused(result, ErrorCode.SUBAGENT_DISABLED, "nonInteractivePolicy")


async def test_a_repositorys_agent_is_not_run_against_a_no(with_project_agent: Path) -> None:
    asked: list[str] = []

    async def no(agent: AgentDefinition, question: str) -> bool:
        asked.append(f"{agent.name}: {question}")
        return False

    result = await perform(Request("local", "x"), Caller(os.environ, confirm=no))
    assert_refused(result, ErrorCode.SUBAGENT_DISABLED, "not confirmed")
    assert len(asked) == 1 and "local.md" in asked[0]


async def test_a_state_folder_that_cannot_be_written_is_a_failure_in_words(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_HOME", "/proc/nowhere")
    result = await subagent("explorer", "x")
    assert result.details.error is not None
    assert result.details.error.code is ErrorCode.SUBAGENT_FAILED
    assert "/proc/nowhere" in result.text


async def test_delegate_raises_what_subagent_returns(world: Path) -> None:
    with pytest.raises(DelegationError) as raised:
        await delegate("nobody", "x")
    assert raised.value.code is ErrorCode.UNKNOWN_AGENT
    assert raised.value.result.details.error is not None


async def test_the_form_without_a_loop_says_what_to_do_within_one(world: Path) -> None:
    with pytest.raises(RuntimeError, match="await subagent"):
        subagent_sync("explorer", "x")


def test_admission_serves_one_event_loop_after_the_other(world: Path) -> None:
    for _ in range(2):
        asyncio.run(subagent("nobody", "x"))
