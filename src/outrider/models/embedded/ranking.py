"""Which of the lines seen answer the question best. Pure and deterministic.

A line is judged by the terms in and around it, by its shape, and by the kind of file it is in.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import log2
from typing import Literal

from outrider.models.embedded import vocabulary
from outrider.models.embedded.evidence import Evidence
from outrider.models.embedded.words import Kind, Question, Term, split_name

_MAX_FINDINGS = 6
_MAX_PER_FILE = 2
_NEAR = 6
_BODY = 15
_APART = 8
_MIN_OF_BEST = 0.3
_BEST_SHAPE = 1.8

FileKind = Literal["code", "test", "docs", "generated", "other"]

_GENERATED_PARTS = frozenset(
    ("node_modules", "dist", "build", "vendor", "third_party", "site-packages", "__snapshots__")
)
_GENERATED_NAME = re.compile(
    r"(.*[.-]lock(\.\w+)?|.*\.(min\.(js|css)|map|svg|snap|pb\.go|sum)|.*_pb2\.py)"
)
_TEST_PARTS = frozenset(("test", "tests", "__tests__", "spec", "specs", "testdata", "fixtures"))
_TEST_NAME = re.compile(r"(test_.*|.*[._-](test|tests|spec)\.\w+|conftest\.py)")
_DOC_PARTS = frozenset(("doc", "docs", "documentation"))
_DOC_NAME = re.compile(r"(readme|changelog|changes|license|contributing|history)\b.*")


def file_kind(path: str) -> FileKind:
    """Return what `path` looks like."""
    *folders, name = path.lower().split("/")
    suffix = name.rsplit(".", 1)[-1] if "." in name else ""
    if not _GENERATED_PARTS.isdisjoint(folders) or _GENERATED_NAME.fullmatch(name):
        return "generated"
    if not _TEST_PARTS.isdisjoint(folders) or _TEST_NAME.fullmatch(name):
        return "test"
    if suffix in vocabulary.DOC_SUFFIXES or _DOC_NAME.fullmatch(name):
        return "docs"
    if suffix in vocabulary.CODE_SUFFIXES:
        return "code"
    return "other" if _DOC_PARTS.isdisjoint(folders) else "docs"


DEFINING = "(?:def|class|function|func|fn|fun|interface|trait|struct|enum|module|sub|impl|protocol)"
_ROUTINE = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|internal|static|async|abstract|final|pub"
    r"(?:\([a-z]+\))?|unsafe|override|virtual|inline|extern)\s+)*"
    rf"{DEFINING}\*?\s+"
    r"(?:\([^)]{0,80}\)\s*)?(?P<name>[\w$]+(?:(?:\.|::)[\w$]+)*)"
)
_TYPE = re.compile(r"\b(class|interface|trait|struct|enum|protocol)\s")
# A method as in C, Java or TypeScript, without a keyword.
_METHOD = re.compile(
    r"\s*(?:[\w<>\[\],.?*&:]+\s+){0,5}(?P<name>[A-Za-z_$~][\w$]*)\s*"
    r"\([^;{}]{0,200}\)[^;={}]{0,80}\{\s*"
)
_NO_METHOD = re.compile(
    r"\s*(?:\}\s*)?(if|for|while|switch|catch|return|else|new|await|throw|do|try|using|lock|with)\b"
)
_VALUE = re.compile(
    r"\s*(?:(?:export|const|let|var|val|static|final|readonly|public|private|pub|type)\s+)*"
    r"[\"']?(?P<name>[A-Za-z_$][\w$.-]*)[\"']?\s*(?::[^=]{0,80})?(?:=(?!=)|:(?!:)\s*\S)"
)
_IMPORT = re.compile(
    r"\s*(import\b|from\s+\S+\s+import\b|#include\b|use\s+[\w:]+|require\(|export\s+\*|package\s)"
)
# Also a parameter as docstrings describe it: `timeout (float): Seconds.`, `:param timeout: …`
_COMMENT = re.compile(r"\s*(#|//|/\*|\*|--|;|\"\"\"|'''|<!--|:\w+ |\w+ \([^()=]*\): [A-Z])")
# Small words that are common in prose and aren't names in code.
_PROSE = re.compile(r"(?<!\S)(the|an|your|be|will|should|which|its|are|was|also)(?!\S)")
# Several words in quotes: a message. A single word may be the name of a key or a variable.
_STRING = re.compile(r"\"[^\"]*\s[^\"]*\"|'[^']*\s[^']*'")
_HANDED_ON = re.compile(r"\b(\w+) ?[=:] ?\1\b")
_FLOW = re.compile(
    r"\s*(if|elif|else if|while|for|raise|throw|return|assert|case|match|switch|try|except|catch"
    r"|await|yield|with|until|unless|when)\b"
)


def routine_name(line: str) -> str | None:
    """Return the name of the function or type that starts on a line, or None."""
    found = _ROUTINE.match(line)
    if found is None and "(" in line and not _NO_METHOD.match(line):
        found = _METHOD.fullmatch(line)
    return found["name"] if found else None


def value_name(line: str) -> str | None:
    """Return the name of the constant, field or key that a line sets, or None."""
    found = _VALUE.match(line)
    return found["name"] if found else None


def _own_words(line: str) -> str:
    """Return a line without its messages, and without what it passes on: `timeout=timeout`."""
    return _HANDED_ON.sub("", _STRING.sub('""', line.replace('"""', "")))


def _is_comment(line: str) -> bool:
    """Whether a line is a comment or prose within one, in most languages."""
    if _COMMENT.match(line):
        return True
    bare = len(line.split()) >= 5 and not any(sign in line for sign in "=(){}[];<>")
    return bare or _PROSE.search(_own_words(line)) is not None


@dataclass(frozen=True, slots=True)
class Finding:
    """A line that answers, with the terms in and around it, and the indexes of its own terms."""

    path: str
    line: int
    score: float
    terms: tuple[str, ...]
    own: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Scale:
    """The terms of the question that occur at all, each with its pattern and its weight here."""

    question: Question
    terms: list[Term]
    patterns: list[re.Pattern[str]]
    weights: list[float]

    def matches(self, text: str) -> frozenset[int]:
        return frozenset(i for i, pattern in enumerate(self.patterns) if pattern.search(text))

    def weigh(self, matched: Iterable[int]) -> float:
        return sum(self.weights[i] for i in matched)

    def names(self, finding: Finding, text: str) -> bool:
        strong = [i for i in finding.own if self.terms[i].kind is not Kind.WEAK]
        return any(self.patterns[i].search(text) for i in strong)

    def coverage(self, matched: frozenset[int]) -> float:
        whole = sum(term.kind.weight for term in self.terms)
        return sum(self.terms[i].kind.weight for i in matched) / whole


def rank(question: Question, evidence: Evidence) -> list[Finding]:
    """Return the best findings, best first, spread over the files they are in."""
    scale = _scale(question, evidence)
    if not scale.terms or question.about_everything:
        return []
    candidates = [
        candidate
        for path, lines in evidence.lines.items()
        for candidate in _candidates(scale, path, lines)
    ]
    candidates.sort(key=lambda one: (-one.score, one.path, one.line))
    scored: list[Finding] = []
    best = 0.0
    for one in candidates:
        if one.score * _BEST_SHAPE < best * _MIN_OF_BEST:
            break  # Most lines are dropped in the end, and judging a line's shape is slow.
        score = one.score * _shape(scale, one, evidence.lines[one.path][one.line])
        scored.append(replace(one, score=round(score, 6)))
        best = max(best, score)
    scored.sort(key=lambda finding: (-finding.score, finding.path, finding.line))
    return _spread(scored)


def _scale(question: Question, evidence: Evidence) -> _Scale:
    """Rare terms weigh more: the fewer lines have one, the more such a line says."""
    scale = _Scale(question, [], [], [])
    every = [text for lines in evidence.lines.values() for text in lines.values()]
    for term in question.terms:
        pattern = re.compile(term.pattern, re.IGNORECASE)
        hits = evidence.hits.get(term.pattern)
        frequency = sum(1 for text in every if pattern.search(text)) if hits is None else hits
        if frequency:
            scale.terms.append(term)
            scale.patterns.append(pattern)
            scale.weights.append(term.kind.weight * log2(2 + 400 / (1 + frequency)))
    return scale


def _candidates(scale: _Scale, path: str, lines: dict[int, str]) -> Iterator[Finding]:
    """Yield the lines that have some of the terms, scored before their shape is looked at."""
    matched = {number: own for number, text in lines.items() if (own := scale.matches(text))}
    in_path, kind = scale.matches(path.replace("/", " ")), file_kind(path)
    numbers = sorted(matched)
    standing = _standing(kind, path, scale.question) * _density(scale, matched.values())
    for number, own in matched.items():
        name = routine_name(lines[number]) if kind != "docs" else None
        # The body of a function is below its first line.
        first = bisect_left(numbers, number - (1 if name else _NEAR))
        last = bisect_right(numbers, number + (_BODY if name else _NEAR))
        near = frozenset[int]().union(*(matched[n] for n in numbers[first:last])) - own
        everything = own | near | in_path
        score = scale.weigh(own) + 0.5 * scale.weigh(near) + 0.4 * scale.weigh(in_path - own - near)
        score += scale.weigh(scale.matches(name)) * _aptness(name, scale) if name else 0
        score *= standing * (0.4 + 0.6 * scale.coverage(everything))
        terms = tuple(scale.terms[i].text for i in sorted(everything))
        yield Finding(path, number, score, terms, own)


def _aptness(name: str, scale: _Scale) -> float:
    """Return how much of a name is words of the question, from 0 to 1."""
    parts = split_name(name)
    return sum(bool(scale.matches(part)) for part in parts) / len(parts) if parts else 0.0


def _standing(kind: FileKind, path: str, question: Question) -> float:
    """Return how much a file of this kind counts for this question."""
    named = 2.5 if question.names(path) else 1.0
    if kind == "generated":
        return named * 0.1
    wanted = {"test": question.wants_tests, "docs": question.wants_docs}
    if any(wanted.values()):
        return named * (1.4 if wanted.get(kind) else 0.6)
    return named * {"test": 0.3, "docs": 0.45, "code": 1.0}.get(kind, 0.8)


def _density(scale: _Scale, matched: Iterable[frozenset[int]]) -> float:
    """Return more for a file that mentions the thing often: it is more likely about it."""
    mass = sum(scale.weigh(own) for own in matched) / max(scale.weights)
    return 1 + 0.1 * log2(1 + min(mass, 30.0))


def _shape(scale: _Scale, finding: Finding, line: str) -> float:
    """Return how much a line of this shape counts: code that defines or acts counts most."""
    intent, own = scale.question.intent, [scale.terms[i].kind for i in finding.own]
    if file_kind(finding.path) == "docs":
        return 1.1 if line.startswith("#") else 1.0
    if _IMPORT.match(line):
        return 0.4
    if not scale.names(finding, _own_words(line)):
        # Only a message has the words; that counts only if the question quotes it.
        return 1.0 if Kind.QUOTED in own else 0.4
    if _is_comment(line):
        return 0.65
    if name := routine_name(line):
        wanted = bool(_TYPE.search(line)) is (intent == "type")
        if not wanted or not scale.names(finding, name):
            return 1.0
        return _BEST_SHAPE if intent == "type" else 1.3
    if (name := value_name(line)) and scale.names(finding, name):
        if intent == "behaviour":
            # A followed name is used elsewhere, not where it is set.
            return 0.6 if Kind.FOLLOWED in own else 0.9
        if "=" in line and line.rstrip().endswith(","):
            return 1.0  # an argument, which only passes the value: `timeout=DEFAULT_TIMEOUT,`
        return 1.6 if intent == "definition" else 1.25
    is_call = "(" in line and line.rstrip("; \t").endswith(")")
    return 1.35 if intent == "behaviour" and (is_call or _FLOW.match(line)) else 1.0


def _spread(scored: list[Finding]) -> list[Finding]:
    chosen: list[Finding] = []
    for finding in scored:
        if len(chosen) == _MAX_FINDINGS or finding.score < scored[0].score * _MIN_OF_BEST:
            break
        same_file = [other for other in chosen if other.path == finding.path]
        close = any(abs(other.line - finding.line) <= _APART for other in same_file)
        if not close and len(same_file) < _MAX_PER_FILE:
            chosen.append(finding)
    return chosen
