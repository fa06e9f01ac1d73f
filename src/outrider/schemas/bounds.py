"""Takes only schemas that any value can be judged by in bounded time."""

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from .document import SAME_VALUE, Document, SchemaError
from .values import JSON, Keys, is_array, path_text, survey

if TYPE_CHECKING:
    from jsonschema_rs import Validator

MAX_PATTERNS = 128
MAX_PATTERN_BYTES = 2 * 1024 * 1024
MAX_BACKTRACKING = 10_000
MAX_APPLICATIONS = 50_000  # how many schemas may meet at one place of a value, references followed

ADDRESS = "json-schema:///schema"


def compiled_schema(document: Document, part: JSON = None, **options: Any) -> "Validator":
    """Return a validator for the schema, or for a part that refers to it by `ADDRESS`."""
    # Patterns run in linear time, but for look-around and back-references: these are cut off. A
    # pattern that was cut off fails the whole verdict, under `not` too. Nothing is ever fetched.
    import jsonschema_rs as native

    validator = native.Draft7Validator if document.draft == 7 else native.Draft202012Validator
    limits = native.FancyRegexOptions(MAX_BACKTRACKING, MAX_PATTERN_BYTES, MAX_PATTERN_BYTES)
    options |= {"offline": True, "validate_formats": False, "pattern_options": limits}
    return validator(document.root if part is None else part, **options)


def bounded_applications(document: Document) -> int:
    """Return how many schemas meet at the busiest place of any value; raises `SchemaError`."""
    patterns = {str(schema["pattern"]) for schema in document.objects() if "pattern" in schema}
    for node in document.nodes.values():
        patterns.update(str(pointer[-1]) for pointer in node.applies.get("patternProperties", ()))
    if len(patterns) > MAX_PATTERNS:
        count = len(patterns)
        raise SchemaError(f"the schema has {count} different patterns; the limit is {MAX_PATTERNS}")
    _refuse_endless(document)
    applications = _applications(document)
    if applications > MAX_APPLICATIONS:
        why = f"the schema's references multiply: more than {MAX_APPLICATIONS:,} schemas apply"
        raise SchemaError(f"{why} to one place of a value; refer to shared parts from fewer places")
    return applications


def _refuse_endless(document: Document) -> None:
    """Raise where a schema comes back to itself on the same value: any verdict would be a guess."""
    graph = {
        pointer: [to for keyword in SAME_VALUE for to in node.applies.get(keyword, ())]
        for pointer, node in document.nodes.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        where = path_text(error.args[1][0])
        why = f"{where}: the reference leads back to itself on the same value"
        raise SchemaError(f"{why}; move it under properties or items") from None


def _applications(document: Document) -> int:
    """Return how many schemas meet at the busiest place that one value can have."""
    # Below one schema, properties and positions exclude each other. What comes back to a schema
    # that is still open counts once: the validator remembers its verdicts there.
    counted: dict[Keys, int] = {}
    for pointer in _children_first(document):
        node = document.nodes[pointer]
        options = node.schema.get("enum") if isinstance(node.schema, dict) else None
        # Plain options are looked up at once, others are compared one by one.
        is_plain = not is_array(options) or {dict, list}.isdisjoint(map(type, options))
        counted[pointer] = 1 if is_plain else survey(options).values
        for keyword, targets in node.applies.items():
            weights = [counted.get(target, 1) for target in targets]
            total = max if keyword in ("properties", "prefixItems") else sum
            counted[pointer] += total(weights) if weights else 0
    return max(counted.values())


def _children_first(document: Document) -> Iterator[Keys]:
    entered: set[Keys] = set()
    todo = [(pointer, False) for pointer in document.nodes]
    while todo:
        pointer, is_done = todo.pop()
        if is_done:
            yield pointer
        elif pointer not in entered:
            entered.add(pointer)
            todo.append((pointer, True))
            held = document.nodes[pointer].applies.values()
            todo += [(below, False) for targets in held for below in targets]
