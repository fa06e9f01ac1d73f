"""No secret leaves a child: not in results, not in streams, not in files; real children."""

import json
import os
from pathlib import Path

import pytest

from conftest import MAY_WRITE
from outrider.delegation.api import subagent
from outrider.protocol.results import ToolResult
from outrider.testing import ScriptedModel, answer, drip, fail, tool_call

# Put together here, so that no scanner takes them for real ones.
TOKEN = "ghp_" + "A1b2C3d4" * 5
PASSWORD = "correct" + "-horse-" + "battery9"
VARIABLE = "zq8-" + "very-private-thing"


def everything(result: ToolResult, updates: list[ToolResult]) -> str:
    """All that a caller, a watcher or a reader of the disk could see of a run."""
    folder = Path(result.details.results[0].session_file or "").parent
    texts = [json.dumps(update.to_dict()) for update in [result, *updates]]
    texts += [path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()]
    return "\n".join(texts)


async def run(
    steps: list, task: str = "Look.", agent: str = "explorer", **config: object
) -> tuple[str, ScriptedModel]:
    updates: list[ToolResult] = []
    with ScriptedModel(steps) as server:
        os.environ.update(server.environment)
        result = await subagent(
            agent, task, model=server.model, config=config, on_update=updates.append
        )
    return everything(result, updates), server


async def test_a_token_in_an_answer_is_masked_everywhere(world: Path) -> None:
    text = f'The token is {TOKEN}, the password = "{PASSWORD}".\n' * 20
    seen, _ = await run([tool_call("ls", {}, text=text), answer(text)])
    assert TOKEN not in seen
    assert PASSWORD not in seen
    assert "masked" in seen


async def test_a_token_that_comes_in_pieces_is_masked_in_the_stream(world: Path) -> None:
    text = "Some words first. " * 30 + TOKEN + " and some words after it. " * 30
    seen, _ = await run([drip(text, 0.0)])
    assert TOKEN not in seen
    for size in (16, 24, 32):
        assert TOKEN[:size] not in seen


async def test_a_secret_in_the_task_is_not_echoed(world: Path) -> None:
    seen, server = await run([answer("Fine.")], task=f"Use {TOKEN} please.")
    assert TOKEN not in seen
    assert TOKEN in server.requests[0].last_user_text


async def test_a_secret_in_tool_arguments_is_not_shown(world: Path) -> None:
    seen, _ = await run([tool_call("grep", {"pattern": TOKEN}), answer("None.")])
    assert TOKEN not in seen


async def test_a_secret_that_a_read_only_child_reads_stays_from_its_model(world: Path) -> None:
    (world / "settings.py").write_text(f'API = 1\nDB_PASSWORD = "{PASSWORD}"\n')
    seen, server = await run([tool_call("read", {"path": "settings.py"}), answer("Read.")])
    told = server.requests[1].messages[-1]["content"]
    assert "API = 1" in told
    assert PASSWORD not in told
    assert PASSWORD not in seen


@pytest.mark.parametrize(
    ("setting", "tools", "hidden"),
    [
        ("readonly", "read", True),
        ("readonly", "read, edit", False),
        ("always", "read, edit", True),
        ("never", "read", False),
    ],
)
async def test_what_a_child_reads_is_hidden_from_its_model_as_the_user_set(
    world: Path, setting: str, tools: str, hidden: bool
) -> None:
    folder = world / ".outrider/agents"
    folder.mkdir(parents=True)
    (folder / "worker.md").write_text(f"---\nname: worker\ntools: {tools}\n---\nDo it.\n")
    (world / "settings.py").write_text(f'API = 1\nDB_PASSWORD = "{PASSWORD}"\n')
    config = {"subagents.maskToolResults": setting, **MAY_WRITE}
    steps = [tool_call("read", {"path": "settings.py"}), answer("Read.")]
    seen, server = await run(steps, agent="worker", **config)
    told = server.requests[1].messages[-1]["content"]
    assert "API = 1" in told
    assert (PASSWORD not in told) == hidden
    assert PASSWORD not in seen


KEY = [f"{letter}1bC{'xYz2' * 15}" for letter in "MNOPQRST"]
PEM = ["-----BEGIN PRIVATE " + "KEY-----", *KEY, "-----END PRIVATE " + "KEY-----"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read", {"path": "notes.md"}),
        ("read", {"path": "notes.md", "offset": 5, "limit": 3}),
        ("grep", {"pattern": "BEGIN|Deploy", "context": 20}),
        ("grep", {"pattern": "xYz2|wait", "context": 1}),
    ],
)
async def test_a_private_key_in_the_lines_of_a_file_is_seen_by_nobody(
    world: Path, tool: str, arguments: dict[str, object]
) -> None:
    (world / "notes.md").write_text("\n".join(["Deploy with", *PEM, "and wait."]))
    seen, server = await run([tool_call(tool, arguments), answer("Read.")])
    told = server.requests[1].messages[-1]["content"]
    assert "[masked:private-key]" in told
    assert not any(line in told for line in KEY)
    assert not any(line in seen for line in KEY)


@pytest.mark.usefixtures("start")
async def test_a_value_of_a_secret_variable_is_masked_whatever_it_looks_like(world: Path) -> None:
    os.environ["MY_SERVICE_SECRET"] = VARIABLE
    try:
        seen, _ = await run([answer(f"I found {VARIABLE} somewhere.")])
    finally:
        del os.environ["MY_SERVICE_SECRET"]
    assert VARIABLE not in seen


@pytest.mark.usefixtures("start")
async def test_the_providers_key_is_not_in_what_the_provider_echoes(world: Path) -> None:
    key = "sk-" + "live-" + "k" * 30
    with ScriptedModel([fail(401, message=f"Incorrect API key provided: {key}")]) as server:
        os.environ.update(server.environment, OPENAI_API_KEY=key)
        result = await subagent("explorer", "x", model=server.model)
    assert key not in everything(result, [])


async def test_home_is_a_tilde_and_the_project_is_relative(world: Path) -> None:
    home = os.environ["HOME"]
    seen, _ = await run([answer(f"See {world}/src/a.py and {home}/notes.txt.")])
    assert f"{world}/src" not in seen
    assert "src/a.py" in seen
    assert f"{home}/notes" not in seen
    assert "~/notes.txt" in seen
