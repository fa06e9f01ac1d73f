"""What models see of a function: its description, and the JSON Schema of its parameters."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from outrider.protocol.data import camel
from outrider.tools.context import ToolContext
from outrider.tools.type_schemas import Reader, Schema, read_type, without_null

_SECTION = re.compile(r"^(?:Args|Arguments|Parameters):\s*\n((?: .*\n?|\n)*)", re.MULTILINE)
_ENTRY = re.compile(r"^ {1,4}(\w+)[ \t]*(?:\([^)\n]*\))?:", re.MULTILINE)
_REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Signature:
    """How the JSON arguments of a call reach a function's parameters."""

    parameters: Schema
    names: Mapping[str, str]
    """JSON name to Python name."""
    readers: Mapping[str, Reader]
    """By JSON name: what turns JSON's value into the parameter's."""
    context: str | None
    """The parameter that takes the ToolContext."""
    session: str | None
    """The parameter that takes the session."""

    def bind(
        self, arguments: Mapping[str, Any], context: ToolContext, session: object
    ) -> dict[str, Any]:
        """Return the keyword arguments of a call; a value that can't be read raises ValueError."""
        bound = {self.names[name]: self.readers[name](value) for name, value in arguments.items()}
        injected = ((self.context, context), (self.session, session))
        return bound | {name: value for name, value in injected if name is not None}


def read_signature(function: Callable[..., Any], *, with_session: bool) -> Signature:
    """Return a function's signature; one that JSON can't express raises TypeError."""
    hints = _hints(function)
    own = {parameter.name: parameter for parameter in _own_parameters(function)}
    context = next((name for name in own if hints.get(name) is ToolContext), None)
    session = "session" if with_session and "session" in own else None
    names = {camel(name.strip("_")): name for name in own if name not in (context, session)}
    texts = _parameter_texts(inspect.getdoc(function) or "")
    readers: dict[str, Reader] = {}
    properties: Schema = {}
    definitions: Schema = {}
    for public, name in names.items():
        hint = hints.get(name, Any)
        part, readers[public] = _read_parameter(own[name], hint, texts.get(name))
        definitions |= part.pop("$defs", {})  # to the root, where `$ref`s look for them
        properties[public] = part
    required = [public for public, name in names.items() if own[name].default is _REQUIRED]
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    schema |= {"required": required} if required else {}
    schema |= {"$defs": definitions} if definitions else {}
    return Signature(schema, names, readers, context, session)


def describe(function: Callable[..., Any]) -> str:
    """Return the first paragraph of a function's docstring, on one line."""
    paragraph = (inspect.getdoc(function) or "").strip().split("\n\n")[0]
    return " ".join(paragraph.split())


def _parameter_texts(docstring: str) -> dict[str, str]:
    """Return what the `Args:` section of a docstring says of each parameter."""
    section = _SECTION.search(docstring)
    parts = _ENTRY.split(section[1]) if section else []
    return {
        name: " ".join(text.split()) for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception as fault:
        raise TypeError(
            f"the annotations of {_title(function)} can't be resolved ({fault}): "
            "import the types they name where the module is imported"
        ) from fault


def _own_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(
                f"{_title(function)} has the parameter {str(parameter)!r}: "
                "a tool's parameters must be passable by name"
            )
    return parameters


def _read_parameter(
    parameter: inspect.Parameter, hint: Any, text: str | None
) -> tuple[Schema, Reader]:
    # `limit: int | None = None` means "may be left out"; null itself says nothing more.
    schema, reader = read_type(without_null(hint) if parameter.default is None else hint)
    if text:
        schema.setdefault("description", text)
    if isinstance(parameter.default, str | int | float):
        schema["default"] = parameter.default
    return schema, reader


def _title(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
