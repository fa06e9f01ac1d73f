"""Which tools to call next: first search for the words of the task, then read around the hits."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations

from outrider.models.embedded.evidence import Call, Evidence, Exchange
from outrider.models.embedded.kinds import DEFINING, FileKind, file_kind, value_name
from outrider.models.embedded.ranking import rank
from outrider.models.embedded.words import Intent, Kind, Question, Term, stem

_MAX_HITS = 200
_MAX_FILES = 50
_MAX_WINDOWS = 8
_MAX_FOLLOWED = 3
_BEFORE = 20
_WINDOW = 50
_OPENING = 60
_BESIDE = 5
_WORDS = (Kind.WORD, Kind.ACTION, Kind.DEED)
_NAMES_OF_THINGS = (Kind.QUOTED, Kind.IDENTIFIER, Kind.COMPOUND)


def next_calls(
    question: Question, exchanges: Sequence[Exchange], evidence: Evidence, tools: frozenset[str]
) -> list[Call]:
    """Return what to call next after the calls so far; nothing if everything is read."""
    if not exchanges:
        return _searches(question, tools)
    if exchanges[-1].call.name in ("grep", "find", "ls"):
        return _readings(question, evidence) if "read" in tools else []
    is_followed = any(term.kind is Kind.FOLLOWED for term in question.terms)
    if exchanges[-1].call.name == "read" and not is_followed and "grep" in tools:
        return _follow_ups(question, evidence)
    return []


def _searches(question: Question, tools: frozenset[str]) -> list[Call]:
    """Return the calls that search for everything the question names."""
    calls: list[Call] = []
    if "grep" in tools:
        calls += [_grep(pattern) for pattern in _patterns(question)]
    if "find" in tools:
        calls += [_find(pattern) for pattern in _name_patterns(question)]
    if question.about_everything:
        calls += [Call("ls", {"depth": 2, "limit": 100})] if "ls" in tools else []
        calls += [_find("README*")] if "find" in tools else []
    if not calls and "read" in tools:
        calls = [Call("read", {"path": path}) for path in question.paths]
    return calls


def _readings(question: Question, evidence: Evidence) -> list[Call]:
    """Return the calls that read around the best hits, and the files that the task names."""
    windows: list[tuple[str, int]] = []
    for finding in rank(question, evidence):
        planned = [start for path, start in windows if path == finding.path]
        covered = any(start <= finding.line < start + _WINDOW - 10 for start in planned)
        was_read = evidence.read.get(finding.path, ())
        if not covered and not any(first <= finding.line <= last for first, last in was_read):
            windows.append((finding.path, max(1, finding.line - _BEFORE)))
    opened = {*evidence.read, *(path for path, _ in windows)}
    whole = [path for path in _whole_files(question, evidence) if path not in opened]
    calls = [_read(path, start, _WINDOW) for path, start in windows]
    return [*calls, *(_read(path, 1, _OPENING) for path in whole)][:_MAX_WINDOWS]


def _follow_ups(question: Question, evidence: Evidence) -> list[Call]:
    """Return the searches for other names of a thing that was found.

    Where a line stores the thing in a variable or field of another name, the code that uses it
    uses that name: `self._grace = config.grace_period`.
    """
    if question.intent is Intent.DEFINITION or question.wants_docs or question.wants_tests:
        return []
    names = [
        name
        for finding in rank(question, evidence)
        if file_kind(finding.path) is FileKind.CODE
        for number, line in sorted(evidence.lines[finding.path].items())
        if abs(number - finding.line) <= _BESIDE and (name := _kept_as(question, line))
    ]
    return [_grep(rf"\b{name}\b") for name in list(dict.fromkeys(names))[:_MAX_FOLLOWED]]


def followed(question: Question, exchanges: Sequence[Exchange]) -> Question:
    """Return the question with the names that were followed as further terms."""
    asked = set(_patterns(question))
    patterns = [str(e.call.arguments["pattern"]) for e in exchanges if e.call.name == "grep"]
    more = [
        Term(pattern.removeprefix(r"\b").removesuffix(r"\b"), pattern, Kind.FOLLOWED)
        for pattern in dict.fromkeys(patterns)
        if pattern not in asked
    ]
    return replace(question, terms=(*question.terms, *more))


def _kept_as(question: Question, line: str) -> str | None:
    """Return the new name that a line gives the thing, if it has a word of the question."""
    name = (value_name(line) or "").rsplit(".", 1)[-1]
    whole = [term for term in question.terms if term.kind in _NAMES_OF_THINGS]
    if len(name) < 4 or not name.isidentifier() or any(_matches(term, name) for term in whole):
        return None
    has_word = any(_matches(term, name) for term in question.terms if term.kind is Kind.WORD)
    return name if has_word and any(_matches(term, line) for term in whole) else None


def _matches(term: Term, text: str) -> bool:
    return re.search(term.pattern, text, re.IGNORECASE) is not None


def _whole_files(question: Question, evidence: Evidence) -> Iterator[str]:
    """Yield files to read from the start: named in the task, or with its words in their names."""
    files = sorted(evidence.files, key=lambda path: (path.count("/"), path))
    yield from (path for path in files if question.names(path))
    if question.about_everything:
        yield from files[:1]
    unseen = [path for path in files if path not in evidence.lines]
    yield from [path for path in unseen if file_kind(path) is FileKind.CODE][:2]


def _read(path: str, offset: int, limit: int) -> Call:
    return Call("read", {"path": path, "offset": offset, "limit": limit})


def _grep(pattern: str) -> Call:
    return Call("grep", {"pattern": pattern, "ignoreCase": True, "limit": _MAX_HITS})


def _find(pattern: str) -> Call:
    return Call("find", {"pattern": pattern, "limit": _MAX_FILES})


def _patterns(question: Question) -> list[str]:
    """Return everything to search for at first: each term alone, and some together."""
    alone = [term.pattern for term in question.terms]
    return [*alone, *_together(question.terms), *_definitions(question.terms)]


def _definitions(terms: tuple[Term, ...]) -> list[str]:
    """Return a pattern for definitions with one of the words in their name."""
    words = [term.pattern for term in terms if term.kind in _WORDS]
    return [rf"\b{DEFINING}\s+(\([^)]*\)\s*)?[\w$.]*({'|'.join(words)})"] if words else []


def _together(terms: tuple[Term, ...]) -> list[str]:
    """Return a pattern for lines with two of the words; one word may have too many hits."""
    words = [term.pattern for term in terms if term.kind in _WORDS][:4]
    pairs = [f"{first}.*{second}" for first, second in permutations(words, 2)]
    return ["|".join(pairs)] if pairs else []


def _name_patterns(question: Question) -> list[str]:
    """Return globs of file names: the paths in the task, and names with one of its words."""
    named = [path.rsplit("/", 1)[-1] for path in question.paths]
    words = [
        form
        for term in question.terms
        if term.kind in (Kind.IDENTIFIER, Kind.WORD)
        for form in _forms(term.text)
    ]
    return [*named, *(["*{" + ",".join(words[:24]) + "}*"] if words else [])]


def _forms(text: str) -> tuple[str, ...]:
    """Return a word as file names spell it; the globs of `find` are case-sensitive."""
    root = re.sub(r"\W+", "?", stem(text.lower()))
    return (root, root.capitalize(), root.upper()) if root.strip("?_") else ()
