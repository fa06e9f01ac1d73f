"""`outrider agents`: who can be delegated to here, with which tools and model."""

import sys
from argparse import Namespace
from typing import Any

from outrider.agents.definitions import AgentDefinition
from outrider.agents.permissions import Clearance
from outrider.delegation.project import Project, open_project
from outrider.protocol.data import to_json
from outrider.surfaces.cli import output
from outrider.surfaces.cli.parser import CommandParser
from outrider.surfaces.cli.text import clean, fit, one_line, pad, width

EXAMPLES = """\
A project's agents win over yours, and yours over the built-in ones. What is wrong with a
file is told with its path and line.

examples:
  outrider agents
  outrider agents --json --cwd ../other-project
"""

STATES = {Clearance.RUN: "", Clearance.ASK: "asks first", Clearance.REFUSE: "off"}


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `agents`."""
    parser.add_cwd()


def execute(arguments: Namespace) -> int:
    """List the agents."""
    project = open_project(arguments.cwd)
    if arguments.json:
        output.write_json(_listing(project))
        return 0
    for warning in project.settings.warnings:
        output.say(f"warning: {warning}.")
    _write_agents(project)
    for lost in project.discovery.shadowed:
        winner = project.discovery.agents[lost.name]
        output.write_text(f"{lost.path}: not used; {winner.path} defines {lost.name} too")
    for note in project.discovery.diagnostics:
        paint = "red" if note.severity == "error" else "yellow"
        output.write(output.coloured(clean(str(note)), paint) + "\n")
    return 0


def _listing(project: Project) -> dict[str, Any]:
    discovery = project.discovery
    return {
        "agents": [_record(agent, project) for agent in discovery.agents.values()],
        "shadowed": [
            {"name": lost.name, "source": lost.source, "path": lost.path}
            for lost in discovery.shadowed
        ],
        "diagnostics": [
            {
                "path": note.path,
                "line": note.line,
                "severity": note.severity,
                "message": note.message,
            }
            for note in discovery.diagnostics
        ],
        "warnings": list(project.settings.warnings),
    }


def _record(agent: AgentDefinition, project: Project) -> dict[str, Any]:
    given, choice = project.permit(agent)[0], project.choice(agent)
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
    agents = list(project.discovery.agents.values())
    names = max(width(agent.name) for agent in agents)
    room = output.terminal_columns(sys.stdout)
    for agent in agents:
        clearance, _ = project.clearance(agent, interactive=True)
        about, means = one_line(agent.description), _means(agent, project, STATES[clearance])
        if room:
            about, means = (fit(line, max(room - names - 2, 8)) for line in (about, means))
        paint = "red" if clearance is Clearance.REFUSE else "cyan"
        output.write(f"{output.coloured(pad(agent.name, names), paint)}  {about}".rstrip() + "\n")
        output.write(f"{' ' * names}  {output.coloured(means, 'dim')}\n")


def _means(agent: AgentDefinition, project: Project, state: str) -> str:
    given, choice = project.permit(agent)[0], project.choice(agent)
    tools = ", ".join(given.tools) or "no tools"
    without = ", ".join(one.tool for one in given.withheld)
    problem = f" ({choice.problem})" if choice.problem else ""
    source = f"{agent.source}, {state}" if state else str(agent.source)
    parts = [source, tools, f"not given: {without}" if without else "", f"{choice.model}{problem}"]
    return one_line(" · ".join(part for part in parts if part))
