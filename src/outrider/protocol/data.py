"""From frozen dataclasses to JSON objects and back: snake_case here, camelCase there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
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
    kind = value.__class__
    if kind in _PLAIN:
        return value
    if kind is tuple or kind is list:
        return [item if type(item) in _PLAIN else to_json(item) for item in value]
    if is_dataclass(kind):
        return {
            one.name: item if type(item) in _PLAIN else to_json(item)
            for one in _fields(kind)
            if (item := getattr(value, one.attribute)) is not None
            or (one.flag and getattr(value, one.flag))
        }
    return value.value if isinstance(value, Enum) else value


def from_json(cls: type[T], data: object) -> T:
    """Return a `cls` read from a JSON object; raises `ValueError` naming what doesn't fit.

    Unknown entries are passed over, so that a newer process can speak to an older one.
    """
    if type(data) is not dict and not isinstance(data, Mapping):
        raise ValueError(f"{cls.__name__}: {type(data).__name__} is not an object")
    entries = cast("Mapping[str, Any]", data)
    values: dict[str, Any] = {}
    for one in _fields(cls):
        if one.name in entries:
            item = entries[one.name]
            values[one.attribute] = item if type(item) is one.kind else one.read(item, one.label)
            if one.flag:
                values[one.flag] = True
    try:
        return cls(**values)
    except TypeError as error:
        raise ValueError(f"{cls.__name__}: {error}") from None


def as_object(value: Any) -> dict[str, Any]:
    """Return a JSON object as it is, and an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def member(value: Any, name: str) -> Any:
    """Return an entry of what should be an object; None where it isn't one, or has none."""
    return as_object(value).get(name)


_PLAIN = frozenset({str, int, float, bool, type(None), dict})

Reader = Callable[[Any, str], Any]
"""Turns a JSON value into a field's; the text says where it stands, for the error."""


@dataclass(frozen=True, slots=True)
class _Field:
    attribute: str
    name: str
    """Its name in JSON."""
    label: str
    flag: str | None
    """The attribute that says whether there is a value, where null can be one."""
    kind: Any
    """Its type: a value of a plain one is taken as it is, all others are read."""
    read: Reader


@cache
def _fields(cls: type) -> tuple[_Field, ...]:
    hints = get_type_hints(cls)
    names = [item.name for item in fields(cls)]
    flags = {name.removeprefix("has_"): name for name in names if name.startswith("has_")}
    described = [(name, camel(name), hints[name]) for name in names if name not in flags.values()]
    return tuple(
        _Field(name, shown, f"{cls.__name__}.{shown}", flags.get(name), hint, _reader(hint))
        for name, shown, hint in described
    )


def _reader(hint: Any) -> Reader:
    arguments: tuple[Any, ...] = getattr(hint, "__args__", ())
    origin = getattr(hint, "__origin__", None)
    if hint is Any:
        return lambda value, where: value
    if origin is tuple:
        return _list_reader(_reader(arguments[0]))
    if origin is None and arguments:  # a union with None
        inner = _reader(next(part for part in arguments if part is not type(None)))
        return lambda value, where: None if value is None else inner(value, where)
    kind = origin or hint
    if is_dataclass(kind):
        nested = cast("type[Any]", kind)
        return lambda value, where: from_json(nested, value)
    return _plain_reader(kind)


def _list_reader(item: Reader) -> Reader:
    def read(value: Any, where: str) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"{where}: {type(value).__name__} is not a list")
        return tuple(item(one, where) for one in cast("list[Any]", value))

    return read


def _plain_reader(kind: type[Any]) -> Reader:
    if issubclass(kind, Enum):
        return lambda value, where: kind(value)
    accepted = (float, int) if kind is float else kind

    def read(value: Any, where: str) -> Any:
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"{where}: {type(value).__name__} is not {kind.__name__}")
        return value

    return read
