"""The report `config`: every setting, its effective value, and where that came from."""

import os
from argparse import Namespace
from pathlib import Path

from outrider.delegation.request import invalid, working_directory
from outrider.protocol.text import as_sentence
from outrider.settings import places
from outrider.settings.files import load_settings
from outrider.settings.layers import Origin, effective
from outrider.settings.quantities import SettingError
from outrider.surfaces.config_changes import VALUE, import_settings, set_value, unset_value
from outrider.surfaces.parser import CWD, argument, bad_call
from outrider.surfaces.table import Column, Report, Table
from outrider.surfaces.text import warnings_of

EXAMPLES = """\
From lowest to highest priority: the default, your config.json, the project's
.outrider/config.json (which can only turn off or lower settings), environment
variables, command-line options.

'set' and 'unset' change your config.json; 'import' takes over the settings of
devkit-pi.

examples:
  outrider config set subagents.allowWrite true
  outrider config unset subagents.allowWrite
  OUTRIDER_SUBAGENTS__TIMEOUT_MS=60000 outrider config
  outrider config --json | jq '.values["subagents.timeoutMs"]'
"""
_CHANGE = "set KEY VALUE, unset KEY, or import"
ARGUMENTS = (argument("change", metavar="CHANGE", nargs="*", help=_CHANGE), CWD)
COLUMNS = (
    Column("key", colour="cyan"),
    VALUE,
    Column("from", "origin", "dim"),
)


def report(arguments: Namespace) -> Report:
    """Return the settings, or those that were changed."""
    folder = working_directory(arguments.cwd)
    try:
        match arguments.change:
            case []:
                return _all(folder)
            case ["set", name, first, *more]:
                return set_value(name, " ".join([first, *more]), folder)
            case ["unset", name]:
                return unset_value(name, folder)
            case ["import"]:
                return import_settings(folder)
            case _:
                raise bad_call("give 'set KEY VALUE', 'unset KEY' or 'import'", "config")
    except SettingError as bad:
        raise invalid(f"Bad setting: {as_sentence(str(bad))}") from None


def _all(folder: Path) -> Report:
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
