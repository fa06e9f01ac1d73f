"""The report `agents`: who can be delegated to here, and what each of them gets."""

from argparse import Namespace
from dataclasses import asdict

from outrider.agents.trust import Clearance
from outrider.delegation.delegation_policy import policy_for
from outrider.delegation.project import Project, open_project
from outrider.surfaces.parser import CWD, argument, bad_call
from outrider.surfaces.reports.one_agent import agent_report, write_new_agent
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

STATES = {Clearance.RUN: "", Clearance.ASK: ", asks first", Clearance.REFUSE: ", off"}


def report(arguments: Namespace) -> Report:
    """Return the agents, or the one that is asked for."""
    match arguments.name:
        case []:
            return _all(open_project(arguments.cwd))
        case [name]:
            return agent_report(name, open_project(arguments.cwd))
        case ["new", name]:
            return write_new_agent(name)
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
