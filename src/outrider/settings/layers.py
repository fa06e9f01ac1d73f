"""How the layers of settings merge; a repository's file can only switch off and lower."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Any, NamedTuple, Self, cast

from outrider.protocol.data import from_json, frozen
from outrider.protocol.text import most_alike
from outrider.settings import devkit_pi
from outrider.settings.keys import DEFAULTS, KEYS, Config, Key, ProjectRule, value_of
from outrider.settings.quantities import SettingError, number_for

_EXPECTED = {
    bool: "true or false", int: "a whole number", float: "a number", str: "a string",
    tuple: "a list of names", dict: "a table",
}  # fmt: skip


def check(key: Key, value: object) -> Any:
    """Return `value` in the type of `key`, or raise `SettingError`."""
    if value is None and key.nullable:
        return None
    if key.kind in (int, float) and isinstance(value, str):
        value = number_for(key.name, value)
    elif key.kind is tuple and isinstance(value, list):
        value = tuple(cast("list[object]", value))
    fits = isinstance(value, int | float if key.kind is float else key.kind)
    if not fits or isinstance(value, bool) != (key.kind is bool):
        raise SettingError(f"expected {_EXPECTED[key.kind]}, got {value!r}")
    if isinstance(value, int | float):  # booleans are numbers too
        # NaN fails every comparison, so it is refused here too.
        if not key.minimum <= value <= 2**53:
            raise SettingError(f"expected a number of at least {key.minimum:g}, got {value!r}")
        return value
    for text in _texts(key, value):
        if not isinstance(text, str) or not text.strip():
            raise SettingError(f"expected a non-empty string, got {text!r}")
        if key.choices and text not in key.choices:
            raise SettingError(f"expected one of {', '.join(key.choices)}; got {text!r}")
    return value


def _texts(key: Key, value: Any) -> Iterable[object]:
    """Return the texts that a text, list or table consists of."""
    if key.kind is not dict:
        return value if key.kind is tuple else (value,)
    if key.entries is str:
        return (*value, *value.values())
    try:
        for entry in value.values():
            from_json(key.entries, entry)
    except ValueError as error:
        raise SettingError(str(error)) from None
    return value


def parse_value(key: Key, text: str) -> Any:
    """Return the value that a variable or flag gives as `text`, or raise `SettingError`."""
    text = text.strip()
    if key.kind is str:
        return check(key, text)
    if key.kind is tuple and not text.startswith("["):
        return check(key, [part.strip() for part in text.split(",") if part.strip()])
    try:
        value = json.loads(text.lower() if key.kind is bool else text)
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
            raise SettingError(f"{wanted:g} is more than the user's limit of {current:g}")
    raise SettingError("a project's file can only switch settings off or lower them")


class Origin(StrEnum):
    """Where a value came from; later ones win."""

    DEFAULT = "default"
    USER = "user"
    PROJECT = "project"
    ENVIRONMENT = "environment"
    FLAG = "flag"


@frozen
class Layer:
    """Values from one source, by dotted key; `label` names the source."""

    origin: Origin
    label: str
    values: Mapping[str, object]

    def is_strict(self, name: str) -> bool:
        """Whether a bad value of a key ends the call, instead of a warning and the default."""
        return self.origin is Origin.FLAG or (self.origin is Origin.ENVIRONMENT and name in KEYS)


@frozen
class Settings:
    """The effective configuration, with where each value came from and what was ignored."""

    config: Config = DEFAULTS
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...] = ()

    def named(self, key: str) -> str:
        """Return a key for people: as the flag that they gave, or else by its own name."""
        origin = self.origins.get(key, "")
        return origin if origin.startswith("-") else key


class FlagValue(NamedTuple):
    """The value of a flag, and the flag as it was given: `--timeout 100s`."""

    value: object
    given: str

    @classmethod
    def of(cls, name: str, value: object) -> Self:
        """Return a flag of this name, which a program may have given as its plain value."""
        return value if isinstance(value, cls) else cls(value, f"flag {name}")


def flatten(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the dotted keys of a `config.json` with their values."""
    for name, value in tree.items():
        here = f"{prefix}{name}"
        is_section = here not in KEYS and any(key.startswith(f"{here}.") for key in KEYS)
        if is_section and isinstance(value, Mapping):
            yield from flatten(cast("Mapping[str, object]", value), f"{here}.")
        else:
            yield here, value


def key_named(name: str) -> Key:
    """Return a key by its dotted name; raises `SettingError`, with the nearest one, for no key."""
    if (key := KEYS.get(name)) is not None:
        return key
    if advice := devkit_pi.advice_on_key(name):
        raise SettingError(f"unknown key {name}; {advice}")
    last = {key.rpartition(".")[2]: key for key in KEYS}
    near = most_alike(name, KEYS) or [last[k] for k in most_alike(name.rpartition(".")[2], last)]
    raise SettingError(f"unknown key {name}" + (f"; did you mean {near[0]}?" if near else ""))


def merge(layers: Sequence[Layer]) -> Settings:
    """Return the settings of all layers together. Raises `SettingError` for a strict layer."""
    config, origins, warnings = DEFAULTS, dict[str, str](), list[str]()
    for layer in layers:
        for name, raw in layer.values.items():
            try:
                config = _applied(config, layer, name, raw)
                origins[name] = layer.label
            except SettingError as bad:
                problem = f"{layer.label}: {bad}"
                if layer.is_strict(name):
                    raise SettingError(problem) from None
                warnings.append(f"{problem} (ignored)")
    return Settings(config, origins, tuple(warnings))


def _applied(config: Config, layer: Layer, name: str, raw: object) -> Config:
    key = key_named(name)
    try:
        is_text = isinstance(raw, str) and layer.is_strict(name)
        value = parse_value(key, str(raw)) if is_text else check(key, raw)
        if layer.origin is Origin.PROJECT:
            value = narrowed(key, value_of(config, name), value)
    except SettingError as bad:
        raise SettingError(f"{name}: {bad}") from None
    return _with_value(config, key.path, value)


def _with_value(section: Any, path: Sequence[str], value: Any) -> Any:
    """Return a section of the configuration with `value` at `path` below it."""
    name, *rest = path
    inner = _with_value(getattr(section, name), rest, value) if rest else value
    return replace(section, **{name: inner})


def effective(config: Config) -> Iterator[tuple[Key, Any]]:
    return ((key, value_of(config, name)) for name, key in KEYS.items())
