"""What models see of a function: its description, and the JSON Schema of its parameters."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from outrider.protocol.data import camel
from outrider.tools.context import ToolContext
from outrider.tools.type_schemas import accepts_null, schema_of, value_reader, without_null

_SECTION = re.compile(r"(Args|Arguments|Parameters):\s*")
_ENTRY = re.compile(r"(\*{0,2}\w+)\s*(?:\([^)]*\))?:\s*(.*)")


@dataclass(frozen=True, slots=True)
class Signature:
    """How the JSON arguments of a call reach a function's parameters."""

    parameters: dict[str, Any]
    names: Mapping[str, str]
    """JSON name to Python name."""
    readers: Mapping[str, Callable[[Any], Any]]
    """By JSON name: what turns a value into a type that JSON doesn't have."""
    context: str | None
    """The parameter that takes the ToolContext."""
    session: str | None
    """The parameter that takes the session."""

    def bind(
        self, arguments: Mapping[str, Any], context: ToolContext, session: object
    ) -> dict[str, Any]:
        """Return the keyword arguments of a call; a value that can't be read raises ValueError."""
        bound: dict[str, Any] = {}
        for name, value in arguments.items():
            reader = self.readers.get(name)
            bound[self.names[name]] = value if reader is None else reader(value)
        if self.context is not None:
            bound[self.context] = context
        if self.session is not None:
            bound[self.session] = session
        return bound


def read_signature(function: Callable[..., Any], *, with_session: bool) -> Signature:
    """Return a function's signature; one that JSON can't express raises TypeError."""
    hints = _hints(function)
    texts = parameter_texts(inspect.getdoc(function) or "")
    parameters = _own_parameters(function)
    context = next((p.name for p in parameters if hints.get(p.name) is ToolContext), None)
    session = next((p.name for p in parameters if with_session and p.name == "session"), None)
    published = [
        (camel(p.name.strip("_")), p, hints.get(p.name, Any))
        for p in parameters
        if p.name not in (context, session)
    ]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: _property(p, hint, texts.get(p.name)) for name, p, hint in published},
        "required": [name for name, p, _ in published if p.default is p.empty],
        "additionalProperties": False,
    }
    if not schema["required"]:
        del schema["required"]
    names = {name: p.name for name, p, _ in published}
    readers = {name: reader for name, _, hint in published if (reader := value_reader(hint))}
    return Signature(_hoisted(schema), names, readers, context, session)


def describe(function: Callable[..., Any]) -> str:
    """Return the first paragraph of a function's docstring, on one line."""
    paragraph = (inspect.getdoc(function) or "").strip().split("\n\n")[0]
    return " ".join(paragraph.split())


def parameter_texts(docstring: str) -> dict[str, str]:
    """Return what the `Args:` section of a docstring says of each parameter."""
    texts: dict[str, str] = {}
    current: str | None = None
    inside = False
    for line in docstring.splitlines():
        if not line.startswith(" "):
            inside = bool(_SECTION.fullmatch(line)) or (inside and not line.strip())
            continue
        if not inside:
            continue
        entry = _ENTRY.fullmatch(line.strip())
        if entry is not None and len(line) - len(line.lstrip()) <= 4:
            current = str(entry[1]).lstrip("*")
            texts[current] = entry[2]
        elif current is not None:
            texts[current] = f"{texts[current]} {line.strip()}".strip()
    return texts


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


def _property(parameter: inspect.Parameter, hint: Any, text: str | None) -> dict[str, Any]:
    # `limit: int | None = None` means "may be left out"; null itself says nothing more.
    optional = parameter.default is None and accepts_null(hint)
    schema = schema_of(without_null(hint) if optional else hint)
    if text:
        schema = {**schema, "description": schema.get("description") or text}
    if isinstance(parameter.default, str | int | float):
        schema = {**schema, "default": parameter.default}
    return schema


def _hoisted(schema: dict[str, Any]) -> dict[str, Any]:
    """Move the `$defs` of single parameters to the root, where their `$ref`s look for them."""
    definitions: dict[str, Any] = {}
    for part in schema["properties"].values():
        definitions.update(part.pop("$defs", {}))
    return {**schema, "$defs": definitions} if definitions else schema


def _title(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
