"""`outrider config`: every setting, its effective value, and where that came from."""

import json
import os
from argparse import Namespace
from typing import Any

from outrider.settings import places
from outrider.settings.files import load_settings
from outrider.settings.layers import Origin, Settings, effective
from outrider.surfaces.cli import output
from outrider.surfaces.cli.parser import CommandParser, folder_of

EXAMPLES = """\
A later place wins: default, your config.json, the project's .outrider/config.json (which can
only switch off and lower), an environment variable, a flag.

examples:
  outrider config
  OUTRIDER_SUBAGENTS__TIMEOUT_MS=60000 outrider config
  outrider config --json | jq '.values["subagents.timeoutMs"]'
"""


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `config`."""
    parser.add_cwd()


def execute(arguments: Namespace) -> int:
    """Show the settings."""
    folder = folder_of(arguments)
    settings = load_settings(folder, os.environ)
    if arguments.json:
        project = places.project_config_file(folder, os.environ)
        files = {
            "user": str(places.user_config_file(os.environ)),
            "project": str(project) if project else None,
        }
        listing = {"values": _values(settings), "files": files}
        output.write_json({**listing, "warnings": list(settings.warnings)})
        return 0
    for warning in settings.warnings:
        output.say(f"warning: {warning}.")
    rows = [
        (name, json.dumps(entry["value"], ensure_ascii=False), str(entry["origin"]))
        for name, entry in _values(settings).items()
    ]
    output.write_table(("key", "value", "from"), rows, colours=("cyan", None, "dim"))
    return 0


def _values(settings: Settings) -> dict[str, dict[str, Any]]:
    return {
        key.name: {
            "value": list(value) if isinstance(value, tuple) else value,  # pyright: ignore[reportUnknownArgumentType] - of names
            "origin": settings.origins.get(key.name, Origin.DEFAULT.value),
        }
        for key, value in effective(settings.config)
    }
