"""No argument that a file tool's schema forbids gets further than an answer that says so."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from bad_arguments import bad_arguments, valid_arguments
from file_tools import FILE_TOOLS, snapshot
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor
from outrider.tools.registry import Tool

pytestmark = pytest.mark.usefixtures("unmeasured")

by_name = pytest.mark.parametrize("tool", FILE_TOOLS, ids=lambda tool: tool.name)
patient = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def outcome_in_a_small_tree(tool: Tool, arguments: Any) -> tuple[int, bool]:
    """The code of a call, and whether it changed anything."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        (tree / "a").mkdir(parents=True)
        (tree / "b").write_text("abc\n")
        before = snapshot(Path(folder))
        executor = ToolExecutor(FILE_TOOLS, ToolContext(cwd=tree))
        outcome = asyncio.run(executor.execute(tool.name, arguments))
        return outcome.envelope["code"], snapshot(Path(folder)) != before


@by_name
@patient
@given(data=st.data())
def test_bad_arguments_are_refused_and_change_nothing(tool: Tool, data: st.DataObject):
    arguments = data.draw(bad_arguments(tool.parameters))
    code, changed = outcome_in_a_small_tree(tool, arguments)
    assert 1000 <= code < 2000
    assert not changed


@by_name
@patient
@given(data=st.data())
def test_good_arguments_are_never_a_fault_of_ours(tool: Tool, data: st.DataObject):
    arguments = data.draw(valid_arguments(tool.parameters))
    code, changed = outcome_in_a_small_tree(tool, arguments)
    assert code == 0 or 1000 <= code < 2000
    assert not changed or (tool.writes and code == 0)


odd_text = st.text(min_size=1, max_size=30) | st.text(
    st.sampled_from("./\\~*?[]{}()!-abn\n\0\ud800\udcff\uff0e\u200b"), min_size=1, max_size=30
)


@by_name
@patient
@given(data=st.data())
def test_no_text_whatever_breaks_a_tool(tool: Tool, data: st.DataObject):
    arguments = data.draw(valid_arguments(tool.parameters))
    for name in ("path", "pattern", "glob", "content"):
        if name in tool.parameters["properties"]:
            arguments[name] = data.draw(odd_text)
    code, changed = outcome_in_a_small_tree(tool, arguments)
    assert code == 0 or 1000 <= code < 2000, arguments
    assert not changed or (tool.writes and code == 0)


def test_the_tools_have_the_names_and_parameters_of_the_contract():
    published = {tool.name: set(tool.parameters["properties"]) for tool in FILE_TOOLS}
    assert {"path", "offset", "limit"} == published["read"]
    assert {"pattern", "path", "glob", "literal", "ignoreCase", "context", "limit"} <= published[
        "grep"
    ]
    assert {"pattern", "about", "path", "limit"} == published["find"]
    assert {"path", "depth", "limit"} == published["ls"]
    assert {"path", "content"} == published["write"]
    assert {"path", "edits"} == published["edit"]
    assert {tool.name for tool in FILE_TOOLS if tool.writes} == {"write", "edit"}
