"""Reads a caller's JSON Schema so that no reference in it leads outside the schema itself.

What comes out is in one form: types in lower case, every reference a pointer from the root, and
no other names (`$id`, `$anchor`) that validators and providers could take for something else.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeGuard
from urllib.parse import quote, unquote, urljoin

from outrider.protocol.data import json_kind
from outrider.protocol.errors import OutriderError

from .values import JSON, Keys, at, is_array, is_object, path_text, shortened, survey

MAX_SCHEMA_BYTES = 256 * 1024
MAX_SCHEMA_DEPTH = 64
MAX_SCHEMA_VALUES = 10_000

_DRAFTS = {
    "https://json-schema.org/draft/2020-12/schema": 2020,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft-07/schema": 7,
}
TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
STORES = ("$defs", "definitions")
_VALUES = ("enum", "const", "default", "examples")

# Where a schema holds others, by what they apply to. A keyword that only the other draft has is
# read like the rest: that can refuse a schema, but not take in one that should be refused.
_DEPENDENT = ("dependentSchemas", "dependencies")
SAME_VALUE = ("$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", *_DEPENDENT)
_NAMED_PARTS = ("properties", "patternProperties")
_OBJECT_PARTS = (*_NAMED_PARTS, "additionalProperties", "unevaluatedProperties", "propertyNames")
_ARRAY_PARTS = ("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains")
_APPLYING = frozenset((*SAME_VALUE, *_OBJECT_PARTS, *_ARRAY_PARTS))
_BY_NAME = frozenset((*STORES, *_NAMED_PARTS, *_DEPENDENT))


class SchemaError(OutriderError, ValueError):
    """The schema can't be used; the message says what is wrong, where, and what to do."""


@dataclass(slots=True)
class Node:
    """One schema in the document, with the schemas that each of its keywords applies."""

    schema: dict[str, Any] | bool
    base: str
    applies: dict[str, list[Keys]] = field(default_factory=dict[str, list[Keys]])


class Document:
    """A schema of which every part and every reference is known."""

    def __init__(self, root: JSON) -> None:
        """Take a schema that may be changed; raises `SchemaError`."""
        self.root = root
        self.draft = _draft(root)
        self.nodes: dict[Keys, Node] = {}
        self._names: dict[str, Keys] = {"": ()}
        self._unresolved: list[tuple[Keys, Node, dict[str, Any]]] = []
        self._visit((), root, "")
        while self._unresolved:
            pointer, node, schema = self._unresolved.pop()
            target = self._resolve((*pointer, "$ref"), node.base, schema["$ref"])
            schema["$ref"] = fragment(target)
            node.applies["$ref"] = [target]

    def objects(self) -> Iterator[dict[str, Any]]:
        """Yield every schema that isn't just true or false."""
        return (node.schema for node in self.nodes.values() if isinstance(node.schema, dict))

    def _visit(self, pointer: Keys, schema: JSON, base: str) -> None:
        """Add the schema at `pointer`, and all that it holds."""
        if pointer in self.nodes or not _is_schema(schema):
            return  # what isn't a schema is left for the meta-schema to name
        node = self.nodes[pointer] = Node(schema, base)
        if isinstance(schema, bool):
            return
        if "type" in schema:
            schema["type"] = _lowered(schema["type"])
        if self.draft == 7 and "$ref" in schema:  # which makes draft 7 ignore its neighbours
            for keyword in _APPLYING - {"$ref"} | {"type", "$id"}:
                schema.pop(keyword, None)
        node.base = self._take_names(pointer, schema, base)
        if isinstance(schema.get("$ref"), str):
            self._unresolved.append((pointer, node, schema))
        for keyword, content in schema.items():
            held = _held((*pointer, keyword), content)
            if keyword not in STORES:
                node.applies[keyword] = list(held)
            for below, part in held.items():
                self._visit(below, part, node.base)

    def _take_names(self, pointer: Keys, schema: dict[str, Any], base: str) -> str:
        """Take the schema's own names out of it, and return the base of its references."""
        if pointer:
            schema.pop("$schema", None)
        is_modern = self.draft != 7 and "$dynamicRef" in schema
        if is_modern and is_array(schema.setdefault("allOf", [])):
            # Anchors are unique here, so that it leads to the same place as a static one.
            schema["allOf"].append({"$ref": schema.pop("$dynamicRef")})
        names = [f"#{schema.pop(key)}" for key in ("$anchor", "$dynamicAnchor") if key in schema]
        identity = str(schema.pop("$id", "#"))
        if identity.startswith("#"):
            names += [identity] if identity != "#" else []
        else:
            base = _joined(base, identity).rstrip("#")
            names.append(base)
        for name in names:
            if self._names.setdefault(name, pointer) != pointer:
                where = path_text(pointer)
                raise SchemaError(f"{where}: {shortened(name, 120)!r} is named twice; rename one")
        return base

    def _resolve(self, where: Keys, base: str, reference: str) -> Keys:
        uri, _, name = _joined(base, reference).partition("#")
        target = self._names.get(uri)
        shown, hint = shortened(reference, 120), "nothing is fetched: put its target under $defs"
        if target is None:
            raise SchemaError(f"{path_text(where)}: {shown!r} leads outside the schema, and {hint}")
        if name.startswith("/"):
            target = self._descend(target, unquote(name).split("/")[1:])
        elif name:
            target = self._names.get(f"#{unquote(name)}")
        if target is None:
            raise SchemaError(f"{path_text(where)}: nothing in the schema is at {shown!r}")
        return target

    def _descend(self, pointer: Keys, tokens: list[str]) -> Keys | None:
        """Return the schema at a JSON pointer, made known to the document if it wasn't."""
        found, base = at(self.root, pointer), ""
        for token in tokens:
            if pointer in self.nodes:
                base = self.nodes[pointer].base
                if token in _VALUES:
                    return None
            name = token.replace("~1", "/").replace("~0", "~")
            try:
                pointer = (*pointer, int(name) if isinstance(found, list) else name)
                found = at(self.root, pointer)
            except (LookupError, TypeError, ValueError):
                return None
        self._visit(pointer, found, base)
        return pointer if pointer in self.nodes else None


def read_document(schema: object) -> Document:
    """Return `schema` with its parts and references known; raises `SchemaError`."""
    if flaw := survey(schema, MAX_SCHEMA_DEPTH, MAX_SCHEMA_VALUES).flaw:
        raise SchemaError(f"the schema can't be used: {flaw}")
    try:
        text = json.dumps(schema, ensure_ascii=False)
    except ValueError:
        raise SchemaError("the schema holds an integer of more than 4,300 digits") from None
    if (size := len(text.encode())) > MAX_SCHEMA_BYTES:
        raise SchemaError(f"the schema has {size:,} bytes; the limit is {MAX_SCHEMA_BYTES:,}")
    if not isinstance(schema, dict | bool):
        raise SchemaError(f"a JSON Schema is an object, true or false; this is {json_kind(schema)}")
    return Document(json.loads(text))


def fragment(pointer: Keys) -> str:
    """Return a pointer as a reference writes it."""
    escaped = (str(token).replace("~", "~0").replace("/", "~1") for token in pointer)
    return "#" + "".join("/" + quote(token, safe="~!$&'()*+,;=:@") for token in escaped)


def _draft(root: JSON) -> int:
    if not is_object(root) or "$schema" not in root:
        return 2020
    named = str(root["$schema"])
    if named.rstrip("#") not in _DRAFTS:
        hint = "use 2020-12 (or leave $schema out) or draft 7"
        raise SchemaError(f"$.$schema: {shortened(named, 120)!r} is not a supported draft; {hint}")
    return _DRAFTS[named.rstrip("#")]


def _lowered(kind: JSON) -> JSON:
    if is_array(kind):
        return [_lowered(item) for item in kind]
    return kind.lower() if isinstance(kind, str) and kind.lower() in TYPES else kind


def _held(pointer: Keys, content: JSON) -> dict[Keys, JSON]:
    """Return the schemas that a keyword holds."""
    if pointer[-1] not in _APPLYING | _BY_NAME:
        return {}
    parts: dict[Keys, JSON] = {pointer: content}
    if is_array(content):
        parts = {(*pointer, index): item for index, item in enumerate(content)}
    elif pointer[-1] in _BY_NAME and is_object(content):
        parts = {(*pointer, name): item for name, item in content.items()}
    return {below: part for below, part in parts.items() if _is_schema(part)}


def _is_schema(value: JSON) -> TypeGuard[dict[str, Any] | bool]:
    return isinstance(value, dict | bool)


def _joined(base: str, uri: str) -> str:
    try:
        return urljoin(base, uri)
    except ValueError:  # not a URI: nothing has that name
        return uri
