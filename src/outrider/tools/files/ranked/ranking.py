"""Which files and lines a question is about, by BM25 over files and windows. Opens nothing."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from outrider.tools.files.ranked import code
from outrider.tools.files.ranked.code import defined, enclosing, standing
from outrider.tools.files.ranked.words import PART_OF_NAME, Question

WINDOW_LINES = 45
HEAD_LINES = 5
MAX_LINES_SHOWN = 3
AVERAGE_BYTES = 5_000  # of an ordinary file: a constant, which tells nothing of other files
MAX_LINE_CHARACTERS = 120
_SATURATION = 1.2
_LENGTH = 0.8
_DEFINED, _DEFINED_NEAR, _PATH = 0.2, 0.1, 0.9
# More than any words can count: a file that is named comes before all others, then a definition.
_NAMED, _SPELLED = 3_000.0, 1_000.0
MIN_NAMED = _SPELLED / 10
_MIN_RARITY = 0.01
_ROW = re.compile(rb"^(\d+):(.*)$", re.MULTILINE)
_MATCH = re.compile(rb"^\d+:(.*)$", re.MULTILINE)

Weights = list[float]
Lines = Sequence[str]
Hit = tuple[int, str]
"""A line's number, and a name in it that counts; after the keyword where it is defined there."""


@dataclass(slots=True)
class FileHits:
    """A file, and what in it counts: the sum for each term, and rows of `line:name`."""

    path: str
    rows: bytes = b""
    counts: dict[int, float] = field(default_factory=lambda: defaultdict[int, float](float))
    defined: dict[int, float] = field(default_factory=dict[int, float])
    own: set[int] = field(default_factory=set[int])
    """The terms that it has as the question says them, not only by another word or beginning."""
    spelled: int = 0  # 2: it defines a name as the question spells it; 1: in other cases
    size: int = 0
    score: float = 0.0

    def count(self, question: Question, match: str, times: int = 1) -> None:
        """Count one name; behind a keyword it is defined."""
        *keyword, name = match.split() or [""]
        for term, factor in question.counted(name):
            self.counts[term] += factor * times
            if factor >= PART_OF_NAME:
                self.own.add(term)
            if keyword:
                self.defined[term] = max(self.defined.get(term, 0.0), factor)
        if keyword:
            self.spelled = max(self.spelled, question.spells(name))

    def hits(self) -> list[Hit]:
        rows = _ROW.findall(self.rows)
        return [(int(line), name.decode(errors="replace")) for line, name in rows]


def taken(question: Question, path: str, rows: bytes) -> FileHits:
    """Return a file with the hits that ripgrep printed for it."""
    file = FileHits(path, rows)
    for match, times in Counter(_MATCH.findall(rows)).items():
        file.count(question, match.decode(errors="replace"), times)
    return file


def frequencies(question: Question, files: Iterable[FileHits]) -> list[int]:
    """Return in how many of the files each term is; by other words only where none has its own."""
    own, other = Counter[int](), Counter[int]()
    for file in files:
        own.update(file.own)
        other.update(file.counts.keys())
    return [own[term] or other[term] for term in range(len(question.terms))]


def weighed(question: Question, frequency: Sequence[int], files: int) -> Weights:
    """Return what each term weighs in a tree: the fewer files have it, the more."""
    return [
        weight * max(_MIN_RARITY, math.log(1 + (max(files, there) - there + 0.5) / (there + 0.5)))
        for weight, there in zip(question.weights, frequency, strict=True)
    ]


def in_path(question: Question, path: str) -> dict[int, float]:
    """Return the terms in a path; those in the name itself count most."""
    *folders, name = path.split("/")
    found: dict[int, float] = {}
    for part, share in [*((folder, 0.5) for folder in folders[-3:]), (name.split(".")[0], 1.0)]:
        for term, factor in question.counted(part):
            found[term] = max(found.get(term, 0.0), factor * share)
    return found


def score_file(question: Question, weights: Weights, file: FileHits, head: str = "") -> None:
    """Set a file's score: its terms by BM25, what it defines, its path, and its kind."""
    soft = _SATURATION * (1 - _LENGTH + _LENGTH * file.size / AVERAGE_BYTES)
    terms = sum(weights[term] * count / (count + soft) for term, count in file.counts.items())
    named = sum(weights[term] * share for term, share in in_path(question, file.path).items())
    definitions = sum(weights[term] * factor for term, factor in file.defined.items())
    said = terms + _DEFINED * definitions + _PATH * named
    said += _SPELLED * file.spelled
    file.score = said * standing(file.path, question.kinds, head)
    if any(f"/{file.path}".endswith(f"/{name.removeprefix('./')}") for name in question.names):
        file.score += _NAMED


@dataclass(slots=True)
class _Line:
    """The terms in one line, and how much the line says."""

    terms: dict[int, float] = field(default_factory=dict[int, float])
    alone: dict[int, float] = field(default_factory=dict[int, float])
    """The same, with the words of a name as if each stood alone: what tells lines apart."""
    defined: dict[int, float] = field(default_factory=dict[int, float])
    spelled: int = 0
    score: float = 0.0


Found = dict[int, _Line]  # the lines with terms in them, by their numbers


def _lines(question: Question, weights: Weights, hits: Iterable[Hit], lines: Lines) -> Found:
    found: Found = defaultdict(_Line)
    for number, match in hits:
        if number > len(lines):
            continue
        word = match.split()[-1]
        counted = question.counted(word)
        line, together = found[number], 1.5 if len(counted) > 1 else 1.0
        for term, factor in counted:
            line.terms[term] = max(line.terms.get(term, 0.0), factor * together)
        for term, factor in question.alone(word):
            line.alone[term] = max(line.alone.get(term, 0.0), factor * together)
    for number, line in found.items():
        text = lines[number - 1]
        name = defined(text)
        last = re.split(r"\W+", name)[-1] if name else ""
        line.defined = dict(question.counted(last))
        line.spelled = question.spells(last)
        shape = 0.3 if code.IMPORT.match(text) else 0.8 if code.COMMENT.match(text) else 1.0
        aside = (name is not None and not line.defined) or code.HANDED_ON.search(text)
        shape *= 1.5 if question.wants_type and code.TYPE.match(text) else 1.0
        own = sum(weights[term] * share for term, share in line.alone.items())
        named = sum(weights[term] * factor for term, factor in question.alone(last))
        # What is only a parameter, or handed on, is done elsewhere.
        line.score = shape * ((0.5 if aside else 1.0) * own + 0.6 * named)
    return found


def best_place(
    question: Question, weights: Weights, file: FileHits, hits: list[Hit], lines: Lines
) -> dict[str, Any]:
    """Return the part of a file that is most about the question, with its score."""
    head = "\n".join(lines[:HEAD_LINES])
    score_file(question, weights, file, head)
    found = _lines(question, weights, hits, lines)
    numbers = sorted(found)
    best: tuple[float, int, int] = (0.0, 1, 1)
    whole = sum(weights) or 1.0
    for at, first in enumerate(numbers):
        counts: dict[int, float] = defaultdict(float)
        names: dict[int, float] = {}
        last = first
        for number in numbers[at:]:
            if number >= first + WINDOW_LINES:
                break
            last = number
            for term, share in found[number].terms.items():
                counts[term] += share
            names |= found[number].defined
        score = sum(weights[t] * count / (count + _SATURATION) for t, count in counts.items())
        score += _DEFINED_NEAR * sum(weights[term] * factor for term, factor in names.items())
        # Most of the question together says more than a part of it often.
        score *= sum(weights[term] for term in counts) / whole
        best = max(best, (score, -first, last))
    score, first, last = best[0], -best[1] if best[1] < 0 else 1, best[2]
    inside = [number for number in numbers if first <= number <= last]
    line = max(inside, key=lambda number: (found[number].score, -number), default=1)
    file.spelled = max((one.spelled for one in found.values()), default=0)
    if file.spelled:
        score_file(question, weights, file, head)
        named = [number for number in numbers if found[number].spelled == file.spelled]
        line = first = last = min(named, key=lambda n: (code.indent(lines[n - 1]), n))
    score = round(file.score + score * standing(file.path, question.kinds, head), 4)
    return _place(question, file, found, lines, line, (first, last)) | {"score": score}


def _place(
    question: Question, file: FileHits, found: Found, lines: Lines, line: int, near: tuple[int, int]
) -> dict[str, Any]:
    name, first, last = enclosing(lines, line) if lines else (None, 1, 1)
    if name is None or last - first > 2 * WINDOW_LINES:
        first, last = max(line, near[0]), max(line, near[1])
    inside = [number for number in found if first <= number <= last]
    others = sorted((n for n in inside if n != line), key=lambda n: -found[n].score)
    shown = sorted({line, *others[: MAX_LINES_SHOWN - 1]}) if line in found else [line]
    there = {term for number in inside for term in found[number].terms}
    words = [question.terms[term] for term in sorted(there)]
    named = [question.terms[term] for term in sorted(in_path(question, file.path))]
    texts = ((n, lines[n - 1].rstrip()) for n in shown if n <= len(lines))
    told = [{"line": n, "text": text[:MAX_LINE_CHARACTERS]} for n, text in texts]
    place = {"path": file.path, "line": line, "startLine": first, "endLine": last}
    return place | {"definition": name, "lines": told, "words": words, "pathWords": named}
