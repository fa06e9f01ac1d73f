"""The report `config`: every setting and where it came from, or those that were changed."""

import json
import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.delegation.depth import current_depth
from outrider.delegation.request import invalid, working_directory
from outrider.protocol.text import as_sentence
from outrider.settings import devkit_pi, places
from outrider.settings.files import load_settings, read_object
from outrider.settings.keys import value_of
from outrider.settings.layers import Origin, check, effective, key_named, parse_value
from outrider.settings.quantities import SettingError
from outrider.surfaces.jsonc import with_member, without_member
from outrider.surfaces.parser import CWD, argument, bad_call
from outrider.surfaces.table import Column, Report, Row, Table
from outrider.surfaces.text import warnings_of
from outrider.surfaces.user_files import read_text, replace_text

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
VALUE = Column("value", lambda row: json.dumps(row["value"], ensure_ascii=False))
CHANGED = (Column("key", colour="cyan"), VALUE)
COLUMNS = (*CHANGED, Column("from", "origin", "dim"))
LEFT = (Column("not taken", "key", "yellow"), Column("why"))
_ABSENT = object()


def report(arguments: Namespace) -> Report:
    folder = working_directory(arguments.cwd)
    try:
        match arguments.change:
            case []:
                return _all(folder)
            case ["set", name, first, *more]:
                return _set_value(name, " ".join([first, *more]), folder)
            case ["unset", name]:
                return _change({key_named(name).name: _ABSENT}, folder)
            case ["import"]:
                return _import_settings(folder)
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


def _set_value(name: str, text: str, folder: Path) -> Report:
    key = key_named(name)
    try:
        return _change({name: parse_value(key, text)}, folder)
    except SettingError as bad:
        raise SettingError(f"{name}: {bad}") from None


def _import_settings(folder: Path) -> Report:
    """Take over the settings of devkit-pi; raises `Refusal` where it has none."""
    path, values, left = devkit_pi.config_file(os.environ), dict[str, Any](), list[Row]()
    if not path.exists():
        raise invalid(f"There is nothing to import: devkit-pi has no {path}.")
    for old, new, value in devkit_pi.translated(read_object(path)):
        try:
            key = key_named(new)
            if check(key, value) != key.default:
                values[new] = value
        except SettingError as bad:
            left.append({"key": old, "why": devkit_pi.advice_on_key(old) or str(bad)})
    return _change(values, folder, left)


def _change(values: Mapping[str, Any], folder: Path, left: Sequence[Row] = ()) -> Report:
    """Change the user's file, and return what holds now; raises `Refusal`."""
    path = places.user_config_file(os.environ)
    if current_depth(os.environ):
        raise invalid(f"A subagent can't change the settings in {path}.")
    load_settings(folder, os.environ)  # a file that can't be read is not written either
    try:
        text = read_text(path)
        for name, value in values.items():
            at, is_absent = name.split("."), value is _ABSENT
            text = without_member(text, at) if is_absent else with_member(text, at, value)
        replace_text(path, text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise invalid(f"Can't change {path}: {reason}.") from None
    settings = load_settings(folder, os.environ)
    rows = [{"key": name, "value": value_of(settings.config, name)} for name in values]
    winners = {name: settings.origins.get(name, Origin.USER) for name in values}
    notes = [f"changed {path}." if values else f"nothing to change in {path}."]
    for name, origin in winners.items():
        if not origin.startswith(Origin.USER):
            notes.append(f"{name} is also set by {origin}, which wins.")
    tables = Table(CHANGED, rows), Table(LEFT, left, wraps=True)
    return Report({"file": str(path), "changed": rows, "notTaken": left}, tables, tuple(notes))
