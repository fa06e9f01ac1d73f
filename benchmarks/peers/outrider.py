"""Outrider through its Python API, and `run` as the one-shot command."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import outrider
from benchmarks.peers.pi import write_models
from benchmarks.peers.protocol import MODEL, output_of, serve
from outrider.delegation.api import subagent
from outrider.models.wires import Wire
from outrider.runtimes.native import fork_client

AGENT = "explorer"
PI_AGENT = "in-pi"
OPENAI, ANTHROPIC = "openai-chat", "anthropic"
COLD = {"warm.keepMinutes": 0}


@dataclass(frozen=True)
class Mode:
    """One way to delegate: to whom, to which provider's model, and with which settings."""

    provider: str = OPENAI
    settings: Mapping[str, Any] = field(default_factory=dict)
    agent: str = AGENT
    walls: bool = True
    """Whether its children are confined, as all are unless a person watches them."""
    loaded: str = Wire.LEAN
    """What its warm process has loaded: the lean wire, or the SDK of a provider."""

    @property
    def model(self) -> str:
        """The scripted model, as a user would choose it."""
        return f"{self.provider}:{MODEL}"

    @property
    def is_warm(self) -> bool:
        """Whether its children are forked."""
        return self.agent == AGENT and not COLD.items() <= self.settings.items()


MODES = {
    "warm": Mode(),
    "open": Mode(walls=False),
    "cold": Mode(settings=COLD),
    "sdk": Mode(settings={"models.wire": "sdk"}, loaded=OPENAI),
    "anthropic": Mode(ANTHROPIC, loaded=ANTHROPIC),
    "cold-anthropic": Mode(ANTHROPIC, COLD),
    "pi": Mode("bench", agent=PI_AGENT),
}


def outrider_config(mode: Mode, concurrent: int | None) -> dict[str, Any]:
    """Return the settings of a mode; at most `concurrent` children run at once."""
    settings: dict[str, Any] = {"subagents.budget.maxTurns": 1_000, **mode.settings}
    if concurrent is not None:
        settings["subagents.maxConcurrent"] = concurrent
    return settings


class Library:
    """Delegations from this process; its children are forked from a warm process, or cold."""

    def __init__(self, mode: str) -> None:
        self._mode = MODES[mode]
        self._settings = outrider_config(self._mode, None)
        if not self._mode.walls:
            script = Path(__file__).with_name("without_walls.py")
            fork_client.PYTHON = (sys.executable, "-P", str(script))

    async def prepare(self, _tasks: int, concurrent: int | None) -> None:
        """Set the queue's width; in a warm mode also wait until the fork server is ready."""
        self._settings = outrider_config(self._mode, concurrent)
        mode = self._mode
        if mode.is_warm and not await fork_client.hosted_fork_server(mode.loaded).ready():
            raise SystemExit("Outrider's warm process could not be started.")

    async def delegate(self, task: str) -> str:
        """Return the answer of one delegation; raises `RuntimeError` for any other outcome."""
        mode = self._mode
        result = await subagent(mode.agent, task, model=mode.model, config=self._settings)
        if not result.completed:
            raise RuntimeError(result.text)
        return result.text


async def run_command(task: str) -> str:
    """Return what `outrider run` prints; from the second call on, it uses a warm process."""
    mode = MODES["warm"]
    command = [sys.executable, "-P", "-m", "outrider", "run", AGENT, task, "--model", mode.model]
    for key, value in outrider_config(mode, None).items():
        command += ["--set", f"{key}={value}"]
    return await output_of(command)


async def offer(_task: str) -> dict[str, Any]:
    """Return what a host tells its model about Outrider: the tool, and when to use it."""
    from outrider.agents.discovery import builtin_agents
    from outrider.delegation.profiles import (
        SubAgentManager,
        SubAgentTool,
        delegation_policy,
        sub_agent_profile,
    )

    agents = list(builtin_agents())
    profile = sub_agent_profile("subagent")
    tool = SubAgentTool(profile, SubAgentManager(), [agent.name for agent in agents])
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    definition = {"type": "function", "function": function}
    return {"tool": tool.name, "definition": definition, "prompt": delegation_policy(agents)}


def prepare_pi() -> None:
    """Put pi on PATH, and write an agent that runs in it."""
    write_models()
    program = Path(os.environ["HOME"], "bin", "pi")
    program.parent.mkdir()
    program.symlink_to(os.environ["BENCH_PI"])
    node = Path(os.environ["BENCH_NODE"]).parent
    os.environ["PATH"] = f"{program.parent}:{node}:{os.environ['PATH']}"
    agents = Path(os.environ["HOME"], ".config/outrider/agents")
    agents.mkdir(parents=True)
    (agents / f"{PI_AGENT}.md").write_text(f"---\nname: {PI_AGENT}\nruntime: pi\n---\nHelp.\n")


def main() -> None:
    """Serve in the mode that the first argument names."""
    mode = sys.argv[1]
    if mode == "pi":
        prepare_pi()
    os.chdir(os.environ["BENCH_PROJECT"])
    if mode == "run":
        serve(run_command, version=outrider.__version__, offer=offer)
    else:
        library = Library(mode)
        serve(library.delegate, version=outrider.__version__, offer=offer, prepare=library.prepare)


if __name__ == "__main__":
    main()
