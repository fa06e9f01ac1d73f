"""The report `models`: what could answer here, which one does, and why."""

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from outrider.delegation.project import Project, open_project
from outrider.models.known_providers import EMBEDDED
from outrider.models.local_servers import WELL_KNOWN, probe_local_servers
from outrider.models.resolution import ModelChoice
from outrider.surfaces.parser import CWD
from outrider.surfaces.table import Column, Report, Table
from outrider.surfaces.text import warnings_of

EXAMPLES = """\
The first model is used unless --model or the agent's file names another.

examples:
  outrider models
  outrider run "Where is main?" -m embedded
  outrider models --json | jq -r '.models[] | select(.problem == null) | .model'
"""
ARGUMENTS = (CWD,)
COLUMNS = (
    Column("model", colour="cyan"),
    Column("is", lambda row: "off" if row["problem"] else "used" if row["answers"] else "on"),
    Column("wire"),
    Column("why", lambda row: row["problem"] or row["why"]),
)


def report(arguments: Namespace) -> Report:
    """Return the models, the one that answers first."""
    project = open_project(arguments.cwd)
    rows: dict[str, dict[str, Any]] = {}
    for choice in _choices(project):
        row = {"model": choice.model, "answers": not rows, "wire": project.wire(choice)}
        rows.setdefault(choice.model, row | {"why": choice.reason, "problem": choice.problem})
    models = list(rows.values())
    notes = warnings_of(project.settings.warnings)
    return Report({"models": models}, (Table(COLUMNS, models, wraps=True),), notes)


def _choices(project: Project) -> Iterator[ModelChoice]:
    """Yield the one that answers, those with a key, those of servers here, and the embedded one."""
    yield from project.choices()
    for kind in WELL_KNOWN:
        if server := probe_local_servers([kind]):
            yield ModelChoice(server.model, f"{server.title} at {server.address}")
    yield ModelChoice(EMBEDDED, "always available; searches and quotes but doesn't reason")
