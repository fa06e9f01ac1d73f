"""Tools in Python: functions handed over, modules that can't be imported, and their types."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from cli_door import Door
from outrider import DelegationError, delegate, subagent
from outrider.testing import ScriptedModel, answer, tool_call
from outrider.tools import tool

ROOMS = '''
from outrider.tools import tool

@tool("room:seats", writes=False)
def seats(name: str) -> int:
    """Tell how many people a room seats."""
    return len(name)

@tool("room:paint")
def paint(name: str) -> None:
    """Paint a room."""

@tool("file:read", name="read", writes=False)
def read(path: str) -> str:
    """Read."""
    return "ours"

def plain(name: str) -> int:
    return 0

class Desk:
    @tool("desk:size", writes=False)
    def size(self) -> int:
        """Tell its size."""
        return 1
'''


@pytest.fixture
def rooms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: Path, cold: None
) -> Iterator[ModuleType]:
    """A module in a folder that only this process looks in, as in that of its script."""
    folder = tmp_path / "modules"
    folder.mkdir()
    name = f"rooms_{tmp_path.name}"
    (folder / f"{name}.py").write_text(ROOMS)
    monkeypatch.syspath_prepend(folder)
    yield import_module(name)
    del sys.modules[name]


async def test_a_function_is_handed_over_as_a_tool(rooms: ModuleType) -> None:
    with ScriptedModel([tool_call("room_seats", {"name": "blue"}), answer("Four.")]) as server:
        os.environ.update(server.environment)
        given = await delegate("explorer", "How many?", model=server.model, tools=[rooms.seats])
    assert given.output == "Four."
    first, second = server.requests
    assert {"read", "grep", "room_seats"} <= set(first.tool_names)
    assert second.messages[-1]["content"] == "4"


async def test_a_tool_that_writes_is_withheld_from_a_readonly_agent(rooms: ModuleType) -> None:
    with ScriptedModel([answer("No.")]) as server:
        os.environ.update(server.environment)
        result = await subagent("explorer", "Paint.", model=server.model, tools=[rooms.paint])
    [withheld] = [one for one in result.details.results[0].withheld if one.tool == "room_paint"]
    assert withheld.reason == "the agent is readonly"
    assert "room_paint" not in server.requests[0].tool_names


def nested(in_main: bool = False) -> object:
    @tool("test:nested", writes=False)
    def inner() -> int:
        """Be inside."""
        return 0

    if in_main:
        inner.__module__, inner.__qualname__ = "__main__", "inner"
    return inner


async def test_what_a_child_cannot_import_is_refused_before_it_starts(rooms: ModuleType) -> None:
    unnamed = tool("test:unnamed", writes=False)(lambda: 0)
    for function, says in [
        (unnamed, "A child can't import the tool"),
        (nested(), "A child can't import the tool"),
        (nested(in_main=True), "inner from __main__: define it at the top level of a module"),
        (rooms.Desk().size, "A child can't import the tool"),
        (rooms.plain, "decorate it with @tool"),
        (rooms.read, "under a new name"),
        ("text", "decorate it with @tool"),
    ]:
        with pytest.raises(DelegationError, match="INVALID_INPUT") as raised:
            await delegate("explorer", "Go", model="embedded", tools=[function])
        assert says in str(raised.value), function
        assert raised.value.result.details.results == ()


async def test_a_module_that_cannot_be_imported_is_told_in_the_result(rooms: ModuleType) -> None:
    config = {"tools.modules": ["nowhere_at_all", rooms.__name__]}
    with ScriptedModel([answer("Done.")]) as server:
        os.environ.update(server.environment)
        done = await delegate("explorer", "Go", model=server.model, config=config)
    warnings = " ".join(done.result.details.results[0].warnings)
    assert "nowhere_at_all of tools.modules can't be loaded: ModuleNotFoundError" in warnings


def test_the_command_tells_of_a_broken_module_too(tmp_path: Path, warm_runtime: Path) -> None:
    door = Door(tmp_path, warm_runtime)
    door.write_config({"tools": {"modules": ["nowhere_at_all"]}})
    ended = door.run("run", "explorer", "Where?", "--model", "embedded", "--json")
    [result] = ended.json["details"]["results"]
    assert any("nowhere_at_all" in warning for warning in result["warnings"])


def test_the_first_example_of_the_docs_passes_a_type_checker(tmp_path: Path) -> None:
    text = (Path(__file__).parent.parent / "docs/tools.md").read_text()
    (tmp_path / "my_rooms.py").write_text(text.split("```python\n")[1].split("```")[0])
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    checker = Path(sys.executable).parent / "basedpyright"
    command = [checker, "--pythonpath", sys.executable, "--warnings"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
