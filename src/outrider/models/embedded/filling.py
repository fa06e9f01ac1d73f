"""A report for a schema: places, quotes and counts in its fields, and nothing invented.

For a schema that requires a value that isn't one of these there is no report at all.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from outrider.models.embedded.evidence import Finding
from outrider.models.embedded.report import ABOUT
from outrider.protocol.data import frozen

_MAX_DEPTH = 6
_PATH = re.compile(r"(file|path|filename|filepath|location|source|module)s?", re.IGNORECASE)
_LINE = re.compile(r"(start|first|begin)?_?(line)(_?(no|number|start))?s?|start", re.IGNORECASE)
_END = re.compile(r"(end|last)_?(line)?|line_?end", re.IGNORECASE)
_QUOTE = re.compile(r"(text|snippet|code|quote|content|excerpt|match|evidence)s?", re.IGNORECASE)
_PROSE = re.compile(
    r"(summary|answer|result|report|description|explanation|reason|why|note|message|details?)s?",
    re.IGNORECASE,
)
_NAME = re.compile(r"(symbol|function|name|identifier)s?", re.IGNORECASE)
_COUNT = re.compile(r"(count|total|matches|number)", re.IGNORECASE)
# A schema with any other keyword restricts its values in a way that isn't handled here.
_PLAIN_KEYS = frozenset(
    (
        "$defs", "$schema", "$id", "additionalProperties", "definitions", "description", "items",
        "maxItems", "minItems", "minLength", "minimum", "properties", "required", "title", "type",
    )
)  # fmt: skip


def fill_report(schema: Mapping[str, Any], findings: list[Finding]) -> dict[str, Any] | None:
    """Return arguments for `report_back` that fit `schema`; None if they would be invented."""
    if not findings:
        return None
    value = _Filler(schema, findings).value(schema, "result", None, 0)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


@frozen
class _Filler:
    _root: Mapping[str, Any]
    _findings: list[Finding]

    def value(self, schema: Any, name: str, finding: Finding | None, depth: int) -> Any:
        """Return the value for one place in the schema, or None if it wants what wasn't read."""
        schema = self._resolved(schema)
        if depth > _MAX_DEPTH or not _PLAIN_KEYS.issuperset(schema):
            return None
        match schema.get("type"):
            case "object":
                return self._object(schema, finding, depth)
            case "array":
                return self._array(schema, name, depth)
            case "string":
                return self._string(name, finding)
            case "integer" | "number":
                return self._number(name, finding)
            case _:
                return None

    def _resolved(self, schema: Any) -> dict[str, Any]:
        if isinstance(schema, dict) and "$ref" in schema:
            prefix, _, key = str(cast("dict[str, Any]", schema)["$ref"]).rpartition("/")
            known = prefix in ("#/$defs", "#/definitions")
            schema = self._root.get(prefix.removeprefix("#/"), {}).get(key) if known else None
        return cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}

    def _object(self, schema: dict[str, Any], finding: Finding | None, depth: int) -> Any:
        required = set(schema.get("required", []))
        filled: dict[str, Any] = {}
        for name, inner in schema.get("properties", {}).items():
            if (value := self.value(inner, name, finding, depth + 1)) is not None:
                filled[name] = value
            elif name in required:
                return None
        return filled if filled and filled.keys() >= required else None

    def _array(self, schema: dict[str, Any], name: str, depth: int) -> list[Any] | None:
        inner = schema.get("items")
        values = [self.value(inner, name, finding, depth + 1) for finding in self._findings]
        distinct = [value for i, value in enumerate(values) if value not in values[:i]]
        return None if None in values else distinct[: schema.get("maxItems", len(distinct))]

    def _string(self, name: str, finding: Finding | None) -> str | None:
        one = finding or self._findings[0]
        if _PATH.fullmatch(name):
            return one.path
        if _QUOTE.fullmatch(name):
            return "\n".join(text for _, text in one.quoted())
        if _NAME.fullmatch(name):
            return one.name
        if _PROSE.fullmatch(name):
            place = f"{one.place}: {one.sentence()}"
            return place if finding else f"Best match: {place} {ABOUT}"
        return None

    def _number(self, name: str, finding: Finding | None) -> int | None:
        one = finding or self._findings[0]
        if _END.fullmatch(name):
            return one.quoted()[-1][0]
        if _LINE.fullmatch(name):
            return one.line
        return len(self._findings) if _COUNT.fullmatch(name) and finding is None else None
