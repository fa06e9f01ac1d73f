"""The docs can't go stale: their tables come from the code, and every example is run."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import COLD, unmeasured_environment
from outrider.testing import ScriptedModel, answer

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
NOT_RUN = {"markdown", "mermaid", "diff"}
"""What can't be run by itself; the recipes' diffs are applied by their own test."""
RUN_BY_CI = {"python3 dev test": ".ci/run", "pip install .": "dev"}
"""What CI runs, around the tests and not within them, and where."""


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


def fences() -> list:
    found = []
    for page in generate.pages():
        for number, match in enumerate(FENCE.finditer(page.read_text()), 1):
            if match["language"] not in NOT_RUN:
                name = f"{page.stem}-{number}-{match['language']}"
                found.append(pytest.param(page, match["language"], match["code"], id=name))
    return found


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel([answer("Nothing to report.")], repeat=True) as server:
        yield server


@pytest.mark.parametrize(("page", "language", "code"), fences())
def test_every_fenced_example_works(
    world: Path,
    warm_runtime: Path,
    model: ScriptedModel,
    page: Path,
    language: str,
    code: str,
) -> None:
    """In a small project, with no key, so that the embedded model answers where none is named."""
    (world / "app.py").write_text('def main():\n    """The entry point."""\n')
    if language == "json":
        json.loads(code)
        return
    if "jq" in code and not shutil.which("jq"):
        pytest.skip("jq isn't installed, which this example pipes into")
    # A server of the reader's own, as the example names it, is the scripted one here.
    code = code.replace("http://127.0.0.1:8080/v1", model.base_url)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    start = COLD if language == "python" else {"XDG_RUNTIME_DIR": str(warm_runtime)}
    done = subprocess.run(
        _command(language, code),
        env={**unmeasured_environment(), **start, "PATH": path},
        cwd=ROOT if "dev" in code.split() else world,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _command(language: str, code: str) -> list[str]:
    if language == "python":
        return [sys.executable, "-c", code]
    assert language == "sh", f"a fence of {language!r} is neither run nor known"
    lines = [line for line in code.splitlines() if line.split("#")[0].strip() not in RUN_BY_CI]
    return ["bash", "-euo", "pipefail", "-c", "\n".join(lines)]


@pytest.mark.parametrize("command", RUN_BY_CI)
def test_what_the_tests_cannot_run_is_run_by_ci(command: str) -> None:
    runner = (ROOT / RUN_BY_CI[command]).read_text()
    done = {"python3 dev test": "python3 dev test", "pip install .": "pip_install(place"}
    assert done[command] in runner


@pytest.mark.parametrize("page", generate.pages(), ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
        assert (page.parent / target).exists(), target
