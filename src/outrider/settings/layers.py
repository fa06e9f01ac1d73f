"""How the layers of settings merge: default, user, project, environment, flag.

A repository's file can only switch off and lower: see `narrowed`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from functools import reduce
from typing import Any, cast

from outrider.protocol.data import from_json
from outrider.settings.keys import DEFAULTS, KEYS, Config, Key, ProjectRule
from outrider.settings.quantities import SettingError, number_for


def check(key: Key, value: object) -> Any:
    """Return `value` in the type of `key`, or raise `SettingError`."""
    if value is None and key.nullable:
        return None
    if key.kind is bool:
        if isinstance(value, bool):
            return value
        raise SettingError(f"{value!r} is not true or false")
    if key.kind is tuple:
        return _check_list(key, value)
    if key.kind is dict:
        return _check_table(key, value)
    if key.kind is not str:
        return _check_number(key, value)
    if not isinstance(value, str) or not value.strip():
        raise SettingError(f"{value!r} is not a text")
    _check_choices(key, [value])
    return value


def _check_list(key: Key, value: object) -> tuple[str, ...]:
    items = cast("list[object]", value) if isinstance(value, list | tuple) else None
    if items is None or not all(isinstance(item, str) and item for item in items):
        raise SettingError(f"{value!r} is not a list of names")
    names = tuple(str(item) for item in items)
    _check_choices(key, names)
    return names


def _check_table(key: Key, value: object) -> dict[str, Any]:
    table = cast("dict[str, Any]", value) if isinstance(value, dict) else {"": value}
    texts = (*table, *(table.values() if key.entries is str else ()))
    if not all(isinstance(text, str) and text for text in texts):
        raise SettingError(f"{value!r} is not a table of names and texts")
    try:
        for entry in table.values() if key.entries is not str else ():
            from_json(key.entries, entry)
    except ValueError as error:
        raise SettingError(str(error)) from None
    return table


def _check_choices(key: Key, names: Iterable[str]) -> None:
    for name in names:
        if key.choices and name not in key.choices:
            raise SettingError(f"{name!r} is not one of {', '.join(key.choices)}")


def _check_number(key: Key, value: object) -> float:
    whole = key.kind is int
    if isinstance(value, str):
        value = number_for(key.name, value)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise SettingError(f"{value!r} is not a {'whole ' if whole else ''}number")
    # NaN fails every comparison, so it is refused here too.
    if not key.minimum <= value <= 2**53:
        raise SettingError(f"{value!r} is not a number from {key.minimum:g} up")
    return value


def parse(key: Key, text: str) -> Any:
    """Return the value that a variable or flag gives as `text`, or raise `SettingError`."""
    text = text.strip()
    if key.kind is str:
        return check(key, text)
    if key.kind is tuple and not text.startswith("["):
        return check(key, [part.strip() for part in text.split(",") if part.strip()])
    from json import loads

    try:
        value = loads(text.lower() if key.kind is bool else text)
    except ValueError:
        value = text
    return check(key, value)


def narrowed(key: Key, current: Any, wanted: Any) -> Any:
    """Return the value after a repository asks for `wanted`. Raises `SettingError` to loosen."""
    if key.project is ProjectRule.ADD:
        return tuple(dict.fromkeys((*current, *wanted)))
    if key.project is ProjectRule.LOWER:
        if key.kind is bool and wanted is False:
            return False
        if key.kind is tuple and set(wanted) <= set(current):
            return wanted
        if key.kind in (int, float) and wanted is not None:
            if current is None or wanted <= current:
                return wanted
            raise SettingError(f"{wanted:g} is more than the user's {current:g}")
    raise SettingError("a project's file can only switch off and lower")


class Origin(StrEnum):
    """Where a value came from; later ones win."""

    DEFAULT = "default"
    USER = "user"
    PROJECT = "project"
    ENVIRONMENT = "environment"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Layer:
    """Values from one source, by dotted key; `label` names the source."""

    origin: Origin
    label: str
    values: Mapping[str, object]

    @property
    def strict(self) -> bool:
        """Whether a bad value ends the call, instead of a warning and the default."""
        return self.origin in (Origin.ENVIRONMENT, Origin.FLAG)


@dataclass(frozen=True, slots=True)
class Settings:
    """The effective configuration, with where each value came from and what was ignored."""

    config: Config = DEFAULTS
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...] = ()


def flatten(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the dotted keys of a `config.json` with their values."""
    for name, value in tree.items():
        here = f"{prefix}{name}"
        is_section = here not in KEYS and any(key.startswith(f"{here}.") for key in KEYS)
        if is_section and isinstance(value, Mapping):
            yield from flatten(cast("Mapping[str, object]", value), f"{here}.")
        else:
            yield here, value


def unknown_key(name: str) -> str:
    """Return the message for a key that doesn't exist, with the nearest one that does."""
    last = {key.rsplit(".", 1)[-1]: key for key in KEYS}
    near = get_close_matches(name, KEYS, 1, 0.6) or [
        last[match] for match in get_close_matches(name.rsplit(".", 1)[-1], last, 1, 0.6)
    ]
    return f"unknown key {name}" + (f"; did you mean {near[0]}?" if near else "")


def merge(layers: Sequence[Layer]) -> Settings:
    """Return the settings of all layers together. Raises `SettingError` for a strict layer."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    warnings: list[str] = []
    for layer in layers:
        for name, raw in layer.values.items():
            try:
                values[name] = _applied(layer, name, raw, values)
            except SettingError as bad:
                problem = f"{layer.label}: {bad}"
                if layer.strict:
                    raise SettingError(problem) from None
                warnings.append(f"{problem} (ignored)")
            else:
                origins[name] = layer.label
    config = DEFAULTS
    for name, value in values.items():
        config = _with_value(config, KEYS[name].path, value)
    return Settings(config, origins, tuple(warnings))


def _applied(layer: Layer, name: str, raw: object, values: Mapping[str, Any]) -> Any:
    key = KEYS.get(name)
    if key is None:
        raise SettingError(unknown_key(name))
    try:
        value = parse(key, raw) if layer.strict and isinstance(raw, str) else check(key, raw)
        if layer.origin is Origin.PROJECT:
            value = narrowed(key, values.get(name, key.default), value)
    except SettingError as bad:
        raise SettingError(f"{name}: {bad}") from None
    return value


def _with_value(section: Any, path: Sequence[str], value: Any) -> Any:
    """Return a section of the configuration with `value` at `path` below it."""
    name, *rest = path
    return replace(
        section, **{name: _with_value(getattr(section, name), rest, value) if rest else value}
    )


def effective(config: Config) -> Iterator[tuple[Key, Any]]:
    """Yield every key with its value in `config`."""
    return ((key, reduce(getattr, key.path, config)) for key in KEYS.values())
