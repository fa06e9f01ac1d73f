"""The report `agents`: who can be delegated to here, one of them in full, or a new one's file."""

import os
from argparse import Namespace
from dataclasses import asdict
from typing import Any

from outrider.agents.definitions import (
    AGENT_FIELDS,
    AgentDefinition,
    Source,
    normal_name,
    parse_definition,
)
from outrider.agents.permissions import Clearance
from outrider.delegation.delegation_policy import policy_for
from outrider.delegation.preparation import find_agent
from outrider.delegation.project import Project, open_project
from outrider.delegation.request import invalid
from outrider.protocol.catalogue import DEFAULT_TOOLS
from outrider.protocol.data import to_json
from outrider.protocol.results import WithheldTool
from outrider.settings import places
from outrider.surfaces.parser import CWD, argument, bad_call
from outrider.surfaces.reports.report import Column, Report, Row, Section, warnings_of
from outrider.surfaces.text import by_reason

EXAMPLES = """\
A project's agents win over yours, and yours over the built-in ones. A file that
has a fault is listed with its path, the line and the fault.

examples:
  outrider agents explorer            one in full, with the tools it gets here
  outrider agents new api-reviewer    a commented file to begin with
  outrider agents --json --cwd ../other-project
"""
ARGUMENTS = (
    argument("name", metavar="AGENT", nargs="*", help="show this one in full; 'new NAME' adds one"),
    CWD,
)

STATES = {Clearance.RUN: "", Clearance.ASK: ", asks first", Clearance.REFUSE: ", off"}
TEMPLATE = """\
---
{fields}
---
You do one thing well: say here what it is, what to look at, and how to report it.
Name the files and lines that your findings rest on, and say what you are unsure of.
"""
EXAMPLE_VALUES = {
    "description": "Says in one line when to delegate to it.",
    "readonly": "true",
    "tools": ", ".join(DEFAULT_TOOLS),
}


def report(arguments: Namespace) -> Report:
    """Return the agents, or the one that is asked for."""
    match arguments.name:
        case []:
            return _all(open_project(arguments.cwd))
        case [name]:
            return _one(name, open_project(arguments.cwd))
        case ["new", name]:
            return _added(normal_name(name))
        case _:
            raise bad_call("give one AGENT, or 'new NAME'", "agents")


def record(agent: AgentDefinition, project: Project) -> dict[str, Any]:
    """Return what is known of an agent: what it is for, what it gets and what it doesn't."""
    given, choice = project.permit(agent, interactive=True)[0], project.choice(agent)
    clearance, reason = project.clearance(agent, given, interactive=True)
    return {
        "name": agent.name,
        "source": agent.source,
        "path": agent.path,
        "description": agent.description,
        "readonly": given.readonly,
        "tools": list(given.tools),
        "withheld": to_json(given.withheld),
        "model": choice.shown,
        "modelReason": choice.reason,
        "modelProblem": choice.problem,
        "outputSchema": agent.output_schema,
        "mayRun": clearance,
        "mayRunReason": reason,
    }


def lost(project: Project) -> list[str]:
    """Return a sentence for each agent file that isn't used because of another one."""
    discovery = project.discovery
    return [
        f"{one.path}: not used; {discovery.agents[one.name].path} defines {one.name} too"
        for one in discovery.shadowed
    ]


def without(agent: Row) -> str:
    """Return which listed tools an agent doesn't get, and why."""
    return "; ".join(by_reason(WithheldTool(**one) for one in agent["withheld"]))


def _all(project: Project) -> Report:
    discovery, warnings = project.discovery, project.settings.warnings
    agents = [record(agent, project) for agent in discovery.agents.values()]
    data = {
        "agents": agents,
        "shadowed": [
            {"name": one.name, "source": one.source, "path": one.path} for one in discovery.shadowed
        ],
        "diagnostics": [asdict(note) for note in discovery.diagnostics],
        "warnings": list(warnings),
        "host": {
            "enabled": project.config.subagents.enabled,
            "commands": project.config.commands.enabled,
            "policy": policy_for(project),
        },
    }
    faults = [{"fault": text} for text in (*lost(project), *map(str, discovery.diagnostics))]
    sections = Section(AGENT, agents, wraps=True), Section(FAULT, faults, wraps=True)
    return Report(data, sections, warnings_of(warnings))


def _lines(agent: Row) -> list[str]:
    """Return what is said of an agent: what it is for, what it has, and what it doesn't get."""
    withheld, tools = without(agent), f" · {', '.join(agent['tools']) or 'no tools'}"
    if withheld and not agent["tools"]:
        tools = ": gets none of its tools"
    problem = f" ({agent['modelProblem']})" if agent["modelProblem"] else ""
    about = f"{agent['source']}{STATES[agent['mayRun']]}{tools} · {agent['model']}{problem}"
    return [agent["description"], about, *([f"without {withheld}"] if withheld else [])]


AGENT = (
    Column("", "name", lambda agent: "red" if agent["mayRun"] == Clearance.REFUSE else "cyan"),
    Column("", _lines),
)
FAULT = (Column("", "fault", "yellow"),)


def _one(name: str, project: Project) -> Report:
    definition = find_agent(name, project.discovery)
    agent = {**record(definition, project), "systemPrompt": definition.system_prompt}
    shown = {**agent, "tools": ", ".join(agent["tools"]), "withheld": without(agent)}
    shown["systemPrompt"] = definition.system_prompt.splitlines()
    rows = [{"name": name, "value": value} for name, value in shown.items() if value is not None]
    sections = (Section((Column("", "name", "cyan"), Column("", "value")), rows, wraps=True),)
    return Report({"agent": agent}, sections)


def _added(name: str) -> Report:
    """Write the file of a new agent of the user's; raises `Refusal` where there is one."""
    path = places.user_agent_folders(os.environ)[0] / f"{name}.md"
    values = {"name": name, **EXAMPLE_VALUES}
    lines = (
        f"# {meaning}\n{field}: {values[field]}" if field in values else f"# {meaning}\n# {field}:"
        for field, _, meaning in AGENT_FIELDS
    )
    text = TEMPLATE.format(fields="\n".join(lines))
    definition, _ = parse_definition(text, str(path), Source.USER)
    if definition is None or definition.name != name:
        raise bad_call(f"{name!r} isn't a valid name. {AGENT_FIELDS[0][2]}", "agents")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise invalid(f"{path} can't be written: {error.strerror}.") from None
    row, note = {"name": name, "path": str(path)}, f"edit it, then: outrider agents {name}"
    return Report(row, (Section((Column("", "path"),), [row], wraps=True),), (note,))
