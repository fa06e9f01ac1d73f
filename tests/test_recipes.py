"""The recipes of CONTRIBUTING.md work, followed word by word in a copy of the source."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import COLD, unmeasured_environment

ROOT = Path(__file__).resolve().parent.parent
SECTION = re.compile(r"^### (?P<title>[^\n]+)\n(?P<body>.*?)(?=^### |\Z)", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"^```(?P<kind>\w+)(?: (?P<what>\S+))?\n(?P<text>.*?)^```$", re.DOTALL | re.M)
RECIPES = dict(SECTION.findall((ROOT / "CONTRIBUTING.md").read_text().split("## Recipes")[1]))


def test_there_is_a_recipe_for_everything_that_grows() -> None:
    titles = " ".join(RECIPES)
    for thing in ("tool", "agent", "model provider", "command", "setting", "event"):
        assert thing in titles


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_works_as_it_stands(world: Path, tmp_path: Path, title: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    checks = []
    for fence in FENCE.finditer(RECIPES[title]):
        if fence["kind"] == "diff":
            apply(copy, fence["text"])
        elif fence["what"] == "check":
            checks.append(fence["text"])
        else:
            (copy / fence["what"]).write_text(fence["text"])
    assert checks, "a recipe ends with a command that shows that it worked"
    (tmp_path / "bin").mkdir()
    write_command(tmp_path / "bin/outrider", "-m outrider")
    write_command(tmp_path / "bin/python", "")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    env = {**unmeasured_environment(), **COLD, "PYTHONPATH": str(copy / "src"), "PATH": path}
    for check in checks:
        command = ["bash", "-euo", "pipefail", "-c", check]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=110)
        assert done.returncode == 0, done.stdout + done.stderr


def write_command(path: Path, arguments: str) -> None:
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
    path.chmod(0o755)


def apply(copy: Path, diff: str) -> None:
    """Make a change: its old lines stand in the file exactly once."""
    lines = diff.splitlines(keepends=True)
    named = next(line for line in lines if line.startswith("+++ b/"))
    path = copy / named.removeprefix("+++ b/").strip()
    body = [line for line in lines if not line.startswith(("---", "+++"))]
    old = "".join(line[1:] for line in body if line[0] in " -")
    new = "".join(line[1:] for line in body if line[0] in " +")
    text = path.read_text()
    assert text.count(old) == 1, f"{path.name} has not exactly once:\n{old}"
    path.write_text(text.replace(old, new))
