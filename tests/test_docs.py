"""The docs can't drift: their tables come from the code, and every example is run."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = re.compile(
    r"^```(?P<language>bash|python|json)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)


def _generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs/generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = _generator()


@pytest.mark.parametrize("page", generate.pages(), ids=lambda page: page.name)
def test_generated_tables_say_what_the_code_says(page: Path) -> None:
    assert generate.generated(page.read_text()) == page.read_text(), "run `python3 dev docs`"


def test_every_generated_table_is_in_some_page() -> None:
    text = "".join(page.read_text() for page in generate.pages())
    missing = [name for name in generate.GENERATORS if f"<!-- generated:{name} -->" not in text]
    assert not missing


def examples() -> list:
    found = []
    for page in [*generate.pages(), ROOT / "CONTRIBUTING.md"]:
        for number, match in enumerate(EXAMPLE.finditer(page.read_text()), 1):
            name = f"{page.name}-{number}-{match['language']}"
            found.append(pytest.param(match["language"], match["code"], id=name))
    return found


@pytest.mark.parametrize(("language", "code"), examples())
def test_every_example_works_as_it_stands(world: Path, language: str, code: str) -> None:
    """With no key, so that the embedded model answers; in a small project."""
    (world / "app.py").write_text('def main():\n    """The entry point."""\n')
    if language == "json":
        json.loads(code)
        return
    if "jq" in code and not shutil.which("jq"):
        pytest.skip("jq isn't installed, which this example pipes into")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", "-euo", "pipefail", "-c", code]
    if language == "python":
        command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "page", [*generate.pages(), ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name
)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
