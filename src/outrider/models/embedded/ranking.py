"""Which of the lines seen answer the question best. Pure and deterministic."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import log2

from outrider.models.embedded import kinds
from outrider.models.embedded.evidence import Evidence
from outrider.models.embedded.kinds import FileKind, routine_name
from outrider.models.embedded.words import Intent, Kind, Question, Term, split_name

_MAX_FINDINGS = 6
_MAX_PER_FILE = 2
_NEAR = 6
_BODY = 15
_NAMED = 1.0
_APART = 8
_MIN_OF_BEST = 0.3
_BEST_SHAPE = 1.8


@dataclass(frozen=True, slots=True)
class Finding:
    """A line that answers, with the terms found in and around it."""

    path: str
    line: int
    score: float
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A line that has some of the terms, and what it promises before its shape is looked at."""

    path: str
    line: int
    text: str
    kind: FileKind
    own: frozenset[int]
    everything: frozenset[int]
    promise: float


@dataclass(frozen=True, slots=True)
class _Scale:
    """The terms that occur at all, each with its pattern and its weight here."""

    terms: tuple[Term, ...]
    patterns: tuple[re.Pattern[str], ...]
    weights: tuple[float, ...]
    whole: float

    def matches(self, text: str) -> frozenset[int]:
        return frozenset(i for i, pattern in enumerate(self.patterns) if pattern.search(text))

    def weigh(self, matched: Iterable[int]) -> float:
        return sum(self.weights[i] for i in matched)

    def coverage(self, matched: frozenset[int]) -> float:
        return sum(self.terms[i].kind.weight for i in matched) / self.whole


def rank(question: Question, evidence: Evidence) -> list[Finding]:
    """Return the best findings, best first, spread over the files they are in."""
    scale = _scale(question, evidence)
    if not scale.terms or question.about_everything:
        return []
    candidates = [
        candidate
        for path, lines in evidence.lines.items()
        for candidate in _candidates(question, scale, path, lines)
    ]
    candidates.sort(key=lambda one: (-one.promise, one.path, one.line))
    scored: list[Finding] = []
    best = 0.0
    for one in candidates:
        if one.promise * _BEST_SHAPE < best * _MIN_OF_BEST:
            break  # Most lines are dropped in the end, and judging a line's shape is slow.
        score = one.promise * _shape(one, scale, question.intent)
        terms = tuple(scale.terms[i].text for i in sorted(one.everything))
        scored.append(Finding(one.path, one.line, round(score, 6), terms))
        best = max(best, score)
    scored.sort(key=lambda finding: (-finding.score, finding.path, finding.line))
    return _spread(scored)


def _scale(question: Question, evidence: Evidence) -> _Scale:
    """Rare terms weigh more: the fewer lines have one, the more such a line says."""
    present = [term for term in question.terms if _frequency(term, evidence)]
    weights = tuple(
        term.kind.weight * log2(2 + 400 / (1 + _frequency(term, evidence))) for term in present
    )
    patterns = tuple(re.compile(term.pattern, re.IGNORECASE) for term in present)
    whole = sum(term.kind.weight for term in present)
    return _Scale(tuple(present), patterns, weights, whole or 1.0)


def _frequency(term: Term, evidence: Evidence) -> int:
    if (hits := evidence.hits.get(term.pattern)) is not None:
        return hits
    pattern = re.compile(term.pattern, re.IGNORECASE)
    every = (text for lines in evidence.lines.values() for text in lines.values())
    return sum(1 for text in every if pattern.search(text))


def _candidates(
    question: Question, scale: _Scale, path: str, lines: dict[int, str]
) -> Iterator[_Candidate]:
    matched = {number: own for number, text in lines.items() if (own := scale.matches(text))}
    if not matched:
        return
    in_path, kind, numbers = (
        scale.matches(path.replace("/", " ")),
        kinds.file_kind(path),
        sorted(matched),
    )
    standing = _standing(kind, path, question) * _density(scale, matched.values())
    for number, own in matched.items():
        name = routine_name(lines[number]) if kind is not FileKind.DOCS else None
        # The body of a function is below its first line.
        first = bisect_left(numbers, number - (1 if name else _NEAR))
        last = bisect_right(numbers, number + (_BODY if name else _NEAR))
        near = frozenset[int]().union(*(matched[n] for n in numbers[first:last])) - own
        everything = own | near | in_path
        score = scale.weigh(own) + 0.5 * scale.weigh(near) + 0.4 * scale.weigh(in_path - own - near)
        score += _NAMED * scale.weigh(scale.matches(name)) * _aptness(name, scale) if name else 0
        score *= standing * (0.4 + 0.6 * scale.coverage(everything))
        yield _Candidate(path, number, lines[number], kind, own, everything, score)


def _aptness(name: str, scale: _Scale) -> float:
    """Return how much of a name is words of the question, from 0 to 1."""
    parts = split_name(name)
    return sum(bool(scale.matches(part)) for part in parts) / len(parts) if parts else 0.0


def _standing(kind: FileKind, path: str, question: Question) -> float:
    """Return how much a file of this kind counts for this question."""
    named = 2.5 if question.names(path) else 1.0
    if kind is FileKind.GENERATED:
        return named * 0.1
    wanted = {FileKind.TEST: question.wants_tests, FileKind.DOCS: question.wants_docs}
    if any(wanted.values()):
        return named * (1.4 if wanted.get(kind) else 0.6)
    return named * {FileKind.TEST: 0.3, FileKind.DOCS: 0.45, FileKind.CODE: 1.0}.get(kind, 0.8)


def _density(scale: _Scale, matched: Iterable[frozenset[int]]) -> float:
    """Return more for a file that mentions the thing often: it is more likely about it."""
    mass = sum(scale.weigh(own) for own in matched) / max(scale.weights)
    return 1 + 0.1 * log2(1 + min(mass, 30.0))


def _shape(one: _Candidate, scale: _Scale, intent: Intent) -> float:
    """Return how much a line of this shape counts: code that defines or acts counts most."""
    line, own = one.text, one.own
    if one.kind is FileKind.DOCS:
        return 1.1 if line.startswith("#") else 1.0
    if kinds.is_import(line):
        return 0.4
    if not _names(kinds.own_words(line), own, scale):
        # Only a message has the words; that counts only if the question quotes it.
        return 1.0 if any(scale.terms[i].kind is Kind.QUOTED for i in own) else 0.4
    if kinds.is_comment(line):
        return 0.65
    if name := routine_name(line):
        if not _names(name, own, scale):
            return 1.0
        wanted = kinds.is_type(line) is (intent is Intent.TYPE)
        return (_BEST_SHAPE if intent is Intent.TYPE else 1.3) if wanted else 1.0
    if (name := kinds.value_name(line)) and _names(name, own, scale):
        if intent is Intent.BEHAVIOUR:
            # A followed name is used elsewhere, not where it is set.
            return 0.6 if any(scale.terms[i].kind is Kind.FOLLOWED for i in own) else 0.9
        if "=" in line and line.rstrip().endswith(","):
            return 1.0  # an argument, which only passes the value: `timeout=DEFAULT_TIMEOUT,`
        return 1.6 if intent is Intent.DEFINITION else 1.25
    return 1.35 if intent is Intent.BEHAVIOUR and kinds.is_flow(line) else 1.0


def _names(text: str, own: frozenset[int], scale: _Scale) -> bool:
    return any(scale.patterns[i].search(text) for i in own if scale.terms[i].kind is not Kind.WEAK)


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
