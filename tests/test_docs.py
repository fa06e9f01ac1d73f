"""The docs can't go stale: their tables come from the code, and every example is run."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

import pytest
from benchmarks.messages_wire import TwoWires

from conftest import COLD, needs, unmeasured_environment
from outrider.testing import ModelRequest, Reply, ScriptedModel, answer, tool_call

ROOT = Path(__file__).resolve().parent.parent
README, CHINESE = ROOT / "README.md", ROOT / "README.zh-CN.md"
FENCE = re.compile(r"^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
NOT_RUN = {"markdown", "mermaid", "diff", "text"}
"""What can't be run by itself; the recipes' diffs are applied by their own test."""
RUN_BY_CI = {
    "python3 dev test": (".ci/run", "python3 dev test"),
    "python3 dev test --quick": ("dev", '"--quick"'),
    "python3 dev test --all": (".ci/run", "python3 dev test --all"),
    ".ci/run": (".ci/run", "python3 dev test --all"),
    "pip install .": ("dev", "pip_install(place"),
    "pipx install .": ("dev", '"pipx", "install"'),
    "uvx --from . outrider doctor": ("dev", '"uvx", "--from"'),
}
"""What CI runs, around the tests and not within them, and where."""
LINK = re.compile(r"\]\((?!https?:)([^)]+)\)")


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
    """A server for OpenAI's and Anthropic's clients that delegates once, where it can."""

    def step(request: ModelRequest) -> Reply:
        if "subagent" in request.tool_names and not request.turn:
            return tool_call("subagent", {"agent": "explorer", "task": "Where is main?"})
        return answer("Nothing to report.")

    with TwoWires(step) as server:
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
    subprocess.run(["git", "init", "-q"], cwd=world, check=True)
    if language == "json":
        json.loads(code)
        return
    if "| jq" in code:
        needs("jq")
    # A server of the reader's own, as the example names it, is the scripted one here; the host
    # that an example registers with agrees to everything, and `test_mcp_install.py` says to what.
    code = code.replace("http://127.0.0.1:8080", model.base_url.removesuffix("/v1"))
    host = world.parent / "bin" / "claude"
    host.parent.mkdir()
    host.write_text("#!/bin/sh\n")
    host.chmod(0o755)
    path = f"{Path(sys.executable).parent}:{host.parent}:{os.environ['PATH']}"
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
    runner, done = RUN_BY_CI[command]
    assert done in (ROOT / runner).read_text()


def test_the_pictures_show_what_runs_look_like_today(tmp_path: Path) -> None:
    needs("tmux")
    subprocess.run([sys.executable, ROOT / "docs/picture.py", tmp_path], check=True, timeout=110)
    for name in ("run.svg", "review.svg"):
        shown = lines_of(ROOT / "docs" / name)
        assert lines_of(tmp_path / name) == shown, "run `python3 dev picture`"


def lines_of(picture: Path) -> list[str]:
    """Return the text of a picture, without how much of the answer had come when it was drawn."""
    found = re.findall(r'<text[^>]* y="([\d.]+)"[^>]*>(.*?)</text>', picture.read_text())
    rows: dict[str, str] = {}
    for row, text in found:
        rows[row] = rows.get(row, "") + text.replace("&#160;", " ").rstrip()
    lines = [text for text in rows.values() if text]
    moves = [number for number, line in enumerate(lines) if "⠹" in line or "  read " in line]
    if not moves:
        return lines
    return [*lines[: moves[0] + 1], *lines[moves[-1] :]]


@pytest.mark.parametrize("page", [*generate.pages(), CHINESE], ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target, _, anchor in (link.partition("#") for link in LINK.findall(text)):
        place = page.parent / target if target else page
        assert place.exists(), target
        assert not anchor or anchor in anchors_of(place), f"{target}#{anchor}"


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-").lower() for heading in headings}


def test_both_readmes_have_the_same_code_and_lead_to_each_other() -> None:
    english, chinese = README.read_text(), CHINESE.read_text()
    assert FENCE.findall(english) == FENCE.findall(chinese)
    assert CHINESE.name in LINK.findall(english) and README.name in LINK.findall(chinese)


def test_a_readme_is_read_in_thirty_seconds() -> None:
    assert all(len(page.read_text().splitlines()) < 150 for page in (README, CHINESE))


@pytest.mark.parametrize("page", [README, CHINESE], ids=lambda page: page.name)
def test_a_readme_has_the_published_figures(page: Path) -> None:
    published = json.loads((ROOT / "benchmarks/latest.json").read_text())
    turn = {name: median(taken) for name, taken in published["latency"]["one"].items()}
    memory = published["memory"]
    inside = ("deepagents", "openai-agents", "pydantic-ai-harness", "smolagents")
    times = [turn["outrider warm"], turn["outrider run"]]
    times += [*least_and_most(turn[name] for name in inside), turn["pi -p"]]
    grown = least_and_most(memory[name]["parent_mb"] for name in inside)
    sizes = [f"{memory[name]['child_mb']:.0f}" for name in ("outrider warm", "pi -p")]
    sizes[1:1] = [f"{size:.1f}" for size in grown]
    rows = re.findall(r"^\|(.*?) (?:ms|MB) \|$", page.read_text(), re.MULTILINE)
    shown = [re.findall(r"\d[\d.]*", row) for row in rows]
    assert shown == [[f"{time:.0f}" for time in times], sizes], "update the table"


def least_and_most(values: Iterable[float]) -> list[float]:
    """Return the ends of a range."""
    ordered = sorted(values)
    return [ordered[0], ordered[-1]]
