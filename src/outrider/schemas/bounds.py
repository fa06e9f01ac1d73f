"""Holds a schema to what can be judged in bounded time, whatever value it meets."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, cast

from outrider.schemas.document import Document, Node, Pointer, SchemaError, place

MAX_PATTERNS = 128
MAX_APPLICATIONS = 50_000
"""How many schemas may meet at one place of a value, references followed."""


def bounded_applications(document: Document) -> int:
    """Return how many schemas meet at the busiest place of any value; raises `SchemaError`."""
    _check_patterns(document)
    _refuse_endless(document)
    applications = _applications(document)
    if applications > MAX_APPLICATIONS:
        raise SchemaError(
            f"the schema's references multiply: more than {MAX_APPLICATIONS:,} schemas apply "
            "to one place of a value; refer to shared parts from fewer places"
        )
    return applications


def _check_patterns(document: Document) -> None:
    patterns: set[str] = set()
    for _, schema in document.objects():
        if isinstance(pattern := schema.get("pattern"), str):
            patterns.add(pattern)
        if isinstance(keyed := schema.get("patternProperties"), dict):
            patterns.update(cast("dict[str, Any]", keyed))
    if len(patterns) > MAX_PATTERNS:
        raise SchemaError(
            f"the schema has {len(patterns)} different patterns; at most {MAX_PATTERNS} are taken"
        )


def _refuse_endless(document: Document) -> None:
    """Raise where a schema comes back to itself on the same value: no verdict would be sound."""
    inward: defaultdict[Pointer, int] = defaultdict(int)
    for node in document.nodes.values():
        for target in node.beside:
            inward[target] += 1
    free = [pointer for pointer in document.nodes if not inward[pointer]]
    left = dict.fromkeys(document.nodes)
    while free:
        pointer = free.pop()
        del left[pointer]
        for target in document.nodes[pointer].beside:
            inward[target] -= 1
            if not inward[target]:
                free.append(target)
    if looped := next((pointer for pointer in left if document.nodes[pointer].references), None):
        raise _endless(looped)
    if left:
        raise _endless(next(iter(left)))


def _endless(pointer: Pointer) -> SchemaError:
    return SchemaError(
        f"{place(pointer)}: the reference leads back to itself without going into the value; "
        "refer to it from under properties or items"
    )


def _applications(document: Document) -> int:
    """Return how many schemas meet at the busiest place that one value can have.

    Below one schema, properties and positions exclude each other. What comes back to a schema
    that is still open counts once: the validator remembers its verdicts there.
    """
    counted: dict[Pointer, int] = {}
    for pointer in _children_first(document):
        node = document.nodes[pointer]
        total = _own_weight(node) + sum(counted.get(p, 1) for p in (*node.beside, *node.parts))
        counted[pointer] = total + max((counted.get(p, 1) for p in node.named), default=0)
    return max(counted.values())


def _own_weight(node: Node) -> int:
    options = node.schema.get("enum") if isinstance(node.schema, dict) else None
    if not isinstance(options, list):
        return 1
    # Plain options are looked up at once, others are compared one by one.
    return 1 + sum(isinstance(item, dict | list) for item in cast("list[Any]", options))


def _children_first(document: Document) -> Iterator[Pointer]:
    entered: set[Pointer] = set()
    todo = [(pointer, False) for pointer in document.nodes]
    while todo:
        pointer, is_done = todo.pop()
        if is_done:
            yield pointer
        elif pointer not in entered:
            entered.add(pointer)
            node = document.nodes[pointer]
            todo.append((pointer, True))
            todo += [(below, False) for below in (*node.beside, *node.parts, *node.named)]
