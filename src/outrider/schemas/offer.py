"""What the model sees of a caller's schema: always the schema of an object."""

import copy
from collections.abc import Iterator
from typing import Any

from .document import STORES, Document, fragment
from .values import Keys, at

RESULT = "result"

_REFUSED = ("$ref", "allOf", "anyOf", "oneOf", "not", "enum")
"""What OpenAI and Anthropic refuse at the root of a tool's parameters."""


def is_object_root(document: Document) -> bool:
    """Say whether the root leads to an object, also through `$ref` and `allOf`."""
    parts = _at_root(document)
    return any(binds and part.get("type") in ("object", ["object"]) for part, binds in parts)


def offered(document: Document) -> dict[str, Any]:
    """Return the parameters of `report_back`: the schema, or `{"result": …}` around it."""
    # The wrapper carries the definitions at its own root, where models and providers look for them.
    # A schema that refers to itself as a whole becomes one of these definitions.
    root = copy.deepcopy(document.root)
    if isinstance(root, bool):
        return _wrapped({} if root else {"not": {}}, {})
    if is_object_root(document):
        return {"type": "object"} | root
    home = ("$defs", RESULT)
    while home[1] in root.get("$defs", ()):
        home = ("$defs", f"{home[1]}_")
    moved = {
        pointer: (*home, *target)
        for pointer, node in document.nodes.items()
        for target in node.applies.get("$ref", ())
        if not (target and target[0] in STORES)
    }
    for pointer, target in moved.items():
        at(root, pointer)["$ref"] = fragment(target)
    about = {key: root.pop(key) for key in ("$schema", *STORES) if key in root}
    if not moved:
        return _wrapped(root, about)
    about["$defs"] = {**about.get("$defs", {}), home[1]: root}
    return _wrapped({"$ref": fragment(home)}, about)


def sent(document: Document) -> dict[str, Any]:
    """Return the parameters as providers take them; reports are judged by the schema itself."""
    # Where the root has something that providers refuse, as that of a recursive model has, its
    # parts are spread out. What that leaves unsaid, a wrong report is told by its faults.
    parameters = offered(document)
    if not any(keyword in parameters for keyword in _REFUSED):
        return parameters
    properties: dict[str, list[Any]] = {}
    required: dict[str, None] = {}
    flat: dict[str, Any] = {}
    for part, binds in _at_root(document):
        for name, schema in part.get("properties", {}).items():
            options = properties.setdefault(name, [])
            options += [schema] if schema not in options else []
        if binds:
            required |= dict.fromkeys(part.get("required", ()))
            flat = {key: value for key, value in part.items() if key not in _REFUSED} | flat
    flat["properties"] = {
        name: options[0] if len(options) == 1 else {"anyOf": options}
        for name, options in properties.items()
    }
    flat |= {"type": "object"} | ({"required": list(required)} if required else {})
    return copy.deepcopy(flat)


def _at_root(document: Document) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield the schemas that apply at the root, each with whether it always does."""
    todo: list[tuple[Keys, bool]] = [((), True)]
    for pointer, binds in todo:
        node = document.nodes[pointer]
        if isinstance(node.schema, dict):
            yield node.schema, binds
        for keyword in ("$ref", "allOf", "anyOf", "oneOf"):
            below = binds and keyword in ("$ref", "allOf")
            todo += [(target, below) for target in node.applies.get(keyword, ())]


def _wrapped(inner: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    shape = {"type": "object", "properties": {RESULT: inner}, "required": [RESULT]}
    return {**about, **shape, "additionalProperties": False}
