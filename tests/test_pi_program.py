"""How pi is called and heard, with a program that speaks as it does: `test_pi.py` has pi itself."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from outrider import subagent
from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import SingleResult
from outrider.runtimes.pi import runtime
from outrider.runtimes.pi.choices import INSTALL
from outrider.settings.places import runs_folder
from outrider.surfaces.reports import REPORTS
from pi_door import VERSIONS, write_agent

ROOT = Path(__file__).parent.parent

KEY = "sk-proj-Zx81kQpR0aB7dEfGh2JkLmN4oPqRsTuV"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PROGRAM = """#!{python} -S
import json, sys
from pathlib import Path

def content(option):
    return Path(arguments[arguments.index(option) + 1]).read_text()

arguments = sys.argv[1:]
files = [one[1:] for one in arguments if one.startswith("@")]
own = Path(__file__).resolve()
calls = own.with_name("calls.jsonl")
texts = json.loads(own.with_name("texts.json").read_text())
text = texts[len(calls.read_text().splitlines()) if calls.exists() else 0]
call = {{"arguments": arguments, "prompt": content("--system-prompt")}}
call |= {{"files": [Path(file).read_text() for file in files]}}
with calls.open("a") as file:
    file.write(json.dumps(call) + "\\n")
with open(arguments[arguments.index("--session") + 1], "a") as session:
    session.write(json.dumps({{"task": arguments[-1]}}) + "\\nhalf a li")
if text is None:
    sys.exit(3)
message = {{"role": "assistant", "content": [{{"type": "text", "text": text}}]}}
message["usage"] = {{"input": 7, "output": 3}}
for event in (
    {{"type": "turn_start"}},
    {{"type": "message_start", "message": {{**message, "content": [], "stopReason": "pending"}}}},
    {{"type": "message_end", "message": {{**message, "stopReason": "stop"}}}},
    {{"type": "turn_end"}},
    {{"type": "agent_end", "messages": []}},
):
    print(json.dumps(event, separators=(",", ":")), flush=True)
"""


class Pi:
    """A program `pi` that gives these answers, and a note of how it was called for each."""

    def __init__(self, folder: Path, *texts: str | None, version: str = "0.87.1") -> None:
        self.folder = folder
        folder.mkdir()
        about = {"name": "@some/pi-coding-agent", "version": version}
        (folder / "package.json").write_text(json.dumps(about))
        (folder / "texts.json").write_text(json.dumps(texts))
        (folder / "pi").write_text(PROGRAM.format(python=sys.executable))
        (folder / "pi").chmod(0o755)
        os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
        os.environ["PI_CODING_AGENT_DIR"] = str(folder)  # all that it may write to
        write_agent(Path(os.environ["HOME"]), "finder", "tools: read, ls, lsp")

    @property
    def calls(self) -> list[dict[str, Any]]:
        lines = (self.folder / "calls.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


async def run(task: str, schema: Any = None) -> SingleResult:
    result = await subagent("finder", task, schema, model="mine:scripted")
    assert len(result.details.results) == 1, result.text
    return result.details.results[0]


async def test_pi_is_told_its_role_tools_model_and_task(world: Path, tmp_path: Path) -> None:
    pi = Pi(tmp_path / "pi", "It is here.")
    ended = await run("Find it.")
    assert (ended.outcome, ended.output) == (Outcome.COMPLETED, "It is here.")
    assert (ended.usage.input, ended.usage.output, ended.usage.turns) == (7, 3, 1)
    [call] = pi.calls
    given = call["arguments"]
    assert "You find things." in call["prompt"]
    assert given[given.index("--tools") + 1] == "read,ls"
    assert given[-1] == "Task: Find it."
    assert "--no-approve" in given and "--no-extensions" in given
    assert [one.reason for one in ended.withheld] == ["pi has no such tool"]


async def test_the_session_of_pi_is_kept_masked_also_where_it_was_cut(
    world: Path, tmp_path: Path
) -> None:
    Pi(tmp_path / "pi", "Seen.")
    ended = await run(f"Use OPENAI_API_KEY={KEY}")
    kept = Path(ended.session_file or "").with_name("pi-session.jsonl")
    assert "[masked:" in kept.read_text() and kept.read_text().endswith("half a li\n")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert all(KEY not in path.read_text() for path in kept.parent.iterdir() if path.is_file())


async def test_a_long_task_comes_as_a_file(world: Path, tmp_path: Path) -> None:
    pi = Pi(tmp_path / "pi", "Read.")
    task = "Find it. " + "x" * 100_000 + " END"
    assert (await run(task)).outcome is Outcome.COMPLETED
    assert pi.calls[0]["files"] == [task]


@pytest.mark.parametrize(
    ("texts", "outcome", "value"),
    [
        (["It is 2.", '```json\n{"n": 2}\n```'], Outcome.COMPLETED, {"n": 2}),
        (['{"n": "x"}', '{"n": "y"}'], Outcome.SCHEMA_FAILED, None),
    ],
)
async def test_an_answer_that_does_not_fit_the_schema_is_asked_for_once_more(
    world: Path, tmp_path: Path, texts: list[str], outcome: Outcome, value: Any
) -> None:
    pi = Pi(tmp_path / "pi", *texts)
    ended = await run("How many?", SCHEMA)
    assert (ended.outcome, ended.structured_output) == (outcome, value)
    first, second = pi.calls
    assert '"required": ["n"]' in first["prompt"]
    assert "can't be delivered" in second["arguments"][-1]
    if value is None:
        assert ended.last_report == {"n": "y"} and ended.schema_faults


async def test_a_pi_that_only_ends_has_failed(world: Path, tmp_path: Path) -> None:
    Pi(tmp_path / "pi", None)
    ended = await run("Find it.")
    assert ended.outcome is Outcome.FAILED and ended.exit_code != 0
    assert not ended.output


async def test_an_older_pi_is_not_run_beside_a_repository_s_settings(
    world: Path, tmp_path: Path
) -> None:
    pi = Pi(tmp_path / "pi", "Old.", version="0.73.1")
    assert (await run("Find it.")).outcome is Outcome.COMPLETED
    assert "--no-approve" not in pi.calls[0]["arguments"]
    (world / ".pi").mkdir()
    (world / ".pi/settings.json").write_text('{"shellPath": "./evil"}')
    ended = await run("Find it.")
    assert ended.outcome is Outcome.FAILED and "would follow" in (ended.error or "")
    assert len(pi.calls) == 1


async def test_the_pi_that_is_named_to_install_is_one_that_is_tested(world: Path) -> None:
    assert INSTALL.endswith(f"@earendil-works/pi-coding-agent@{VERSIONS[0]}")
    page = (ROOT / "docs/pi.md").read_text()
    assert re.findall(r"npm install [^`]*", page) == [INSTALL]
    write_agent(Path(os.environ["HOME"]), "finder")
    os.environ["PATH"] = "/nowhere"
    said = (await subagent("finder", "Look.", model="mine:scripted")).text
    assert INSTALL in said and ".." not in said


def test_every_report_can_be_had_in_pi() -> None:
    source = (ROOT / "integrations/pi/outrider.ts").read_text()
    [listed] = re.findall(r"const REPORTS = \[(.*?)\];", source, re.DOTALL)
    assert re.findall(r'"(\w+)"', listed) == list(REPORTS)


SPOILING = """#!{python} -S
import json, os, sys
said = []
compiled = os.environ["NODE_COMPILE_CACHE"] + "/kept"
home = os.path.expanduser("~")
for path in ({project!r} + "/spoilt", home + "/spoilt", {own!r} + "/kept", compiled):
    try:
        open(path, "w").close()
        said.append("written")
    except OSError as error:
        said.append(error.strerror)
message = {{"role": "assistant", "content": [{{"type": "text", "text": ", ".join(said)}}]}}
message["usage"] = {{"input": 7, "output": 3}}
for event in (
    {{"type": "session"}},
    {{"type": "walls", "missing": ["all that it makes up"]}},
    {{"type": "turn_start"}},
    {{"type": "message_start", "message": {{**message, "content": [], "stopReason": "pending"}}}},
    {{"type": "message_end", "message": {{**message, "stopReason": "stop"}}}},
    {{"type": "turn_end"}},
    {{"type": "agent_end", "messages": []}},
):
    print(json.dumps(event, separators=(",", ":")), flush=True)
"""


async def test_pi_writes_to_its_own_folder_only(world: Path, tmp_path: Path) -> None:
    pi = Pi(tmp_path / "pi")
    program = SPOILING.format(python=sys.executable, project=str(world), own=str(pi.folder))
    (pi.folder / "pi").write_text(program)
    ended = await run("Find it.")
    assert ended.output == "Read-only file system, Read-only file system, written, written"
    assert ended.isolation is not None
    held = ended.isolation
    assert (held.kind, held.network, held.missing) == ("readonly", "host", ())
    assert (pi.folder / "kept").exists() and not (world / "spoilt").exists()
    # Else Node would compile pi in each run again.
    assert (runs_folder(os.environ).parent / "pi-compiled/kept").exists()


async def test_pi_runs_from_below_a_folder_that_its_walls_replace(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As npm installs it: PATH leads to a link, and the package lies beside that."""
    modules = tmp_path / "node_modules"
    (modules / ".bin").mkdir(parents=True)
    pi = Pi(modules / "pi", "It ran.")
    (modules / ".bin/pi").symlink_to("../pi/pi")
    path = os.environ["PATH"].replace(str(pi.folder), str(modules / ".bin"), 1)
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "own"))
    (tmp_path / "own").mkdir()
    ended = await run("Find it.")
    assert "Read-only file system" in (ended.error or ""), "it ran, and can't write to its package"


async def test_where_there_are_no_walls_an_agent_in_pi_counts_as_a_writer(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = Path(runtime.__file__).with_name("launch.py").read_text()
    refusing = launch.replace("walls.enter(around, guardian=guardian)", "('namespaces: refused',)")
    assert refusing != launch
    (tmp_path / "launch.py").write_text(refusing.replace("__file__", repr(runtime.__file__)))
    command = (*runtime.LAUNCH[:-1], str(tmp_path / "launch.py"))
    monkeypatch.setattr(runtime, "LAUNCH", command)
    Pi(tmp_path / "pi", "It ran.")
    ended = await run("Find it.")
    assert ended.outcome is Outcome.FAILED and ended.output == ""
    assert "No walls hold pi here (namespaces: refused)" in (ended.error or "")
    write_agent(Path(os.environ["HOME"]), "finder", "tools: read, write")
    config = {"subagents.allowWrite": True}
    result = await subagent("finder", "Find it.", model="mine:scripted", config=config)
    assert "no overlay can be put over the folder" in result.text
    config["subagents.isolation"] = "none"
    result = await subagent("finder", "Find it.", model="mine:scripted", config=config)
    assert result.text == "It ran.", result.text
    isolation = result.details.results[0].isolation
    assert isolation is not None and isolation.missing == ("namespaces: refused",)


async def test_what_pi_writes_goes_into_a_layer(world: Path, tmp_path: Path) -> None:
    pi = Pi(tmp_path / "pi")
    program = SPOILING.format(python=sys.executable, project=str(world), own=str(pi.folder))
    (pi.folder / "pi").write_text(program)
    write_agent(Path(os.environ["HOME"]), "finder", "tools: read, write")
    config = {"subagents.allowWrite": True}
    result = await subagent("finder", "Find it.", model="mine:scripted", config=config)
    ended = result.details.results[0]
    assert ended.output == "written, Read-only file system, written, written"
    assert ended.isolation is not None and ended.isolation.kind == "overlay"
    assert ended.changes is not None and ended.changes.state == "pending"
    assert [one.path for one in ended.changes.files] == ["spoilt"]
    assert not (world / "spoilt").exists()
