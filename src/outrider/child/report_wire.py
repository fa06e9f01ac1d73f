"""The parameters of `report_back` as providers take them; reports are judged by the schema itself.

OpenAI and Anthropic refuse a tool whose parameters have a combination or a reference at the root,
where recursive models have one. There its parts are spread out: properties and what is required.
What that leaves unsaid, a model that gets it wrong is told by the faults of its report.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import unquote

_BOTH = ("$ref", "allOf")
_EITHER = ("anyOf", "oneOf")
_REFUSED = frozenset((*_BOTH, *_EITHER, "not", "enum"))


def wire_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters without anything at their root that a provider refuses."""
    if not _REFUSED & parameters.keys():
        return dict(parameters)
    properties: dict[str, list[Any]] = {}
    required: dict[str, None] = {}
    flat: dict[str, Any] = {}
    for part, binds in _parts(parameters):
        for name, schema in part.get("properties", {}).items():
            options = properties.setdefault(name, [])
            if schema not in options:
                options.append(schema)
        if binds:
            required |= dict.fromkeys(part.get("required", ()))
            flat = {key: value for key, value in part.items() if key not in _REFUSED} | flat
    flat["properties"] = {
        name: options[0] if len(options) == 1 else {"anyOf": options}
        for name, options in properties.items()
    }
    return flat | ({"required": list(required)} if required else {})


def _parts(root: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Yield the schemas that apply at the root, each with whether it always does."""
    todo: list[tuple[Any, bool]] = [(root, True)]
    seen: list[Any] = []
    while todo:
        part, binds = todo.pop(0)
        if not isinstance(part, dict) or any(part is other for other in seen):
            continue
        seen.append(part)
        schema = cast("dict[str, Any]", part)
        yield schema, binds
        todo.append((_target(root, schema.get("$ref")), binds))
        todo += [(below, binds) for below in schema.get("allOf", ())]
        todo += [(below, False) for keyword in _EITHER for below in schema.get(keyword, ())]


def _target(root: Mapping[str, Any], reference: object) -> Any:
    """Return what a pointer into `root` leads to, None where it is no such pointer."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: Any = root
    for token in unquote(reference[2:]).split("/"):
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and key.isdecimal():
            items = cast("list[Any]", found)
            found = items[int(key)] if int(key) < len(items) else None
        else:
            found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
    return found
