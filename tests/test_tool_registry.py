"""What `@tool` makes of functions, methods, modules and packages."""

import asyncio
import enum
import importlib
import json
import subprocess
import sys
import textwrap
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.protocol.tool_catalogue import CATALOGUE, CatalogueEntry
from outrider.tools import build_error_response, build_success_response, tool
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor
from outrider.tools.loading import builtin_tools, load_tools
from outrider.tools.registry import Tool, collect_tools, tool_of


class Edit(TypedDict):
    oldText: str
    newText: str
    all: NotRequired[Annotated[bool, "Every place."]]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int


@tool("text:search", writes=False)
async def search(
    where: ToolContext,
    pattern: Annotated[str, "What to look for."],
    ignore_case: bool = False,
    context: int | None = None,
    kinds: list[Literal["file", "folder"]] | None = None,
    edits: list[Edit] | None = None,
) -> str:
    """Search for text
    in the tree.

    More that models don't need.

    Args:
        ignore_case: Whether upper and lower case
            are the same.
        context (int): Lines around a match.

    Returns:
        nothing: of interest.
    """
    return f"{pattern} {ignore_case} {context} {kinds} {where.cwd.name}"


def made(function: Any) -> Tool:
    found = tool_of(function)
    assert found is not None
    return found


def executor(*functions: Any, cwd: Path = Path("/"), **options: Any) -> ToolExecutor:
    return ToolExecutor(collect_tools(list(functions)), ToolContext(cwd=cwd), **options)


def test_a_schema_is_published_from_signature_and_docstring():
    found = made(search)
    assert (found.name, found.resource, found.action) == ("text_search", "text", "search")
    assert found.description == "Search for text in the tree."
    assert found.parameters == {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "What to look for."},
            "ignoreCase": {
                "type": "boolean",
                "description": "Whether upper and lower case are the same.",
                "default": False,
            },
            "context": {"type": "integer", "description": "Lines around a match."},
            "kinds": {"type": "array", "items": {"enum": ["file", "folder"]}},
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "oldText": {"type": "string"},
                        "newText": {"type": "string"},
                        "all": {"type": "boolean", "description": "Every place."},
                    },
                    "required": ["oldText", "newText"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["pattern"],
        "additionalProperties": False,
    }


async def test_camel_case_arguments_reach_snake_case_parameters(tmp_path: Path):
    async with executor(search, cwd=tmp_path) as tools:
        outcome = await tools.execute("text_search", '{"pattern": "x", "ignoreCase": true}')
    assert outcome.text == f"x True None None {tmp_path.name}"


async def test_a_decorated_function_can_still_be_called_as_it_is(tmp_path: Path):
    assert (await search(ToolContext(cwd=tmp_path), "x")).startswith("x False")


async def test_a_method_is_a_tool_of_its_object():
    class Desk:
        def __init__(self) -> None:
            self.shots = 0

        @tool("vm:screenshot", name="screenshot")
        async def screenshot(self, param: str) -> dict[str, Any]:
            if not param:
                return build_error_response(code=1002, message="Parameter required")
            self.shots += 1
            return build_success_response(data={"image": param, "shots": self.shots})

    async with executor(Desk()) as tools:
        good = await tools.execute("screenshot", {"param": "p"})
        assert good.envelope["data"] == {"image": "p", "shots": 1}
        bad = await tools.execute("screenshot", {"param": ""})
        assert (bad.envelope["code"], bad.envelope["message"]) == (1002, "Parameter required")


async def test_types_that_json_has_not_are_made_of_json():
    @tool("draw:dot")
    async def dot(at: Point, colour: Colour = Colour.RED) -> str:
        assert isinstance(at, Point) and isinstance(colour, Colour)
        return f"{at.x},{at.y} {colour.value}"

    async with executor(dot) as tools:
        good = await tools.execute("draw_dot", {"at": {"x": 1, "y": 2}, "colour": "blue"})
        assert good.text == "1,2 blue"
        bad = await tools.execute("draw_dot", {"at": {"x": 1}, "colour": "green"})
        assert bad.envelope["code"] == 1002
        assert "at:" in bad.envelope["message"] and "colour:" in bad.envelope["message"]


def test_notes_describe_a_type_that_pydantic_reads_as_well():
    @tool("draw:dots")
    async def dots(at: Annotated[list[Point] | None, "Where.", {"minItems": 1}] = None) -> None:
        """Draw dots.

        Args:
            at: Not used: the note comes first.
        """

    @tool("draw:line")
    async def line(points: Annotated[list[Point], "Where.", {"minItems": 1}]) -> None: ...

    published = made(line).parameters["properties"]["points"]
    assert published["description"] == "Where." and published["minItems"] == 1
    assert made(line).parameters["$defs"]["Point"]["required"] == ["x", "y"]
    assert made(dots).parameters["properties"]["at"] == published


async def test_a_whole_float_reaches_an_integer_parameter_as_an_integer():
    @tool("count:up")
    async def up(limit: int) -> list[int]:
        return list(range(limit))

    async with executor(up) as tools:
        assert (await tools.execute("count_up", '{"limit": 2.0}')).envelope["data"] == [0, 1]


async def test_null_for_a_field_that_may_be_left_out_means_not_given():
    async with executor(search) as tools:
        outcome = await tools.execute("text_search", {"pattern": "x", "ignoreCase": None})
    assert outcome.text.startswith("x False")


def test_names_that_models_refuse_are_refused_early():
    for address in ("nocolon", "a:b:c", "a b:c", ":x", "1:x"):
        with pytest.raises(ValueError, match="resource:action"):
            tool(address)
    with pytest.raises(ValueError, match="name"):
        tool("a:b", name="has space")


def test_parameters_that_have_no_name_are_refused_early():
    with pytest.raises(TypeError, match="passable by name"):

        @tool("a:b")
        async def variadic(*names: str) -> None: ...


def test_a_tool_that_says_nothing_is_taken_to_write():
    @tool("a:b")
    async def silent() -> None: ...

    assert made(silent).writes is True
    assert made(search).writes is False


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def write_module(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.py").write_text(textwrap.dedent(text))


GOOD = """
    from outrider.tools import tool
    from outrider.tools.bash import bash  # imported, not offered

    @tool("clock:now")
    async def now() -> str:
        "Tell the time."
        return "noon"

    class Desk:
        @tool("desk:tidy")
        async def tidy(self) -> str:
            return "tidy"
"""


def test_a_named_module_brings_its_own_tools_only(modules: Path):
    write_module(modules, "brought_good", GOOD)
    tools, problems = load_tools(["brought_good"])
    assert sorted(one.name for one in tools) == ["clock_now", "desk_tidy"]
    assert problems == []


def test_broken_modules_are_told_and_never_raise(modules: Path):
    write_module(modules, "brought_good", GOOD)
    write_module(modules, "brought_again", GOOD)
    write_module(modules, "brought_broken", "1 / 0")
    write_module(modules, "brought_exit", "raise SystemExit(3)")
    write_module(modules, "brought_empty", "x = 1")
    names = ["no_such_module", "brought_broken", "brought_exit", "brought_empty"]
    tools, problems = load_tools([*names, "brought_good", "brought_again"])
    assert sorted(one.name for one in tools) == ["clock_now", "desk_tidy"]
    for name in names:
        assert any(name in problem for problem in problems), name
    assert sum("brought_again" in problem for problem in problems) == 2


@pytest.mark.parametrize("name", ["read", "bash", "report_back", "subagent"])
def test_no_tool_takes_the_name_of_one_of_ours(modules: Path, name: str):
    text = f"""
        from outrider.tools import tool

        @tool("some:thing", name="{name}")
        async def thing() -> str:
            return "not ours"
    """
    write_module(modules, "brought_double", text)
    tools, problems = load_tools(["brought_double"])
    assert not tools
    assert len(problems) == 1 and name in problems[0] and "brought_double" in problems[0]


def test_a_package_brings_tools_by_its_entry_point(modules: Path):
    write_module(modules, "brought_good", GOOD + "\n    OFFERED = [now]\n")
    info = modules / "brought-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[outrider.tools]\ngood = brought_good:OFFERED\nbad = brought_nowhere\n"
    )
    importlib.invalidate_caches()
    tools, problems = load_tools([])
    assert [one.name for one in tools] == ["clock_now"]
    assert len(problems) == 1 and "brought_nowhere" in problems[0]


@pytest.mark.parametrize("entry", [e for e in CATALOGUE.values() if e.module], ids=lambda e: e.name)
def test_every_module_that_the_catalogue_names_brings_the_tool_of_that_name(entry: CatalogueEntry):
    assert entry.module is not None
    brought = collect_tools(importlib.import_module(entry.module))
    [found] = [one for one in brought if one.name == entry.name]
    assert found in builtin_tools()
    assert found.writes == entry.writes
    assert found.entry is entry


def test_the_built_in_tools_are_those_of_the_catalogue():
    assert [one.name for one in builtin_tools()] == [e.name for e in CATALOGUE.values() if e.module]


def test_a_tool_that_does_not_say_whether_it_writes_is_taken_to_write():
    @tool("room:paint")
    def paint() -> str:
        return "painted"

    assert made(paint).writes


@tool("fault:plain")
def fails_in_a_thread(kind: str) -> str:
    raise ToolFault(ToolCode.CONFLICT, "not now", {"kind": kind})


@tool("fault:async")
async def fails_at_once(kind: str) -> str:
    return fails_in_a_thread(kind)


@pytest.mark.parametrize("name", ["fault_plain", "fault_async"])
@pytest.mark.parametrize("kind", ["tool"])
async def test_a_fault_that_a_tool_raises_is_its_answer(name: str, kind: str):
    async with executor(fails_in_a_thread, fails_at_once) as tools:
        envelope = (await tools.execute(name, {"kind": kind})).envelope
    assert (envelope["code"], envelope["message"]) == (1006, "not now")
    assert envelope["data"] == {"kind": kind}


async def test_a_plain_function_is_told_when_its_call_is_given_up():
    started, ended = threading.Event(), threading.Event()

    @tool("thread:wait", timeout_ms=60_000)
    def wait(context: ToolContext) -> None:
        started.set()
        if context.stop.wait(60):
            ended.set()

    async with executor(wait) as tools:
        call = asyncio.create_task(tools.execute("thread_wait", {}))
        assert await asyncio.to_thread(started.wait, 10)
        assert not ended.is_set()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(ended.wait, 10)


async def test_the_end_of_one_call_does_not_stop_the_next():
    @tool("thread:ask")
    def ask(context: ToolContext) -> bool:
        return context.stop.is_set()

    async with executor(ask) as tools:
        for _ in range(2):
            assert (await tools.execute("thread_ask", {})).envelope["data"] is False


def test_importing_tools_costs_neither_pydantic_nor_asyncio():
    script = "import sys, outrider.tools; print({'pydantic', 'asyncio'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


DOCS = Path(__file__).parent.parent / "docs" / "tools.md"


async def test_the_example_in_the_docs_works(modules: Path):
    text = DOCS.read_text()
    example = text.split("```python\n")[1].split("```")[0]
    (modules / "my_rooms.py").write_text(example)
    tools, problems = load_tools(["my_rooms"])
    assert problems == []
    async with ToolExecutor(tools, ToolContext(cwd=modules)) as running:
        good = await running.execute("room_seats", {"name": "blue", "atLeast": 2})
        shown = json.loads(text.split("```json\n")[1].split("```")[0])
        shown["meta"]["execution_time_ms"] = good.envelope["meta"]["execution_time_ms"]
        assert good.envelope == shown
        assert (await running.execute("room_seats", {"name": "x"})).envelope["code"] == 1003
        assert (await running.execute("room_seats", {"atLeast": 1})).envelope["code"] == 1002


def test_the_codes_in_the_docs_are_the_codes():
    text = DOCS.read_text()
    for code in ToolCode:
        assert f"| {int(code)} | {code.meaning} |" in text
