"""A structured result made only of what was read, if the schema asks for nothing else.

Nothing is invented: with a required value that isn't a place, a quote or a count there is no
report at all.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from outrider.models.embedded.evidence import Evidence
from outrider.models.embedded.ranking import Finding
from outrider.models.embedded.report import ABOUT, enclosing, snippet
from outrider.protocol.errors import OutriderError

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


class _Unfillable(OutriderError):
    """The schema wants something that wasn't read."""


def fill_report(
    schema: Mapping[str, Any], evidence: Evidence, findings: list[Finding]
) -> dict[str, Any] | None:
    """Return arguments for `report_back` that fit `schema`; None if they would be invented."""
    if not findings:
        return None
    try:
        value = _Filler(schema, evidence, findings).value(schema, "result", None, 0)
    except _Unfillable:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class _Filler:
    _root: Mapping[str, Any]
    _evidence: Evidence
    _findings: list[Finding]

    def value(self, schema: Any, name: str, finding: Finding | None, depth: int) -> Any:
        """The value for one place in the schema; `finding` is set inside a list of findings."""
        schema = self._resolved(schema)
        if depth > _MAX_DEPTH or not _PLAIN_KEYS.issuperset(schema):
            raise _Unfillable
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
                raise _Unfillable

    def _resolved(self, schema: Any) -> dict[str, Any]:
        if isinstance(schema, dict) and "$ref" in schema:
            prefix, _, key = str(cast("dict[str, Any]", schema)["$ref"]).rpartition("/")
            known = prefix in ("#/$defs", "#/definitions")
            schema = self._root.get(prefix.removeprefix("#/"), {}).get(key) if known else None
        if not isinstance(schema, dict):
            raise _Unfillable
        return cast("dict[str, Any]", schema)

    def _object(
        self, schema: dict[str, Any], finding: Finding | None, depth: int
    ) -> dict[str, Any]:
        required = schema.get("required", [])
        filled: dict[str, Any] = {}
        for name, inner in schema.get("properties", {}).items():
            try:
                filled[name] = self.value(inner, name, finding, depth + 1)
            except _Unfillable:
                if name in required:
                    raise
        if not filled or any(name not in filled for name in required):
            raise _Unfillable
        return filled

    def _array(self, schema: dict[str, Any], name: str, depth: int) -> list[Any]:
        inner = schema.get("items")
        values = [self.value(inner, name, finding, depth + 1) for finding in self._findings]
        distinct = [value for i, value in enumerate(values) if value not in values[:i]]
        return distinct[: schema.get("maxItems", len(distinct))]

    def _string(self, name: str, finding: Finding | None) -> str:
        one = finding or self._findings[0]
        if _PATH.fullmatch(name):
            return one.path
        if _QUOTE.fullmatch(name):
            return "\n".join(text for _, text in snippet(self._evidence, one))
        if _NAME.fullmatch(name) and (inside := enclosing(self._evidence, one)):
            return inside
        if _PROSE.fullmatch(name):
            place = f"{one.path}:{one.line} matches {', '.join(one.terms)}"
            return place if finding else f"Best match: {place}. {ABOUT}"
        raise _Unfillable

    def _number(self, name: str, finding: Finding | None) -> int:
        one = finding or self._findings[0]
        if _END.fullmatch(name):
            return snippet(self._evidence, one)[-1][0]
        if _LINE.fullmatch(name):
            return one.line
        if _COUNT.fullmatch(name) and finding is None:
            return len(self._findings)
        raise _Unfillable


# A schema with any other keyword restricts its values in a way that isn't handled here.
_PLAIN_KEYS = frozenset(
    (
        "$defs", "$schema", "$id", "additionalProperties", "definitions", "description", "items",
        "maxItems", "minItems", "minLength", "minimum", "properties", "required", "title", "type",
    )
)  # fmt: skip
