"""`subagents.maxDepth` of the outermost caller holds for all below it, whatever a command does."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import MAY_WRITE
from outrider.delegation.api import subagent
from outrider.delegation.depth import max_depth
from outrider.delegation.main_session import MainSession
from outrider.delegation.perform import Caller
from outrider.settings.keys import DEFAULTS, Config
from outrider.settings.layers import Layer, Origin, merge
from outrider.testing import ScriptedModel, answer, tool_call

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the environment tells"),
    pytest.mark.usefixtures("unmeasured"),
]

DOER = "---\nname: doer\ntools: bash\n---\nDo it.\n"
RUN = f"{sys.executable} -m outrider run explorer Again. --model embedded --json"
RAISED = f"{RUN} --set subagents.maxDepth=5"
CLEAN = "env -i PATH=$PATH HOME=$HOME"
API = (
    "from outrider import subagent_sync; import json;"
    " told = subagent_sync('explorer', 'x', config={'subagents.maxDepth': 9});"
    " print(json.dumps(told.to_dict()))"
)
CONFIG = '{"subagents": {"maxDepth": 9}}'
CALL = {"name": "subagent", "arguments": {"agent": "explorer", "task": "x"}}
MCP_LINES = [
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": CALL},
]
SPOKEN = "\n".join(json.dumps({"jsonrpc": "2.0", **line}) for line in MCP_LINES)
NAMESPACE = "unshare --user --map-root-user --pid --fork --mount-proc"
WAYS = {
    "a flag": RAISED,
    "a variable": f"OUTRIDER_SUBAGENTS__MAX_DEPTH=9 {RUN}",
    "a flag, as a child of pi's": f"{CLEAN} PI_SUBAGENT_CHILD=1 {RAISED}",
    "variables of our own": (
        "OUTRIDER_SUBAGENT_DEPTH=0 OUTRIDER_SUBAGENT_CHILD=0 PI_SUBAGENT_CHILD=0"
        f" OUTRIDER_SUBAGENTS__MAX_DEPTH=9 {RAISED}"
    ),
    "a file of settings": (
        f"mkdir -p new/.config/outrider; echo '{CONFIG}' > new/.config/outrider/config.json;"
        f" HOME=$PWD/new OUTRIDER_HOME=$PWD/new {RUN}"
    ),
    "no environment": f"{CLEAN} {RAISED}",
    "the functions": f'{CLEAN} {sys.executable} -c "{API}"',
    "a server": (
        f"(printf '%s\\n' '{SPOKEN}'; while [ ! -e told ]; do sleep 0.05; done) |"
        f" {CLEAN} OUTRIDER_SUBAGENTS__MAX_DEPTH=9 {sys.executable} -m outrider mcp |"
        " (grep --max-count=1 '\"id\":2'; touch told)"
    ),
    "its own limits": f"ulimit -x unlimited; ulimit -Hx 5; {CLEAN} {RAISED}",
    "a daemon": (
        f"({CLEAN} setsid sh -c '{RAISED} > told.new; mv told.new told' &);"
        " while [ ! -e told ]; do sleep 0.05; done; cat told"
    ),
    "a process namespace": f"{NAMESPACE} {CLEAN} OUTRIDER_SUBAGENTS__MAX_DEPTH=9 {RAISED}",
}

CAP_SYS_RESOURCE = 1 << 24
STATUS = Path("/proc/self/status").read_text() if sys.platform == "linux" else ""
for capabilities in re.findall(r"CapEff:\s*(\w+)", STATUS):
    if int(capabilities, 16) & CAP_SYS_RESOURCE:
        del WAYS["its own limits"]  # who has this may raise them, as docs/safety.md says


@pytest.fixture
def doer(world: Path) -> Path:
    (world / ".outrider/agents").mkdir(parents=True)
    (world / ".outrider/agents/doer.md").write_text(DOER)
    return world


async def told_below(commands: list[str], **config: object) -> list[str]:
    """Return what commands of a child print."""
    calls = [tool_call("bash", {"command": command}) for command in commands]
    with ScriptedModel([*calls, answer("Done.")]) as server:
        os.environ.update(server.environment)
        given = {**MAY_WRITE, **config}
        result = await subagent("doer", "Go.", model=server.model, config=given)
        assert result.completed, result.text
    return [str(request.messages[-1]["content"]) for request in server.requests[1:]]


@pytest.mark.usefixtures("doer")
@pytest.mark.parametrize("way", WAYS)
async def test_nothing_below_a_child_raises_the_limit(way: str) -> None:
    if NAMESPACE in WAYS[way]:
        tried = await asyncio.to_thread(
            subprocess.run, [*NAMESPACE.split(), "true"], capture_output=True
        )
        if tried.returncode:
            pytest.skip("a user can't make a process namespace here")
    (told,) = await told_below([WAYS[way]])
    if NAMESPACE in WAYS[way] and "unshare failed: Operation not permitted" in told:
        return  # its cell lets it make none
    assert "SUBAGENT_DEPTH_EXCEEDED" in told and "at depth 1 is refused" in told


@pytest.mark.usefixtures("start")
async def test_a_delegation_within_the_limit_works_behind_walls_and_says_what_is_lost(
    doer: Path, tmp_path: Path
) -> None:
    os.environ["OUTRIDER_HOME"] = os.path.relpath(tmp_path / "kept")
    nested = f"mkdir sub; cd sub; {RUN} > ../out; cd ..; {sys.executable} -m outrider config 2> err"
    commands = [nested, f"{RUN} --set subagents.maxDepth=1"]
    told = await told_below(commands, **{"subagents.maxDepth": 2})
    result = json.loads((doer / "out").read_text())["details"]["results"][0]
    lost = ["started by a child behind walls: the record of this run ends with that"]
    assert (result["outcome"], result["warnings"]) == ("completed", lost)
    assert (doer / "err").read_text() == "", "it knows its own variables"
    assert "SUBAGENT_DEPTH_EXCEEDED" in told[1], "a lower limit counts"
    assert len(list((tmp_path / "kept/runs").glob("*/result.json"))) == 1


@pytest.mark.usefixtures("world")
async def test_a_command_of_the_main_agent_has_the_limit_too() -> None:
    command = f"{CLEAN} OPENAI_API_KEY=sk-unused-0123 {RAISED}; ulimit -Hx"
    with ScriptedModel([tool_call("bash", {"command": command}), answer("Done.")]) as server:
        os.environ.update(server.environment)
        caller = Caller(os.environ, flags={"model": server.model, "subagents.maxDepth": 1})
        await MainSession(caller, watch=lambda *_: None, allow_write=True).turn("Go.")
    told = str(server.requests[1].messages[-1]["content"])
    assert '"outcome":"completed"' in told, "it is at depth 0 itself"
    assert "\n1\n[exit code 0]" in told


def config_of(most: int) -> Config:
    return merge([Layer(Origin.USER, "user", {"subagents.maxDepth": most})]).config


@pytest.mark.parametrize(
    ("env", "most"),
    [
        ({}, 5),
        ({"PI_SUBAGENT_CHILD": "1"}, 1),
        ({"OUTRIDER_SUBAGENT_DEPTH": "3"}, 3),
        ({"OUTRIDER_SUBAGENT_DEPTH": "1", "OUTRIDER_SUBAGENTS__MAX_DEPTH": "2"}, 2),
        ({"OUTRIDER_SUBAGENT_DEPTH": "1", "OUTRIDER_SUBAGENTS__MAX_DEPTH": "9"}, 5),
        ({"OUTRIDER_SUBAGENT_DEPTH": "1", "OUTRIDER_SUBAGENTS__MAX_DEPTH": "-1"}, 1),
    ],
)
def test_a_limit_that_nobody_told_is_the_depth_itself(env: dict[str, str], most: int) -> None:
    assert max_depth(config_of(5), env) == most
    assert max_depth(DEFAULTS, env) == 1
