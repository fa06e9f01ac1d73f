"""The report `config`: every setting, its effective value, and where that came from."""

import json
import os
from argparse import Namespace

from outrider.delegation.request import working_directory
from outrider.settings import places
from outrider.settings.files import load_settings
from outrider.settings.layers import Origin, effective
from outrider.surfaces.parser import CWD
from outrider.surfaces.table import Column, Report, Table
from outrider.surfaces.text import warnings_of

EXAMPLES = """\
From lowest to highest priority: the default, your config.json, the project's
.outrider/config.json (which can only turn off or lower settings), environment
variables, command-line options.

examples:
  outrider config
  OUTRIDER_SUBAGENTS__TIMEOUT_MS=60000 outrider config
  outrider config --json | jq '.values["subagents.timeoutMs"]'
"""
ARGUMENTS = (CWD,)
COLUMNS = (
    Column("key", colour="cyan"),
    Column("value", lambda row: json.dumps(row["value"], ensure_ascii=False)),
    Column("from", "origin", "dim"),
)


def report(arguments: Namespace) -> Report:
    """Return the settings."""
    folder = working_directory(arguments.cwd)
    settings = load_settings(folder, os.environ)
    values = {
        key.name: {"value": value, "origin": settings.origins.get(key.name, Origin.DEFAULT)}
        for key, value in effective(settings.config)
    }
    project = places.project_config_file(folder, os.environ)
    files = {"user": str(places.user_config_file(os.environ)), "project": project and str(project)}
    data = {"values": values, "files": files, "warnings": settings.warnings}
    rows = [{"key": name, **entry} for name, entry in values.items()]
    return Report(data, (Table(COLUMNS, rows),), warnings_of(settings.warnings))
