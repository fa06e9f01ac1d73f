"""What the model sees of a caller's schema: always the schema of an object."""

import copy
from collections.abc import Iterable
from typing import Any, cast
from urllib.parse import quote

from outrider.schemas.document import Document, Pointer
from outrider.schemas.values import JSON

RESULT = "result"

_STORES = ("$defs", "definitions")
_NAMES = ("$id", "$anchor", "$dynamicAnchor", "$schema")


def is_object_root(document: Document) -> bool:
    """Say whether the root leads to an object, also through `$ref` and `allOf`."""
    todo: list[Pointer] = [()]
    while todo:
        node = document.nodes[todo.pop()]
        if isinstance(node.schema, bool):
            continue
        todo += node.references.values()
        if document.draft == "7" and node.references:
            continue  # a reference's neighbours count for nothing there
        if node.schema.get("type") in ("object", ["object"]):
            return True
        todo += [pointer for pointer in node.beside if pointer[-2:-1] == ("allOf",)]
    return False


def offered(document: Document) -> dict[str, Any]:
    """Return the parameters of `report_back`: the schema, or `{"result": …}` around it.

    The wrapper carries the definitions at its own root, where models and providers look for
    them. A schema that refers to itself as a whole becomes one of these definitions.
    """
    if isinstance(document.root, bool):
        return _wrapped({} if document.root else {"not": {}}, {})
    if is_object_root(document):
        return {"type": "object"} | copy.deepcopy(document.root)
    targets = [target for node in document.nodes.values() for target in node.references.values()]
    home = () if all(map(_is_stored, targets)) else ("$defs", _free_name(document.root))
    inner = cast("dict[str, Any]", plain(document, home))
    about = {key: document.root[key] for key in ("$schema",) if key in document.root}
    for store in _STORES:
        if isinstance(inner.get(store), dict):
            about[store] = inner.pop(store)
    if home:
        about["$defs"] = {**about.get("$defs", {}), home[1]: inner}
        inner = {"$ref": fragment(home)}
    return _wrapped(inner, about)


def plain(document: Document, home: Pointer = ()) -> dict[str, Any] | bool:
    """Return the schema with every reference as a pointer and no identifiers.

    `home` is where its root is going to be; what is under `$defs` or `definitions` stays there.
    """
    root = copy.deepcopy(document.root)
    for pointer, _ in document.objects():
        schema = _at(root, pointer)
        for name in _NAMES:
            schema.pop(name, None)
        for keyword, target in document.nodes[pointer].references.items():
            moved = fragment(target if _is_stored(target) else (*home, *target))
            del schema[keyword]
            if "$ref" in schema:
                schema["allOf"] = [*schema.get("allOf", ()), {"$ref": moved}]
            else:
                schema["$ref"] = moved
    return root


def fragment(pointer: Iterable[str]) -> str:
    """Return a pointer as a reference writes it."""
    escaped = (token.replace("~", "~0").replace("/", "~1") for token in pointer)
    return "#" + "".join("/" + quote(token, safe="~!$&'()*+,;=:@") for token in escaped)


def _wrapped(inner: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    return {
        **about,
        "type": "object",
        "properties": {RESULT: inner},
        "required": [RESULT],
        "additionalProperties": False,
    }


def _is_stored(pointer: Pointer) -> bool:
    return bool(pointer) and pointer[0] in _STORES


def _free_name(root: dict[str, Any]) -> str:
    taken = root.get("$defs", {})
    name = RESULT
    while name in taken:
        name += "_"
    return name


def _at(root: JSON, pointer: Pointer) -> dict[str, Any]:
    found = root
    for token in pointer:
        key = int(token) if isinstance(found, list) else token
        found = cast("Any", found)[key]
    return found
