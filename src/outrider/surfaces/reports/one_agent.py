"""One agent of `agents`: all that is known of it, or the commented file of a new one."""

import os

from outrider.agents.definitions import AGENT_FIELDS, Source, normal_name, parse_definition
from outrider.delegation.preparation import find_agent
from outrider.delegation.project import Project
from outrider.delegation.request import invalid
from outrider.protocol.catalogue import DEFAULT_TOOLS
from outrider.settings import places
from outrider.surfaces.parser import bad_call
from outrider.surfaces.table import Column, Report, Table
from outrider.surfaces.text import withheld_from

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


def agent_report(name: str, project: Project) -> Report:
    """Return all that is known of an agent; raises `Refusal` where there is none."""
    definition = find_agent(name, project.discovery)
    agent = {**project.about(definition), "systemPrompt": definition.system_prompt}
    shown = {**agent, "tools": ", ".join(agent["tools"]), "withheld": withheld_from(agent)}
    shown["systemPrompt"] = definition.system_prompt.splitlines()
    rows = [{"name": name, "value": value} for name, value in shown.items() if value is not None]
    tables = (Table((Column("", "name", "cyan"), Column("", "value")), rows, wraps=True),)
    return Report({"agent": agent}, tables)


def write_new_agent(given: str) -> Report:
    """Write the file of a new agent of the user's; raises `Refusal` where there is one."""
    name = normal_name(given)
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
        raise invalid(f"Can't write {path}: {error.strerror}.") from None
    row, note = {"name": name, "path": str(path)}, f"edit it, then run: outrider agents {name}"
    return Report(row, (Table((Column("", "path"),), [row], wraps=True),), (note,))
