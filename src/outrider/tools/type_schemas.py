"""JSON Schemas of Python types: made here for plain types, by pydantic for all others.

pydantic is loaded only for a type that needs it, and refuses `typing.TypedDict` before 3.12.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

Schema = dict[str, Any]
Reader = Callable[[Any], Any]
"""Turns JSON's value into a type's, or raises ValueError."""
_SCALARS: dict[Any, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
_UNIONS = (Union, types.UnionType)


def read_type(hint: Any) -> tuple[Schema, Reader]:
    """Return a type's JSON Schema, and what reads its values.

    In `Annotated[type, …]` a string is the description, and a mapping holds further keywords.
    """
    try:
        return _plain_schema(hint), lambda value: value
    except LookupError:
        from pydantic import TypeAdapter

        adapter = TypeAdapter[Any](hint)
        notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        return adapter.json_schema() | _keywords(notes), adapter.validate_python


def without_null(hint: Any) -> Any:
    """Return a type without the None that it may allow."""
    if get_origin(hint) is Annotated:
        inner, *notes = get_args(hint)
        return Annotated[(without_null(inner), *notes)]
    if get_origin(hint) not in _UNIONS:
        return hint
    return Union[tuple(part for part in get_args(hint) if part is not type(None))]  # noqa: UP007


def _plain_schema(hint: Any) -> Schema:
    """Return the schema of a type whose values JSON has itself; others raise LookupError."""
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin is Annotated:
        if not all(isinstance(note, str | Mapping) for note in arguments[1:]):
            raise LookupError(hint)
        return _plain_schema(arguments[0]) | _keywords(arguments[1:])
    if origin in _UNIONS:
        return _union([_plain_schema(part) for part in arguments])
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Required, NotRequired):
        return _plain_schema(arguments[0])
    if is_typeddict(hint):
        return _typed_dict(hint)
    if origin in (list, Sequence):
        return {"type": "array"} | ({"items": _plain_schema(arguments[0])} if arguments else {})
    if origin in (dict, Mapping):
        values = _plain_schema(arguments[1]) if arguments else {}
        return {"type": "object"} | ({"additionalProperties": values} if values else {})
    return {} if hint is Any else {"type": _SCALARS[hint]}


def _keywords(notes: Sequence[Any]) -> Schema:
    merged: Schema = {}
    for note in notes:
        if isinstance(note, str | Mapping):
            merged |= {"description": note} if isinstance(note, str) else note
    return merged


def _union(schemas: list[Schema]) -> Schema:
    if all(set(schema) == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}


def _typed_dict(hint: Any) -> Schema:
    fields = get_type_hints(hint, include_extras=True)
    required = [name for name in fields if name in hint.__required_keys__]
    return {
        "type": "object",
        "properties": {name: _plain_schema(part) for name, part in fields.items()},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }
