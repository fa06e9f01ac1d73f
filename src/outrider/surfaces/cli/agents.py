"""`outrider agents`: the agents that can be delegated to here, with their tools and models."""

import sys
from argparse import Namespace
from dataclasses import asdict
from typing import Any

from outrider.agents.definitions import AgentDefinition
from outrider.agents.permissions import Clearance
from outrider.delegation.project import Project, open_project
from outrider.protocol.data import to_json
from outrider.surfaces.cli import output
from outrider.surfaces.cli.parser import CommandParser
from outrider.surfaces.cli.text import by_reason, clean, fit, one_line, pad, width

EXAMPLES = """\
A project's agents win over yours, and yours over the built-in ones. A file that has a fault
is listed with its path, the line and the fault.

examples:
  outrider agents
  outrider agents --json --cwd ../other-project
"""

STATES = {Clearance.RUN: "", Clearance.ASK: ", asks first", Clearance.REFUSE: ", off"}

configure = CommandParser.add_cwd


def execute(arguments: Namespace) -> None:
    """List the agents."""
    project = open_project(arguments.cwd)
    discovery, warnings = project.discovery, project.settings.warnings
    if arguments.json:
        output.write_json(
            {
                "agents": [_record(agent, project) for agent in discovery.agents.values()],
                "shadowed": [
                    {"name": lost.name, "source": lost.source, "path": lost.path}
                    for lost in discovery.shadowed
                ],
                "diagnostics": [asdict(note) for note in discovery.diagnostics],
                "warnings": list(warnings),
            }
        )
        return
    output.warn(warnings)
    _write_agents(project)
    for lost in discovery.shadowed:
        winner = discovery.agents[lost.name]
        output.write_text(f"{lost.path}: not used; {winner.path} defines {lost.name} too")
    for note in discovery.diagnostics:
        paint = "red" if note.severity == "error" else "yellow"
        output.write(output.coloured(clean(str(note)), paint) + "\n")


def _record(agent: AgentDefinition, project: Project) -> dict[str, Any]:
    given, choice = project.permit(agent, interactive=True)[0], project.choice(agent)
    clearance, reason = project.clearance(agent, interactive=True)
    return {
        "name": agent.name,
        "source": agent.source,
        "path": agent.path,
        "description": agent.description,
        "readonly": given.readonly,
        "tools": list(given.tools),
        "withheld": to_json(given.withheld),
        "model": choice.model,
        "modelReason": choice.reason,
        "modelProblem": choice.problem,
        "outputSchema": agent.output_schema,
        "mayRun": clearance,
        "mayRunReason": reason,
    }


def _write_agents(project: Project) -> None:
    agents = project.discovery.agents.values()
    names = max(width(agent.name) for agent in agents)
    room = max((output.terminal_columns() or sys.maxsize) - names - 2, 8)
    for agent in agents:
        clearance, _ = project.clearance(agent, interactive=True)
        first, *rest = (fit(line, room) for line in _lines(agent, project, STATES[clearance]))
        paint = "red" if clearance is Clearance.REFUSE else "cyan"
        output.write(f"{output.coloured(pad(agent.name, names), paint)}  {first}".rstrip() + "\n")
        for line in rest:
            output.write(f"{' ' * names}  {output.coloured(line, 'dim')}\n")


def _lines(agent: AgentDefinition, project: Project, state: str) -> list[str]:
    """Return what is said of an agent: what it is for, what it has, and what it doesn't get."""
    given, choice = project.permit(agent, interactive=True)[0], project.choice(agent)
    tools = f" · {', '.join(given.tools) or 'no tools'}"
    if given.lacks_all_tools:
        tools = ": gets none of its tools"
    problem = f" ({choice.problem})" if choice.problem else ""
    lines = [agent.description, f"{agent.source}{state}{tools} · {choice.model}{problem}"]
    if given.withheld:
        lines.append(f"without {'; '.join(by_reason(given.withheld))}")
    return [one_line(line) for line in lines]
