"""`outrider config`: every setting, its effective value, and where that came from."""

import json
import os
from argparse import Namespace
from typing import Any

from outrider.delegation.request import working_directory
from outrider.settings import places
from outrider.settings.files import load_settings
from outrider.settings.layers import Origin, effective
from outrider.surfaces.cli import output
from outrider.surfaces.cli.parser import CommandParser

EXAMPLES = """\
A later place wins: default, your config.json, the project's .outrider/config.json (which can
only switch off and lower), an environment variable, a flag.

examples:
  outrider config
  OUTRIDER_SUBAGENTS__TIMEOUT_MS=60000 outrider config
  outrider config --json | jq '.values["subagents.timeoutMs"]'
"""

configure = CommandParser.add_cwd


def execute(arguments: Namespace) -> None:
    """Show the settings."""
    folder = working_directory(arguments.cwd)
    settings = load_settings(folder, os.environ)
    values: dict[str, dict[str, Any]] = {
        key.name: {"value": value, "origin": settings.origins.get(key.name, Origin.DEFAULT)}
        for key, value in effective(settings.config)
    }
    if arguments.json:
        project = places.project_config_file(folder, os.environ)
        files = {
            "user": str(places.user_config_file(os.environ)),
            "project": str(project) if project else None,
        }
        output.write_json({"values": values, "files": files, "warnings": settings.warnings})
        return
    output.warn(settings.warnings)
    rows = [
        (name, json.dumps(entry["value"], ensure_ascii=False), entry["origin"])
        for name, entry in values.items()
    ]
    output.write_table(("key", "value", "from"), rows, colours=("cyan", None, "dim"))
