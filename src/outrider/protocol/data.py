"""From frozen dataclasses to JSON objects and back: snake_case here, camelCase there."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast, get_type_hints

T = TypeVar("T")


def camel(name: str) -> str:
    """`idle_timeout_ms` as JSON writes it: `idleTimeoutMs`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def to_json(value: Any) -> Any:
    """Return `value` as JSON can hold it, without the fields that are None.

    A field `has_x` beside `x` says whether there is one: then null is a value, and `x` is written.
    """
    if is_dataclass(value):
        pairs = ((flag, name, getattr(value, field)) for field, name, flag in _names(type(value)))
        return {
            name: to_json(item)
            for flag, name, item in pairs
            if item is not None or (flag is not None and getattr(value, flag))
        }
    if isinstance(value, tuple | list):
        return [to_json(item) for item in cast("list[Any]", value)]
    if isinstance(value, Enum):
        return value.value
    return value


def from_json(cls: type[T], data: object) -> T:
    """Return a `cls` read from a JSON object; raises `ValueError` naming what doesn't fit.

    Unknown entries are passed over, so that a newer process can speak to an older one.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"{cls.__name__}: {type(data).__name__} is not an object")
    entries = cast("Mapping[str, Any]", data)
    hints = _hints(cls)
    values: dict[str, Any] = {}
    for field, name, flag in _names(cls):
        if name in entries:
            values[field] = _read(hints[field], entries[name], f"{cls.__name__}.{name}")
            if flag is not None:
                values[flag] = True
    try:
        return cls(**values)
    except TypeError as error:
        raise ValueError(f"{cls.__name__}: {error}") from None


@cache
def _names(cls: type) -> tuple[tuple[str, str, str | None], ...]:
    """Return each field, its name in JSON, and the field that says whether there is one."""
    names = [item.name for item in fields(cls)]
    flags = {name.removeprefix("has_"): name for name in names if name.startswith("has_")}
    return tuple(
        (name, camel(name), flags.get(name)) for name in names if name not in flags.values()
    )


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _read(hint: Any, value: Any, where: str) -> Any:
    if hint is Any:
        return value
    arguments: tuple[Any, ...] = getattr(hint, "__args__", ())
    origin = getattr(hint, "__origin__", None)
    if origin is tuple:
        if not isinstance(value, list):
            raise ValueError(f"{where}: {type(value).__name__} is not a list")
        return tuple(_read(arguments[0], item, where) for item in cast("list[Any]", value))
    if origin is None and arguments:  # a union with None
        return _read_union(arguments, value, where)
    return _read_plain(origin or hint, value, where)


def _read_union(choices: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in choices:
        return None
    rest = [choice for choice in choices if choice is not type(None)]
    return _read(rest[0], value, where)


def _read_plain(kind: Any, value: Any, where: str) -> Any:
    if is_dataclass(kind):
        return from_json(cast("type[Any]", kind), value)
    if issubclass(kind, Enum):
        return kind(value)
    if kind is float and isinstance(value, int):
        return value
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{where}: {type(value).__name__} is not {kind.__name__}")
    return value
