"""The effective configuration, read from its files, the environment and the caller's flags."""

import json
import os
from collections.abc import Mapping
from functools import cache
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


def load_settings(
    cwd: Path, env: Mapping[str, str], flags: Mapping[str, object] | None = None
) -> Settings:
    """Return the settings for work in `cwd`. Raises `Refusal` where they can't be known.

    A file that isn't JSON could say anything, so it is never taken for an empty one.
    """
    layers = [_file_layer(Origin.USER, places.user_config_file(env))]
    if project := places.project_config_file(cwd, env):
        layers.append(_file_layer(Origin.PROJECT, project))
    variables, strangers = _variables(env)
    layers += variables
    for name, value in (flags or {}).items():
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # a program's fault
            raise Refusal(ErrorCode.INVALID_INPUT, f"Bad setting: {name!r} is no key's name.")
        layers.append(Layer(Origin.FLAG, f"flag {name}", {name: value}))
    try:
        settings = merge([layer for layer in layers if layer.values])
    except SettingError as bad:
        raise Refusal(
            ErrorCode.INVALID_INPUT, f"Bad setting: {bad}" + ("" if str(bad).endswith("?") else ".")
        ) from None
    warnings = (*settings.warnings, *strangers)
    return Settings(settings.config, settings.origins, warnings)


def _file_layer(origin: Origin, path: Path) -> Layer:
    values = dict(flatten(_read_object(path)))
    return Layer(origin, f"{origin} {path}", values)


def _read_object(path: Path) -> Mapping[str, object]:
    try:
        with open(path, "rb", opener=_nonblocking) as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None
    if len(raw) > MAX_BYTES:
        raise _unusable(path, f"it is larger than {MAX_BYTES} bytes")
    try:
        # RecursionError: a file of a million brackets must not end in a traceback.
        data: object = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _unusable(path, f"not JSON: {error}") from None
    if not isinstance(data, dict):
        raise _unusable(path, "an object was expected")
    return cast("dict[str, object]", data)


def _nonblocking(path: str, flags: int) -> int:
    # A pipe in the place of the file must not hang us.
    return os.open(path, flags | os.O_NONBLOCK)


def _unusable(path: Path, why: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_INPUT, f"The configuration {path} can't be used: {why}.")


def _variables(env: Mapping[str, str]) -> tuple[list[Layer], list[str]]:
    """Return a layer for each variable that is a key, and warnings about those that aren't."""
    layers: list[Layer] = []
    strangers: list[str] = []
    for variable in sorted(env):
        if not variable.startswith("OUTRIDER_") or variable in NOT_SETTINGS:
            continue
        if name := _keys_by_variable().get(variable):
            layers.append(Layer(Origin.ENVIRONMENT, variable, {name: env[variable]}))
        else:
            strangers.append(f"{variable}: {unknown_key(_dotted(variable))} (ignored)")
    return layers, strangers


@cache
def _keys_by_variable() -> dict[str, str]:
    return {key.variable: name for name, key in KEYS.items()}


def _dotted(variable: str) -> str:
    parts = variable.removeprefix("OUTRIDER_").lower().split("__")
    words = (part.split("_") for part in parts)
    return ".".join(first + "".join(word.capitalize() for word in rest) for first, *rest in words)
