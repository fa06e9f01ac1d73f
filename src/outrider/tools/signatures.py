"""What models see of a function: its description, and the JSON Schema of its parameters.

Schemas of plain types are made here, those of all others by pydantic, which is loaded only for
these, and refuses `typing.TypedDict` before 3.12.
"""

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

from outrider.protocol.data import camel, frozen
from outrider.protocol.text import one_line
from outrider.tools.context import ToolContext

Schema = dict[str, Any]
Reader = Callable[[Any], Any]  # turns JSON's value into a type's, or raises ValueError
_SECTION = re.compile(r"^(?:Args|Arguments|Parameters):\s*\n((?: .*\n?|\n)*)", re.MULTILINE)
_ENTRY = re.compile(r"^ {1,4}(\w+)[ \t]*(?:\([^)\n]*\))?:", re.MULTILINE)
_SCALARS: dict[Any, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}
_UNIONS = (Union, types.UnionType)


@frozen
class Signature:
    """How the JSON arguments of a call reach a function's parameters."""

    parameters: Schema
    readers: Mapping[str, tuple[str, Reader]]  # by JSON name: the parameter, and its reader
    context: str | None  # the parameter that takes the ToolContext
    session: str | None  # the parameter that takes the session

    def bind(
        self, arguments: Mapping[str, Any], context: ToolContext, session: object
    ) -> dict[str, Any]:
        """Return the keyword arguments of a call; a value that can't be read raises ValueError."""
        bound = {self.context: context, self.session: session}
        for public, value in arguments.items():
            name, read = self.readers[public]
            bound[name] = read(value)
        return {name: value for name, value in bound.items() if name is not None}


def read_signature(function: Callable[..., Any], *, with_session: bool) -> Signature:
    """Return a function's signature; one that JSON can't express raises TypeError."""
    hints = typing.get_type_hints(function, include_extras=True)
    found = inspect.signature(function).parameters
    context = next((name for name in found if hints.get(name) is ToolContext), None)
    session = "session" if with_session and "session" in found else None
    unseen = ("self", "cls", context, session)
    own = {name: parameter for name, parameter in found.items() if name not in unseen}
    section = _SECTION.search(inspect.getdoc(function) or "")
    parts = _ENTRY.split(section[1]) if section else []
    texts = {name: one_line(text) for name, text in zip(parts[1::2], parts[2::2], strict=True)}
    readers: dict[str, tuple[str, Reader]] = {}
    properties: Schema = {}
    definitions: Schema = {}
    for name, parameter in own.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{parameter}: a tool's parameters must be passable by name")
        public = camel(name.strip("_"))
        part, reader = _read_parameter(parameter.default, hints.get(name, Any), texts.get(name))
        definitions |= part.pop("$defs", {})  # to the root, where `$ref`s look for them
        properties[public], readers[public] = part, (name, reader)
    empty = inspect.Parameter.empty
    required = [one for one, (name, _) in readers.items() if own[name].default is empty]
    schema = _object(properties, required)
    schema |= {"$defs": definitions} if definitions else {}
    return Signature(schema, readers, context, session)


def describe(function: Callable[..., Any]) -> str:
    """Return the first paragraph of a function's docstring, on one line."""
    return one_line((inspect.getdoc(function) or "").strip().split("\n\n")[0])


def _read_parameter(default: Any, hint: Any, text: str | None) -> tuple[Schema, Reader]:
    # `limit: int | None = None` means "may be left out"; null itself says nothing more.
    schema, reader = _read_type(_without_null(hint) if default is None else hint)
    if text:
        schema.setdefault("description", text)
    if isinstance(default, str | int | float):
        schema["default"] = default
    return schema, reader


def _read_type(hint: Any) -> tuple[Schema, Reader]:
    """Return a type's JSON Schema, and what reads its values."""
    # In `Annotated[type, …]` a string is the description, and a mapping holds further keywords.
    try:
        return _plain_schema(hint), lambda value: value
    except LookupError:
        from pydantic import TypeAdapter

        adapter = TypeAdapter[Any](hint)
        notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        return adapter.json_schema() | _keywords(notes), adapter.validate_python


def _without_null(hint: Any) -> Any:
    """Return a type without the None that it may allow."""
    if get_origin(hint) is Annotated:
        inner, *notes = get_args(hint)
        return Annotated[(_without_null(inner), *notes)]
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
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Required, NotRequired):
        return _plain_schema(arguments[0])
    if typing.is_typeddict(hint):
        fields = typing.get_type_hints(hint, include_extras=True)
        properties = {name: _plain_schema(part) for name, part in fields.items()}
        return _object(properties, [name for name in fields if name in hint.__required_keys__])
    if origin in (list, Sequence):
        return {"type": "array"} | ({"items": _plain_schema(arguments[0])} if arguments else {})
    if origin in (dict, Mapping):
        values = _plain_schema(arguments[1]) if arguments else {}
        return {"type": "object"} | ({"additionalProperties": values} if values else {})
    return {} if hint is Any else {"type": _SCALARS[hint]}


def _object(properties: Schema, required: list[str]) -> Schema:
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": required} if required else {})


def _keywords(notes: Sequence[Any]) -> Schema:
    merged: Schema = {}
    for note in notes:
        if isinstance(note, str | Mapping):
            merged |= {"description": note} if isinstance(note, str) else note
    return merged
