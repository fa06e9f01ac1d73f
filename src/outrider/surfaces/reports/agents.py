"""The report `agents`: who can be delegated to here, what each of them gets, and a new one."""

import os
from argparse import Namespace
from dataclasses import asdict

from outrider.agents.definitions import AGENT_FIELDS, is_agent_name, normal_name
from outrider.agents.trust import Clearance
from outrider.delegation.preparation import find_agent
from outrider.delegation.profiles import policy_for
from outrider.delegation.project import Project, open_project
from outrider.delegation.request import invalid
from outrider.protocol.tool_catalogue import DEFAULT_TOOLS
from outrider.settings import places
from outrider.surfaces.parser import CWD, argument, bad_call
from outrider.surfaces.table import Column, Report, Row, Table
from outrider.surfaces.text import warnings_of, withheld_from

EXAMPLES = """\
A project's agents override yours, and yours override the built-in ones. Files
with errors are listed with the path, line and problem.

examples:
  outrider agents explorer            one agent in full, with its tools here
  outrider agents new api-reviewer    create a commented file to start from
  outrider agents --json --cwd ../other-project
"""
ARGUMENTS = (
    argument("name", metavar="AGENT", nargs="*", help="show this one; 'new NAME' creates one"),
    CWD,
)
TEMPLATE = """\
---
{fields}
---
Describe here what the agent does, what it looks at and how it reports.
Name the files and lines that support each finding, and say what you are unsure of.
"""
EXAMPLE_VALUES = {
    "description": "Say in one line when to delegate to this agent.",
    "readonly": "true",
    "tools": ", ".join(DEFAULT_TOOLS),
}
STATES = {Clearance.RUN: "", Clearance.ASK: ", asks first", Clearance.REFUSE: ", off"}


def report(arguments: Namespace) -> Report:
    match arguments.name:
        case []:
            return _all(open_project(arguments.cwd))
        case [name]:
            return _one(name, open_project(arguments.cwd))
        case ["new", name]:
            return write_new_agent(name, open_project(arguments.cwd))
        case _:
            raise bad_call("give one AGENT, or 'new NAME'", "agents")


def _all(project: Project) -> Report:
    discovery, warnings = project.discovery, project.settings.warnings
    agents = [project.about(agent) for agent in discovery.agents.values()]
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
    faults = [{"fault": text} for text in (*discovery.lost, *map(str, discovery.diagnostics))]
    tables = Table(AGENT, agents, wraps=True), Table(FAULT, faults, wraps=True)
    return Report(data, tables, warnings_of(warnings))


def _one(name: str, project: Project) -> Report:
    """Return all that is known of an agent; raises `Refusal` where there is none."""
    definition = find_agent(name, project.discovery)
    agent = {**project.about(definition), "systemPrompt": definition.system_prompt}
    shown = {**agent, "tools": ", ".join(agent["tools"]), "withheld": withheld_from(agent)}
    shown["systemPrompt"] = definition.system_prompt.splitlines()
    rows = [{"name": name, "value": value} for name, value in shown.items() if value is not None]
    tables = (Table((Column("", "name", "cyan"), Column("", "value")), rows, wraps=True),)
    return Report({"agent": agent}, tables)


def write_new_agent(given: str, project: Project) -> Report:
    """Write the file of a new agent of the user's; raises `Refusal` where there is one."""
    name = normal_name(given)
    if there := project.discovery.agents.get(name):
        raise invalid(f"An agent {name} exists already: {there.path}. Choose another name.")
    if not is_agent_name(name):
        raise bad_call(f"{name!r} isn't a valid name. {AGENT_FIELDS[0][2]}", "agents")
    path = places.user_agent_folders(os.environ)[0] / f"{name}.md"
    values = {"name": name, **EXAMPLE_VALUES}
    lines = (
        f"# {meaning}\n{field}: {values[field]}" if field in values else f"# {meaning}\n# {field}:"
        for field, _, meaning in AGENT_FIELDS
    )
    text = TEMPLATE.format(fields="\n".join(lines))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise invalid(f"Can't write {path}: {error.strerror}.") from None
    row, note = {"name": name, "path": str(path)}, f"edit it, then run: outrider agents {name}"
    return Report(row, (Table((Column("", "path"),), [row], wraps=True),), (note,))


def _lines(agent: Row) -> list[str]:
    """Return what is said of an agent: what it is for, what it has, and what it doesn't get."""
    withheld, tools = withheld_from(agent), f" · {', '.join(agent['tools']) or 'no tools'}"
    if withheld and not agent["tools"]:
        tools = ": none of its tools are available"
    problem = f" ({agent['modelProblem']})" if agent["modelProblem"] else ""
    about = f"{agent['source']}{STATES[agent['mayRun']]}{tools} · {agent['model']}{problem}"
    return [agent["description"], about, *([f"without {withheld}"] if withheld else [])]


AGENT = (
    Column("", "name", lambda agent: "red" if agent["mayRun"] == Clearance.REFUSE else "cyan"),
    Column("", _lines),
)
FAULT = (Column("", "fault", "yellow"),)
