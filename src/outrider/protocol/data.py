"""Frozen dataclasses, and from them to JSON and back: snake_case here, camelCase there."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from typing import Any, NoReturn, TypeVar, cast, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Return `cls` as `dataclass(frozen=True, slots=True)` makes it, in a tenth of the time.

    That compiles six methods for each class, half a millisecond, and a process of ours has a
    hundred classes before it does anything. Here all classes share five of the methods, and the
    sixth, `__init__`, is compiled when it has been needed twice.
    """
    cls.__doc__ = cls.__doc__ or cls.__name__  # else `dataclass` writes a signature, which is slow
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    for name in ("__repr__", "__eq__", "__hash__", "__reduce__", "__setattr__", "__delattr__"):
        setattr(made, name, vars(cls).get(name, vars(_Frozen)[name]))
    made.__init__, made.__dataclass_params__.frozen = _Init(made), True
    return made


class _Init:
    """Stands where `__init__` belongs, and becomes it at the third look, or where that is odd."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls
        self._looks = 0

    def __get__(self, instance: object, owner: type) -> Any:
        self._looks += 1
        if instance is not None and self._looks < 3:
            return partial(self._fill, instance)
        self._cls.__init__ = _compiled_init(self._cls)
        return self._cls.__init__.__get__(instance, owner)

    def _fill(self, instance: Any, /, *given: Any, **named: Any) -> None:
        """Do what `__init__` does, in a tenth of the time that compiling it takes."""
        own = {one.name: one for one in fields(self._cls)}
        values = {**dict(zip(own, given, strict=False)), **named}
        needed = (name for name, one in own.items() if one.default is one.default_factory)
        if len(given) + len(named) > len(values) or not own.keys() >= values.keys() >= {*needed}:
            return self.__get__(instance, self._cls)(*given, **named)  # which says what is wrong
        for name, one in own.items():
            late = one.default if one.default_factory is MISSING else one.default_factory()
            object.__setattr__(instance, name, values.get(name, late))
        if hasattr(instance, "__post_init__"):
            instance.__post_init__()
        return None


def _compiled_init(cls: type) -> Any:
    known: dict[str, Any] = {"_set": object.__setattr__, "_Field": Field}
    own = {one.name: one for one in fields(cls)}
    assert all(one.init and not one.kw_only for one in own.values()), "`dataclass` makes such"
    late = (name for name, one in own.items() if one.default_factory is not MISSING)
    body = [f"if {name}.__class__ is _Field: {name} = {name}.default_factory()" for name in late]
    body += [f"_set(self, '{name}', {name})" for name in own]
    body += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    head, lines = f"def __init__({', '.join(['self', *own])}):", "\n ".join(body) or "pass"
    exec(f"{head}\n {lines}", known)  # noqa: S102
    init = known["__init__"]
    optional = [one for one in own.values() if one.default is not one.default_factory]
    init.__defaults__ = tuple(one if one.default is MISSING else one.default for one in optional)
    init.__annotations__ = {name: one.type for name, one in own.items()}
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


class _Frozen:
    """The methods of all frozen classes."""

    def __repr__(self: Any) -> str:
        shown = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        same = type(self) is type(other)
        return self.__reduce__() == other.__reduce__() if same else NotImplemented

    def __hash__(self) -> int:
        return hash(self.__reduce__())

    def __reduce__(self: Any) -> tuple[Any, ...]:
        return self.__class__, tuple(getattr(self, one.name) for one in fields(self))

    def __setattr__(self, name: str, *_value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot change field {name!r}")

    __delattr__ = __setattr__


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
            name: item if type(item) in _PLAIN else to_json(item)
            for attribute, name, flag in _names(kind)
            if (item := getattr(value, attribute)) is not None or (flag and getattr(value, flag))
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
    for attribute, name, flag, kind, read in _readers(cls):
        if name in entries:
            item = entries[name]
            plain = type(item) is kind
            values[attribute] = item if plain else read(item, f"{cls.__name__}.{name}")
            if flag:
                values[flag] = True
    try:
        return cls(**values)
    except TypeError as error:
        raise ValueError(f"{cls.__name__}: {error}") from None


def json_kind(value: object) -> str:
    """Return what a value is to those who write JSON: `a number`, `an object`."""
    kinds: dict[Any, str] = {bool: "a boolean", int: "a number", float: "a number"}
    kinds |= {list: "a list", str: "a string", dict: "an object", type(None): "null"}
    return kinds.get(type(value), f"a {type(value).__name__}")


def as_object(value: Any) -> dict[str, Any]:
    """Return a JSON object as it is, and an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return a JSON array as it is, and an empty one for anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def member(value: Any, name: str) -> Any:
    """Return an entry of what should be an object; None where it isn't one, or has none."""
    return as_object(value).get(name)


_PLAIN = frozenset({str, int, float, bool, type(None), dict})

Reader = Callable[[Any, str], Any]
"""Turns a JSON value into a field's; the text says where it stands, for the error."""


@cache
def _names(cls: type) -> list[tuple[str, str, str | None]]:
    """Return each field's name, that in JSON, and where null can be a value the flag for one."""
    names = [item.name for item in fields(cls)]
    flags = {name.removeprefix("has_"): name for name in names if name.startswith("has_")}
    return [(name, camel(name), flags.get(name)) for name in names if name not in flags.values()]


@cache
def _readers(cls: type) -> list[tuple[str, str, str | None, Any, Reader]]:
    """Return the same with each field's type, which a plain value has, and what reads others."""
    kinds: dict[str, Any] = {item.name: item.type for item in fields(cls)}
    return [(*names, kinds[names[0]], _reader(kinds[names[0]])) for names in _names(cls)]


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
