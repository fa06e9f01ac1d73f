"""What the command and the package cost before they do anything."""

import json
import os
import subprocess
import sys

import pytest

import outrider

IMPORTED = """
import json, sys
before = set(sys.modules)
{code}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def imported_by(code: str, **env: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-I", "-c", IMPORTED.format(code=code)],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_the_package_imports_nothing_else():
    assert imported_by("import outrider") == ["outrider"]


def test_telling_the_version_imports_nothing_else():
    code = "sys.argv = ['outrider', '--version']\nfrom outrider.__main__ import main\nmain()"
    assert imported_by(code) == ["outrider", "outrider.__main__"]


@pytest.mark.parametrize("command", ["--help", "nonsense", "run"])
def test_what_needs_no_run_loads_no_machinery(command):
    code = f"sys.argv = ['outrider', {command!r}]\nfrom outrider.__main__ import main\nmain()"
    heavy = {"pydantic", "pydantic_ai", "rich", "openai", "anthropic", "httpx2"}
    assert not heavy & set(imported_by(code))


RUN = """
sys.argv = ["outrider", "run", "explorer", "What is here?", "--model", "embedded", "--cwd", {cwd!r}]
from outrider.__main__ import main
assert main() == 0
import outrider.runtimes.native.fork_client
"""
NOT_FOR_A_RUN = """
anthropic concurrent.futures.process concurrent.futures.thread difflib email graphlib http httpcore2
httpx2 importlib.metadata jsonschema_rs lzma markdown_it multiprocessing openai opentelemetry
pydantic pydantic_ai rich shutil ssl tempfile urllib.request zipfile outrider.child
outrider.delegation.resuming outrider.delegation.session_history outrider.delegation.telemetry
outrider.runtimes.pi outrider.schemas.output_schema
outrider.surfaces.chat outrider.surfaces.mcp outrider.surfaces.table outrider.tools
outrider.workspaces
"""
"""What the process of a plain `outrider run` needn't load: it would add to the time of each."""


def test_a_run_loads_nothing_that_it_does_not_need(tmp_path):
    code = RUN.format(cwd=str(tmp_path))
    loaded = imported_by(code, HOME=str(tmp_path), OUTRIDER_WARM__KEEP_MINUTES="0")
    assert "outrider.delegation.concluding" in loaded
    assert not set(NOT_FOR_A_RUN.split()) & set(loaded)


@pytest.mark.parametrize("small", ["guardian, walls", "cell"])
def test_what_stands_around_a_program_starts_with_little(small):
    """Each run of pi and each cell starts an interpreter for these."""
    loaded = set(imported_by(f"from outrider.processes import {small}"))
    assert not {"dataclasses", "inspect", "json", "re", "selectors", "socket", "typing"} & loaded


HAND_OVER = """
from outrider.runtimes.native.links import Links
handed_over, follow = [], Links.follow
def follow_and_note(*given):
    handed_over[:] = handed_over or sorted(sys.modules)
    return follow(*given)
Links.follow = follow_and_note
{run}
print(json.dumps(handed_over))
sys.exit()
"""
AFTER_THE_HAND_OVER = """
datetime orjson platform uuid outrider.masking.search outrider.masking.tree outrider.texts.paths
"""
"""What a run needs, and can load while its child starts."""


def test_what_can_wait_is_loaded_while_the_child_starts(tmp_path):
    code = HAND_OVER.format(run=RUN.format(cwd=str(tmp_path)))
    loaded = imported_by(code, HOME=str(tmp_path), OUTRIDER_WARM__KEEP_MINUTES="0")
    assert "outrider.delegation.supervision" in loaded
    assert not set(AFTER_THE_HAND_OVER.split()) & set(loaded)


ENDING = """
import atexit, os, threading
from outrider.tools import tool
def at_the_very_end():
    threading.main_thread().join()
    noted.write("thread ")
if "OUTRIDER_SUBAGENT_CHILD" not in os.environ:
    noted = open(os.environ["NOTED"], "a")
    atexit.register(lambda: print("registered", file=noted, flush=True))
    threading.Thread(target=at_the_very_end).start()
@tool("ending:nothing", writes=False)
def nothing() -> str:
    '''Do nothing.'''
    return ""
"""


def test_the_command_ends_after_its_threads_and_what_is_registered_for_its_end(tmp_path):
    (tmp_path / "ending.py").write_text(ENDING)
    (noted := tmp_path / "noted").touch()
    done = subprocess.run(
        [*(sys.executable, "-m", "outrider", "run", "explorer", "What is here?", "-m", "embedded")],
        cwd=tmp_path,
        env={
            "HOME": str(tmp_path),
            "NOTED": str(noted),
            "OUTRIDER_TOOLS__MODULES": "ending",
            "OUTRIDER_WARM__KEEP_MINUTES": "0",
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(tmp_path),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert noted.read_text() == "thread registered\n"


LIGHT = {
    "from outrider import subagent": "pydantic pydantic_ai rich openai anthropic httpx2 argparse",
    "import outrider.delegation.profiles": "pydantic",
    "import outrider.schemas.output_schema": "jsonschema_rs orjson asyncio",
    "from outrider.child.report_back import ReportBackTool": "jsonschema_rs pydantic pydantic_ai",
}
"""What is imported, and what that must not load."""


@pytest.mark.parametrize("code", LIGHT)
def test_what_can_do_without_a_library_does_not_load_it(code):
    assert not set(LIGHT[code].split()) & set(imported_by(code))


def test_version_is_told_and_is_the_package_s():
    done = subprocess.run(
        [sys.executable, "-m", "outrider", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"outrider {outrider.__version__}\n"


def test_every_public_name_is_there_and_listed():
    for name in outrider.__all__:
        assert getattr(outrider, name) is not None
    assert set(outrider.__all__) <= set(dir(outrider))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = outrider.no_such_name
