"""Finds where a value departs from its schema, in bounded time; the verdict is not made here."""

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

from outrider.schemas.document import Document, Pointer
from outrider.schemas.messages import CERTAIN, complaint, undecided
from outrider.schemas.offer import fragment
from outrider.schemas.values import JSON, Fault, Keys, cut, names, path_text, show

MAX_FAULTS = 20
MAX_COUNTED = 1_000
CPU_SECONDS = 0.5
"""How long faults are looked for: a value can be wrong in more ways than anyone can read."""

ADDRESS = "json-schema:///schema"
_CHUNK = 1_000


class Judge(Protocol):
    """Anything that says whether a value fits."""

    def is_valid(self, instance: Any) -> bool: ...


class _EnoughError(Exception):
    pass


class FaultFinder:
    """Walks a value that doesn't fit along its schema, down to what is wrong in it."""

    def __init__(self, document: Document, compile_part: Callable[[dict[str, Any]], Judge]) -> None:
        self._document = document
        self._compile_part = compile_part
        self._judges: dict[Any, Judge] = {}
        self._faults: list[Fault] = []
        self._objections = 0
        self._count = 0
        self._deadline = time.thread_time() + CPU_SECONDS

    def find(self, value: JSON) -> list[Fault]:
        """Return the faults of `value`, at least one, and a last one that counts the rest."""
        is_all = True
        try:
            self._explain((), value, ())
        except (_EnoughError, RecursionError):
            is_all = False
        if not self._faults:
            self._faults.append(Fault("$", f"{show(value)} does not fit the schema"))
            self._count = 1
        if more := self._count - len(self._faults):
            least = "" if is_all else "at least "
            self._faults.append(Fault("$", f"and {least}{more:,} more faults"))
        elif not is_all:
            self._faults.append(Fault("$", "and maybe more: the search for faults was cut short"))
        return self._faults

    def _add(self, keys: Keys, message: str) -> None:
        self._objections += 1
        fault = Fault(path_text(keys), cut(message))
        if fault in self._faults:
            return  # two ways through the schema can come to the same fault
        self._count += 1
        if len(self._faults) < MAX_FAULTS:
            self._faults.append(fault)
        if self._count >= MAX_COUNTED:
            raise _EnoughError

    def _explain(self, pointer: Pointer, value: JSON, keys: Keys) -> None:
        if self._fits(pointer, value):
            return
        before = self._objections
        schema = self._document.nodes[pointer].schema
        if isinstance(schema, bool):
            self._add(keys, f"{show(value)} is not allowed here")
            return
        for message in self._own_complaints(pointer, value):
            self._add(keys, message)
        self._explain_beside(pointer, schema, value, keys)
        if isinstance(value, dict):
            self._explain_properties(pointer, schema, cast("dict[str, Any]", value), keys)
        elif isinstance(value, list):
            self._explain_items(pointer, schema, cast("list[Any]", value), keys)
        if self._objections == before:
            self._add(keys, f"{show(value)} does not fit {_likely(schema)}")

    def _fits(self, pointer: Pointer, value: JSON) -> bool:
        if time.thread_time() > self._deadline:
            raise _EnoughError
        schema = self._document.nodes[pointer].schema
        if isinstance(schema, bool):
            return schema
        return self._judge(pointer, {"$ref": ADDRESS + fragment(pointer)}).is_valid(value)

    def _judge(self, key: Any, schema: dict[str, Any]) -> Judge:
        judge = self._judges.get(key)
        if judge is None:
            judge = self._judges[key] = self._compile_part(schema)
        return judge

    def _own_complaints(self, pointer: Pointer, value: JSON) -> Iterator[str]:
        """Yield what the schema's own keywords, those without schemas in them, object to."""
        node = self._document.nodes[pointer]
        if isinstance(node.schema, bool) or (self._document.draft == "7" and node.references):
            return
        for keyword, wanted in node.schema.items():
            words = complaint(keyword, wanted, value)
            if not words:
                continue
            alone = {keyword: wanted}
            if keyword in CERTAIN:
                yield from words
            elif not self._judge((pointer, keyword), alone).is_valid(value):
                opposite = self._judge((pointer, keyword, "not"), {"not": alone})
                # A pattern that was cut off fails both ways.
                yield from words if opposite.is_valid(value) else [undecided(wanted, value)]

    def _explain_beside(
        self, pointer: Pointer, schema: dict[str, Any], value: JSON, keys: Keys
    ) -> None:
        node = self._document.nodes[pointer]
        groups: dict[str, list[Pointer]] = {}
        for target in node.beside:
            if target in node.references.values():
                self._explain(target, value, keys)
            else:
                groups.setdefault(target[len(pointer)], []).append(target)
        for keyword, targets in groups.items():
            match keyword:
                case "anyOf" | "oneOf":
                    self._explain_choice(keyword, targets, value, keys)
                case "not":
                    if self._fits(targets[0], value):
                        self._add(keys, f"{show(value)} is what `not` rules out")
                case "allOf":
                    for target in targets:
                        self._explain(target, value, keys)
                case "if":
                    branch = "then" if self._fits(targets[0], value) else "else"
                    for target in groups.get(branch, ()):
                        self._explain(target, value, keys)
                case "dependentSchemas" | "dependencies":
                    for target in targets:
                        if isinstance(value, dict) and target[-1] in value:
                            self._explain(target, cast("JSON", value), keys)
                case _:
                    pass

    def _explain_choice(
        self, keyword: str, targets: list[Pointer], value: JSON, keys: Keys
    ) -> None:
        """Name what is wrong inside the one alternative that was meant, where that shows."""
        fitting = sum(self._fits(target, value) for target in targets)
        if fitting:
            if keyword == "oneOf" and fitting > 1:
                self._add(keys, f"{show(value)} fits {fitting} of the alternatives, not just one")
            return
        refusals = {target: self._refusal(target, value) for target in targets}
        meant = [target for target, refusal in refusals.items() if refusal is None]
        if not meant:
            reasons = "; ".join(dict.fromkeys(cut(str(text), 100) for text in refusals.values()))
            self._add(keys, f"fits none of the {len(targets)} alternatives: {reasons}")
            return
        nearest = max(meant, key=lambda target: self._shared_names(target, value))
        if len(meant) > 1:
            number = targets.index(nearest) + 1
            self._add(keys, f"fits none of the alternatives; nearest is number {number}, but:")
        self._explain(nearest, value, keys)

    def _refusal(self, pointer: Pointer, value: JSON) -> str | None:
        """Return why the value can't have been meant for this schema: its type, tag or keys."""
        node = self._document.nodes[pointer]
        if isinstance(node.schema, bool):
            return None if node.schema else "nothing is allowed"
        for message in self._own_complaints(pointer, value):
            return message
        for below in node.named:
            key, held = below[-1], self._document.nodes[below].schema
            if isinstance(value, dict) and key in value and isinstance(held, dict):
                tagged = "const" in held or "enum" in held
                item = cast("dict[str, Any]", value)[key]
                if tagged and not self._fits(below, item):
                    return f"{key!r} can't be {show(item)}"
        followed = (
            target
            for target in node.beside
            if target in node.references.values() or target[-2:-1] == ("allOf",)
        )
        return next(filter(None, (self._refusal(target, value) for target in followed)), None)

    def _shared_names(self, pointer: Pointer, value: JSON) -> int:
        if not isinstance(value, dict):
            return 0
        node = self._document.nodes[pointer]
        here = sum(below[-1] in value for below in node.named)
        return here + sum(
            self._shared_names(target, cast("JSON", value)) for target in node.references.values()
        )

    def _explain_properties(
        self, pointer: Pointer, schema: dict[str, Any], value: dict[str, Any], keys: Keys
    ) -> None:
        node = self._document.nodes[pointer]
        named = {below[-1]: below for below in node.named if below[-2] == "properties"}
        patterns = [below for below in node.parts if below[-2:-1] == ("patternProperties",)]
        other = (*pointer, "additionalProperties")
        for key, item in value.items():
            fitting = [below for below in patterns if self._matches(below[-1], key)]
            if key in named:
                fitting.append(named[key])
            if not fitting and schema.get("additionalProperties") is False and other in node.parts:
                allowed = names(named) or "none"
                self._add((*keys, key), f"this property is not allowed; allowed: {allowed}")
            elif not fitting and other in node.parts:
                fitting.append(other)
            for below in fitting:
                self._explain(below, item, (*keys, key))
            if (rule := (*pointer, "propertyNames")) in node.parts and not self._fits(rule, key):
                self._add(keys, f"{show(key)} is not allowed as the name of a property")

    def _matches(self, pattern: str, key: str) -> bool:
        return self._judge(("pattern", pattern), {"pattern": pattern}).is_valid(key)

    def _explain_items(
        self, pointer: Pointer, schema: dict[str, Any], value: list[Any], keys: Keys
    ) -> None:
        node = self._document.nodes[pointer]
        first = [below for below in node.named if below[-2] in ("prefixItems", "items")]
        for index, below in enumerate(first[: len(value)]):
            self._explain(below, value[index], (*keys, index))
        tuple_in_7 = isinstance(schema.get("items"), list)
        rest = (*pointer, "additionalItems" if tuple_in_7 else "items")
        if rest in node.parts and (tuple_in_7 or self._document.draft != "7" or not first):
            self._explain_rest(rest, value, len(first), keys)
        if (wanted := (*pointer, "contains")) in node.parts:
            self._explain_contains(wanted, schema, value, keys)

    def _explain_rest(self, rest: Pointer, value: list[Any], start: int, keys: Keys) -> None:
        many = self._judge(("items", rest), {"items": {"$ref": ADDRESS + fragment(rest)}})
        for low in range(start, len(value), _CHUNK):
            high = min(low + _CHUNK, len(value))
            if high - low > 1 and many.is_valid(value[low:high]):
                continue
            for index in range(low, high):
                self._explain(rest, value[index], (*keys, index))

    def _explain_contains(
        self, wanted: Pointer, schema: dict[str, Any], value: list[Any], keys: Keys
    ) -> None:
        fitting = sum(self._fits(wanted, item) for item in value)
        modern = self._document.draft != "7"
        least = schema.get("minContains", 1) if modern else 1
        most = schema.get("maxContains", fitting) if modern else fitting
        if not least <= fitting <= most:
            bounds = f"at least {least}" if fitting < least else f"at most {most}"
            self._add(keys, f"{fitting} items fit `contains`; it wants {bounds}")


def _likely(schema: dict[str, Any]) -> str:
    for keyword in ("unevaluatedProperties", "unevaluatedItems"):
        if keyword in schema:
            return f"the schema here; `{keyword}` allows only what other keywords name"
    return "the schema here"
