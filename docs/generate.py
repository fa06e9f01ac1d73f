"""Writes the tables in the docs that the code defines: `python3 dev docs`.

A table stands between `<!-- generated:NAME -->` and `<!-- /generated -->`.
"""

import dataclasses
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from unittest.mock import patch

from outrider import testing
from outrider.agents.definitions import AGENT_FIELDS
from outrider.agents.discovery import builtin_agents
from outrider.protocol.data import camel
from outrider.protocol.envelope import ToolCode
from outrider.protocol.errors import ErrorCode
from outrider.protocol.events import EVENTS
from outrider.protocol.exit_codes import EXIT_REFUSED, exit_code
from outrider.protocol.outcomes import ERROR_OF_OUTCOME, Outcome
from outrider.settings.keys import KEYS
from outrider.surfaces.cli.main import COMMANDS, parser_of
from outrider.tools.lsp.known_servers import SERVERS

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"(?P<begin><!-- generated:(?P<name>[\w-]+) -->\n).*?(?P<end><!-- /generated -->)", re.DOTALL
)


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def agent_fields() -> str:
    rows = (
        (f"`{name}`", "yes" if needed else "no", meaning) for name, needed, meaning in AGENT_FIELDS
    )
    return table(("Field", "Required", "Meaning"), rows)


def agents() -> str:
    rows = (
        (
            f"`{agent.name}`",
            agent.description,
            ", ".join(f"`{tool}`" for tool in agent.tools or ()),
        )
        for agent in builtin_agents()
    )
    return table(("Agent", "For", "Tools"), rows)


def commands() -> str:
    return table(
        ("Command", "What it does"), ((f"`{name}`", what) for name, what in COMMANDS.items())
    )


def command_help() -> str:
    """The help of every command, as a terminal of 80 columns shows it."""
    with patch.dict(os.environ, COLUMNS="80"):
        helps = {name: parser_of(name).format_help().rstrip() for name in COMMANDS}
    return "\n".join(f"### {name}\n\n```text\n{text}\n```\n" for name, text in helps.items())


def error_codes() -> str:
    return table(("Code", "Meaning"), ((f"`{code}`", code.meaning) for code in ErrorCode))


def tool_codes() -> str:
    return table(("Code", "Meaning"), ((f"{int(code)}", code.meaning) for code in ToolCode))


def outcomes() -> str:
    rows = [
        (f"`{outcome}`", str(exit_code(outcome)), f"`{ERROR_OF_OUTCOME[outcome]}`")
        for outcome in Outcome
        if outcome in ERROR_OF_OUTCOME
    ]
    rows.insert(0, (f"`{Outcome.COMPLETED}`", "0", "none, or `SUBAGENT_OUTPUT_TRUNCATED`"))
    rows.append(("killed by signal n: `failed`", "128 + n", "`SUBAGENT_FAILED`"))
    rows.append(("refused before a child started", str(EXIT_REFUSED), "see the codes"))
    return table(("Outcome", "Exit code", "Error code"), rows)


def configuration() -> str:
    rows = (
        (f"`{key.name}`", f"`{json.dumps(key.default)}`", key.doc, key.project.value)
        for key in KEYS.values()
    )
    return table(("Key", "Default", "Meaning", "A project's file may"), rows)


def events() -> str:
    rows = (
        (f"`{name}`", ", ".join(map(_event_field, _wire_fields(event))), _summary(event))
        for name, event in EVENTS.items()
    )
    return table(("Type", "Fields", "Meaning"), rows)


def _wire_fields(event: type) -> list[dataclasses.Field[object]]:
    return [one for one in dataclasses.fields(event) if not one.name.startswith("has_")]


def _event_field(field: dataclasses.Field[object]) -> str:
    missing = dataclasses.MISSING
    needed = field.default is missing and field.default_factory is missing
    return f"`{camel(field.name)}`" if needed else f"`{camel(field.name)}?`"


def _summary(thing: object) -> str:
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def scripted_steps() -> str:
    """The functions that make a step, in the order in which their module has them."""
    steps = [getattr(testing, name) for name in testing.__all__ if name.islower()]
    steps.sort(key=lambda step: step.__code__.co_firstlineno)
    rows = ((_call(step), (step.__doc__ or "").partition("\n")[0]) for step in steps)
    return table(("Step", "What the client gets"), rows)


def _call(step: Callable[..., object]) -> str:
    parameters = inspect.signature(step).parameters.values()
    needed = (p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)
    return f"`{step.__name__}({', '.join(needed)})`"


def lsp_servers() -> str:
    rows = (
        (
            server.language,
            f"`{server.name}`",
            " ".join(f"`{ending}`" for ending in server.file_types),
            f"`{server.install}`",
            server.runs or "no",
            "yes" if server.tested else "no",
        )
        for server in SERVERS
    )
    header = ("Language", "Server", "Files", "Install", "Needs a trusted repository", "Tested here")
    return table(header, rows)


GENERATORS: dict[str, Callable[[], str]] = {
    "agent-fields": agent_fields,
    "builtin-agents": agents,
    "commands": commands,
    "command-help": command_help,
    "error-codes": error_codes,
    "tool-codes": tool_codes,
    "outcomes": outcomes,
    "configuration": configuration,
    "events": events,
    "lsp-servers": lsp_servers,
    "scripted-steps": scripted_steps,
}


def generated(text: str) -> str:
    """Return a page with all of its generated blocks as the code has them now."""
    return BLOCK.sub(lambda m: f"{m['begin']}{GENERATORS[m['name']]()}{m['end']}", text)


def pages() -> list[Path]:
    """Return every page that may hold such a block."""
    named = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "AGENTS.md")]
    return [*named, *sorted((ROOT / "docs").rglob("*.md"))]


def main() -> None:
    for page in pages():
        old = page.read_text()
        if (new := generated(old)) != old:
            page.write_text(new)
            sys.stdout.write(f"{page.relative_to(ROOT)} written\n")


if __name__ == "__main__":
    main()
