"""JSON Schemas of Python types: plain ones are made here, all others by pydantic."""

import types
from collections.abc import Callable, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

_SCALARS: dict[Any, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
_LISTS = (list, Sequence)
_OBJECTS = (dict, Mapping)
_UNIONS = (Union, types.UnionType)


def schema_of(hint: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type.

    In `Annotated[type, …]` a string is the description, and a mapping holds further keywords.
    """
    if _needs_pydantic(hint):
        return _adapter(hint).json_schema()
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1:])
    if origin in _UNIONS:
        return _union(arguments)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Required, NotRequired):
        return schema_of(arguments[0])
    if is_typeddict(hint):
        return _typed_dict(hint)
    if (origin or hint) in _LISTS:
        return {"type": "array", **({"items": schema_of(arguments[0])} if arguments else {})}
    if (origin or hint) in _OBJECTS:
        values = schema_of(arguments[1]) if arguments else {}
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    return {"type": _SCALARS[hint]} if hint in _SCALARS else {}


def value_reader(hint: Any) -> Callable[[Any], Any] | None:
    """Return what makes a type's value from JSON, or None where JSON's own value will do."""
    return _adapter(hint).validate_python if _needs_pydantic(hint) else None


def accepts_null(hint: Any) -> bool:
    """Whether a type allows None."""
    if get_origin(hint) is Annotated:
        return accepts_null(get_args(hint)[0])
    return get_origin(hint) in _UNIONS and type(None) in get_args(hint)


def without_null(hint: Any) -> Any:
    """Return a type that allows None without None."""
    if get_origin(hint) is Annotated:
        inner, *notes = get_args(hint)
        return Annotated[(without_null(inner), *notes)]
    left = tuple(part for part in get_args(hint) if part is not type(None))
    return Union[left]  # noqa: UP007  # made at run time


def _needs_pydantic(hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        plain = all(isinstance(note, str | Mapping) for note in arguments[1:])
        return not plain or _needs_pydantic(arguments[0])
    if origin is Literal or hint is Any:
        return False
    if origin in _UNIONS or origin in (Required, NotRequired, *_LISTS, *_OBJECTS):
        return any(_needs_pydantic(part) for part in arguments)
    if is_typeddict(hint):
        return any(_needs_pydantic(part) for part in _fields(hint).values())
    return hint not in _SCALARS and hint not in (*_LISTS, *_OBJECTS)


def _adapter(hint: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(hint)


def _annotated(hint: Any, notes: tuple[Any, ...]) -> dict[str, Any]:
    schema = schema_of(hint)
    for note in notes:
        extra = {"description": note} if isinstance(note, str) else cast("dict[str, Any]", note)
        schema = {**schema, **extra}
    return schema


def _union(parts: tuple[Any, ...]) -> dict[str, Any]:
    schemas = [schema_of(part) for part in parts]
    if all(set(schema) == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}


def _typed_dict(hint: Any) -> dict[str, Any]:
    required: frozenset[str] = hint.__required_keys__
    fields = _fields(hint)
    return {
        "type": "object",
        "properties": {name: schema_of(part) for name, part in fields.items()},
        **({"required": [name for name in fields if name in required]} if required else {}),
        "additionalProperties": False,
    }


def _fields(hint: Any) -> dict[str, Any]:
    return get_type_hints(hint, include_extras=True)
