"""Changes of the user's own settings: one at a time, or all that devkit-pi has."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.delegation.depth import current_depth
from outrider.delegation.request import invalid
from outrider.settings import devkit_pi, places
from outrider.settings.files import load_settings, read_object
from outrider.settings.keys import value_of
from outrider.settings.layers import Origin, check, key_named, parse_value
from outrider.settings.quantities import SettingError
from outrider.surfaces.jsonc import with_member, without_member
from outrider.surfaces.table import Column, Report, Row, Table
from outrider.surfaces.user_files import read_text, replace_text

VALUE = Column("value", lambda row: json.dumps(row["value"], ensure_ascii=False))
CHANGED = (Column("key", colour="cyan"), VALUE)
LEFT = (Column("not taken", "key", "yellow"), Column("why"))
_ABSENT = object()


def set_value(name: str, text: str, folder: Path) -> Report:
    """Set one setting, and return what changed; raises `SettingError` and `Refusal`."""
    key = key_named(name)
    try:
        return _change({name: parse_value(key, text)}, folder)
    except SettingError as bad:
        raise SettingError(f"{name}: {bad}") from None


def unset_value(name: str, folder: Path) -> Report:
    """Take one setting out; raises `SettingError` and `Refusal`."""
    return _change({key_named(name).name: _ABSENT}, folder)


def import_settings(folder: Path) -> Report:
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
