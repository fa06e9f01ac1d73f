"""The effective configuration. A file that isn't JSON is refused, never taken for an empty one."""

import errno
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from outrider.protocol.brief import CHILD_VARIABLES, NOTIFY_VARIABLES
from outrider.protocol.data import camel
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.settings import places
from outrider.settings.layers import FlagValue, Layer, Origin, Settings, flatten, merge
from outrider.settings.quantities import SettingError

MAX_BYTES = 1 << 20
NOT_SETTINGS = ("OUTRIDER_HOME", *CHILD_VARIABLES, *NOTIFY_VARIABLES)


def load_settings(
    cwd: Path, env: Mapping[str, str], flags: Mapping[str, object] | None = None
) -> Settings:
    """Return the settings for work in `cwd`; raises `Refusal` where they can't be read."""
    layers = [_file_layer(Origin.USER, places.user_config_file(env))]
    if project := places.project_config_file(cwd, env):
        layers.append(_file_layer(Origin.PROJECT, project))
    for variable in sorted(env):
        if variable.startswith("OUTRIDER_") and variable not in NOT_SETTINGS:
            parts = variable.removeprefix("OUTRIDER_").lower().split("__")
            # One in lower case is no key, and is told to be unknown.
            name = ".".join(map(camel, parts)) if variable.isupper() else variable
            layers.append(Layer(Origin.ENVIRONMENT, variable, {name: env[variable]}))
    for name, value in (flags or {}).items():
        flag = FlagValue.of(name, value)
        layers.append(Layer(Origin.FLAG, flag.given, {str(name): flag.value}))
    try:
        return merge(layers)
    except SettingError as bad:
        raise Refusal(ErrorCode.INVALID_INPUT, f"Bad setting: {bad}") from None


def _file_layer(origin: Origin, path: Path) -> Layer:
    return Layer(origin, f"{origin} {path}", dict(flatten(read_object(path))))


def read_object(path: Path) -> Mapping[str, object]:
    """Return what is in a configuration file, nothing where there is none; raises `Refusal`."""
    try:
        raw = read_plain_file(path, MAX_BYTES + 1)
        data: object = json.loads(raw) if len(raw) <= MAX_BYTES else None
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None
    except (ValueError, RecursionError) as error:
        raise _unusable(path, f"not JSON: {error}") from None
    if not isinstance(data, dict):
        raise _unusable(path, f"expected a JSON object of at most {MAX_BYTES:,} bytes")
    return cast("dict[str, object]", data)


def read_plain_file(path: str | Path, most: int) -> bytes:
    """Return up to `most` bytes of a file; raises `OSError` for a pipe too, and never waits."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read(most)


def _unusable(path: Path, reason: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_INPUT, f"Can't use the configuration {path}: {reason}.")
