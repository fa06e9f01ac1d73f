"""What the tools have shown so far, read as data: never from the text that a model gets."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import takewhile
from typing import Any

from outrider.models.embedded.task import Task
from outrider.protocol.data import frozen
from outrider.protocol.text import one_line

MAX_SENTENCE = 160
MAX_REASON = 300
_LINES_BEFORE = 2
_LINES_AFTER = 7
_TEST = re.compile(r"(^|[/._-])(tests?|specs?|__tests__)([/._-]|$)|[a-z]Tests?\.")
_MARKS = re.compile(r"^\s*(#+|//[/!]?|/\*[*!]?|\*/?|--|\"\"\"|''')\s?|\s*(\*/|\"\"\"|''')\s*$")
_COMMENT = re.compile(r"\s*(#(?!\[)|//|/\*|\*|--)")
_DOCSTRING = re.compile(r"\s*[rR]?(\"\"\"|''')")


@frozen
class PlannedCall:
    """One tool call, to make or made, with the data that came back or what went wrong."""

    name: str
    arguments: Mapping[str, Any]
    data: Any = field(default=None, repr=False)
    fault: str | None = field(default=None, repr=False)


@frozen
class Finding:
    """A place that answers, with the lines around it that were seen."""

    path: str
    line: int
    start: int
    end: int
    name: str | None
    lines: Mapping[int, str]

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"

    def quoted(self) -> list[tuple[int, str]]:
        """Return the lines around it that were seen without gaps, with their numbers."""
        first = last = self.line
        while first > self.line - _LINES_BEFORE and first - 1 in self.lines:
            first -= 1
        while last < self.line + _LINES_AFTER and last + 1 in self.lines:
            last += 1
        shown = [(number, self.lines.get(number, "")) for number in range(first, last + 1)]
        while len(shown) > 1 and not shown[-1][1].strip():
            shown.pop()
        return shown

    def sentence(self) -> str:
        """Return what a docstring or comment says of it; without one, its line."""
        above = (self.lines.get(number, "") for number in range(self.start - 1, 0, -1))
        said = [*self._docstring(), *reversed([*takewhile(_COMMENT.match, above)])]
        text = " ".join(filter(None, (_MARKS.sub("", line).strip() for line in said)))
        text = re.split(r"(?<=[.!?。])\s", text)[0] or self.lines.get(self.line, "")
        return code(text)

    def _docstring(self) -> Iterator[str]:
        for number in range(self.start, min(self.end, self.start + 12)):
            if _DOCSTRING.match(self.lines.get(number, "")):
                yield self.lines[number]
                if self.lines[number].count('"""') < 2 and self.lines.get(number + 1, "").strip():
                    yield self.lines[number + 1]
                return


def unsearched(task: Task, made: Sequence[PlannedCall]) -> str | None:
    """Return why the answer would rest on nothing; None where something was looked through."""
    web = [[call for call in made if call.name == name] for name in ("web_search", "fetch_content")]
    ranked = [call for call in made if "about" in call.arguments and not task.changes]
    kinds = list(filter(None, (*web, ranked))) or [list(made)]
    failed = [kind[0].fault for kind in kinds if kind and all(call.fault for call in kind)]
    if not made and (task.urls or task.about.strip()):
        failed = ["there is no tool to search with, or nothing left of the budget"]
    return one_line(failed[0] or "", MAX_REASON) if failed else None


def findings(made: Sequence[PlannedCall]) -> list[Finding]:
    """Return the places of the first search, with all lines of their files that were seen."""
    seen: dict[str, dict[int, str]] = {}
    for call in made:
        if call.name == "read" and call.data and "lines" in call.data:
            window = enumerate(call.data["lines"], call.data["startLine"])
            seen.setdefault(call.data["path"], {}).update(window)
    if found := found_places(made):
        return [_finding(place, seen) for place in found]
    read = [(path, min(lines), max(lines), lines) for path, lines in seen.items() if lines]
    if any(call.name == "find" for call in made):
        return []  # what was read then is no answer
    return [Finding(path, first, first, last, None, lines) for path, first, last, lines in read]


def found_places(made: Sequence[PlannedCall]) -> list[dict[str, Any]]:
    """Return what the first ranked search found, best first."""
    searched = (call.data for call in made if call.name == "find" and "about" in call.arguments)
    return next((data["places"] for data in searched if data), list[dict[str, Any]]())


def is_weak(made: Sequence[PlannedCall]) -> bool:
    """Whether the ranked search found only what hardly fits."""
    return any(call.name == "find" and call.data and call.data.get("weak") for call in made)


def _finding(place: Mapping[str, Any], seen: Mapping[str, Mapping[int, str]]) -> Finding:
    lines = {**{one["line"]: one["text"] for one in place["lines"]}, **seen.get(place["path"], {})}
    where = place["path"], place["line"], place["startLine"], place["endLine"]
    return Finding(*where, place["definition"], lines)


def uses(made: Sequence[PlannedCall]) -> list[tuple[str, int, str]]:
    """Return where what was found is used, calls first, as a language server or `grep` says."""
    found: dict[tuple[bool, bool, str, int], str] = {}
    own = {(place["path"], place["startLine"]) for place in found_places(made)}
    for call in made:
        if not call.data or call.arguments.get("action") == "diagnostics":
            continue
        files = call.data.get({"lsp": "files", "grep": "results"}.get(call.name, ""), [])
        name = call.arguments.get("pattern") or re.escape(call.arguments.get("symbol", ""))
        called = re.compile(rf"(?<!def )(?<!function )(?<!\w){name}\(")
        for file in files:
            for line in file["lines"]:
                if (file["path"], line["line"]) not in own:
                    is_other = called.search(line["text"]) is None
                    key = (is_test(file["path"]), is_other, file["path"], line["line"])
                    found[key] = line["text"]
    return [(path, line, code(text)) for (*_, path, line), text in sorted(found.items())]


def diagnostics(made: Sequence[PlannedCall]) -> list[tuple[str, int, str]]:
    return [
        (file["path"], line["line"], code(line["label"]))
        for call in made
        if call.arguments.get("action") == "diagnostics" and call.data
        for file in call.data["files"]
        for line in file["lines"]
    ]


def code(text: str) -> str:
    """Return foreign text as code on one line, so that it can't pass for the report's own."""
    return f"`{' '.join(text.replace('`', chr(39)).split())[:MAX_SENTENCE]}`"


def is_test(path: str) -> bool:
    return _TEST.search(path) is not None
