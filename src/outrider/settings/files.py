"""The effective configuration, read from its files, the environment and the caller's flags.

A file that isn't JSON could say anything, so it is refused and never taken for an empty one.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from outrider.protocol.errors import ErrorCode, Refusal
from outrider.settings import places
from outrider.settings.keys import KEYS
from outrider.settings.layers import (
    Layer,
    Origin,
    SettingError,
    Settings,
    flatten,
    merge,
    unknown_key,
)

MAX_BYTES = 1 << 20
NOT_SETTINGS = ("OUTRIDER_HOME", "OUTRIDER_SUBAGENT_CHILD", "OUTRIDER_SUBAGENT_DEPTH")
_KEY_OF_VARIABLE = {key.variable: name for name, key in KEYS.items()}


def load_settings(
    cwd: Path, env: Mapping[str, str], flags: Mapping[str, object] | None = None
) -> Settings:
    """Return the settings for work in `cwd`; raises `Refusal` where they can't be read."""
    layers = [_file_layer(Origin.USER, places.user_config_file(env))]
    if project := places.project_config_file(cwd, env):
        layers.append(_file_layer(Origin.PROJECT, project))
    variables, unknown = _variables(env)
    layers += variables
    for name, value in (flags or {}).items():
        layers.append(Layer(Origin.FLAG, f"flag {name}", {str(name): value}))
    try:
        settings = merge([layer for layer in layers if layer.values])
    except SettingError as bad:
        end = "" if str(bad).endswith("?") else "."
        raise Refusal(ErrorCode.INVALID_INPUT, f"Bad setting: {bad}{end}") from None
    return Settings(settings.config, settings.origins, (*settings.warnings, *unknown))


def _file_layer(origin: Origin, path: Path) -> Layer:
    return Layer(origin, f"{origin} {path}", dict(flatten(_read_object(path))))


def _read_object(path: Path) -> Mapping[str, object]:
    try:
        with open(path, "rb", opener=_nonblocking) as file:
            raw = file.read(MAX_BYTES + 1)
        data: object = json.loads(raw) if len(raw) <= MAX_BYTES else None
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None
    except (ValueError, RecursionError) as error:
        raise _unusable(path, f"not JSON: {error}") from None
    if not isinstance(data, dict):
        raise _unusable(path, f"it isn't a JSON object of at most {MAX_BYTES:,} bytes")
    return cast("dict[str, object]", data)


def _nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe in the file's place must not hang us


def _unusable(path: Path, reason: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_INPUT, f"The configuration {path} can't be used: {reason}.")


def _variables(env: Mapping[str, str]) -> tuple[list[Layer], list[str]]:
    """Return a layer for each variable that is a key, and a warning for each that isn't."""
    layers: list[Layer] = []
    unknown: list[str] = []
    for variable in sorted(env):
        if not variable.startswith("OUTRIDER_") or variable in NOT_SETTINGS:
            continue
        if name := _KEY_OF_VARIABLE.get(variable):
            layers.append(Layer(Origin.ENVIRONMENT, variable, {name: env[variable]}))
        else:
            unknown.append(f"{variable}: {unknown_key(_dotted(variable))} (ignored)")
    return layers, unknown


def _dotted(variable: str) -> str:
    parts = variable.removeprefix("OUTRIDER_").lower().split("__")
    words = (part.split("_") for part in parts)
    return ".".join(first + "".join(word.capitalize() for word in rest) for first, *rest in words)
