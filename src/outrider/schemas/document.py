"""Reads a caller's JSON Schema so that no reference in it leads outside the schema itself."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from outrider.schemas.values import JSON, cut, path_text, survey

Draft: TypeAlias = Literal["2020-12", "7"]
Pointer: TypeAlias = tuple[str, ...]
"""The way from the document's root to a schema in it."""

MAX_SCHEMA_BYTES = 256 * 1024
MAX_SCHEMA_DEPTH = 64
MAX_SCHEMA_VALUES = 10_000

_DRAFTS: dict[str, Draft] = {
    "https://json-schema.org/draft/2020-12/schema": "2020-12",
    "http://json-schema.org/draft-07/schema": "7",
    "https://json-schema.org/draft-07/schema": "7",
}
TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_VALUES = frozenset({"enum", "const", "default", "examples"})

# Where a schema holds others: beside itself on the same value, on a part of the value, or in store.
_BESIDE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else"})
_PART = frozenset({"additionalProperties", "propertyNames", "items", "contains"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_BY_DRAFT: dict[Draft, tuple[frozenset[str], frozenset[str], frozenset[str]]] = {
    "2020-12": (
        _BESIDE | {"dependentSchemas"},
        _PART | {"prefixItems", "unevaluatedItems", "unevaluatedProperties"},
        _MAPS | {"dependentSchemas"},
    ),
    "7": (_BESIDE | {"dependencies"}, _PART | {"additionalItems"}, _MAPS | {"dependencies"}),
}


class SchemaError(ValueError):
    """The schema can't be used; the message says what is wrong, where, and what to do."""


@dataclass(slots=True)
class Node:
    """One schema in the document, with the schemas that it applies."""

    schema: dict[str, Any] | bool
    base: str
    beside: list[Pointer] = field(default_factory=list[Pointer])
    """Applied to the same value."""
    named: list[Pointer] = field(default_factory=list[Pointer])
    """Each applied to a part of its own: a property, a position."""
    parts: list[Pointer] = field(default_factory=list[Pointer])
    """Each applied to any part."""
    references: dict[str, Pointer] = field(default_factory=dict[str, Pointer])
    """Where `$ref` and `$dynamicRef` lead."""


@dataclass(slots=True)
class Document:
    """A schema of which every part and every reference is known."""

    root: dict[str, Any] | bool
    draft: Draft
    nodes: dict[Pointer, Node] = field(default_factory=dict[Pointer, Node])
    resources: dict[str, Pointer] = field(default_factory=dict[str, Pointer])
    anchors: dict[tuple[str, str], Pointer] = field(default_factory=dict[tuple[str, str], Pointer])

    def objects(self) -> Iterator[tuple[Pointer, dict[str, Any]]]:
        """Yield every schema that isn't just true or false."""
        for pointer, node in self.nodes.items():
            if isinstance(node.schema, dict):
                yield pointer, node.schema


def read_document(schema: object) -> Document:
    """Return `schema` with its types in lower case and its references resolved.

    Raises `SchemaError` for what is no schema, is absurdly large, or leads outside itself.
    """
    root = _copied(schema)
    if not isinstance(root, dict | bool):
        kind = type(schema).__name__
        raise SchemaError(f"a JSON Schema is an object, true or false; this is a {kind}")
    root = cast("dict[str, Any] | bool", root)
    document = Document(root, _draft(root))
    document.resources[""] = ()
    _visit(document, (), root, "")
    _follow_references(document)
    return document


def place(pointer: Pointer) -> str:
    """Return where in the schema that is, as people write it."""
    return path_text(tuple(int(token) if token.isdecimal() else token for token in pointer))


def _copied(schema: object) -> JSON:
    if flaw := survey(schema, MAX_SCHEMA_DEPTH, MAX_SCHEMA_VALUES).flaw:
        raise SchemaError(f"the schema can't be used: {flaw}")
    try:
        text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        raise SchemaError("the schema holds an integer of more than 4,300 digits") from None
    if (size := len(text.encode())) > MAX_SCHEMA_BYTES:
        raise SchemaError(f"the schema has {size:,} bytes; at most {MAX_SCHEMA_BYTES:,} are taken")
    return json.loads(text)


def _draft(root: dict[str, Any] | bool) -> Draft:
    if isinstance(root, bool) or "$schema" not in root:
        return "2020-12"
    named = root["$schema"]
    draft = _DRAFTS.get(named.rstrip("#")) if isinstance(named, str) else None
    if draft is None:
        raise SchemaError(
            f"$.$schema: {cut(repr(named), 120)} is not a draft that is supported; "
            "use draft 2020-12 (or leave $schema out) or draft 7"
        )
    return draft


def _visit(document: Document, pointer: Pointer, schema: JSON, base: str) -> None:
    """Add the schema at `pointer`, and all that it holds, to the document."""
    todo: list[tuple[Pointer, JSON, str]] = [(pointer, schema, base)]
    while todo:
        pointer, schema, base = todo.pop()
        if pointer in document.nodes or not isinstance(schema, dict | bool):
            continue  # what is neither is left for the meta-schema to name
        schema = cast("dict[str, Any] | bool", schema)
        node = document.nodes[pointer] = Node(schema, base)
        if isinstance(schema, bool):
            continue
        node.base = _identify(document, pointer, schema, base)
        _lower_types(schema)
        for below, held in _held(document.draft, pointer, schema, node):
            todo.append((below, held, node.base))


def _identify(document: Document, pointer: Pointer, schema: dict[str, Any], base: str) -> str:
    """Record the names that the schema gives itself, and return the base of its references."""
    if "$schema" in schema and _draft(schema) != document.draft:
        where = place((*pointer, "$schema"))
        raise SchemaError(f"{where}: a part can't be of another draft than the whole; leave it out")
    legacy = document.draft == "7"
    identity = schema.get("$id")
    if isinstance(identity, str) and not (legacy and "$ref" in schema):
        if legacy and identity.startswith("#"):
            document.anchors[base, identity[1:]] = pointer
        else:
            base = _joined(pointer, base, identity.rstrip("#"))
            # The validator knows the meta-schemas, and would take them for the one named here.
            is_taken = urlsplit(base).netloc == "json-schema.org"
            if is_taken or document.resources.setdefault(base, pointer) != pointer:
                where = place((*pointer, "$id"))
                raise SchemaError(f"{where}: {cut(identity, 120)!r} is another schema's; rename it")
    for keyword in () if legacy else ("$anchor", "$dynamicAnchor"):
        if isinstance(name := schema.get(keyword), str):
            document.anchors[base, name] = pointer
    return base


def _lower_types(schema: dict[str, Any]) -> None:
    kind = schema.get("type")
    if isinstance(kind, list):
        schema["type"] = [_lowered(item) for item in cast("list[Any]", kind)]
    elif kind is not None:
        schema["type"] = _lowered(kind)


def _lowered(kind: JSON) -> JSON:
    return kind.lower() if isinstance(kind, str) and kind.lower() in TYPES else kind


def _held(
    draft: Draft, pointer: Pointer, schema: dict[str, Any], node: Node
) -> Iterator[tuple[Pointer, JSON]]:
    beside, parts, maps = _BY_DRAFT[draft]
    only_reference = draft == "7" and "$ref" in schema  # its neighbours count for nothing there
    for keyword, content in schema.items():
        if keyword not in beside | parts | maps:
            continue
        for tokens, held in _spread(keyword, content, maps):
            below = (*pointer, *tokens)
            yield below, held
            if only_reference or not isinstance(held, dict | bool):
                continue
            if keyword in beside:
                node.beside.append(below)
            elif keyword == "properties" or (keyword in parts and isinstance(content, list)):
                node.named.append(below)
            elif keyword in parts or keyword == "patternProperties":
                node.parts.append(below)


def _spread(keyword: str, content: JSON, maps: frozenset[str]) -> Iterator[tuple[Pointer, JSON]]:
    if isinstance(content, list):
        for index, held in enumerate(cast("list[Any]", content)):
            yield (keyword, str(index)), held
    elif keyword not in maps:
        yield (keyword,), content
    elif isinstance(content, dict):
        for name, held in cast("dict[str, Any]", content).items():
            yield (keyword, name), held


def _follow_references(document: Document) -> None:
    followed: set[Pointer] = set()
    while waiting := [pointer for pointer, _ in document.objects() if pointer not in followed]:
        for pointer in waiting:
            followed.add(pointer)
            node = document.nodes[pointer]
            for keyword in ("$ref",) if document.draft == "7" else ("$ref", "$dynamicRef"):
                reference = cast("dict[str, Any]", node.schema).get(keyword)
                if isinstance(reference, str):
                    target = _resolved(document, (*pointer, keyword), node.base, reference)
                    node.references[keyword] = target
                    node.beside.append(target)


def _resolved(document: Document, where: Pointer, base: str, reference: str) -> Pointer:
    uri, fragment = urldefrag(reference)
    uri = base if not uri else _joined(where, base, uri)
    start = document.resources.get(uri)
    if start is None:
        raise SchemaError(
            f"{place(where)}: {cut(reference, 120)!r} leads outside the schema; nothing is fetched "
            "from the network or read from files: put what it refers to under $defs"
        )
    if fragment and not fragment.startswith("/"):
        target = document.anchors.get((uri, unquote(fragment)))
    else:
        target = _descend(document, start, fragment)
    if target is None:
        raise SchemaError(f"{place(where)}: nothing in the schema is at {cut(reference, 120)!r}")
    return target


def _descend(document: Document, start: Pointer, fragment: str) -> Pointer | None:
    """Return the schema at a JSON pointer, made known to the document if it wasn't."""
    tokens = [
        token.replace("~1", "/").replace("~0", "~") for token in unquote(fragment).split("/")[1:]
    ]
    pointer = start
    found: JSON = document.nodes[start].schema
    base = document.nodes[start].base
    for token in tokens:
        if pointer in document.nodes:
            base = document.nodes[pointer].base
            if token in _VALUES:
                return None
        if isinstance(found, dict) and token in found:
            found = cast("dict[str, Any]", found)[token]
        elif (
            isinstance(found, list)
            and token.isdecimal()
            and int(token) < len(cast("list[Any]", found))
        ):
            found = cast("list[Any]", found)[int(token)]
        else:
            return None
        pointer = (*pointer, token)
    if not isinstance(found, dict | bool):
        return None
    _visit(document, pointer, found, base)
    return pointer


def _joined(where: Pointer, base: str, uri: str) -> str:
    try:
        return urljoin(base, uri)
    except ValueError:
        raise SchemaError(f"{place(where)}: {cut(uri, 120)!r} is not a URI") from None
