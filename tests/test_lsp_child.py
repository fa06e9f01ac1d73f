"""A real child asks a real server, which ends with it, however it ends."""

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import psutil
import pytest

from conftest import wait_until
from lsp_tool import FAULTY, PROJECTS
from outrider import Outcome, subagent
from outrider.settings.keys import PRIVILEGED_LSP_ACTIONS
from outrider.testing import ScriptedModel, answer, tool_call

GUARDIAN = "outrider-guard"
CALL = {"action": "definition", "path": "shapes/app.py", "line": 16, "symbol": "total"}


def servers_of(project: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(project) and process.cmdline()[1:2] in (
                ["server"],
                [str(FAULTY)],
            ):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def results(server: ScriptedModel) -> list[str]:
    return [json.dumps(one.body) for one in server.requests]


@pytest.fixture
def python(world: Path) -> Path:
    shutil.copytree(PROJECTS / "python", world, dirs_exist_ok=True)
    return world


async def test_a_child_finds_a_definition(start: str, python: Path) -> None:
    with ScriptedModel([tool_call("lsp", CALL), answer("Found.")]) as server:
        os.environ.update(server.environment)
        result = await subagent("explorer", "Where is total?", model=server.model)
    run = result.details.results[0]
    assert run.outcome is Outcome.COMPLETED and run.withheld == ()
    assert "25:5  def total(shapes: list[Shape]) -> float:" in results(server)[-1]
    assert set(run.receipt["filesRead"]) == {"shapes/app.py", "shapes/base.py"}
    wait_until(lambda: not servers_of(python), "the child's server")


async def test_a_child_is_offered_the_actions_that_are_allowed(cold: None, python: Path) -> None:
    os.environ["OUTRIDER_SUBAGENTS__ALLOWED_LSP_ACTIONS"] = "hover,symbols"
    refused = tool_call("lsp", {"action": "references", "path": "shapes/app.py", "symbol": "total"})
    with ScriptedModel([refused, answer("Done.")]) as server:
        os.environ.update(server.environment)
        await subagent("explorer", "Where is it?", model=server.model)
    [lsp] = [one["function"] for one in server.requests[0].body["tools"] if "lsp" in str(one)]
    assert lsp["parameters"]["properties"]["action"]["enum"] == ["hover", "symbols"]
    assert "allowedLspActions doesn't list it" in results(server)[-1]


async def test_what_changes_files_is_denied_in_a_child_whatever_the_settings_say(
    cold: None, python: Path
) -> None:
    os.environ["OUTRIDER_LSP__TOOL__ALLOW_MUTATING_ACTIONS"] = "true"
    os.environ["OUTRIDER_SUBAGENTS__ALLOW_WRITE"] = "true"
    asked = {"path": "shapes/base.py", "symbol": "total", "newName": "x"}
    calls = [tool_call("lsp", {**asked, "action": one}) for one in PRIVILEGED_LSP_ACTIONS]
    with ScriptedModel([*calls, answer("Done.")]) as server:
        os.environ.update(server.environment)
        await subagent("explorer", "Rename it.", model=server.model)
    assert results(server)[-1].count("never open to a child") == len(PRIVILEGED_LSP_ACTIONS)
    assert "def total(" in (python / "shapes/base.py").read_text()


async def test_a_server_that_hangs_ends_with_a_child_that_is_killed(
    cold: None, python: Path
) -> None:
    home = Path(os.environ["HOME"]) / ".config/outrider"
    home.mkdir(parents=True)
    servers = {"faulty": {"command": [sys.executable, str(FAULTY), "hang"], "fileTypes": [".py"]}}
    (home / "config.json").write_text(json.dumps({"lsp": {"servers": servers}}))
    asked = {"action": "hover", "path": "shapes/app.py", "line": 1, "column": 1}
    with ScriptedModel([tool_call("lsp", asked)], repeat=True) as server:
        os.environ.update(server.environment)
        running = asyncio.create_task(subagent("explorer", "Where?", model=server.model))
        while not (found := servers_of(python)):
            await asyncio.sleep(0.02)
        child = next(one for one in found[0].parents() if one.parent().name() == GUARDIAN)
        os.kill(child.pid, signal.SIGKILL)
        result = await running
    assert result.details.results[0].outcome is Outcome.FAILED
    wait_until(lambda: not servers_of(python), "the server that hangs")
