"""`outrider lsp`: the tool for people; what changes files only where the user opened that."""

import json
import os
import re
import shutil
from contextlib import closing

import pytest

from cli_door import Door
from lsp_tool import PROJECTS

OPEN = {"lsp": {"tool": {"allowMutatingActions": True}}}


@pytest.fixture
def door(tmp_path):
    with closing(Door(tmp_path)) as door:
        shutil.copytree(PROJECTS / "python", door.project, dirs_exist_ok=True)
        yield door
        door.assert_nothing_left()


def test_places_are_printed_with_their_lines(door):
    ended = door.run("lsp", "definition", "shapes/app.py:16:12")
    assert ended.code == 0 and ended.err == ""
    assert "shapes/base.py\n  25:5  def total(shapes: list[Shape]) -> float:" in ended.out
    ended = door.run("lsp", "references", "shapes/app.py:16", "--symbol", "total", "--json")
    assert ended.json["data"]["total"] == 5 and ended.json["meta"]["tool"] == "lsp"


def test_without_a_column_the_first_name_of_the_line_is_meant(door):
    ended = door.run("lsp", "definition", "shapes/app.py:16")
    assert ended.code == 0 and "shapes/base.py\n  25:5  def total(" in ended.out
    ended = door.run("lsp", "hover", "shapes/base.py:25")
    assert ended.code == 0 and "def total(" in ended.out


def test_without_arguments_servers_and_settings_are_listed(door):
    ended = door.run("lsp")
    assert ended.code == 0
    assert re.search(r"python +ty +on +/", ended.out) and "pip install pyright" not in ended.out
    assert re.search(r"lsp.requestTimeoutMs +15000", ended.out)


def test_a_program_above_the_working_folder_is_not_listed_unless_it_is_trusted(door):
    program = door.project / "tools/gopls"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    listed = ("lsp", "--cwd", "shapes")
    assert re.search(r"gopls +off", door.run(*listed, env=path).out)
    door.write_config({"subagents": {"trustedProjects": [str(door.project)]}})
    assert re.search(rf"gopls +on +{program}", door.run(*listed, env=path).out)


def test_a_failure_is_told_on_stderr_and_by_the_exit_code(door):
    ended = door.run("lsp", "hover", "shapes/none.py:1:1")
    assert ended.code == 1 and ended.out == "" and "there is no shapes/none.py" in ended.err
    assert door.run("lsp", "hover", "shapes/none.py:1:1", "--json").json["code"] == 1003
    (door.project / "page.js").write_text("let page\n")
    for action in ("definition", "workspace-symbols", "references"):
        unknown = ("lsp", action, "--symbol", "nowhere")
        ended = door.run(*unknown)
        assert ended.code == 1 and "ty found no symbol 'nowhere'" in ended.err
        assert door.run(*unknown, "--json").json["code"] == 1003
    ended = door.run("lsp", "hover", "--symbol", "area")
    assert ended.code == 1 and "shapes/base.py:10:9, shapes/base.py:20:9" in ended.err
    for arguments in (["surf"], ["hover", "a", "b"]):
        assert door.run("lsp", *arguments).code == 2
    door.write_config({"lsp": {"enabled": False}})
    ended = door.run("lsp", "hover", "shapes/base.py:1:1")
    assert ended.code == 2 and "lsp.enabled" in ended.err
    assert re.search(r"ty +off +lsp.enabled is off", door.run("lsp").out)


def test_changes_need_the_user_s_own_setting(door):
    renaming = ("lsp", "rename", "shapes/base.py", "--symbol", "total", "--new-name", "everything")
    base = door.project / "shapes/base.py"
    before = base.read_text()
    assert "lsp.tool.allowMutatingActions" in door.run(*renaming).err
    settings = door.project / ".outrider/config.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps(OPEN))  # a repository can't open it
    assert door.run(*renaming).code == 1
    door.write_config(OPEN)
    assert door.run(*renaming, env={"OUTRIDER_SUBAGENT_DEPTH": "1"}).code == 1, "not in a child"
    settings.unlink()
    assert "+def everything(" in door.run(*renaming, "--dry-run").out
    assert base.read_text() == before
    assert "3 files changed" in door.run(*renaming).out
    assert "def everything(" in base.read_text()


def test_servers_of_one_s_own_come_from_the_user_s_file_only(door, tmp_path):
    mark = tmp_path / "mark"
    program = tmp_path / "server"
    program.write_text(f"#!/bin/sh\ntouch {mark}\nexit 3\n")
    program.chmod(0o755)
    named = {"lsp": {"servers": {"own": {"command": [str(program)], "fileTypes": ["py"]}}}}
    settings = door.project / ".outrider/config.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps(named))
    ended = door.run("lsp", "symbols", "shapes/app.py")
    assert ended.code == 0 and "lsp.servers" in ended.err and not mark.exists()
    door.write_config(named)
    ended = door.run("lsp", "symbols", "shapes/app.py")
    assert ended.code == 1 and "own ended with exit code 3" in ended.err and mark.exists()
    door.write_config({"lsp": {"servers": {"own": {"command": "one text"}}}})
    assert "is not a list" in door.run("lsp", "servers").err
