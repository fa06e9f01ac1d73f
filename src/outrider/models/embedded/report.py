"""The answer: what was found, quoted with its place, as text or in the fields of a schema.

Nothing is invented. Text says how it was found and what wrote it; for a schema that requires a
value that isn't a place, a quote or a count, there is no report at all.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from outrider.models.embedded.evidence import Evidence
from outrider.models.embedded.ranking import Finding, routine_name
from outrider.models.embedded.words import Question

ABOUT = (
    "This report was put together by Outrider's embedded model, which quotes what it finds and "
    "doesn't reason. Read the quoted lines before relying on them. For a written answer, set a "
    "key such as OPENAI_API_KEY or ANTHROPIC_API_KEY, start a local model server, or name a model "
    "with `--model`."
)
_NO_CHANGE = (
    "**Not done:** the task asks for something to be changed or run. The embedded model "
    "only finds and quotes; what follows is where such work would begin."
)
_NO_WEB = "**Not done:** the embedded model opens no web address."
_LINES_BEFORE = 3
_LINES_AFTER = 8
_MAX_WIDTH = 200
_MAX_LISTING = 60


def write_report(question: Question, evidence: Evidence, findings: list[Finding]) -> str:
    """Return the whole report, in Markdown."""
    sections = [
        _opening(question, evidence, findings),
        *[_NO_CHANGE] * question.wants_change,
        *[_NO_WEB] * question.wants_web,
        *_findings(evidence, findings),
        *(_overview(evidence) if question.about_everything else ()),
        _method(question, evidence),
        f"## About this report\n\n{ABOUT}",
    ]
    return "\n\n".join(sections) + "\n"


def snippet(evidence: Evidence, finding: Finding) -> list[tuple[int, str]]:
    """Return the lines around a finding that were seen without gaps, with their numbers."""
    lines = evidence.lines[finding.path]
    first = last = finding.line
    while first > finding.line - _LINES_BEFORE and first - 1 in lines:
        first -= 1
    while last < finding.line + _LINES_AFTER and last + 1 in lines:
        last += 1
    shown = [(number, lines[number]) for number in range(first, last + 1)]
    while len(shown) > 1 and not shown[-1][1].strip():
        shown.pop()
    return shown


def enclosing(evidence: Evidence, finding: Finding) -> str | None:
    """Return the name of the function or type that contains a finding, if it was seen."""
    lines = evidence.lines[finding.path]
    if name := routine_name(lines[finding.line]):
        return name
    indent = _indent(lines[finding.line])
    number = finding.line - 1
    while number in lines:
        text = lines[number]
        if text.strip() and _indent(text) < indent:
            if name := routine_name(text):
                return name
            # A closing bracket ends a signature that started further up, at the same depth.
            indent = _indent(text) + text.lstrip().startswith((")", "]", "}"))
        number -= 1
    return None


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _opening(question: Question, evidence: Evidence, findings: list[Finding]) -> str:
    if findings:
        best = findings[0]
        inside = enclosing(evidence, best)
        where = f"`{best.path}:{best.line}`" + (f", in `{inside}`" if inside else "")
        text = evidence.lines[best.path][best.line].strip()[:_MAX_WIDTH]
        return f"The best match is {where}:\n\n{_fenced([text])}"
    if question.about_everything and (evidence.read or evidence.listing):
        return "What the repository shows of itself:"
    if not question.terms and not question.paths:
        return (
            "Nothing was searched: the task has no word that can be looked for in files. "
            "Name a thing, a file or an identifier."
        )
    if evidence.faults and not evidence.hits:
        return "Nothing could be searched: the search tool failed, see below."
    return "Nothing was found for this task in the files that can be read here."


def _findings(evidence: Evidence, findings: list[Finding]) -> Iterator[str]:
    if findings:
        yield "## Findings"
    for number, finding in enumerate(findings, 1):
        inside = enclosing(evidence, finding)
        title = f"### {number}. `{finding.path}:{finding.line}`"
        yield f"{title} in `{inside}`" if inside else title
        yield f"Matches: {', '.join(finding.terms[:8])}"
        yield _quoted(snippet(evidence, finding))


def _overview(evidence: Evidence) -> Iterator[str]:
    for path, windows in sorted(evidence.read.items())[:1]:
        first, last = windows[0]
        shown = range(first, min(last, first + 30) + 1)
        yield f"### `{path}:{first}`"
        yield _quoted((at, evidence.lines[path].get(at, "")) for at in shown)
    if evidence.listing:
        yield "### Files"
        yield _fenced(row[:_MAX_WIDTH] for row in evidence.listing[:_MAX_LISTING])


def _method(question: Question, evidence: Evidence) -> str:
    rows = [
        f"- searched for `{_inline(term.text)}`: {_searched(evidence, term.pattern)}"
        for term in question.terms
    ]
    rows += [f"- looked for the file `{_inline(path)}`" for path in question.paths]
    read = [
        f"`{path}` ({', '.join(f'{first}-{last}' for first, last in sorted(windows))})"
        for path, windows in sorted(evidence.read.items())
    ]
    rows.append(f"- read {', '.join(read)}" if read else "- read no file")
    return "## How this was found\n\n" + "\n".join(rows)


def _searched(evidence: Evidence, pattern: str) -> str:
    if fault := evidence.faults.get(pattern):
        return fault[:_MAX_WIDTH]
    if (hits := evidence.hits.get(pattern)) is None:
        return "not searched, because there is no tool for it"
    return f"{hits} line{'' if hits == 1 else 's'}" if hits else "nothing"


def _quoted(lines: Iterable[tuple[int, str]]) -> str:
    return _fenced(f"{number:>5}  {text[:_MAX_WIDTH]}" for number, text in lines)


def _inline(text: str) -> str:
    return text.replace("`", "'")[:80]


def _fenced(rows: Iterable[str]) -> str:
    """Return a code block that no quoted text can close."""
    body = "\n".join(rows)
    fence = "```"
    while fence in body:
        fence += "`"
    return f"{fence}\n{body}\n{fence}"


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


def fill_report(
    schema: Mapping[str, Any], evidence: Evidence, findings: list[Finding]
) -> dict[str, Any] | None:
    """Return arguments for `report_back` that fit `schema`; None if they would be invented."""
    if not findings:
        return None
    value = _Filler(schema, evidence, findings).value(schema, "result", None, 0)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class _Filler:
    _root: Mapping[str, Any]
    _evidence: Evidence
    _findings: list[Finding]

    def value(self, schema: Any, name: str, finding: Finding | None, depth: int) -> Any:
        """The value for one place in the schema, or None if it wants what wasn't read.

        `finding` is set inside a list of findings.
        """
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
            return "\n".join(text for _, text in snippet(self._evidence, one))
        if _NAME.fullmatch(name):
            return enclosing(self._evidence, one)
        if _PROSE.fullmatch(name):
            place = f"{one.path}:{one.line} matches {', '.join(one.terms)}"
            return place if finding else f"Best match: {place}. {ABOUT}"
        return None

    def _number(self, name: str, finding: Finding | None) -> int | None:
        one = finding or self._findings[0]
        if _END.fullmatch(name):
            return snippet(self._evidence, one)[-1][0]
        if _LINE.fullmatch(name):
            return one.line
        return len(self._findings) if _COUNT.fullmatch(name) and finding is None else None
