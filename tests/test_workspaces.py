"""What lets another place stand behind the file tools: they reach files by one interface only."""

import ast
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import outrider.tools.files
from file_tools import FILE_TOOLS, FileTools, snapshot
from outrider.tools.context import ToolContext
from outrider.workspaces.path_guard import Workspace
from outrider.workspaces.place import FileVersion

MODULES = sorted(Path(outrider.tools.files.__file__).parent.glob("*.py"))
OPENING = {
    "open", "stat", "lstat", "fstat", "scandir", "listdir", "walk", "fwalk", "readlink", "access",
    "exists", "lexists", "isfile", "isdir", "islink", "rename", "replace", "unlink", "remove",
    "mkdir", "makedirs", "rmdir", "chmod", "link", "symlink", "truncate",
}  # fmt: skip
INTERFACE = {f"outrider.workspaces.{name}" for name in ("place", "names", "trusted_programs")}
CLASSES = ({"Workspace"}, {"OpenFolder"})


@dataclass(frozen=True)
class Elsewhere(Workspace):
    """A workspace that is not the child's folder, and says what it was asked for."""

    asked: list[str] = field(default_factory=list[str])

    def __getattribute__(self, name: str) -> Any:
        if name != "asked":
            self.asked.append(name)
        return super().__getattribute__(name)


CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("read", {"path": "a.txt"}, "open_file"),
    ("grep", {"pattern": "elsewhere"}, "open_folder"),
    ("grep", {"pattern": "elsewhere", "path": "a.txt"}, "open_file"),
    ("find", {"pattern": "a.*"}, "open_folder"),
    ("ls", {}, "list_folder"),
    ("edit", {"path": "a.txt", "edits": [{"oldText": "here", "newText": "now"}]}, "replace"),
    ("write", {"path": "sub/b.txt", "content": "x"}, "replace"),
]


@pytest.mark.parametrize(("name", "arguments", "operation"), CALLS)
async def test_a_tool_works_in_whatever_place_stands_behind_the_interface(
    tmp_path: Path, name: str, arguments: dict[str, Any], operation: str
):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (there / "a.txt").write_text("found elsewhere\n")
    workspace = Elsewhere((str(there),))
    tools = FileTools(here, workspace=workspace)
    outcome = await tools.call(name, **arguments)
    assert outcome.envelope["code"] == 0, outcome.text
    assert "a.txt" in outcome.text or "elsewhere" in outcome.text or "sub/b.txt" in outcome.text
    assert operation in workspace.asked and "resolve" in workspace.asked
    assert snapshot(here) == {}


def test_every_tool_has_a_call_above():
    assert {name for name, _, _ in CALLS} == {tool.name for tool in FILE_TOOLS}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_the_file_tools_open_nothing_and_decide_nothing_about_paths_themselves(module: Path):
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("os", "os.path"):
            assert node.attr not in OPENING, ast.unparse(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "open"
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("outrider.workspaces"):
            names = {name.name for name in node.names}
            assert node.module in INTERFACE or names in CLASSES, ast.unparse(node)


def test_a_context_makes_its_workspace_of_its_folder_and_the_allowed_roots(tmp_path: Path):
    (tmp_path / "link").symlink_to("other")
    (tmp_path / "other").mkdir()
    context = ToolContext(cwd=tmp_path, allowed_roots=(tmp_path / "link",))
    assert context.workspace.roots == (str(tmp_path), str(tmp_path / "other"))
    assert replace(context).workspace is context.workspace


def test_a_search_program_runs_in_the_folder_that_was_decided_on(tmp_path: Path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    workspace = Workspace((str(tmp_path),))
    with workspace.open_folder(workspace.resolve("one")) as folder:
        (tmp_path / "one").rename(tmp_path / "moved")
        (tmp_path / "one").symlink_to("two")
        (Path(folder.path) / "here.txt").touch()
    assert (tmp_path / "moved" / "here.txt").exists()


def make(content: bytes) -> Callable[[FileVersion | None], bytes]:
    return lambda old: content


def test_a_replace_that_was_given_up_changes_nothing(tmp_path: Path):
    (tmp_path / "a.txt").write_text("old")
    workspace, stop = Workspace((str(tmp_path),)), threading.Event()
    place = workspace.resolve("a.txt", writing=True)
    before = snapshot(tmp_path)
    stop.set()
    with pytest.raises(Exception, match="given up"):
        workspace.replace(place, make(b"new"), stop)
    assert snapshot(tmp_path) == before
    old, after = workspace.replace(place, make(b"new"), threading.Event())
    assert old is not None and old.content == b"old" and len(after) == 64
